"""Draws of many pairs: the same bits however they are batched, counted, coupled, compiled once."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from hamq.learning.backup import expected_values
from hamq.learning.devices import own_device
from hamq.learning.draws import draw_each
from hamq.learning.layout import TILE, lay_out, smallest_integer
from hamq.learning.pilot import CANDIDATES, NUM_DRAWS, NUM_PAIRS
from hamq.problem import cells, zoo
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem
from hamq.sampling.exhaustive import Exhaustive, masses_cost
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID
from hamq.sampling.importance import Importance
from hamq.sampling.modes import NUM_NEWTON
from tests.sampling.posed import KERNELS, box, pose, two_modes
from tests.stats import assert_mean_equals

POINTS = (20, 15)  # 300 states: more than one call of 128 rows, and more than 8 bits tell apart
NUM_STATES = 300
SAMPLERS = {
    "hmc": ("product", HMC(6, num_leapfrog=2)),  # under the linear law
    "hmc-user": ("two-modes", HMC(6, num_leapfrog=2, num_warmup=2)),
    "iid": ("product", IID(6)),
    "importance": ("correlated", Importance(500)),
}
TRACES = {name: [] for name in SAMPLERS}
KEPT = {}


def counted(name) -> Problem:
    """The sampler's problem, with a note in TRACES for every call of the user's function."""
    kernel = KERNELS[SAMPLERS[name][0]][0]

    def mean(state, action):
        TRACES[name].append(1)
        return kernel.mean(state, action)

    def logdensity(next_state, state, action):
        TRACES[name].append(1)
        return two_modes(next_state, state, action)

    is_user = isinstance(kernel, UnnormalizedKernel)
    noted = UnnormalizedKernel(logdensity) if is_user else GaussianKernel(mean, kernel.covariance)
    law = "linear" if name == "hmc" else "cell"
    return Problem(box(POINTS), [-1.0, 0.5], noted, lambda state, action: state[0] + 0 * action, 0.9, name=name, law=law)


def counted_once(name) -> Problem:
    if name not in KEPT:
        KEPT[name] = counted(name)
    return KEPT[name]


def drawn(name, states=None, key=0, coupled=True):
    """Draws that tests share: each distinct call is made once."""
    call = (name, None if states is None else tuple(states), str(key), coupled)
    if call not in KEPT:
        states = None if states is None else np.asarray(states)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("hamq.learning.draws.warn_of", lambda *_: None)  # six draws may stay in one mode
            KEPT[call] = draw_each(counted_once(name), SAMPLERS[name][1], states, key=key, coupled=coupled)
    return KEPT[call]


def assert_same(some, all_draws, states):
    np.testing.assert_array_equal(some.draws.locations, np.asarray(all_draws.draws.locations)[states])
    if some.draws.log_weights is not None:
        weights = np.asarray(all_draws.draws.log_weights)[states]
        np.testing.assert_array_equal(some.draws.log_weights, weights)


@pytest.mark.bits
@pytest.mark.parametrize("name", SAMPLERS)
def test_bits_do_not_depend_on_the_batch(name):
    assert TILE < NUM_STATES
    everything = drawn(name)
    assert everything.draws.locations.shape == (
        NUM_STATES,
        2,
        *([2] if name == "hmc" else []),
        SAMPLERS[name][1].num_samples,
    )
    for states in ([299, 3, 70, 69, 3], [70], list(range(299, -1, -1))):
        assert_same(drawn(name, states), everything, states)


@pytest.mark.parametrize("name", SAMPLERS)
def test_keys_decide(name):
    first = np.asarray(drawn(name).draws.locations)
    assert np.mean(first != drawn(name, key=1).draws.locations) > 0.3
    again = drawn(name, list(range(NUM_STATES)), key=jr.key(0))
    np.testing.assert_array_equal(first, again.draws.locations)
    if name == "iid":  # one more compilation, a short one here
        assert np.mean(first != drawn(name, coupled=False).draws.locations) > 0.3


@pytest.mark.parametrize("name", SAMPLERS)
def test_nothing_is_traced_twice(name):
    drawn(name)
    first = len(TRACES[name])
    assert first > 0
    drawn(name, [3, 1], key=2)
    assert len(TRACES[name]) == first, "the second draw traced the user's function again"


def test_layout_of_an_accelerator_gives_the_same_draws(monkeypatch):
    """One large call instead of many small ones, with the trajectory written out: the chains are the same to rounding."""
    problem, sampler = zoo.pendulum(points=9), HMC(20, num_leapfrog=3, step_size=0.4)
    monkeypatch.setattr("hamq.sampling.leapfrog.UNROLLED", 2)
    here = draw_each(problem, sampler, key=0)
    for module in ("learning.draws", "learning.layout", "learning.chunks", "sampling.leapfrog", "sampling.calibration"):
        monkeypatch.setattr(f"hamq.{module}.is_cpu", lambda: False)
    rows = lay_out(np.arange(81), np.zeros((81, 10), int), own_device())
    assert rows.states.shape == (1, 1, 128, 10) and rows.actions.shape == (1, 1, 1, 128, 10)
    there = draw_each(problem, sampler, key=0)
    assert there.cost == here.cost
    assert np.mean(there.draws.locations == here.draws.locations) > 0.999
    np.testing.assert_allclose(there.info.acceptance, here.info.acceptance, atol=1e-3)


def test_states_have_their_own_randomness():
    """On a circle a draw is its mean plus noise: no two states share the noise, unlike the actions of one."""
    problem, states = pose("periodic", "linear", points=POINTS), np.asarray([157, 173])
    points = np.asarray(draw_each(problem, IID(50), states, key=0).draws.locations)[:, 0, 0]
    noise = (points - 0.7 * problem.grid.states_at(states)[:, :1] + 1) % 2 - 1
    assert np.abs(noise[0] - noise[1]).max() > 0.1


def test_coupled_actions_share_their_randomness():
    """Uniforms are shared: the draws of two actions differ by what the means differ, away from the walls."""
    problem = pose("periodic", "linear", points=POINTS)
    points = np.asarray(draw_each(problem, IID(50), np.asarray([157]), key=0).draws.locations)[0]
    assert np.all((points[:, 0] >= -1) & (points[:, 0] < 1)), "circles are written out wrapped"
    shift = (points[1, 0] - points[0, 0] + 1) % 2 - 1
    np.testing.assert_allclose(shift, 0.6, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "sampler"),
    [("hmc", HMC(100, num_leapfrog=2)), ("importance", Importance(500))],
    ids=["hmc", "importance"],
)
def test_expected_values_agree_with_the_rows(name, sampler):
    """30 keys, three pairs, two random values; false alarm 1e-6, errors of 0.25 are seen (V has deviation 1)."""
    problem = counted_once(name)
    values = np.random.default_rng(1).normal(size=(2, problem.num_states)).astype(np.float32)
    states = np.asarray([40, 157, 250])
    found = []
    for key in range(30):
        draws = draw_each(problem, sampler, states, key=key).draws
        found.append(np.stack([expected_values(problem, draws, value) for value in values], axis=-1))
    exact = cells.all_rows(problem, 1e-8).masses[states] @ values.T.astype(np.float64)
    assert_mean_equals(np.stack(found), exact, resolution=0.25)


@pytest.mark.parametrize("law", [pytest.param("linear", marks=pytest.mark.slow), "point"])
def test_exhaustive_expected_values_are_exact(law):
    problem = pose("product", law)
    value = np.random.default_rng(2).normal(size=problem.num_states).astype(np.float32)
    drawn = draw_each(problem, Exhaustive(), key=0)
    exact = cells.all_rows(problem, 1e-8).masses @ value.astype(np.float64)
    np.testing.assert_allclose(expected_values(problem, drawn.draws, value), exact, atol=1e-5)
    assert drawn.cost.density_evaluations == problem.num_states * 2 * masses_cost(problem)


def test_point_law_from_masses():
    problem = pose("product", "point")
    located = np.asarray(draw_each(problem, IID(2000), np.asarray([20]), key=0).draws.locations)[0, 0]
    shares = np.bincount(located, minlength=problem.num_states) / 2000
    assert 0.5 * np.abs(shares - cells.all_rows(problem, 1e-8).masses[20, 0]).sum() < 0.1


def test_smallest_integers():
    assert [smallest_integer(n) for n in (256, 257, 65536, 65537)] == [jnp.uint8, jnp.uint16, jnp.uint16, jnp.uint32]


def test_indices_above_255_survive():
    """A grid of 20 × 15 states: the last one is 299."""
    locations = drawn("iid", [299]).draws.locations
    assert locations.dtype == jnp.uint16
    assert np.asarray(locations).max() > 255


def test_chain_costs_are_the_formula():
    """Per pair: (warm-up + draws) trajectories of L gradients and one energy, the mode's search, and one of each there."""
    sampler = HMC(12, num_leapfrog=2, num_warmup=4, num_chains=2)
    drawn = draw_each(counted_once("hmc"), sampler, np.asarray([1, 2, 3]), key=0)
    trajectories, pairs = 2 * (4 + 6), 3 * 2
    assert drawn.cost == (pairs * 12, pairs * (trajectories + 1), pairs * (2 * trajectories + 1 + NUM_NEWTON))
    assert np.all(np.asarray(drawn.info.gradient_evaluations) == 2 * trajectories + 1 + NUM_NEWTON)


def test_pilot_is_counted_and_the_same_for_any_states():
    sampler = SAMPLERS["hmc-user"][1]
    everything, few = drawn("hmc-user"), drawn("hmc-user", [70])
    assert everything.sampler.step_size == few.sampler.step_size
    assert few.sampler.step_size in CANDIDATES
    spent = [int(np.asarray(few.info.gradient_evaluations).sum()), int(np.asarray(few.info.density_evaluations).sum())]
    pilot = [few.cost.gradient_evaluations - spent[0], few.cost.density_evaluations - spent[1]]
    chains = NUM_PAIRS * len(CANDIDATES) * (sampler.num_warmup + NUM_DRAWS)
    assert pilot[0] > chains * sampler.num_leapfrog
    assert pilot[1] > chains
    of_all = [int(np.asarray(count).sum()) for count in everything.info[-2:]]
    assert everything.cost[1:] == (of_all[0] + pilot[1], of_all[1] + pilot[0])


@pytest.mark.slow
def test_default_chains_are_accepted():
    for problem in (zoo.pendulum(points=9), zoo.acrobot()):
        states = np.linspace(0, problem.num_states - 1, 128).astype(int)
        drawn = draw_each(problem, HMC(50), states, key=0)
        assert np.mean(drawn.info.acceptance) >= 0.9, problem.name
        assert not np.any(drawn.info.is_stuck)
        assert np.sum(drawn.info.num_nonfinite) == 0


@pytest.mark.slow
def test_coupling_cancels_the_noise_of_differences():
    """Neighbouring actions on pendulum: the variance of the difference of their backups falls 50-fold (median)."""
    problem = zoo.pendulum(points=9, law="linear")
    angle, velocity = problem.grid.states().T
    value = np.asarray(np.cos(angle) - 0.05 * velocity**2 - 0.1 * angle * velocity, np.float32)

    def variances(coupled):
        rounds = [
            np.diff(expected_values(problem, draw_each(problem, HMC(100), key=key, coupled=coupled).draws, value), axis=1)
            for key in range(8)
        ]
        return np.stack(rounds).var(axis=0, ddof=1).mean(axis=1)

    ratios = variances(False) / variances(True)
    assert np.median(ratios) >= 50
    assert len(ratios) == problem.num_states
