"""Runs of a few iterations: what they record is what the solver and the exact answer say."""

import numpy as np
import pytest

from hamq.certificates.comparison import compare
from hamq.completion.keep import Keep
from hamq.completion.nuclear_norm import NuclearNorm
from hamq.exact.bellman import make_operator
from hamq.exact.value_iteration import solve_exact
from hamq.paper import tabular
from hamq.paper.tasks import HIGH, TASKS, pose, reference
from hamq.paper.variants import budget, law_of, posed
from hamq.problem import zoo
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID


def test_exhaustive_is_value_iteration():
    """Plain sweeps from the seed's first table, against a dense computation of eq. (2)."""
    run = tabular.run("pendulum", "corrected", "exhaustive", 3, 4)
    problem = zoo.pendulum()
    exact, operator = solve_exact(problem), make_operator(problem)
    q = np.random.default_rng(3).uniform(0, 1, exact.q.shape)
    errors = []
    for _ in range(4):
        q = operator.rewards + problem.discount * operator.law(q.max(axis=1))
        errors.append(np.linalg.norm(q - exact.q) / np.linalg.norm(exact.q))
    assert run.curve["iteration"] == [1, 2, 3, 4]
    assert run.curve["frobenius"] == pytest.approx(errors, rel=1e-9)
    assert run.curve["samples"] == [625 * 6250 * t for t in (1, 2, 3, 4)]
    assert run.final == pytest.approx(vars(compare(q, exact)), rel=1e-6)
    assert run.cost["gradient_evaluations"] == 0 and run.maps == {}


def test_literal_and_corrected_differ_in_law_and_rows():
    literal, corrected = (posed("cartpole", variant, "hmc") for variant in ("literal", "corrected"))
    assert (literal.law, corrected.law) == ("point", "cell") and literal.problem.law == corrected.problem.law == "cell"
    coins = {"selection": "bernoulli", "fraction": 0.2, "completes": "table"}
    assert literal.options["completion"] == NuclearNorm(unidentified="zero", **coins)
    assert corrected.options["completion"] == NuclearNorm(unidentified="keep", **coins)
    assert isinstance(literal.options["sampler"], HMC) and literal.options["sampler"].num_leapfrog == 100
    assert {**literal.options, "completion": None} == {**corrected.options, "completion": None}
    iid = posed("cartpole", "literal", "iid")
    assert iid.problem.law == "point" and iid.options["sampler"] == IID(100)
    assert posed(HIGH.name, "corrected", "hmc").options["sampler"].num_samples == 200


def test_ours_is_the_default():
    assert posed("acrobot", "ours", "hmc").options == {}
    assert posed("acrobot", "ours", "hmc-250k").options == {"max_gradients": 250_000}
    assert (budget("hmc-14M"), law_of("ours")) == (14_000_000, "cell")
    assert posed("acrobot", "ours", "exhaustive").options is None


def test_seeds_differ_and_repeat(monkeypatch):
    """Without a completion, which has no seed and takes long to compile."""
    case = posed("pendulum", "corrected", "iid")
    case = case._replace(options={**case.options, "completion": Keep("bernoulli")})
    monkeypatch.setattr(tabular, "posed", lambda *_: case)
    runs = [tabular.run("pendulum", "corrected", "iid", seed, 2) for seed in (0, 1, 0)]
    assert runs[0].curve == runs[2].curve and runs[0].final == runs[2].final
    assert runs[0].curve["frobenius"] != runs[1].curve["frobenius"]
    assert runs[0].maps and not runs[1].maps
    # A fifth of the pairs, 100 draws each, in each of two iterations.
    assert runs[0].cost["samples"] == pytest.approx(2 * 0.2 * 6250 * 100, rel=0.1)


@pytest.mark.parametrize("task", ["pendulum", HIGH.name])
def test_maps_are_slices_of_the_policy(task):
    gauge = reference(task)
    rng = np.random.default_rng(0)
    policy = rng.integers(0, 10, len(gauge.exact.q))
    grid, q = gauge.exact.problem.grid, gauge.exact.q
    for name, part in gauge.maps(TASKS[task], policy).items():
        axes = TASKS[task].slices[name].axes
        held = dict(zip(TASKS[task].coordinates, TASKS[task].slices[name].at, strict=True))
        for i, x in enumerate(part.x):
            for j, y in enumerate(part.y):
                state = np.asarray(TASKS[task].slices[name].at, float)
                state[list(axes)] = x, y
                at = int(np.abs(grid.states() - state).sum(axis=1).argmin())
                assert part.actions[i][j] == gauge.exact.problem.actions[policy[at]]
                assert part.given_up[i][j] == pytest.approx(q[at].max() - q[at, policy[at]])
        for word in part.hold.split(", ") if part.hold else []:
            coordinate, value = word.split(" at ")
            assert abs(float(value) - held[coordinate]) <= np.pi / 4 + 1e-2  # π/4 is no node: the nearest is shown


def test_slices_of_text_and_caption_differ():
    maps = reference(HIGH.name).maps(HIGH, np.zeros(15625, int))
    assert "velocity at 3.5" in maps["text"].hold and "velocity at 1.75" in maps["caption"].hold
    assert "angular velocity 2 at 1.5" in maps["caption"].hold
    assert maps["text"].axes == ("angle 1", "angular velocity 1")


def test_pose_is_the_preset_paper():
    problem = pose("cartpole", "point", 0.99, 101)
    assert (problem.law, problem.discount, problem.num_actions) == ("point", 0.99, 101)
    assert pose("cartpole").discount == 0.95
