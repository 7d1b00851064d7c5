import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hamq.problem.actions import ProductActions
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem
from hamq.runs.problem_hash import _rounded, problem_hash
from tests.exact.posed import maze, spiky


def mean(state, action):
    return jnp.stack([state[0] + action, 0.5 * state[1]])


def cosine(state, action):
    return jnp.cos(3 * state[0]) - 0.1 * action**2


def posed(**changes) -> Problem:
    """A walk on a strip; every argument of Problem may be changed."""
    arguments = {
        "grid": Grid([-1.0, -2.0], [1.0, 2.0], [5, 7], [False, True]),
        "actions": np.asarray([-0.5, 0.0, 0.5]),
        "kernel": GaussianKernel(mean, [0.3, 0.5]),
        "reward": cosine,
        "discount": 0.9,
        "name": "strip",
        "expected": ("aliasing", "noise", "outside"),
    }
    return Problem(**(arguments | changes))


def rippled(width):
    def logdensity(next_state, state, action):
        return -jnp.sum(((next_state - state) / width) ** 2) + jnp.sin(next_state[0] + action)

    return UnnormalizedKernel(logdensity)


CHANGES = {
    "points": {"grid": Grid([-1.0, -2.0], [1.0, 2.0], [5, 8], [False, True])},
    "box": {"grid": Grid([-1.0, -2.0], [1.0, 2.001], [5, 7], [False, True])},
    "circle": {"grid": Grid([-1.0, -2.0], [1.0, 2.0], [5, 7], [False, False])},
    "actions": {"actions": np.asarray([-0.5, 0.0, 0.501])},
    "order of actions": {"actions": np.asarray([0.5, 0.0, -0.5])},
    "vectors as actions": {
        "actions": np.asarray([[-0.5], [0.0], [0.5]]),
        "kernel": GaussianKernel(lambda state, action: jnp.stack([state[0] + action[0], 0.5 * state[1]]), [0.3, 0.5]),
        "reward": lambda state, action: jnp.cos(3 * state[0]) - 0.1 * action[0] ** 2,
    },
    "discount": {"discount": 0.9001},
    "law": {"law": "linear"},
    "reward": {"reward": lambda state, action: jnp.cos(3 * state[0]) - 0.1001 * action**2},
    "scale of the reward": {"reward": lambda state, action: 2 * (jnp.cos(3 * state[0]) - 0.1 * action**2)},
    "terminal": {"terminal": lambda state: state[0] > 0.9},
    "other terminal": {"terminal": lambda state: state[0] > 0.4},
    "mean": {"kernel": GaussianKernel(lambda s, a: jnp.stack([s[0] + a, 0.5001 * s[1]]), [0.3, 0.5])},
    "covariance": {"kernel": GaussianKernel(mean, [0.3, 0.5001])},
    "variances by pair": {"kernel": GaussianKernel(mean, lambda s, a: jnp.stack([0.3 + 0.1 * s[0] ** 2, 0.5 + 0 * a]))},
    "full covariance": {"kernel": GaussianKernel(mean, [[0.3, 0.1], [0.1, 0.5]])},
    "density": {"kernel": rippled(0.3)},
    "other density": {"kernel": rippled(0.3001)},
}


def test_every_part_of_a_problem_is_in_its_hash():
    hashes = {name: problem_hash(posed(**change)) for name, change in {"as it was": {}, **CHANGES}.items()}
    assert len(set(hashes.values())) == len(hashes), sorted(hashes, key=lambda name: hashes[name])
    assert all(len(found) == 64 for found in hashes.values())


def test_names_notes_and_spelling_are_not_in_the_hash():
    twin = posed(
        name="another", notes=("a note",), actions=[-0.5, 0.0, 0.5], reward=lambda s, a: -(a**2) / 10 + jnp.cos(s[0] * 3)
    )
    assert problem_hash(twin) == problem_hash(posed())


def test_the_hash_does_not_depend_on_the_callers_precision():
    with jax.enable_x64(True):
        wide = problem_hash(posed())
    assert wide == problem_hash(posed())


def test_hashes_stay_what_they_were():
    """Run folders of the past must open: whoever changes these numbers raises FORMAT_VERSION."""
    found = [problem_hash(problem)[:12] for problem in (posed(), maze(), spiky())]
    assert found == ["cf2c16c261ee", "0d6e694db246", "3f29c74ac552"]


def test_last_bits_of_user_functions_do_not_matter():
    def noisy(seed):
        def reward(state, action):
            noise = jnp.sin(1e6 * seed * state[0] + state[1] + action)
            return (jnp.cos(3 * state[0]) - 0.1 * action**2) * (1 + 1e-15 * noise) + 1e-17 * noise

        return posed(reward=reward)

    assert {problem_hash(noisy(seed)) for seed in range(1, 6)} == {problem_hash(posed())}


def test_values_that_are_not_finite_are_told_apart():
    def reward(when):
        return lambda state, action: jnp.where(state[0] > 0.4, when, action * state[0])

    hashes = {problem_hash(posed(reward=reward(when))) for when in (jnp.inf, -jnp.inf, jnp.nan, 0.0)}
    assert len(hashes) == 4


def test_a_grid_that_nobody_can_enumerate_has_a_hash():
    def ring(points):
        return Problem(
            grid=Grid([-1.0] * 40, [1.0] * 40, points),
            actions=np.asarray([0.0, 1.0]),
            kernel=GaussianKernel(lambda state, action: 0.5 * state + 0.1 * action, [0.3] * 40),
            reward=lambda state, action: jnp.sum(state) * action,
            discount=0.9,
            expected=("aliasing", "noise", "outside"),
        )

    assert problem_hash(ring(9)) == problem_hash(ring(9)) != problem_hash(ring(8))


def test_every_level_of_a_product_is_in_the_hash():
    """Also a level that no probe meets: the functions here do not look at the actions."""

    def pushed(levels):
        return posed(
            actions=ProductActions(levels) if isinstance(levels, list) else levels,
            kernel=GaussianKernel(lambda state, action: 0.5 * state + 0 * action[0], [0.3, 0.5]),
            reward=lambda state, action: jnp.cos(3 * state[0]),
        )

    levels = [list(range(100)) for _ in range(4)]
    other = [*levels[:3], [*range(99), 99.5]]
    assert problem_hash(pushed(levels)) == problem_hash(pushed(levels)) != problem_hash(pushed(other))
    listed = [levels[0], levels[1]]
    assert problem_hash(pushed(listed)) == problem_hash(pushed(ProductActions(listed).enumerate()))


@pytest.mark.parametrize("nudge", [1e-12, -1e-12])
def test_rounding_forgives_a_nudge_in_nearly_all_values(nudge):
    values = np.random.default_rng(3).normal(size=100_000) * 10.0 ** np.random.default_rng(4).integers(-12, 6, 100_000)
    moved = np.asarray(_rounded(values)["steps"]) != np.asarray(_rounded(values * (1 + nudge))["steps"])
    assert np.mean(moved) < 1e-5  # 1e-6 expected: the nudge over the width of a step


def test_rounding_has_no_boundary_on_round_numbers():
    digits = np.concatenate([np.arange(-2000, 2001) / 2e3, np.arange(1234560.5, 1234570) / 1e7, [0.1234565, 1.0, 1e-7]])
    for toward in (-np.inf, np.inf):
        assert _rounded(np.nextafter(digits, toward)) == _rounded(digits)


def test_rounding_takes_noise_for_zero_and_keeps_six_digits():
    assert _rounded([0.0, 1.0]) == _rounded([3e-16, 1.0])
    assert _rounded([0.0, 0.0]) == _rounded([-1e-19, 1e-17]) == _rounded([-0.0, 0.0])
    assert _rounded([1.0, 2.0]) != _rounded([1.00001, 2.0])
    assert _rounded([1.0, 1e300]) != _rounded([1.0, -1e300])
