import re
import tracemalloc

import jax.numpy as jnp
import numpy as np
import pytest

from hamq.exact import factored
from hamq.exact.factored import FactoredLaw
from hamq.problem import zoo
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem
from tests.exact.posed import maze, model, swing


@pytest.mark.parametrize("law", ["cell", "linear", "point"])
@pytest.mark.parametrize("periodic", [False, True])
def test_factored_expectation_is_that_of_the_rows(law, periodic):
    value = np.random.default_rng(0).normal(size=35)
    problem = swing(law, periodic)
    np.testing.assert_allclose(FactoredLaw(problem)(value), model(problem).masses @ value, atol=1e-13)


@pytest.mark.parametrize("law", ["cell", "linear", "point"])
def test_factored_expectation_with_variances_that_depend_on_the_state(law):
    problem = maze() if law == "cell" else maze(law)
    value = np.random.default_rng(1).normal(size=problem.num_states)
    factored = FactoredLaw(problem)
    assert factored.depends_on == [(0, 1, 2), (1, 2, 3), (2,)]
    np.testing.assert_allclose(factored(value), model(problem).masses @ value, atol=1e-13)


def test_large_tables_are_computed_axis_by_axis_and_in_chunks_with_the_same_result(monkeypatch):
    problem = maze()
    value = np.random.default_rng(2).normal(size=problem.num_states)
    expected = FactoredLaw(problem)(value)
    monkeypatch.setattr(factored, "CHUNK_VALUES", 10)
    monkeypatch.setattr(factored, "CHUNK_ROWS", (4, 7))
    np.testing.assert_allclose(FactoredLaw(problem)(value), expected, atol=1e-14)


def coupled(strength: float) -> Problem:
    """Axis 0 depends on axis 1 with this strength, and on the action only on axis 1."""
    return Problem(
        grid=Grid([-1.0, -1.0], [1.0, 1.0], [4, 3]),
        actions=np.asarray([-1.0, 1.0]),
        kernel=GaussianKernel(lambda s, a: jnp.stack([s[0] + strength * s[1], 0.5 * s[1] + 0.3 * a]), [0.3, 0.4]),
        reward=lambda s, a: s[0] + 0 * a,
        discount=0.9,
    )


def test_a_dependency_is_found_however_weak():
    assert FactoredLaw(coupled(0.0)).depends_on == [(0,), (1, 2)]
    assert FactoredLaw(coupled(1e-12)).depends_on == [(0, 1), (1, 2)]


def test_what_differs_by_rounding_only_is_no_dependency_and_enters_the_error():
    alone, rounded = FactoredLaw(coupled(0.0)), FactoredLaw(coupled(3e-16))
    assert rounded.depends_on == alone.depends_on
    assert rounded.error > alone.error + 3e-16


def test_masses_far_outside_the_box_do_not_underflow_and_the_error_grows():
    def far(shift):
        return Problem(
            grid=Grid([-1.0], [1.0], [9]),
            actions=np.asarray([0.0]),
            kernel=GaussianKernel(lambda s, a: s + shift + a, [0.01]),
            reward=lambda s, a: s[0] + a,
            discount=0.9,
        )

    near, away = FactoredLaw(far(0.0)), FactoredLaw(far(8.0))
    table = away.contraction.tables[0]
    np.testing.assert_allclose(away(np.ones(9)), 1, rtol=1e-14)
    assert np.all(table[..., 0] >= 0) and away(np.eye(9)[8]).min() > 0.5  # the mass is at the wall
    assert 10 * near.error < away.error < 1e-10


def test_a_mean_that_float64_cannot_square_is_refused():
    problem = Problem(
        grid=Grid([-1.0], [1.0], [5]),
        actions=np.asarray([0.0, 1.0]),
        kernel=GaussianKernel(lambda s, a: s + (1e30 * a) ** 6, [0.5]),
        reward=lambda s, a: s[0] + a,
        discount=0.9,
    )
    with pytest.raises(ValueError, match=r"mean 1e\+180 and standard deviation 0.707 has no mass .* on axis 0"):
        FactoredLaw(problem)


def test_what_is_refused_by_is_what_building_takes():
    """NumPy's peak, which has all of the masses: those of the first axis, [x, v, x'], are the largest thing by far."""
    problem = zoo.double_integrator(points=80, num_actions=3)
    with pytest.raises(ValueError, match="for the masses of its axes") as refused:
        FactoredLaw(problem, max_bytes=10**6)
    found = re.search(r"needs (\S+) bytes", str(refused.value))
    assert found
    tracemalloc.start()
    law = FactoredLaw(problem)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 2 * 8 * 80**3 < peak < 1.2 * float(found[1]) and float(found[1]) < 1.2 * peak
    assert law.num_summands == 160
