"""How cost grows with a size: the slope of log(cost) against log(size), by least squares."""

from collections.abc import Sequence

import numpy as np


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """b of cost ≈ a·sizeᵇ."""
    if len(sizes) != len(costs) or len(set(sizes)) < 2:
        raise ValueError(f"an exponent needs at least two different sizes, got {sizes} with {len(costs)} costs.")
    if min(*sizes, *costs) <= 0:
        raise ValueError(f"sizes and costs must be above 0, got {sizes} and {costs}.")
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])
