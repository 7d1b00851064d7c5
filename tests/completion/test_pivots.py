"""The rows that a search for large volume starts with, against SciPy's pivoted QR."""

import numpy as np
import pytest
import scipy.linalg

from hamq.completion.pivots import pivot_rows


@pytest.mark.parametrize("shape", [(10, 2), (8, 8), (300, 20), (1, 1)])
@pytest.mark.parametrize("seed", range(5))
def test_as_in_a_pivoted_qr(shape, seed):
    basis = np.random.default_rng(seed).normal(size=shape)
    before = basis.copy()
    order = scipy.linalg.qr(basis.T, mode="r", pivoting=True)[-1]
    np.testing.assert_array_equal(pivot_rows(basis), order[: shape[1]])
    np.testing.assert_array_equal(basis, before)  # the caller's array stays as it is
