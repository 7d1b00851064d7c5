"""solve or exact → certify → show, compare, report."""

import inspect
import json
import re
from typing import get_args

import numpy as np
import pytest

import hamq as library
from hamq.certificates.certificate import Method, rounded_up
from hamq.cli.commands.certify import CertifyOptions
from hamq.report import writing
from hamq.runs import loading
from hamq.runs.folder import RunFolder
from hamq.runs.problem_hash import problem_hash
from hamq.runs.reading import read_run
from tests.cli.posed import PENDULUM, TINY, contents
from tests.cli.test_options import choices, values
from tests.cli.test_refusals import assert_refused
from tests.runs.posed import forge
from tests.runs.posed_certificates import certificate, partial, vacuous

EXACT = ("exact", *PENDULUM)


@pytest.fixture
def asked(monkeypatch):
    """The arguments of every call of `certify`, which answers by hand: by what `make(problem, q)` returns."""
    seen = []
    answers = {"make": certificate}

    def answer(solution, **given):
        given["progress"]("drawing", 1, 2)
        seen.append((solution.problem, solution, given))
        return answers["make"](solution.problem, solution.q)

    monkeypatch.setattr(library, "certify", answer)
    return seen, answers


def test_the_options_are_the_librarys():
    found = values(CertifyOptions())
    given = inspect.signature(library.certify).parameters
    expected = {name: given[name].default for name in ("confidence", "max_evaluations", "method")}
    assert {name: found.pop(name) for name in expected} == expected
    assert found == {"seed": 0, "json": False} and given["key"].default == 0
    assert choices(CertifyOptions(), "method") == get_args(Method)


def test_a_run_is_certified_and_keeps_it(hamq, tmp_path, asked):
    seen, _ = asked
    hamq(*TINY, "--out", "run")
    before = contents(tmp_path / "run")
    done = hamq("certify", "run", "--confidence", 0.9, "--max-evaluations", 5000, "--method", "guaranteed", "--seed", 3)
    ((problem, solution, given),) = seen
    found = read_run("run")
    assert problem_hash(problem) == found.manifest.problem and solution.q.tobytes() == found.q.tobytes()
    assert callable(given.pop("progress"))
    assert given == {"confidence": 0.9, "max_evaluations": 5000, "method": "guaranteed", "key": 3}
    made, kept = certificate(problem, solution.q), found.certificate
    assert kept is not None and kept.upper.tobytes() == made.upper.tobytes()
    assert done.code == 0 and done.out.startswith(made.sentence) and "drawing 1/2" in done.err
    row = re.search(r"method .*\n.*\n +(guaranteed .*)\n", done.out)[1].split()
    losses = [rounded_up(made.worst_loss), rounded_up(made.policy_loss.mean())]
    assert row == ["guaranteed", "0.95", rounded_up(made.error), *losses, "100", "37,000", "1.5"]
    after = contents(tmp_path / "run")
    assert {name for name in after if after[name] != before.get(name)} == {
        *("certificate.json", "certificate.npz", "manifest.json")
    }


def test_json_is_what_the_folder_holds(hamq, asked):
    hamq(*EXACT, "--out", "run")
    done = hamq("certify", "run", "--json")
    kept = read_run("run").certificate
    assert done.code == 0 and kept is not None
    told = {"run": "run", "problem": "pendulum", "found": kept.sentence, "is_saved": True}
    assert done.json == {**told, **kept.facts()}
    assert {"sentence", "error", "worst_loss", "mean_loss", "confidence", "method", "draws", "seconds"} <= set(done.json)
    assert hamq("show", "run", "--json").json["certificate"] == kept.facts()


def test_show_quotes_it(hamq, asked):
    hamq(*TINY, "--out", "run")
    assert "Certificate" not in hamq("show", "run").out and hamq("show", "run", "--json").json["certificate"] is None
    hamq("certify", "run")
    assert f"Certificate: {read_run('run').certificate.sentence}" in " ".join(hamq("show", "run").out.split())


def test_a_bound_is_not_replaced_by_none(hamq, asked):
    hamq(*TINY, "--out", "run")
    hamq("certify", "run")
    kept = read_run("run").certificate
    asked[1]["make"] = vacuous
    done = hamq("certify", "run")
    assert done.code == 0 and f"Not saved: run has a certificate that says more. {kept.sentence}" in done.out
    assert read_run("run").certificate.sentence == kept.sentence
    found = hamq("certify", "run", "--json").json
    assert not found["is_saved"] and found["sentence"] == kept.sentence
    assert "too few to say anything of use" in found["found"]


@pytest.mark.parametrize(
    ("changes", "is_saved"),
    [
        ({"error": 2.0}, False),
        ({"error": 0.5}, True),
        ({"error": 2.0, "method": "exact", "confidence": 1.0}, True),
        ({"error": 2.0, "confidence": 0.99}, True),
        ({"error": 2.0, "method": "asymptotic"}, False),
        ({"error": 0.5, "method": "asymptotic"}, True),
    ],
)
def test_a_bound_is_not_replaced_by_a_weaker_one(hamq, asked, changes, is_saved):
    """Weaker: larger, by a method no stronger, no surer."""
    hamq(*TINY, "--out", "run")
    asked[1]["make"] = lambda problem, q: certificate(problem, q, error=1.0)
    hamq("certify", "run")
    asked[1]["make"] = lambda problem, q: certificate(problem, q, **changes)
    assert hamq("certify", "run", "--json").json["is_saved"] == is_saved
    assert read_run("run").certificate.error == (changes["error"] if is_saved else 1.0)


def test_compare_has_bounds_beside_what_they_bound(hamq, asked):
    for name, extra in (("run", ()), ("late", ("--iterations", 40))):
        hamq(*TINY, *extra, "--out", name)
    hamq(*EXACT, "--out", "answer")
    assert "Certified" not in hamq("compare", "run", "answer").out
    hamq("certify", "run")
    asked[1]["make"] = vacuous
    hamq("certify", "late")
    kept = read_run("run").certificate
    told = hamq("compare", "run", "late", "answer", "--json").json["runs"]
    assert told["run"]["certificate"]["error"] == kept.error and told["answer"]["certificate"] is None
    assert told["run"]["certificate"]["mean_loss"] == kept.mean_loss and told["late"]["certificate"]["is_vacuous"]
    shown = hamq("compare", "run", "late", "answer").out
    table = shown[shown.index("Certified") : shown.index("Between the runs")]
    rows = {line.split()[0]: line.split() for line in table.splitlines() if line.strip()}
    bounds = ["≤", rounded_up(kept.error), f"{told['run']['policy_loss']:.2g}", "≤", rounded_up(kept.mean_loss)]
    assert rows["run"] == ["run", f"{told['run']['sup']:.2g}", *bounds, "0.95", "guaranteed"]
    assert "no bound" in " ".join(rows["late"]) and "answer" not in rows


def test_the_page_shows_it(hamq, tmp_path, asked, monkeypatch):
    monkeypatch.setattr(writing, "animated", lambda *_: ([], []))
    hamq(*TINY, "--out", "run")
    hamq("certify", "run")
    page = hamq("report", "run", "--json").json
    assert page["layers"][-2:] == ["Error bound", "Loss bound"]
    text = (tmp_path / "run" / "report.html").read_text()
    assert "<h2>Certificate</h2>" in text and read_run("run").certificate.sentence in text
    hamq(*TINY, "--iterations", 6, "--out", "run", "--resume")
    assert hamq("report", "run", "--json").json["layers"] == page["layers"][:-2]
    assert "Certificate" not in (tmp_path / "run" / "report.html").read_text()


def test_a_run_that_goes_on_or_is_replaced_loses_it(hamq, tmp_path, asked):
    hamq(*TINY, "--out", "run")
    hamq("certify", "run")
    before = contents(tmp_path / "run")
    assert "finished already" in hamq(*TINY, "--out", "run", "--resume").err
    assert contents(tmp_path / "run") == before  # nothing was computed: it is still about this table
    assert hamq(*TINY, "--iterations", 6, "--out", "run", "--resume").code == 0
    assert read_run("run").certificate is None and "certificate.npz" not in contents(tmp_path / "run")
    hamq("certify", "run")
    assert read_run("run").certificate is not None
    assert hamq(*EXACT, "--out", "run", "--overwrite").code == 0
    assert read_run("run").certificate is None and "certificate.json" not in contents(tmp_path / "run")


def test_a_statement_about_a_part(hamq, asked):
    asked[1]["make"] = lambda problem, q: partial(problem)
    hamq(*TINY, "--out", "run")
    done = hamq("certify", "run")
    assert done.code == 0 and "at most 5% of the pairs have |TQ − Q| above 0.25" in done.out
    row = re.search(r"method .*\n.*\n +(asymptotic .*)\n", done.out)[1].split()
    assert row == ["asymptotic", "0.9", "300", "0.05", "0.25", "64", "37,000", "2.5"]
    assert hamq("certify", "run", "--json").json["error"] is None
    assert "no bound" in hamq("compare", "run").out


def test_a_table_that_changed_meanwhile_is_not_certified(hamq, tmp_path, asked, monkeypatch):
    hamq(*TINY, "--out", "run")
    hamq(*TINY, "--iterations", 6, "--out", "other")
    read = read_run("other")
    monkeypatch.setattr(loading, "read_finished", lambda words: {"run": read})
    assert_refused(hamq("certify", "run"), "does not hold the table that was certified")
    assert read_run("run").certificate is None


def test_refusals(hamq, tmp_path, asked):
    hamq(*TINY, "--out", "run")
    kept = contents(tmp_path / "run")
    RunFolder.create(tmp_path / "begun", json.loads(kept["config.json"]), "aa").close()
    for words, sentence in (
        ("certify", r"hamq certify needs a RUN; give the --out folder of a run\."),
        ("certify nowhere", r"nowhere is not a run folder"),
        ("certify begun", r"begun is not finished: it has 0 iterations; continue it with --resume\."),
        ("certify run other", r"takes RUN and options; 'other' is too much"),
        ("certify run --confidence 1", r"--confidence must be between 0 and 1, such as 0\.95, got 1\.0\."),
        ("certify run --confidence 0", r"--confidence must be between 0 and 1"),
        ("certify run --confidence nan", r"--confidence must be between 0 and 1"),
        ("certify run --max-evaluations 0", r"--max-evaluations must be at least 1, got 0\."),
        ("certify run --seed=-1", r"--seed must be at least 0, got -1\."),
        ("certify run --method guarantee", r"--method must be one of exact, .*; did you mean guaranteed\?"),
        ("certify run --confidenc 0.9", r"did you mean --confidence\?"),
    ):
        assert_refused(hamq(*words.split()), sentence)
    with RunFolder.open(tmp_path / "run"):
        assert_refused(hamq("certify", "run"), "is being written by process")
    assert not asked[0] and contents(tmp_path / "run") == kept


def test_an_own_problem_that_is_another_by_now(hamq, tmp_path, asked):
    own = "import hamq\ndef make():\n    return hamq.problems.pendulum(points=3, num_actions={})\n"
    (tmp_path / "mine.py").write_text(own.format(3))
    hamq("exact", "mine.py:make", "--out", "run")
    (tmp_path / "mine.py").write_text(own.format(4))
    assert_refused(hamq("certify", "run"), "is no longer the problem that run solved; solve it again")
    assert not asked[0]


@pytest.mark.parametrize("method", ["exact", pytest.param("guaranteed", marks=pytest.mark.slow)])
def test_what_the_library_finds(hamq, method):
    """Really certified: the exact answer lies between the bounds, but for at most one key in twenty; this one is fixed."""
    hamq(*TINY, "--iterations", 60, "--out", "run")
    hamq(*EXACT, "--out", "answer")
    assert hamq("certify", "run", "--method", method, "--max-evaluations", 20_000).code == 0
    kept, exact = read_run("run").certificate, read_run("answer")
    assert kept is not None and kept.method == method and kept.is_bound
    assert np.all(kept.lower <= exact.upper) and np.all(exact.lower <= kept.upper)
    compared = hamq("compare", "run", "answer", "--json").json["runs"]["run"]
    assert compared["sup"] <= kept.error and compared["policy_loss"] <= kept.mean_loss


@pytest.mark.parametrize("given", [3, {"name": "pendulum"}, {"name": 5, "options": {}}, None])
def test_a_config_without_a_problem_is_refused(hamq, tmp_path, given):
    hamq(*TINY, "--out", "run")
    config = json.loads((tmp_path / "run" / "config.json").read_bytes())
    forge(tmp_path / "run", "config.json", json.dumps(config | {"problem": given}).encode())
    for word in ("certify", "compare"):
        assert_refused(hamq(word, "run"), r"config\.json of .* is damaged: its problem is .*, not a name with options")
