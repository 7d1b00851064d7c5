"""The paper's bounds: printed numbers by hand, corrected ones against simulations and a small problem."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from hamq.certificates import theory
from hamq.exact.bellman import make_operator
from hamq.exact.value_iteration import solve_exact
from hamq.learning.preparation import lemma3_samples
from hamq.learning.q_iteration import solve
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem
from hamq.sampling.iid import IID

DISCOUNT = 0.9


@pytest.fixture(scope="module")
def exact():
    """A point on a line that is pushed, at a cost: rewards from −1 to 0."""
    problem = Problem(
        Grid([-1.0], [1.0], [9]),
        np.linspace(-1, 1, 3),
        GaussianKernel(lambda s, a: 0.8 * s + 0.2 * a, [0.05]),
        lambda s, a: -jnp.sum(s**2),
        DISCOUNT,
        name="line",
    )
    return solve_exact(problem, tolerance=1e-9)


# Lemma 1


def test_lemma_1_by_hand():
    """625² · 6,250 entries · 2/log 3."""
    assert theory.printed_observations(625, 10, 2, 1) == pytest.approx(390_625 * 6_250 * 1.8204785, rel=1e-6)
    assert theory.printed_observations(3, 50, 4, 1, constant=0.5) == pytest.approx(0.5 * 2500 * 150 * 4 / math.log(5))


def test_lemma_1_asks_for_more_than_all_entries():
    for d_s in range(1, 8):
        for d_a in range(1, 4):
            assert theory.printed_observations(1, 1, d_s, d_a) >= 1.44
            assert theory.printed_observations(25, 10, d_s, d_a) >= 1.44 * 625 * 250


def test_a_table_of_rank_r_has_as_many_degrees_of_freedom():
    """The rank of the map from factors to the entries, at a random point."""
    rng = np.random.default_rng(0)
    for num_states, num_actions, rank in [(7, 4, 1), (7, 4, 2), (5, 5, 3)]:
        left, right = rng.normal(size=(num_states, rank)), rng.normal(size=(rank, num_actions))
        columns = []
        for i in range(num_states):
            for k in range(rank):
                change = np.zeros((num_states, num_actions))
                change[i] = right[k]
                columns.append(change.ravel())
        for k in range(rank):
            for j in range(num_actions):
                change = np.zeros((num_states, num_actions))
                change[:, j] = left[:, k]
                columns.append(change.ravel())
        assert np.linalg.matrix_rank(np.array(columns)) == theory.least_observations(num_states, num_actions, rank)


def test_coins_leave_no_row_empty():
    """With the share that is asked for, rows stay empty in about δ of 4,000 tables, and in far more with the paper's 0.2."""
    num_states, num_actions, failure = 30, 6, 0.2
    least = theory.least_observations(num_states, num_actions, 1, failure)
    rng, share = np.random.default_rng(1), least / (num_states * num_actions)
    coins = rng.uniform(size=(4000, num_states, num_actions))
    empty = lambda p: np.mean(np.any(np.all(coins > p, axis=2), axis=1))  # noqa: E731
    # 1 − (1 − δ/|S|)^|S| = 0.181 at the exact share; 4.9 standard errors and the rounding up of |Ω|.
    assert 0.14 < empty(share) < 0.181 + 4.9 * math.sqrt(0.181 * 0.819 / 4000)
    assert empty(0.2) > 0.9
    assert theory.least_observations(625, 10, 1, 0.05) == pytest.approx(6250 * (1 - (0.05 / 625) ** 0.1), abs=1)


def test_no_completion_theorem_speaks_of_ten_actions():
    assert theory.sufficient_observations(625, 10) == pytest.approx(625 * math.log(635) ** 2)
    assert theory.sufficient_observations(625, 10) > 6250
    assert theory.sufficient_observations(625, 500, rank=2, coherence=1.5) < 625 * 500


# Lemma 2


def test_lemma_2_printed_by_hand():
    # γR/(1−γ) = 9; √(2/100·81·log 40) = √(1.62·3.688879)
    assert theory.printed_half_width(100, 0.9, 1.0) == pytest.approx(math.sqrt(1.62 * 3.6888795), rel=1e-7)
    assert theory.printed_half_width(100, 0.9, 1.0, 0.5) == pytest.approx(math.sqrt(3 * 1.62 * 3.6888795), rel=1e-7)
    assert theory.printed_bias(0.9, -1.0, 1.0) == pytest.approx(0.81 / 0.1 * 2)


def test_lemma_2_corrected_by_hand():
    # 0.9·10·√(log(2·50/0.05)/(2·200))
    assert theory.half_width(200, 0.9, 10.0, num_backups=50) == pytest.approx(9 * math.sqrt(7.6009025 / 400), rel=1e-7)
    assert theory.value_span(-1.0, 0.0, 0.9) == pytest.approx(10)


def test_two_slips_cancel_where_rewards_are_symmetric():
    span = theory.value_span(-2.0, 2.0, 0.95)
    assert theory.half_width(77, 0.95, span, correlation=0.3) == pytest.approx(theory.printed_half_width(77, 0.95, 2.0, 0.3))


def test_the_printed_bound_of_values_is_too_small():
    """A constant reward 1: Q* = 10, and the paper has max_a Q ≤ γ/(1−γ) = 9."""
    q = sum(0.9**k for k in range(1000))
    assert q == pytest.approx(10) and q > 0.9 / (1 - 0.9)


def chains(rng, num, length, stay):
    """[num, length] of 0 and 1, stationary, symmetric; second eigenvalue 2·stay − 1."""
    first = rng.integers(2, size=(num, 1))
    flips = rng.uniform(size=(num, length - 1)) > stay
    return np.concatenate([first, (first + np.cumsum(flips, axis=1)) % 2], axis=1)


@pytest.mark.parametrize(("stay", "correlation"), [(0.5, 0.0), (0.9, 0.8), (0.25, 0.5)])
def test_half_width_covers_all_backups_at_once(stay, correlation):
    """3,000 tables of 8 pairs, values −10 and 0: all 8 are covered in 95 %, less 4.9 standard errors, and not by luck:
    four tenths of the width do not cover (for chains that are not antithetic, which the bound knows nothing of)."""
    num_tables, num_pairs, n = 3000, 8, 60
    span = theory.value_span(-1.0, 0.0, DISCOUNT)
    drawn = -span * chains(np.random.default_rng(2), num_tables * num_pairs, n, stay)
    errors = DISCOUNT * np.abs(drawn.mean(axis=1) + span / 2).reshape(num_tables, num_pairs).max(axis=1)
    width = theory.half_width(n, DISCOUNT, span, num_backups=num_pairs, correlation=correlation)
    assert np.mean(errors <= width) >= 0.95 - 4.9 * math.sqrt(0.05 * 0.95 / num_tables)
    if stay >= 0.5:
        assert np.mean(errors <= 0.4 * width) < 0.6
    if stay > 0.5:  # ξ matters: as if the draws were independent
        assert np.mean(errors <= theory.half_width(n, DISCOUNT, span, num_backups=num_pairs)) < 0.6


def test_printed_half_width_covers_nothing_where_rewards_are_costs():
    """R_max = 0, as on the double integrator: the bound is 0, the error is not."""
    assert theory.printed_half_width(100, 0.9, 0.0) == 0
    drawn = -10.0 * chains(np.random.default_rng(3), 500, 101, 0.5)
    assert np.mean(np.abs(drawn.mean(axis=1) + 5) <= 0) == 0


def test_bias_does_not_vanish_with_the_draws(exact):
    """A first table that errs by e everywhere errs by γe after an exact backup, the limit of infinitely many draws."""
    operator = make_operator(exact.problem)
    found = np.abs(operator.backup(exact.value + 2.0) - exact.q).max()
    assert found == pytest.approx(theory.bias(DISCOUNT, 2.0), abs=1e-6)


# Lemma 3


def test_lemma_3_is_the_one_of_the_schedule():
    assert theory.printed_samples is lemma3_samples
    assert theory.printed_samples(0.95, 1250, 200) == math.ceil(2 / 0.95**2 * math.log(2 * 1250 * 200 / 0.05))


def test_lemma_3_makes_the_half_width_a_constant():
    """γ²R/(1−γ) at the printed |H|; twice that, the lemma's bound, is 0.81 of all that values can differ by."""
    num = 2 / 0.9**2 * math.log(2 / 0.05)
    assert theory.printed_half_width(num, 0.9, 1.0) == pytest.approx(0.81 / 0.1)
    assert 0.8 * theory.value_span(-1.0, 1.0, 0.9) < 2 * 0.81 / 0.1


@pytest.mark.parametrize("width", [2.0, 0.3, 0.01])
def test_samples_needed_is_the_least(width):
    kinds = {"num_backups": 90, "correlation": 0.2, "failure": 0.01}
    n = theory.samples_needed(width, 0.9, 10.0, **kinds)
    assert theory.half_width(n, 0.9, 10.0, **kinds) <= width * (1 + 1e-12) < theory.half_width(n - 1, 0.9, 10.0, **kinds)


def test_half_the_width_takes_four_times_the_samples():
    ratio = theory.samples_needed(0.001, 0.9, 10.0) / theory.samples_needed(0.002, 0.9, 10.0)
    assert ratio == pytest.approx(4, rel=1e-4)


# T_ε and Theorem 3


def test_printed_iterations_by_hand():
    """log(0.4/(0.6·0.01))/log(1/0.8)."""
    assert theory.printed_iterations(0.01, 0.4, 1.0) == pytest.approx(math.log(200 / 3) / math.log(1.25))
    assert theory.printed_iterations(10.0, 0.4, 1.0) == 0


@pytest.mark.parametrize(("discount", "amplification"), [(0.5, 1.0), (0.95, 1.0), (0.3, 2.0)])
def test_printed_iterations_need_a_small_discount(discount, amplification):
    with pytest.raises(ValueError, match=r"needs 2γc₁ < 1.*use iterations_needed"):
        theory.printed_iterations(0.1, discount, 1.0, amplification)
    assert theory.iterations_needed(0.1, discount, 10.0, amplification) > 0


def test_iterations_needed_is_the_least():
    t = theory.iterations_needed(0.01, 0.95, 20.0)
    assert 0.95**t * 20 <= 0.01 < 0.95 ** (t - 1) * 20
    assert theory.iterations_needed(1.0, 0.9, 0.5) == 0
    assert theory.iterations_needed(0.5, 0.5, 4.0) == 3


def test_error_bound_holds_for_noisy_iterations_and_is_attained(exact):
    operator, width, start = make_operator(exact.problem), 0.05, 3.0
    rng = np.random.default_rng(4)
    noises = {
        "even": lambda: rng.uniform(-width, width, exact.q.shape),
        "signs": lambda: width * rng.choice([-1.0, 1.0], exact.q.shape),
        "up": lambda: np.full(exact.q.shape, width),
    }
    for name, noise in noises.items():
        q = exact.q + start
        for t in range(1, 41):
            q = operator.backup(q.max(axis=1)) + noise()
            found, bound = np.abs(q - exact.q).max(), theory.error_bound(t, DISCOUNT, start, width)
            assert found <= bound + 1e-6
        if name == "up":
            assert found == pytest.approx(bound, abs=1e-6)
    assert theory.error_bound(10_000, DISCOUNT, start, width) == pytest.approx(width / (1 - DISCOUNT))


def test_error_bound_with_a_completion_that_amplifies(exact):
    """Entries off Ω come out 1.05 times as wrong as the worst on Ω."""
    operator, width, amplification = make_operator(exact.problem), 0.02, 1.05
    q = exact.q + 3.0
    for t in range(1, 31):
        backed = operator.backup(q.max(axis=1)) + width
        q = exact.q + amplification * (backed - exact.q)
        bound = theory.error_bound(t, DISCOUNT, 3.0, width, amplification)
        assert np.abs(q - exact.q).max() == pytest.approx(bound, abs=1e-6)


def test_error_bound_holds_for_a_sampled_run(exact):
    """IID draws, reused: the union is over 27 pairs, not over 60 iterations. The bound is not empty: below the span."""
    n, iterations = 4000, 60
    span = theory.value_span(-1.0, 0.0, DISCOUNT)
    width = theory.half_width(n, DISCOUNT, span, num_backups=exact.q.size)
    solution = solve(exact.problem, sampler=IID(n), completion=None, iterations=iterations, initial=0.0, key=0)
    found, bound = np.abs(solution.q - exact.q).max(), theory.error_bound(iterations, DISCOUNT, span, width)
    assert found <= bound < span / 2


def test_sample_complexity_keeps_its_promise():
    tolerance, discount, span, num_pairs = 0.1, 0.9, 10.0, 27
    for draws, rounds in [("reuse", 1), ("fresh", None)]:
        plan = theory.sample_complexity(tolerance, discount, span, num_pairs, draws=draws, amplification=1.02)
        rounds = rounds or plan.iterations
        assert plan.samples == rounds * num_pairs * plan.samples_per_backup
        width = theory.half_width(plan.samples_per_backup, discount, span, num_backups=num_pairs * rounds)
        assert theory.error_bound(plan.iterations, discount, span, width, 1.02) <= tolerance
        assert theory.error_bound(plan.iterations, discount, span, width, 1.02) > 0.9 * tolerance


def test_sample_complexity_has_the_exponent_two_for_a_table():
    coarse, fine = (theory.sample_complexity(e, 0.9, 10.0, 1000).samples for e in (1e-2, 1e-3))
    assert math.log10(fine / coarse) == pytest.approx(2, abs=1e-3)


def test_printed_sample_complexity_by_hand():
    found = theory.printed_sample_complexity(0.01, 0.4, 1.0, 100)
    t = math.log(200 / 3) / math.log(1.25)
    n = math.ceil(2 / 0.16 * math.log(2 * 100 * math.ceil(t) / 0.05))
    assert found == pytest.approx((t, 100, n, t * 100 * n))


def test_exponents():
    assert theory.printed_exponent(2, 1) == -5
    assert theory.exponent_of_printed_lemmas(2, 1) == -7
    assert theory.exponent(2, 1) == -5 and theory.exponent(2, 1, order=2) == -3.5
    # From the formulas themselves: |S| = m², |A| = m, ε = 1/m.
    log_ratio = math.log(theory.printed_observations(200**2, 200, 2, 1) / theory.printed_observations(100**2, 100, 2, 1))
    assert log_ratio / math.log(2) == pytest.approx(-theory.exponent_of_printed_lemmas(2, 1))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: theory.half_width(10, 1.0, 1.0), r"discount must be in \[0, 1\), got 1.0"),
        (lambda: theory.half_width(0, 0.9, 1.0), "num_samples must be finite and above 0, got 0"),
        (lambda: theory.half_width(10, 0.9, 1.0, correlation=1.0), r"correlation must be in \[0, 1\), got 1.0"),
        (lambda: theory.half_width(10, 0.9, 1.0, failure=0.0), "failure must be a probability"),
        (lambda: theory.half_width(10, 0.9, 1.0, num_backups=0), "num_backups must be at least 1"),
        (lambda: theory.half_width(10, 0.9, math.inf), "span must be finite and at least 0"),
        (lambda: theory.samples_needed(0.0, 0.9, 1.0), "width must be finite and above 0"),
        (lambda: theory.value_span(1.0, 0.0, 0.9), "in order, got min_reward=1.0 and max_reward=0.0"),
        (lambda: theory.error_bound(3, 0.9, 1.0, 0.1, 1.2), "amplification·discount < 1, got 1.08"),
        (lambda: theory.error_bound(3, 0.9, 1.0, 0.1, 0.5), "amplification must be at least 1"),
        (lambda: theory.iterations_needed(0.0, 0.9, 1.0), "tolerance must be finite and above 0"),
        (lambda: theory.least_observations(5, 4, 5), "rank must be at most 4 for 5×4, got 5"),
        (lambda: theory.sufficient_observations(5, 4, 1, 0.5), "coherence must be at least 1"),
        (lambda: theory.printed_observations(0, 4, 1, 1), "num_states must be at least 1"),
        (lambda: theory.exponent(0, 1), "state_dimension must be at least 1"),
    ],
)
def test_refusals(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()
