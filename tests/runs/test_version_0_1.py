"""Run folders of version 0.1 are read, loaded, shown, compared and reported: version_0_1/ holds three that it wrote."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import hamq
from hamq.cli import main
from hamq.report import writing

OLD = Path(__file__).parent / "version_0_1"
"""A table with its certificate (`hamq solve pendulum --points 5 --exact`), its exact answer, and a train."""


@pytest.fixture
def old(tmp_path, monkeypatch):
    shutil.copytree(OLD, tmp_path / "old")
    monkeypatch.chdir(tmp_path / "old")


def test_tables_are_loaded_with_their_problem(old):
    table, exact = hamq.load("table"), hamq.load("exact")
    assert table.q.shape == (25, 3) and len(table.history) == 4 and table.health is not None
    assert np.all(exact.lower <= exact.upper) and exact.converged and exact.error < 1e-3
    again = hamq.solve_exact(exact.problem, tolerance=1e-6)
    assert np.all(exact.lower <= again.upper) and np.all(again.lower <= exact.upper)
    found, run = hamq.compare(table, exact), hamq.read_run("table")
    assert run.outcome.comparison is not None and found.sup == pytest.approx(run.outcome.comparison.sup, abs=1e-3)
    assert run.certificate is not None and run.certificate.error >= found.sup


def test_a_train_is_loaded_whatever_its_sampler_was_called_with(old):
    """IID had a field `num_nodes` then, which was not set."""
    train = hamq.load("train")
    assert train.problem.name == "spring_chain" and train.cores[0].shape == (1, 3, 2)
    states = np.zeros((3, 4))
    assert np.all(np.isfinite(train.value_at(states))) and np.all(np.isfinite(train.q_at(states)))
    assert hamq.read_run("train").setup.sampler["num_nodes"] is None


def test_a_field_that_was_set_then_and_is_gone_is_named(old):
    settings = json.loads(Path("train/config.json").read_text())
    from hamq.runs.config import sampler_of

    with pytest.raises(hamq.HamqError, match=r"does not say how backups are made .*num_nodes"):
        sampler_of(Path("train"), settings["sampler"] | {"num_nodes": 9})


def test_the_shell_shows_and_compares_them(old, capsys):
    for words in (["show", "table"], ["show", "exact"], ["show", "train"], ["compare", "table", "exact"]):
        assert main(words) == 0, capsys.readouterr().err
    out = capsys.readouterr().out
    assert "Certificate: pendulum: |Q − Q*| ≤ 1.86" in out and "Ranks 2, 2, 2" in out and "Exact answer: certified to" in out


def test_they_are_reported_and_saved_anew(old, monkeypatch):
    monkeypatch.setattr(writing, "animated", lambda *_: ([], []))
    written = hamq.report(["table", "exact"], "page.html")
    text = Path("page.html").read_text(encoding="utf-8")
    assert "Error of the value" in written.layers and "pendulum" in text and "IID" not in text
    hamq.load("table").save("new")
    np.testing.assert_array_equal(hamq.load("new").q, hamq.load("table").q)
    assert hamq.read_run("new").setup == hamq.read_run("table").setup
