"""What draws that all pairs share get wrong is seen by masses of a few pairs."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.tensor.beside_masses import can_compare
from hamq.types import HamqWarning


def needle(width: float, share: float = 0.3) -> hamq.Problem:
    """A broad normal law, and a narrow one beside its middle."""

    def logdensity(next_state, state, action):
        u = next_state - 0.5 * state - 0.2 * action
        broad = -0.5 * jnp.sum((u / 0.6) ** 2) - 2 * math.log(0.6)
        narrow = -0.5 * jnp.sum(((u - jnp.array([0.31, -0.22])) / width) ** 2) - 2 * math.log(width)
        return jnp.logaddexp(math.log(1 - share) + broad, math.log(share) + narrow)

    return hamq.Problem(
        grid=hamq.Grid(lower=[-2, -2], upper=[2, 2], points=[9, 9]),
        actions=jnp.array([-1.0, 0.0, 1.0]),
        kernel=hamq.UnnormalizedKernel(logdensity),
        reward=lambda state, action: jnp.sin(2 * state[0]) - 0.1 * action**2,
        discount=0.9,
        law="linear",
        name="needle",
    )


@pytest.mark.slow
def test_a_peak_that_the_draws_miss_is_warned_of():
    """V was off by half of its range, with "residual 0.00% of V" and 54 of 256 draws effective."""
    problem = needle(0.02)
    with pytest.warns(HamqWarning, match=r"V is off by \d+% of its range or more, where 3% are allowed; use hamq.solve or"):
        solution = hamq.solve_tensor(problem)
    assert not solution.converged and solution.result.startswith("draws are too few, or miss a part of the density")
    exact = hamq.solve_exact(problem, tolerance=0.02)
    assert np.abs(solution.value_at(problem.grid.states()) - exact.value).max() > 0.1 * np.ptp(exact.value)
    table = hamq.solve(problem)  # what is advised
    assert np.abs(table.value - exact.value).max() < 0.02 * np.ptp(exact.value)


@pytest.mark.slow
def test_a_peak_that_they_see_is_not():
    problem = needle(0.3)
    solution = hamq.solve_tensor(problem)
    exact = hamq.solve_exact(problem, tolerance=0.02)
    assert solution.converged and solution.result.startswith("residual")
    assert np.abs(solution.value_at(problem.grid.states()) - exact.value).max() < 0.03 * np.ptp(exact.value)


def test_masses_are_compared_where_they_are_cheap_and_draws_are_made():
    assert can_compare(needle(0.3))
    assert not can_compare(hamq.problems.repelling_agents(4))
    assert not can_compare(hamq.problems.spring_chain(1))
