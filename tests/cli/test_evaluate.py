"""solve, exact or solve-tensor → evaluate, on the smallest pendulums there are."""

import re

import numpy as np
import pytest

import hamq as library
from hamq.cli import main
from hamq.runs.loading import problem_of, solution_of
from hamq.runs.reading import read_run
from tests.cli.test_refusals import assert_refused

SMALL = ("gym_pendulum", "--points", "5,4", "--num-actions", 3)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a solved pendulum."""
    folder = str(tmp_path_factory.mktemp("evaluate") / "run")
    assert main([*map(str, ("exact", *SMALL, "--tolerance", 1, "--out", folder))]) == 0
    return folder


def test_the_policy_of_a_run_is_scored(hamq, run):
    asked = ("evaluate", run, "--env", "Pendulum-v1", "--episodes", 2, "--seed", 4, "--decoder", "interpolate")
    told, said = hamq(*asked, "--json"), hamq(*asked)
    assert told.code == said.code == 0
    assert re.search(
        r"Pendulum-v1, gym_pendulum, decoder interpolate: mean return -\d.* over 2 episodes \(seeds 4 to 5\)", said.out
    )
    assert "gym_pendulum in Pendulum-v1: 2 episodes" in said.err
    read = read_run(run)
    problem = library.problems.gym_pendulum(points=(5, 4), num_actions=3)
    solution = library.Solution(problem, read.q, read.history, "read", True)
    expected = library.evaluate(solution, "Pendulum-v1", episodes=2, seed=4, decoder="interpolate")
    assert told.json["returns"] == expected.returns.tolist() and told.json["run"] == run
    assert told.json["mean"] == expected.mean and told.json["decoder"] == "interpolate"


@pytest.mark.slow
def test_runs_of_the_other_solvers(hamq):
    assert hamq("solve", *SMALL, "--num-samples", 2, "--iterations", 3, "--out", "table").code == 0
    assert hamq("solve-tensor", *SMALL, "--rank", 3, "--iterations", 2, "--out", "train").code == 0
    for name in ("table", "train"):
        found = hamq("evaluate", name, "--env", "Pendulum-v1", "--episodes", 2, "--json")
        assert found.code == 0 and len(found.json["returns"]) == 2 and np.all(np.asarray(found.json["lengths"]) == 200)
    train = read_run("train")
    assert isinstance(solution_of(train, problem_of("train", train)), library.TensorSolution)
    assert_refused(hamq("evaluate", "train", "--env", "Pendulum-v1", "--decoder", "nearest"), "has V and no table")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((), "hamq evaluate needs --env"),
        (("--env", "Pendulum-v17"), "no environment 'Pendulum-v17'"),
        (("--env", "MountainCar-v0"), "give hamq.evaluate, in Python, a state_map= and an action_map="),
        (("--env", "CartPole-v1"), "has 2 axes; solve gym_cartpole"),
        (("--env", "Pendulum-v1", "--episodes", 0), "--episodes must be at least 1, got 0"),
        (("--env", "Pendulum-v1", "--seed=-1"), "--seed must be at least 0, got -1"),
        (("--env", "Pendulum-v1", "--decoder", "nearst"), "did you mean nearest"),
        (("--enw", "Pendulum-v1"), "did you mean --env"),
    ],
)
def test_refusals(hamq, run, given, message):
    assert_refused(hamq("evaluate", run, *given), message)


def test_a_run_is_needed(hamq):
    assert_refused(hamq("evaluate", "--env", "Pendulum-v1"), "hamq evaluate needs a RUN")
    assert_refused(hamq("evaluate", "nowhere", "--env", "Pendulum-v1"), "nowhere")
