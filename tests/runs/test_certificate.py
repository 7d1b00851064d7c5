"""The certificate of a run: written whole, read back, lost when the run goes on, and never shown for another table."""

import dataclasses
import errno
import os

import numpy as np
import pytest

from hamq.certificates.certificate import Certificate, PartialCertificate
from hamq.errors import RunError
from hamq.runs import folder as folder_module
from hamq.runs.certificate import RunCertificate, fingerprint
from hamq.runs.encoding import decode_json, encode_arrays, encode_json
from hamq.runs.folder import RunFolder
from hamq.runs.manifest import package_versions, read_manifest
from hamq.runs.reading import read_run
from hamq.runs.summary import arrays_of
from tests.runs.posed import CONFIG, HASH, assert_same_arrays, forge, history, state
from tests.runs.posed_certificates import COST, certificate, partial, vacuous

JSON, TABLES = "certificate.json", "certificate.npz"


@pytest.fixture
def run(tmp_path, solution):
    """A finished run without a certificate."""
    with RunFolder.create(tmp_path / "run", CONFIG, HASH) as written:
        written.save_checkpoint(state(3, size=10), history(3))
        written.finish(solution, {"seconds": 1.0})
    return tmp_path / "run"


def certified(run, solution, made=None):
    with RunFolder.open(run) as opened:
        opened.save_certificate(made or certificate(solution.problem, solution.q), solution.q)
    return run


def contents(run) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.iterdir() if path.name not in ("hamq.lock", "manifest.json")}


def test_it_comes_back_and_nothing_else_changes(run, solution):
    before = contents(run)
    assert read_run(run).certificate is None
    made = certificate(solution.problem, solution.q)
    found = read_run(certified(run, solution, made))
    kept = found.certificate
    assert kept is not None and kept.is_bound
    for field in dataclasses.fields(Certificate):
        if field.name not in ("problem", "lower", "upper", "policy_loss"):
            assert getattr(kept, field.name) == getattr(made, field.name), field.name
    for name in ("sentence", "is_vacuous", "worst_loss"):
        assert getattr(kept, name) == getattr(made, name)
    assert kept.mean_loss == pytest.approx(made.policy_loss.mean())
    names = ("lower", "upper", "policy_loss")
    assert_same_arrays({name: getattr(kept, name) for name in names}, {name: getattr(made, name) for name in names})
    assert (kept.share, kept.residual, kept.num_pairs, kept.versions) == (None, None, None, package_versions())
    assert kept.facts()["cost"] == COST._asdict() and kept.facts()["error"] == made.error
    assert_same_arrays({"q": found.q}, {"q": solution.q})
    after = contents(run)
    assert {name: after.pop(name) for name in (JSON, TABLES)} and after == before


def test_a_statement_about_a_part_has_no_bounds(run, solution):
    made = partial(solution.problem)
    kept = read_run(certified(run, solution, made)).certificate
    assert kept is not None and not kept.is_bound and not (run / TABLES).exists()
    for field in dataclasses.fields(PartialCertificate):
        if field.name != "problem":
            assert getattr(kept, field.name) == getattr(made, field.name), field.name
    assert (kept.error, kept.lower, kept.worst_loss, kept.mean_loss) == (None, None, None, None)
    assert kept.sentence == made.sentence


def test_one_that_says_nothing_is_kept_as_such(run, solution):
    kept = read_run(certified(run, solution, vacuous(solution.problem, solution.q))).certificate
    assert kept is not None and kept.is_vacuous and not kept.is_bound and "too few" in kept.sentence


def test_its_fields_are_those_of_the_library():
    held = {field.name for kind in (Certificate, PartialCertificate) for field in dataclasses.fields(kind)} - {"problem"}
    assert {field.name for field in dataclasses.fields(RunCertificate)} == held | {"sentence", "is_vacuous", "versions"}


def test_certifying_again_replaces(run, solution):
    certified(run, solution)
    second = certificate(solution.problem, solution.q, seed=1, confidence=0.99)
    kept = read_run(certified(run, solution, second)).certificate
    assert kept is not None and kept.confidence == 0.99
    np.testing.assert_array_equal(kept.upper, second.upper)
    certified(run, solution, partial(solution.problem))
    assert set(contents(run)) == {"config.json", "history.csv", "checkpoint.npz", "result.npz", "result.json", JSON}


def test_a_run_that_goes_on_loses_it(run, solution):
    certified(run, solution)
    with RunFolder.resume(run, CONFIG, HASH) as resumed:
        assert read_run(run).certificate is not None  # nothing has changed yet
        resumed.save_checkpoint(state(4, size=10), history(4))
        assert not (run / JSON).exists() and not (run / TABLES).exists()
        resumed.finish(solution, {})
    assert read_run(run).certificate is None


def test_a_new_result_has_none(run, solution):
    """Also where no checkpoint came between."""
    certified(run, solution)
    with RunFolder.resume(run, CONFIG, HASH) as resumed:
        resumed.finish(solution, {})
    assert read_run(run).certificate is None and not set(contents(run)) & {JSON, TABLES}
    certified(run, solution)
    with RunFolder.create(run, CONFIG, HASH, overwrite=True) as again:
        again.finish(solution, {})
    assert read_run(run).certificate is None and not set(contents(run)) & {JSON, TABLES}


def test_one_of_another_table_counts_as_none(run, solution):
    """As a version leaves it behind that knows of no certificates."""
    certified(run, solution)
    q = solution.q.copy()
    q[0, 0] = np.nextafter(q[0, 0], np.inf)
    forge(run, "result.npz", encode_arrays(arrays_of(dataclasses.replace(solution, q=q))))
    assert set(read_manifest(run).files) >= {JSON, TABLES} and read_run(run).certificate is None
    forge(run, "result.npz", encode_arrays(arrays_of(solution)))
    assert read_run(run).certificate is not None


def test_the_table_has_a_fingerprint():
    q = np.arange(6.0).reshape(3, 2)
    changed = [q + 1e-12, q.reshape(2, 3), q.astype(np.float32), -q]
    assert len({fingerprint(table) for table in (q, *changed)}) == 5
    assert fingerprint(np.asfortranarray(q)) == fingerprint(q.copy()) == fingerprint(q)


def test_another_table_is_not_certified(run, solution, tmp_path):
    sentence = r"run does not hold the table that was certified; certify the one that it holds\."
    made = certificate(solution.problem, solution.q)
    with RunFolder.open(run) as opened, pytest.raises(RunError, match=sentence):
        opened.save_certificate(made, solution.q + 1)
    RunFolder.create(tmp_path / "begun" / "run", CONFIG, HASH).close()
    with RunFolder.open(tmp_path / "begun" / "run") as opened, pytest.raises(RunError, match=sentence):
        opened.save_certificate(made, solution.q)
    assert read_run(run).certificate is None


def test_one_writer_at_a_time(run, solution):
    with RunFolder.resume(run, CONFIG, HASH), pytest.raises(RunError, match="is being written by process"):
        RunFolder.open(run)
    with RunFolder.open(run), pytest.raises(RunError, match="is being written by process"):
        RunFolder.resume(run, CONFIG, HASH)
    (run / "result.npz").write_bytes(b"")
    with pytest.raises(RunError, match=r"result\.npz of .* is damaged"):
        RunFolder.open(run)
    (run / "manifest.json").unlink()
    with pytest.raises(RunError, match="is not a run folder"):
        RunFolder.open(run)


def test_the_versions_stay_those_that_solved(run, solution, monkeypatch):
    monkeypatch.setattr("hamq.runs.certificate.package_versions", lambda: {"jax": "99.0"})
    monkeypatch.setattr(folder_module, "package_versions", lambda: {"jax": "99.0"})
    found = read_run(certified(run, solution))
    assert found.manifest.versions == package_versions()
    assert found.certificate is not None and found.certificate.versions == {"jax": "99.0"}


@pytest.mark.parametrize("name", [JSON, TABLES])
@pytest.mark.parametrize("damage", ["flipped", "truncated", "empty", "missing"])
def test_damage_is_refused_by_name(run, solution, name, damage):
    path = certified(run, solution) / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    bad = {"flipped": content, "truncated": content[:-1], "empty": b""}
    path.unlink() if damage == "missing" else path.write_bytes(bad[damage])
    for opened in (read_run, RunFolder.open, lambda folder: RunFolder.resume(folder, CONFIG, HASH)):
        with pytest.raises(RunError, match=rf"{name} of .*run is damaged: .*delete the folder or start with --overwrite"):
            opened(run)


@pytest.mark.parametrize(
    "changed",
    [
        {"lower": None},
        {"middle": np.zeros(35)},
        {"policy_loss": np.zeros(34)},
        {"upper": np.zeros((35, 1))},
        {"lower": np.zeros((35, 3), np.float32)},
    ],
)
def test_bounds_that_do_not_fit_are_refused(run, solution, changed):
    made = certificate(solution.problem, solution.q)
    certified(run, solution, made)
    arrays = {name: getattr(made, name) for name in ("lower", "upper", "policy_loss")} | changed
    forge(run, TABLES, encode_arrays({name: array for name, array in arrays.items() if array is not None}))
    with pytest.raises(RunError, match=r"certificate\.npz of .* is damaged: its arrays are not lower, upper, policy_loss"):
        read_run(run)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sentence", None),
        ("sentence", 5),
        ("is_vacuous", 0),
        ("method", "guessed"),
        ("method", ["exact"]),
        ("confidence", "0.95"),
        ("confidence", 1.5),
        ("confidence", 0),
        ("error", None),
        ("error", 10**400),
        ("draws_needed", 1.5),
        ("cost", {"samples": 1}),
        ("cost", {"samples": 1, "density_evaluations": "2", "gradient_evaluations": 3}),
        ("versions", ["jax"]),
    ],
)
def test_facts_that_are_none_are_refused(run, solution, name, value):
    """Whoever signs them: what is read is shown."""
    said = decode_json((certified(run, solution) / JSON).read_bytes())
    forge(run, JSON, encode_json(said | {name: value}))
    with pytest.raises(RunError, match=rf"certificate\.json of .* is damaged: its {name} is "):
        read_run(run)


@pytest.mark.parametrize("name", ["write", "fsync", "replace"])
def test_a_write_that_fails_leaves_the_one_before(run, solution, monkeypatch, name):
    certified(run, solution)
    second = certificate(solution.problem, solution.q, seed=1, confidence=0.99)
    seen = []
    for number in range(1, 30):
        real, calls = getattr(os, name), iter(range(1, 10**9))

        def failing(*arguments, number=number, real=real, calls=calls):
            if next(calls) == number:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments)

        monkeypatch.setattr(os, name, failing)
        with RunFolder.open(run) as opened:
            try:
                opened.save_certificate(second, solution.q)
            except (RunError, OSError):
                kept = read_run(run).certificate
                assert kept is not None
                seen.append(kept.confidence)
            else:
                break
            finally:
                monkeypatch.setattr(os, name, real)
        certified(run, solution)  # and the folder can be written as if nothing had happened
    assert len(seen) >= 3 and seen[0] == 0.95 and seen == sorted(seen)
    kept = read_run(run).certificate
    assert kept is not None and kept.confidence == 0.99
