"""Means that lie far outside the box: legal (the masses are logs), and rarely meant."""

import numpy as np

from hamq.problem.problem import Problem, pair_name
from hamq.problem.tables import mean_table, std_table

FAR = 8.0
"""Standard deviations beyond which a mean is reported."""
MAX_VALUES = 5 * 10**6
"""Largest table of means that is computed only to look at it."""


def outside_surprises(problem: Problem) -> list[tuple[str, str]]:
    """[("outside", sentence)] if some mean lies more than 8 σ outside the box, circles apart; else [].

    Looks at Gaussian kernels whose standard deviations are known (constant, or a product kernel's) on
    tables of at most 5 million means. The caller hands the answer to `checks.warn_unless_expected`.
    """
    normal = problem.kernel.normal
    if normal is None:
        return []
    if problem.num_states * problem.num_actions * problem.grid.dimension > MAX_VALUES:
        return []
    if callable(normal.covariance) and not problem.is_product:
        return []
    stds = std_table(problem) if problem.is_product else np.sqrt(np.diag(np.asarray(normal.covariance)))
    distances = outside_distances(problem, mean_table(problem)) / stds
    farthest = distances.max(axis=-1)
    count = int(np.sum(farthest > FAR))
    if not count:
        return []
    s, a = (int(v) for v in np.unravel_index(farthest.argmax(), farthest.shape))
    sentence = (
        f"the mean lies more than {FAR:g} standard deviations outside the box for {count} of {farthest.size} "
        f"pairs, up to {farthest[s, a]:.3g} on axis {int(distances[s, a].argmax())} at "
        f"{pair_name(problem, s, a)}; the next state piles up at the wall: "
        "widen the box or shorten the time step"
    )
    return [("outside", sentence)]


def outside_distances(problem: Problem, means: np.ndarray) -> np.ndarray:
    """How far each coordinate of the means lies outside the box; 0 inside and on periodic axes."""
    grid = problem.grid
    beyond = np.maximum(np.asarray(grid.lower) - means, means - np.asarray(grid.upper))
    return np.where(grid.periodic, 0.0, np.maximum(beyond, 0.0))
