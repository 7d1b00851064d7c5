"""solve or exact → diagnose: the run's own chains drawn anew, and what they say."""

import numpy as np
import pytest

import hamq as library
from hamq.cli import main
from hamq.runs.reading import read_run
from tests.cli.test_refusals import assert_refused

PENDULUM = ("pendulum", "--points", "9", "--num-actions", "2")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of an exact answer."""
    folder = str(tmp_path_factory.mktemp("diagnose") / "exact")
    assert main(["exact", *PENDULUM, "--out", folder]) == 0
    return folder


def test_good_chains(hamq, run):
    told, said = hamq("diagnose", run, "--seed", 3, "--json"), hamq("diagnose", run, "--num-pairs", 5)
    assert told.code == said.code == 0
    problem = library.problems.pendulum(points=9, num_actions=2)
    expected = library.diagnose(read_run(run), problem, key=3)
    assert told.json["is_healthy"] and told.json["sentence"] == expected.sentence
    assert (told.json["num_pairs"], told.json["num_chains"], told.json["num_draws"]) == (162, 4, 1000)
    row = told.json["numbers"]["tail_ess"]
    assert row["worst"] == expected.by_pair.tail_ess.min() and row["median"] == np.median(expected.by_pair.tail_ess)
    assert (row["limit"], row["pairs_beyond"]) == (400, 0)
    assert row["worst_at"] == expected.pair_name(int(expected.by_pair.tail_ess.argmin()))
    assert told.json["numbers"]["stuck"]["worst"] == 0 and told.json["numbers"]["stuck"]["worst_at"] is None  # all are equal
    assert told.json["cost"] == expected.cost._asdict()
    assert "the chains agree in 5 random pairs of 162" in said.out and "tail ess" in said.out and "pairs beyond" in said.out
    assert "pendulum: 4 fresh chains of 1000 draws per pair" in said.err


@pytest.mark.slow
def test_the_runs_own_settings_are_looked_at(hamq):
    """Steps that are too long; exit code 0 all the same: a finding is a result."""
    chains = ("--num-samples", 4, "--sampler-step-size", 9, "--num-warmup", 2, "--completion", "none")
    assert hamq("solve", *PENDULUM, *chains, "--iterations", 2, "--out", "long").code == 0
    found = hamq("diagnose", "long", "--num-pairs", 10, "--num-samples", 40, "--num-chains", 2, "--json")
    assert found.code == 0 and not found.json["is_healthy"] and found.json["pairs_flagged"] == 10
    assert found.json["numbers"]["stuck"]["pairs_beyond"] > 5
    assert found.json["cost"]["gradient_evaluations"] >= 10 * 2 * (2 + 20) * 5  # warm-up and steps as in the run
    assert found.json["cost"]["gradient_evaluations"] < 10 * 2 * (5 + 20) * 5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--num-pairs", 0), "--num-pairs must be at least 1, got 0"),
        (("--seed=-1",), "--seed must be at least 0, got -1"),
        (("--num-chains", 1), "one chain has nothing to agree with"),
        (("--num-samples", 10), "does not divide into num_chains = 4"),
        (("--num-pair", 3), "did you mean --num-pairs"),
    ],
)
def test_refusals(hamq, run, given, message):
    assert_refused(hamq("diagnose", run, *given), message)


def test_a_run_is_needed(hamq):
    assert_refused(hamq("diagnose"), "hamq diagnose needs a RUN")
    assert_refused(hamq("diagnose", "nowhere"), "nowhere")
