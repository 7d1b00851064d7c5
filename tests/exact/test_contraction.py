import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hamq.exact import contraction, plan
from hamq.exact.contraction import Contraction, Factor
from hamq.exact.plan import make_plan

CART_DOUBLE_PENDULUM = [(0, 1), (1, 2, 3, 4, 5, 6), (2, 3), (2, 3, 4, 5, 6), (4, 5), (2, 3, 4, 5, 6)]


def random_factors(rng, sizes, depends_on):
    d = len(depends_on)
    tables = [rng.random([*(sizes[j] for j in needed), sizes[i]]) for i, needed in enumerate(depends_on)]
    assert len(sizes) == 2 * d + 1
    return [Factor(table, needed) for table, needed in zip(tables, depends_on, strict=True)]


def by_einsum(sizes, factors, value):
    d = len(factors)
    operands = [value.reshape(sizes[d + 1 :]), list(range(d + 1, 2 * d + 1))]
    for i, factor in enumerate(factors):
        operands += [factor.table, [*factor.depends_on, d + 1 + i]]
    used = sorted(set().union(*(factor.depends_on for factor in factors)))
    shape = [sizes[j] if j in used else 1 for j in range(d + 1)]
    return np.broadcast_to(np.einsum(*operands, used).reshape(shape), sizes[: d + 1]).reshape(-1, sizes[d])


@given(st.integers(0, 2**32 - 1), st.sampled_from([10**9, 2000, 500, 250]))
@settings(max_examples=150)
def test_contraction_equals_einsum_however_it_is_sliced(seed, max_bytes):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 5))
    points = tuple(int(n) for n in rng.integers(2, 4, d))
    sizes = (*points, int(rng.integers(1, 4)), *points)
    depends_on = [tuple(j for j in range(d + 1) if rng.random() < 0.5) for _ in range(d)]
    found = make_plan(sizes, depends_on, max_bytes)
    if found is None:
        return
    assert found.work_bytes <= max_bytes
    factors, value = random_factors(rng, sizes, depends_on), rng.normal(size=math.prod(points))
    expected = by_einsum(sizes, factors, value)
    np.testing.assert_allclose(Contraction(found, sizes, factors)(value), expected, rtol=1e-12, atol=1e-12)


def test_slices_are_used_and_give_the_same():
    sizes = (3, 4, 2, 5, 3, 4, 2)
    depends_on = [(0, 1), (0, 1, 2, 3), (1, 2, 3)]
    rng = np.random.default_rng(0)
    factors, value = random_factors(rng, sizes, depends_on), rng.normal(size=24)
    plans = [make_plan(sizes, depends_on, max_bytes) for max_bytes in (10**9, 2000, 600)]
    assert [len(found.sliced) for found in plans] == [0, 1, 2]
    for found in plans:
        np.testing.assert_allclose(Contraction(found, sizes, factors)(value), by_einsum(sizes, factors, value), rtol=1e-12)
    assert make_plan(sizes, depends_on, 400) is None


def test_what_comes_before_the_slices_is_computed_once():
    sizes = (5, 5, 5, 2, 5, 5, 5)
    depends_on = [(0,), (0, 1, 2, 3), (0, 1, 2, 3)]
    found = make_plan(sizes, depends_on, 8000)
    assert found.sliced
    assert found.num_hoisted == 1 and found.steps[0].factors == (0,)
    whole = make_plan(sizes, depends_on, 10**9)
    assert found.multiply_adds <= 2 * whole.multiply_adds


def test_products_are_split_below_the_size_at_which_blas_starts_threads(monkeypatch):
    sizes = (3, 4, 2, 5, 3, 4, 2)
    depends_on = [(0, 1), (0, 1, 2, 3), (1, 2, 3)]
    rng = np.random.default_rng(1)
    factors, value = random_factors(rng, sizes, depends_on), rng.normal(size=24)
    monkeypatch.setattr(contraction, "MAX_PRODUCT", 16)
    result = Contraction(make_plan(sizes, depends_on, 10**9), sizes, factors)(value)
    np.testing.assert_allclose(result, by_einsum(sizes, factors, value), rtol=1e-12)


def test_plan_of_the_cart_double_pendulum_needs_a_three_hundredth_of_the_dense_sum():
    sizes = (*[5] * 6, 10, *[5] * 6)
    found = make_plan(sizes, CART_DOUBLE_PENDULUM, 10**10)
    assert found.multiply_adds == 7_812_500
    assert found.multiply_adds < 5**12 * 10 / 300
    assert found.table_bytes + found.work_bytes < 37e6


def test_plan_of_nine_points_stays_within_its_work_bytes():
    found = make_plan((*[9] * 6, 10, *[9] * 6), CART_DOUBLE_PENDULUM, 10**10)
    assert found.sliced and found.work_bytes <= plan.WORK_BYTES
    assert found.table_bytes < 2e8


@pytest.mark.parametrize("max_bytes", [10**9, 400])
def test_a_law_that_depends_on_nothing_is_broadcast(max_bytes):
    sizes, depends_on = (3, 2, 4, 3, 2), [(), ()]
    rng = np.random.default_rng(2)
    factors, value = random_factors(rng, sizes, depends_on), rng.normal(size=6)
    result = Contraction(make_plan(sizes, depends_on, max_bytes), sizes, factors)(value)
    np.testing.assert_allclose(result, by_einsum(sizes, factors, value), rtol=1e-12)
