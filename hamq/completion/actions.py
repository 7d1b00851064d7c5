"""Large action sets: a few actions are tried, and a smooth continuation over the action's coordinates gives the others.

With B the polynomials of the actions' coordinates up to some degree (total degree where an action has several), values w
at the tried actions T continue to all actions as w·(B_T⁺)ᵀ·Bᵀ. Whether they do is not taken for granted: `misfit` fits one
half of the tried actions and looks at the other.
"""

import itertools

import numpy as np
from jaxtyping import Float, Int


def farthest_actions(actions: Float[np.ndarray, "A *k"], num: int) -> Int[np.ndarray, " num"]:
    """`num` actions spread out, in order: one far from the centre, then always the one farthest from those chosen."""
    points = _scaled(actions)
    first = int(np.argmax(np.sum(points**2, axis=1)))
    chosen, distance = [first], np.sum((points - points[first]) ** 2, axis=1)
    while len(chosen) < min(num, len(points)):
        chosen.append(int(np.argmax(distance)))
        distance = np.minimum(distance, np.sum((points - points[chosen[-1]]) ** 2, axis=1))
    return np.sort(chosen)


def polynomials(actions: Float[np.ndarray, "A *k"], degree: int) -> Float[np.ndarray, "A p"]:
    """Products of Chebyshev polynomials of the coordinates, scaled to [−1, 1], of total degree at most `degree`."""
    points = _scaled(actions)
    powers = np.polynomial.chebyshev.chebvander(points, degree)  # [A, k, degree + 1]
    exponents = itertools.product(range(degree + 1), repeat=points.shape[1])
    kept = [each for each in exponents if sum(each) <= degree]
    return np.stack([np.prod([powers[:, i, e] for i, e in enumerate(each)], axis=0) for each in kept], axis=1)


def continuation(actions: Float[np.ndarray, "A *k"], tried: Int[np.ndarray, " T"], degree: int) -> Float[np.ndarray, "T A"]:
    """(B_T⁺)ᵀ·Bᵀ: values at the tried actions times this are values at all of them."""
    basis = polynomials(actions, degree)
    return np.linalg.pinv(basis[tried]).T @ basis.T


def misfit(
    first: Float[np.ndarray, "m T"],
    second: Float[np.ndarray, "m T"],
    actions: Float[np.ndarray, "A *k"],
    tried: Int[np.ndarray, " T"],
    degree: int,
) -> float:
    """Mean square, per row, of what the continuation from every other tried action misses at the rest.

    `first` and `second` are independent estimates, so that noise has mean 0 in the product of their misses.
    """
    basis = polynomials(actions, degree)[tried]
    half = np.arange(len(tried)) % 2 == 0
    fit = np.linalg.pinv(basis[half]).T @ basis[~half].T
    misses = [rows[:, ~half] - rows[:, half] @ fit for rows in (first, second)]
    return max(float(np.sum(misses[0] * misses[1])), 0.0) / len(first)


def _scaled(actions: np.ndarray) -> np.ndarray:
    points = actions.reshape(len(actions), -1)
    low, high = points.min(axis=0), points.max(axis=0)
    return 2 * (points - low) / np.where(high > low, high - low, 1) - 1
