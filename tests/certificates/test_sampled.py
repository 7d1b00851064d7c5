"""Certificates from real draws: a correlated problem, independent draws and chains.

Coverage: 20 seeds of nominal 95 % in all pairs at once may miss 8 times, 60 may 14 times (false alarm 1e-6).
"""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom

from hamq.certificates.certify import certify
from hamq.certificates.experiment import ALL_RULES, make_experiment
from hamq.certificates.sampled import judge, proposed, verify
from hamq.exact.bellman import make_operator
from hamq.exact.value_iteration import solve_exact
from hamq.learning import layout
from hamq.learning.q_iteration import solve
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem
from hamq.sampling.iid import IID
from hamq.types import as_key

pytestmark = pytest.mark.slow  # compiles for 16 s; test_experiment.py has the same pipeline on draws of NumPy
KINDS = ["guaranteed", "asymptotic"]
CONFIDENCE = 0.95


@pytest.fixture(scope="module", autouse=True)
def small_tiles():
    """A tile of 48 pairs, one a call: the tiles of use would be filled up with five times as many."""
    patch = pytest.MonkeyPatch()
    patch.setattr(layout, "TILE", 6)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def posed():
    """The operator of a 4 × 4 grid with three actions, Q*, and a table that is wrong by up to 0.2."""
    problem = Problem(
        Grid([-1.0, -1.0], [1.0, 1.0], 4),
        [-1.0, 0.0, 1.0],
        GaussianKernel(lambda state, action: 0.8 * state + 0.3 * action, [[0.1, 0.06], [0.06, 0.1]]),
        lambda state, action: jnp.cos(3 * state[0]) + state[1] * action - 0.2 * action**2,
        0.8,
        name="correlated",
    )
    true = solve_exact(problem, tolerance=1e-6).q
    return make_operator(problem, 1e-7), true, true + np.random.default_rng(0).uniform(-0.2, 0.2, true.shape)


@pytest.fixture(scope="module")
def certified(posed):
    operator, _, q = posed
    return certify(q, operator.problem, method="guaranteed", key=1)


def assert_true(operator, true, q, found):
    assert np.all((found.lower <= true) & (true <= found.upper))
    assert np.abs(q - true).max() <= found.error
    loss = true.max(axis=1) - operator.evaluate(q.argmax(axis=1), tolerance=1e-6).value
    assert np.all(loss <= found.policy_loss + 1e-6)


def test_a_thousand_draws_say_something_true(posed, certified):
    operator, true, q = posed
    assert_true(operator, true, q, certified)
    assert (certified.method, certified.confidence) == ("guaranteed", 0.95)
    assert certified.error < 0.5 * certified.known_before
    assert 0.9 * 1000 < certified.draws <= 1000
    assert certified.cost.samples == pytest.approx(certified.draws * q.size)
    assert "with 0.95 confidence (for independent draws of any law)" in certified.sentence


def test_one_key_gives_the_same_bits(posed, certified):
    operator, _, q = posed
    again, other = (certify(q, operator.problem, method="guaranteed", key=key) for key in (1, 2))
    np.testing.assert_array_equal(again.upper, certified.upper)
    np.testing.assert_array_equal(again.lower, certified.lower)
    np.testing.assert_array_equal(again.policy_loss, certified.policy_loss)
    assert np.all(other.upper != certified.upper)


@pytest.mark.parametrize("kind", KINDS)
def test_more_confidence_is_dearer(posed, kind):
    operator, true, q = posed
    low, high = (certify(q, operator.problem, method=kind, confidence=confidence, key=1) for confidence in (0.5, 0.9999))
    assert low.error < high.error
    for found in (low, high):
        assert_true(operator, true, q, found)


@pytest.mark.parametrize(
    ("kind", "num_seeds", "num_draws"),
    [
        ("guaranteed", 20, 300.0),
        ("guaranteed", 60, 1000.0),
        ("asymptotic", 60, 1000.0),
    ],
)
def test_all_backups_are_covered_at_once(posed, kind, num_seeds, num_draws):
    operator, _, q = posed
    judged, missed = judge(operator.problem, q), 0
    followed = np.arange(len(q)), q.argmax(axis=1)
    for seed in range(num_seeds):
        level = (1 - CONFIDENCE) / (2 * q.size + len(q))
        trial, _ = make_experiment(operator.problem, kind, level, ALL_RULES, key=as_key(100 + seed))
        proposal, prepared, _ = proposed(judged, trial, num_draws, None)
        verified, _ = verify(judged, trial, proposal, prepared, None)
        upper, lower, policy = (operator.backup(function) for function in proposal[:3])
        is_covered = np.all(upper <= verified.upper) and np.all(lower >= verified.lower)
        missed += not (is_covered and np.all(policy[followed] >= verified.policy[followed]))
    assert missed <= binom.isf(1e-6, num_seeds, 1 - CONFIDENCE)


@pytest.mark.slow
def test_draws_that_a_table_was_learnt_from_would_say_that_it_is_right(posed):
    """A table that is solved on its own draws has no residual on them: bounds from these would miss Q* every time."""
    operator, true, _ = posed
    by_own, by_fresh = 0, 0
    for seed in range(20):
        learnt = solve(operator.problem, IID(100, "rejection"), completion=None, iterations=300, tolerance=1e-4, key=seed)
        own = float(learnt.history.residual[-1])
        by_own += np.all(np.abs(learnt.q - true) <= own / (1 - operator.problem.discount))
        found = certify(learnt, operator.problem, method="guaranteed", key=seed)
        by_fresh += np.all((found.lower <= true) & (true <= found.upper))
        assert own < 1e-4
    assert by_own == 0
    assert by_fresh == 20


def test_a_table_solved_on_its_draws_has_no_residual_on_them(posed):
    """The same by NumPy, 20 times: 100 draws of each exact row, and the fixed point of what they say."""
    operator, true, _ = posed
    discount, num_states = operator.problem.discount, len(true)
    rows = np.stack([operator.law(unit) for unit in np.eye(num_states)], axis=-1)
    rows /= rows.sum(axis=-1, keepdims=True)
    for seed in range(20):
        counts = np.random.default_rng(seed).multinomial(100, rows)
        q = np.zeros_like(true)
        for _ in range(200):
            q = operator.rewards + discount * (counts / 100) @ q.max(axis=1)
        own = np.abs(operator.rewards + discount * (counts / 100) @ q.max(axis=1) - q).max()
        fresh = np.abs(operator.backup(q.max(axis=1)) - q).max()
        assert own < 1e-9
        assert fresh > 0.01
        assert np.abs(q - true).max() > 1e6 * own / (1 - discount)
