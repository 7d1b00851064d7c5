"""The health of a sampler: averages over the pairs that were drawn, and numbers that other implementations confirm."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import interpn

from hamq.completion.selection import Pairs, some_actions
from hamq.learning import preparation, q_iteration
from hamq.learning.backup import make_stock
from hamq.learning.draws import PairDraws
from hamq.learning.health import Diagnosis, correlation_time, health_of
from hamq.learning.passes import Passes
from hamq.learning.q_iteration import solve
from hamq.sampling.draws import effective_share
from hamq.sampling.exhaustive import Exhaustive
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID
from hamq.sampling.importance import Importance
from tests.exact.posed import swing


def slow_time(series: np.ndarray, num_chains: int) -> float:
    """τ by loops, from the definition; NaN of a constant."""
    if np.ptp(series) == 0:
        return np.nan
    chains = np.split(series - series.mean(), num_chains)
    n, m = len(series), len(series) // num_chains

    def rho(t):
        return sum(chain[i] * chain[i + t] for chain in chains for i in range(m - t)) / np.sum((series - series.mean()) ** 2)

    total, t = -1.0, 0
    while t < m and (pair := rho(t) + (rho(t + 1) if t + 1 < m else 0)) > 0:
        total, t = total + 2 * pair, t + 2
    return min(max(total, 1 / max(1, np.log10(n))), n)


def autoregressive(correlation: float, shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    """Stationary series x_t = φ·x_{t−1} + noise, whose τ is (1 + φ)/(1 − φ)."""
    rng = np.random.default_rng(seed)
    x = np.empty(shape)
    x[:, 0] = rng.normal(size=shape[0])
    for t in range(1, shape[1]):
        x[:, t] = correlation * x[:, t - 1] + np.sqrt(1 - correlation**2) * rng.normal(size=shape[0])
    return x


@pytest.mark.parametrize("num_chains", [1, 3])
@pytest.mark.parametrize("n", [3, 12, 45])
def test_the_time_is_the_one_by_definition(n, num_chains):
    values = np.concatenate([autoregressive(phi, (4, n)) for phi in (-0.7, 0.0, 0.8)])
    expected = [slow_time(series, num_chains) for series in values]
    np.testing.assert_allclose(correlation_time(values, num_chains), expected, rtol=1e-9)


@pytest.mark.parametrize("correlation", [-0.3, 0.0, 0.7])
def test_the_time_of_known_series(correlation):
    """Within 10 % of the truth for the mean of 400 series of 1000: its bias is below that, its standard error 2 %."""
    found = correlation_time(autoregressive(correlation, (400, 1000)), 1).mean()
    assert found == pytest.approx((1 + correlation) / (1 - correlation), rel=0.1)


def test_times_at_the_ends():
    constant, turns = np.full((1, 100), 0.1), np.tile([1.0, -1.0], 50)[None, :]
    assert np.isnan(correlation_time(constant, 1)[0])
    assert correlation_time(turns, 1)[0] == pytest.approx(0.5)  # 1/log10(100): more is not believed
    apart = np.repeat([0.0, 1.0], 50)[None, :]  # two chains that never met
    assert correlation_time(apart, 2)[0] > 25
    assert correlation_time(np.full((1, 1), 3.0), 1).shape == (1,)


def made_up(locations, weight_share=1.0, stuck=0.0, acceptance=0.5):
    """The stock of a block, and what the sampler said of it."""
    shape = locations.shape[:2]
    diagnosis = Diagnosis(*(np.broadcast_to(np.float32(v), shape) for v in (acceptance, stuck, weight_share)))
    return make_stock(PairDraws(locations.astype(np.uint8), None)), diagnosis


def test_means_are_over_the_pairs_that_were_drawn():
    """Two columns in the first states and a whole row in another, as with anchors; pairs of both blocks count once."""
    problem = swing()
    S, A, n = problem.num_states, problem.num_actions, 10
    value = np.random.default_rng(1).normal(size=S)
    columns = Pairs(np.arange(20), np.broadcast_to([0, 2], (20, 2)))
    row = Pairs(np.asarray([4, 30]), np.broadcast_to(np.arange(A), (2, A)))
    rng = np.random.default_rng(2)
    at_columns, at_row = rng.integers(0, S, (20, 2, n)), rng.integers(0, S, (2, A, n))
    at_row[1] = 7  # never moved
    stock, first = made_up(at_columns, weight_share=0.5, acceptance=[[0.2, 0.8]])
    other, second = made_up(at_row, acceptance=0.9, stuck=[[0.0], [1.0]])
    health = health_of(problem, HMC(n), (columns, row), (stock, other), (first, second), value)
    assert health is not None
    drawn = np.isin(np.arange(S), [*range(20), 30])
    for values in (health.acceptance, health.stuck, health.effective):
        np.testing.assert_array_equal(np.isnan(values), ~drawn)
    expected = np.where(np.arange(S) == 4, 0.9, 0.5)[drawn]  # the row came last
    expected[-1] = 0.9
    np.testing.assert_allclose(health.acceptance[drawn], expected, rtol=1e-6)
    assert health.stuck[30] == 1 and np.all(health.stuck[:20] == 0)
    of_pairs = [0.5 * n / slow_time(value[at_columns[9, k]], 1) for k in range(2)]
    assert health.effective[9] == pytest.approx(np.mean(of_pairs), rel=1e-6)
    of_row = [n / slow_time(value[at_row[0, k]], 1) for k in range(A)]
    assert health.effective[4] == pytest.approx(np.mean(of_row), rel=1e-6)
    assert health.effective[30] == 1


def test_draws_that_agree_are_worth_their_number():
    problem = swing()
    stock, diagnosis = made_up(np.full((problem.num_states, 1, 6), 3))
    blocks = (some_actions(problem, np.asarray([1])),)
    health = health_of(problem, HMC(6), blocks, (stock,), (diagnosis,), np.arange(35.0))
    assert health is not None
    np.testing.assert_array_equal(health.effective, 6)


def test_chains_share_the_draws():
    """Three chains of one series each: their own order counts, not that of the whole."""
    problem = swing()
    value = np.random.default_rng(3).normal(size=problem.num_states)
    locations = np.random.default_rng(4).integers(0, 35, (35, 1, 24))
    stock, diagnosis = made_up(locations)
    blocks = (some_actions(problem, np.asarray([0])),)
    health = health_of(problem, HMC(24, num_chains=3), blocks, (stock,), (diagnosis,), value)
    assert health is not None
    expected = [24 / slow_time(value[row[0]], 3) for row in locations]
    np.testing.assert_allclose(health.effective, expected, rtol=1e-6)


@pytest.fixture
def drawn(monkeypatch):
    """What `solve` draws for reuse, as (stock, info, cost), as it comes."""
    found, draw_stock = [], preparation.draw_stock

    def listening(*arguments, **named):
        found.append(draw_stock(*arguments, **named))
        return found[-1]

    monkeypatch.setattr(preparation, "draw_stock", listening)
    return found


QUICK = {"completion": None, "iterations": 3}


def test_hmc(drawn):
    """Steps so long that some chains never move: what the sampler saw in its pairs is what a state is said to have."""
    problem = swing("linear")
    sampler = HMC(4, num_leapfrog=1, step_size=4.5, walls="reflect", num_warmup=0, num_chains=2)
    with pytest.warns(UserWarning, match="chains never moved"):
        solution = solve(problem, sampler, **QUICK)
    health, (stock, info, _) = solution.health, drawn[0]
    assert health is not None
    np.testing.assert_allclose(health.acceptance, info.acceptance.mean(axis=1), rtol=1e-5)
    np.testing.assert_allclose(health.stuck, info.stuck_share.mean(axis=1), rtol=1e-5)
    assert 0 < health.stuck.mean() < 1 and set(np.unique(info.stuck_share)) == {0.0, 0.5, 1.0}
    np.testing.assert_array_equal(info.is_stuck, info.stuck_share > 0)
    # V between the nodes, by SciPy.
    value = solution.value
    locations = stock.rows.pairs(np.asarray(stock.locations))
    times = np.asarray([[slow_time(interpolated(value, points), 2) for points in row] for row in locations])
    times = np.where(np.isnan(times), np.where(info.is_stuck, 4, 1), times)
    np.testing.assert_allclose(health.effective, (4 / times).mean(axis=1), rtol=2e-3)


def interpolated(value, points):
    nodes = np.linspace(-np.pi, np.pi, 7), np.linspace(-2, 2, 5)
    return interpn(nodes, value.reshape(7, 5), points.T.astype(float), bounds_error=False, fill_value=None)


def test_other_samplers():
    problem = swing()
    independent = solve(problem, IID(5), **QUICK).health
    assert independent is not None
    np.testing.assert_array_equal(independent.effective, 5)
    assert np.isnan(independent.acceptance).all() and np.isnan(independent.stuck).all()
    assert solve(problem, Exhaustive(), **QUICK).health is None
    assert solve(problem, IID(5), passes=Passes(draws="fresh"), **QUICK).health is None


def test_weights():
    """1/Σw² of weighted draws, in whatever order they come."""
    problem = swing()
    logs = np.log(np.asarray([0.5, 0.2, 0.2, 0.1, 0.0], np.float32) + 1e-30)
    share = float(effective_share(jnp.asarray(logs)))
    stock, diagnosis = made_up(np.tile([0, 9, 18, 27, 34], (35, 1, 1)), weight_share=share)
    blocks = (some_actions(problem, np.asarray([0])),)
    health = health_of(problem, Importance(5), blocks, (stock,), (diagnosis,), np.arange(35.0))
    assert health is not None and np.isnan(health.acceptance).all() and np.isnan(health.stuck).all()
    np.testing.assert_allclose(health.effective, 1 / (0.5**2 + 2 * 0.2**2 + 0.1**2), rtol=1e-5)


def test_q_does_not_know(monkeypatch):
    problem = swing()
    with_health = solve(problem, IID(5), **QUICK)
    monkeypatch.setattr(q_iteration, "health_of", lambda *_: None)
    without = solve(problem, IID(5), **QUICK)
    assert without.health is None and with_health.health is not None
    assert with_health.q.tobytes() == without.q.tobytes()
    assert repr(with_health.health) == "Health(35 states: acceptance, stuck, effective)"
