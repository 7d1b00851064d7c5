"""What version 0.1 got wrong, each as it was found, with the tolerance that was promised for it."""

import dataclasses

import numpy as np
import pytest

import hamq
from tests.densities import line
from tests.densities.bank import BY_NAME
from tests.densities.capabilities import _certified, put_through
from tests.densities.problems import pose, pose_all
from tests.densities.record import Density, where
from tests.densities.reference import reference, sampled

JUMPS = ("exponential", "half_normal", "uniform", "uniform_moving", "step")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hamq.types.HamqWarning")  # right and warned about is right
@pytest.mark.parametrize("name", ["gap", "exponential", "uniform"])
def test_jumps_are_solved_by_default_to_3_percent(name):
    density = BY_NAME[name]
    truth, solution = reference(density), hamq.solve(pose(density))
    assert truth.distance(solution.q) < 0.03
    assert truth.loss(solution.policy) < 0.01


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hamq.types.HamqWarning")  # right and warned about is right
@pytest.mark.parametrize(("name", "allowed"), [("ridge", 0.03), ("shell", 0.02)])
def test_curves_are_worth_300_independent_draws(name, allowed):
    """Root of the mean square, as a part of the range; in two seeds of three, and right or warned with half the budget."""
    density = BY_NAME[name]
    truth, problem = reference(density), pose(density)
    found = [truth.rms(hamq.solve(problem, key=seed).q) for seed in range(3)]
    assert sorted(found)[1] < allowed, found
    assert put_through(density, problem, "solve").kind != "WRONG"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ridge", "shell"])
def test_half_of_the_budget_is_right_or_warned_about(name):
    from hamq.learning.budget import default_budget
    from tests.densities.outcomes import Found, judge

    density = BY_NAME[name]
    truth, problem = reference(density), pose(density)

    def measure():
        solution = hamq.solve(problem, max_gradients=default_budget(problem) // 2)
        allowed = max(0.02, sampled(density, 150).distance)
        return Found(truth.distance(solution.q), allowed, not solution.converged, said=solution.result)

    outcome = judge(density, "solve", measure)
    assert outcome.kind != "WRONG", outcome


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hamq.types.HamqWarning")
@pytest.mark.parametrize(("name", "allowed"), [("ridge", 0.03), ("shell", 0.02)])
def test_chains_with_half_of_the_budget_say_how_far_they_are(name, allowed):
    """Three seeds each: right, or warned about (and then not converged), or within what one solve of twenty exceeds.

    With all of the budget, a warning is not given where the error is what is allowed.
    """
    from hamq.learning.budget import default_budget

    density = BY_NAME[name]
    truth, problem = reference(density), pose(density)
    for seed in range(3):
        half, whole = (
            hamq.solve(problem, hamq.HMC(40), max_gradients=default_budget(problem) // part, key=seed) for part in (2, 1)
        )
        rms = truth.rms(half.q)
        assert half.expected_error is not None
        assert rms <= allowed or not half.converged or rms <= 2 * half.expected_error, (seed, rms, half.result)
        assert whole.converged, (seed, truth.rms(whole.q), whole.result)


@pytest.mark.slow
def test_gumbel_noise_by_tensor_trains_to_2_percent():
    density = BY_NAME["gumbel_2d"]
    truth, problem = reference(density), pose(density)
    solution = hamq.solve_tensor(problem)
    assert np.abs(solution.value(problem.grid.states()) - truth.value).max() < 0.02 * truth.span


@pytest.mark.slow
@pytest.mark.parametrize("name", ["income", "lognormal"])
def test_rollouts_of_lognormal_income(name):
    density = BY_NAME[name]
    outcome = put_through(density, pose(density), "rollouts")
    assert outcome.kind == "right", outcome


@pytest.mark.slow
@pytest.mark.parametrize("name", JUMPS)
def test_certificates_of_chains_cover_or_refuse(name):
    """40 runs of each of five densities: 200 of 200 must cover."""
    densities = [BY_NAME[each] for each in JUMPS]
    problem = dict(zip(JUMPS, pose_all(densities), strict=True))[name]
    found = [_certified(BY_NAME[name], problem, method="asymptotic", key=key) for key in range(40)]
    missed = [each.number for each in found if not each.is_silent and not each.number <= each.allowed]
    assert not missed, f"{len(missed)} of 40 miss Q*, by up to {max(missed):.3g} of the range of V*"


def _uniform(half: float, drift: float, points: int) -> Density:
    """Uniform noise on a few points: where two quadrature rules may agree by accident."""

    def centre(state, action):
        return (drift * state[0] + 0.3 * action,)

    def logdensity(xp, next_state, state, action):
        u = next_state[0] - centre(state, action)[0]
        return where(xp, xp.abs(u) < half, 0.0 * u)

    ends = lambda s, a: ([centre(s, a)[0] - half, centre(s, a)[0] + half],)  # noqa: E731
    name = f"uniform {half:.3f} {drift:.3f} {points}"
    box = (line.LOWER,), (line.UPPER,), (points,)
    return Density(name, *box, logdensity, centre, 0.5, ("jump",), breaks=ends, reward=_slow_reward)


def _slow_reward(xp, state, action):
    """One that three points can tell from another."""
    return xp.sin(0.7 * state[0]) - 0.03 * action**2


@pytest.mark.parametrize(
    ("half", "drift", "points"),
    [
        (1.2565363721888771, 0.7234201780123111, 2),
        (1.5061499201416042, 0.8764583300414328, 2),
        (0.47760937484228116, 0.2707617687336252, 3),
        (0.5271412992189737, 0.8299111407735567, 3),
    ],
)
def test_exact_is_not_deceived_by_two_rules_that_agree(half, drift, points):
    """Found among 260 random problems: "certified to 1.8e-11" with errors of .45, .22 and .01 of the range of V*."""
    density = _uniform(half, drift, points)
    outcome = put_through(density, pose(density), "exact")
    assert outcome.kind != "WRONG", outcome


@pytest.mark.slow
def test_exact_states_no_error_that_uniform_noise_exceeds():
    """40 random problems."""
    generator, wrong = np.random.default_rng(0), []
    for _ in range(40):
        density = _uniform(generator.uniform(0.15, 1.2), generator.uniform(0.3, 0.8), int(generator.integers(3, 8)))
        outcome = put_through(density, pose(density), "exact")
        wrong += [str(outcome)] if outcome.kind == "WRONG" else []
    assert not wrong, "\n".join(wrong)


def test_a_density_that_is_nan_in_half_of_the_box_is_refused_by_everybody():
    """As one that forgot a condition: the logarithm of a negative number."""
    normal = BY_NAME["normal"]

    def half(xp, next_state, state, action):
        return xp.log(next_state[0] + 0.013) - (next_state[0] - state[0] / 2) ** 2

    problem = pose(dataclasses.replace(normal, name="half", logdensity=half))
    for solve in (hamq.solve_exact, hamq.solve):
        with pytest.raises(ValueError, match="is nan at the next state"):
            solve(problem)
