"""The paper's bounds (its appendix, Lemmas 1–3 and Theorem 3): corrected, and as printed where that differs.

A `printed_…` function is the paper's formula to the letter. Beside it stands what its proof gives when it is done right:

    Lemma 1    printed_observations          least_observations, sufficient_observations
    Lemma 2    printed_bias                  bias: γ‖Q − Q*‖, which no number of draws removes
               printed_half_width            half_width: w = γ·span·√((1+ξ)/(1−ξ)·log(2N/δ)/(2n))
    Lemma 3    printed_samples               samples_needed: n for a half-width w
    T_ε        printed_iterations            iterations_needed, error_bound: e_t ≤ (cγ)^t e₀ + c·w·(1 − (cγ)^t)/(1 − cγ)
    Theorem 3  printed_sample_complexity     sample_complexity
               printed_exponent              exponent; exponent_of_printed_lemmas: what Lemmas 1 and 3 add up to

The corrected chain is short. With V* = max_a Q*(·, a) and T̂ the backup with draws,

    |T̂Q − Q*| ≤ |T̂Q − T̂Q*| + |T̂Q* − TQ*| ≤ γ‖Q − Q*‖ + w,

where w bounds an average of the FIXED function V*: Hoeffding's inequality applies, also when draws are reused in all
iterations, and the union is over the N pairs alone. Iterating gives `error_bound`. All distances are sup norms to the
Q* of the grid. What the bounds assume of a chain (that it starts in its stationary law, and its correlation ξ) nobody knows
of HMC on a given problem, so that they are planning figures for IID draws and no certificate for chains. docs/theory.md
has the derivations.
"""

import math
from typing import Any, Literal, NamedTuple

from hamq.learning.preparation import lemma3_samples
from hamq.types import HamqError

Number = float | int

printed_samples = lemma3_samples
"""Lemma 3's |H_t| as printed: it makes Lemma 2's half-width γ²R/(1−γ), a constant, whatever ε is asked for."""


class Complexity(NamedTuple):
    """samples = backups·samples_per_backup, and times `iterations` where draws are fresh; numbers of a bound, not ints."""

    iterations: Number
    backups: Number
    samples_per_backup: Number
    samples: Number


def value_span(min_reward: Number, max_reward: Number, discount: Number) -> float:
    """(R_max − R_min)/(1−γ), the width of the range of V: Q = Σ_k γ^k r_k with k from 0.

    The paper has γR_max/(1−γ) as a bound of max_a Q. A constant reward R contradicts it: Q* = R/(1−γ).
    """
    _require_discount(discount)
    if not (math.isfinite(min_reward) and math.isfinite(max_reward) and min_reward <= max_reward):
        raise HamqError(f"rewards must be finite and in order, got min_reward={min_reward} and max_reward={max_reward}.")
    return (max_reward - min_reward) / (1 - discount)


def printed_observations(
    num_states: int, num_actions: int, state_dimension: int, action_dimension: int, constant: Number = 1.0
) -> float:
    """|Ω| = c₁·max{|S|², |A|²}·|S||A|·d_s·d_a/log(d_s + d_a), Lemma 1 as printed.

    d_s·d_a/log(d_s + d_a) is at least 1/log 2, so that this is at least 1.44·c₁·max{|S|², |A|²} times the number of
    entries. Theorems of this kind have the sizes of the matrix where the paper has the dimensions of the spaces; and the
    paper bounds coherence times rank by the size itself, which is the worst case, a single entry that stands out.
    """
    _require_counts(num_states=num_states, num_actions=num_actions)
    _require_counts(state_dimension=state_dimension, action_dimension=action_dimension)
    dimensions = state_dimension * action_dimension / math.log(state_dimension + action_dimension)
    return constant * max(num_states, num_actions) ** 2 * num_states * num_actions * dimensions


def sufficient_observations(
    num_states: int, num_actions: int, rank: int = 1, coherence: Number = 1.0, constant: Number = 1.0
) -> float:
    """c·μ·r·max{|S|, |A|}·log²(|S| + |A|): enough for nuclear-norm completion of EXACT entries (Chen 2015), c not given.

    More than all entries as soon as min{|S|, |A|} < c·μ·r·log²(|S| + |A|): 42·r actions at 625 states and c = μ = 1. No
    theorem of this kind speaks of tables with 10 actions.
    """
    _require_rank(num_states, num_actions, rank)
    if not coherence >= 1:
        raise HamqError(f"coherence must be at least 1, got {coherence}.")
    return constant * coherence * rank * max(num_states, num_actions) * math.log(num_states + num_actions) ** 2


def least_observations(num_states: int, num_actions: int, rank: int = 1, failure: Number | None = None) -> int:
    """What no method can do without: r·(|S| + |A| − r), the degrees of freedom of a table of rank r.

    r columns and r rows in general position (`Anchors`) do with exactly that many. With `failure` = δ, for entries chosen by
    independent coins as in the paper: no row may be empty, |S|·(1−p)^|A| ≤ δ, which asks for
    p = 1 − (δ/|S|)^(1/|A|) of all entries.
    """
    _require_rank(num_states, num_actions, rank)
    least = rank * (num_states + num_actions - rank)
    if failure is None:
        return least
    _require_failure(failure)
    share = 1 - (failure / num_states) ** (1 / num_actions)
    return max(least, math.ceil(share * num_states * num_actions))


def printed_bias(discount: Number, min_reward: Number, max_reward: Number) -> float:
    """γ²ΔR/(1−γ), the first term of Lemma 2: does not vanish with |H|, so neither does the lemma's bound."""
    return discount**2 * value_span(min_reward, max_reward, discount)


def bias(discount: Number, distance: Number) -> float:
    """γ‖Q − Q*‖, what the first term of Lemma 2 stands for.

    At most γΔR/(1−γ) for tables in the range of values (the paper has γ² for γ). It shrinks as Q nears Q*, not with the
    draws; put in as a constant it hides that the iteration contracts.
    """
    _require_discount(discount)
    _require_at_least_zero(distance=distance)
    return float(discount * distance)


def printed_half_width(
    num_samples: Number, discount: Number, max_reward: Number, correlation: Number = 0.0, failure: Number = 0.05
) -> float:
    """√((1+ξ)/(1−ξ)·(2/n)·(γR_max/(1−γ))²·log(2/δ)), the second term of Lemma 2 as printed.

    Right only where |r| ≤ R_max, by two slips that cancel: max_a Q is bounded by γR/(1−γ) for R/(1−γ), and the γ before the
    average is left out. Where rewards are costs it fails: R_max = 0 (the double integrator) gives 0. It holds for one
    pair; Lemma 3 has the union over pairs and iterations.
    """
    _require_discount(discount)
    _require_at_least_zero(max_reward=max_reward)
    bound = discount * max_reward / (1 - discount)
    return bound * math.sqrt(2 * _spread(correlation) * _log_term(failure, 1) / _positive(num_samples=num_samples))


def half_width(
    num_samples: Number,
    discount: Number,
    span: Number,
    *,
    num_backups: Number = 1,
    correlation: Number = 0.0,
    failure: Number = 0.05,
) -> float:
    """w = γ·span·√((1+ξ)/(1−ξ)·log(2N/δ)/(2n)): |T̂Q* − TQ*| ≤ w in N backups at once, with probability 1 − δ.

    Hoeffding's inequality for chains (Fan, Jiang & Sun 2018) on V*, whose values lie in an interval of length `span`
    (`value_span`, or less where more is known); two sides and N backups by the union bound. N is the number of pairs when
    draws are reused, times the iterations when they are fresh. ξ is the second largest absolute eigenvalue of a chain
    that starts in its stationary law; 0 for IID draws. Antithetic chains have smaller errors, but not a smaller bound.
    """
    _require_discount(discount)
    _require_at_least_zero(span=span)
    spread = _spread(correlation) * _log_term(failure, num_backups)
    return discount * span * math.sqrt(spread / (2 * _positive(num_samples=num_samples)))


def samples_needed(
    width: Number,
    discount: Number,
    span: Number,
    *,
    num_backups: Number = 1,
    correlation: Number = 0.0,
    failure: Number = 0.05,
) -> int:
    """The least n with half_width(n, …) ≤ width: ⌈(1+ξ)/(1−ξ)·(γ·span/w)²·log(2N/δ)/2⌉, which grows as w⁻².

    Lemma 3 as printed (`printed_samples`) has no w in it. From a bound that is constant its proof concludes
    |Qᵗ − Q*| ≤ 2c₁γ|Qᵗ⁻¹ − Q*|; but noise of constant size is there also when Qᵗ⁻¹ = Q*.
    """
    _require_discount(discount)
    _require_at_least_zero(span=span)
    spread = _spread(correlation) * _log_term(failure, num_backups)
    return max(1, math.ceil(spread / 2 * (discount * span / _positive(width=width)) ** 2))


def printed_iterations(tolerance: Number, discount: Number, max_reward: Number, amplification: Number = 1.0) -> float:
    """T_ε = log(γR_max/((1−γ)ε))/log(1/(2γc₁)), as printed; needs 2γc₁ < 1, that is γ < 1/2 even without completion.

    c₁ is by how much completion can amplify an error (c₂ of Lemma 1; its c₁ is another constant), at least 1 for one that
    keeps the entries it was given.
    """
    _require_discount(discount)
    _require_amplification(amplification)
    if 2 * discount * amplification >= 1:
        raise HamqError(
            f"T_ε as printed needs 2γc₁ < 1, got {2 * discount * amplification:.3g} (discount={discount}, "
            f"amplification={amplification}); it speaks of discounts below {1 / (2 * amplification):.3g} only; use "
            "iterations_needed."
        )
    start = discount * max_reward / ((1 - discount) * _positive(tolerance=tolerance))
    return max(0.0, math.log(start) / math.log(1 / (2 * discount * amplification))) if start > 0 else 0.0


def iterations_needed(tolerance: Number, discount: Number, initial_error: Number, amplification: Number = 1.0) -> int:
    """The least t with (cγ)^t·e₀ ≤ ε: what is left of the first table. Needs cγ < 1; any γ will do without completion."""
    factor = _contraction(discount, amplification)
    _require_at_least_zero(initial_error=initial_error)
    if initial_error <= _positive(tolerance=tolerance):
        return 0
    if factor == 0:
        return 1
    t = max(0, math.floor(math.log(initial_error / tolerance) / -math.log(factor)))
    while factor**t * initial_error > tolerance:
        t += 1
    return t


def error_bound(
    iterations: Number, discount: Number, initial_error: Number, width: Number, amplification: Number = 1.0
) -> float:
    """e_t ≤ (cγ)^t·e₀ + c·w·(1 − (cγ)^t)/(1 − cγ), of an iteration with e_{t+1} ≤ c·(γe_t + w).

    w is the half-width of all backups at once, c what completion can make of it (1 without). The limit is w/(1−γ): more
    iterations do not help against noise, and 2c₀/(1−γ) of Theorem 1 does not vanish either. Attained when every backup
    errs by +w.
    """
    factor = _contraction(discount, amplification)
    _require_at_least_zero(iterations=iterations, initial_error=initial_error, width=width)
    left = factor**iterations
    return left * initial_error + amplification * width * (1 - left) / (1 - factor)


def printed_sample_complexity(
    tolerance: Number,
    discount: Number,
    max_reward: Number,
    num_observations: int,
    correlation: Number = 0.0,
    failure: Number = 0.05,
    amplification: Number = 1.0,
) -> Complexity:
    """T_ε·|Ω|·|H|, the bound in Theorem 3's proof, with the printed T_ε and |H|; ε is in T_ε alone."""
    iterations = printed_iterations(tolerance, discount, max_reward, amplification)
    num = printed_samples(discount, num_observations, max(1, math.ceil(iterations)), correlation, failure)
    return Complexity(iterations, num_observations, num, iterations * num_observations * num)


def sample_complexity(
    tolerance: Number,
    discount: Number,
    span: Number,
    num_pairs: Number,
    *,
    correlation: Number = 0.0,
    failure: Number = 0.05,
    amplification: Number = 1.0,
    draws: Literal["reuse", "fresh"] = "reuse",
) -> Complexity:
    """Draws after which |Q − Q*| ≤ ε with probability 1 − δ: half of ε for the first table, half for the noise.

    The first table is taken to err by `span`, as any does whose entries lie in the range of values.
    """
    factor = _contraction(discount, amplification)
    iterations = iterations_needed(tolerance / 2, discount, span, amplification)
    width = (1 - factor) * tolerance / (2 * amplification)
    rounds = max(1, iterations) if draws == "fresh" else 1
    num = samples_needed(width, discount, span, num_backups=num_pairs * rounds, correlation=correlation, failure=failure)
    return Complexity(iterations, num_pairs, num, rounds * num_pairs * num)


def printed_exponent(state_dimension: int, action_dimension: int) -> int:
    """−(d_s + d_a + 2): Theorem 3's exponent of ε in the number of samples."""
    _require_counts(state_dimension=state_dimension, action_dimension=action_dimension)
    return -(state_dimension + action_dimension + 2)


def exponent_of_printed_lemmas(state_dimension: int, action_dimension: int) -> int:
    """−(d_s + d_a + 2·max{d_s, d_a}): what |Ω| of Lemma 1 gives with |S| ~ ε^(−d_s), |A| ~ ε^(−d_a) and Lemma 3's |H|.

    |H| of Lemma 3 is a power 0 of ε. Theorem 3 does not follow from its lemmas.
    """
    _require_counts(state_dimension=state_dimension, action_dimension=action_dimension)
    return -(state_dimension + action_dimension + 2 * max(state_dimension, action_dimension))


def exponent(state_dimension: int, action_dimension: int, order: Number = 1.0) -> float:
    """−((d_s + d_a)/order + 2) for a full table: ε^(−2) draws for each of its pairs, and a grid whose error is ε.

    `order` is the power of the spacing with which the grid's error falls: 1 where Q* is known to be Lipschitz only, which is
    Theorem 3's exponent; smoother problems do with fewer pairs, and exactly low rank with max{d_s, d_a} for d_s + d_a.
    """
    _require_counts(state_dimension=state_dimension, action_dimension=action_dimension)
    return -((state_dimension + action_dimension) / _positive(order=order) + 2)


def _spread(correlation: Number) -> float:
    if not 0 <= correlation < 1:
        raise HamqError(f"correlation must be in [0, 1), got {correlation}: 1 − ξ is the spectral gap, 0 gap says nothing.")
    return (1 + correlation) / (1 - correlation)


def _log_term(failure: Number, num_backups: Number) -> float:
    _require_failure(failure)
    if not num_backups >= 1:
        raise HamqError(f"num_backups must be at least 1, got {num_backups}.")
    return math.log(2 * num_backups / failure)


def _contraction(discount: Number, amplification: Number) -> float:
    _require_discount(discount)
    _require_amplification(amplification)
    if amplification * discount >= 1:
        raise HamqError(
            f"iterations contract only where amplification·discount < 1, got {amplification * discount:.3g}; a completion "
            f"that amplifies errors by {amplification} needs a discount below {1 / amplification:.3g}."
        )
    return float(amplification * discount)


def _require_discount(discount: Number) -> None:
    if not 0 <= discount < 1:
        raise HamqError(f"discount must be in [0, 1), got {discount}.")


def _require_amplification(amplification: Number) -> None:
    if not amplification >= 1:
        raise HamqError(
            f"amplification must be at least 1, got {amplification}: the entries that were given keep their error."
        )


def _require_failure(failure: Number) -> None:
    if not 0 < failure < 1:
        raise HamqError(f"failure must be a probability between 0 and 1, got {failure}.")


def _require_rank(num_states: int, num_actions: int, rank: int) -> None:
    _require_counts(num_states=num_states, num_actions=num_actions, rank=rank)
    if rank > min(num_states, num_actions):
        raise HamqError(f"rank must be at most {min(num_states, num_actions)} for {num_states}×{num_actions}, got {rank}.")


def _require_counts(**counts: Any) -> None:
    for name, value in counts.items():
        if not value >= 1:
            raise HamqError(f"{name} must be at least 1, got {value}.")


def _require_at_least_zero(**values: Any) -> None:
    for name, value in values.items():
        if not 0 <= value < math.inf:
            raise HamqError(f"{name} must be finite and at least 0, got {value}.")


def _positive(**values: Any) -> float:
    ((name, value),) = values.items()
    if not 0 < value < math.inf:
        raise HamqError(f"{name} must be finite and above 0, got {value}.")
    return float(value)
