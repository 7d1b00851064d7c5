import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hamq.completion.rank import effective_rank


def with_singular_values(s, shape=(20, 6)):
    rng = np.random.default_rng(0)
    u, v = (np.linalg.qr(rng.normal(size=(size, len(s))))[0] for size in shape)
    return (u * np.asarray(s, float)) @ v.T


@pytest.mark.parametrize(
    "s, share, rank",
    [
        ([98, 1, 1], 0.99, 2),
        ([99.1, 0.5, 0.4], 0.99, 1),
        ([1, 1, 1, 1], 0.75001, 4),
        ([1, 1, 1, 1], 0.7499, 3),
        ([5, 1e-9], 1.0, 2),
    ],
)
def test_smallest_number_of_singular_values_that_reaches_the_share(s, share, rank):
    assert effective_rank(with_singular_values(s), share) == rank
    assert effective_rank(with_singular_values(s).T, share) == rank


def test_the_level_hides_the_advantages_and_centring_shows_them():
    advantages = with_singular_values([1.0, 0.9, 0.8], (50, 6))
    advantages -= advantages.mean(axis=1, keepdims=True)
    levels = 1000 + np.arange(50.0)
    assert effective_rank(levels[:, None] + advantages) == 1
    assert effective_rank(levels[:, None] + advantages, centred=True) == 3


def test_tables_without_advantages_have_rank_zero():
    assert effective_rank(np.zeros((4, 3))) == 0
    assert effective_rank(np.repeat(np.random.default_rng(0).normal(size=(40, 1)) / 3, 7, axis=1), centred=True) == 0


@given(scale=st.sampled_from([1e-300, 1e-5, -3.0, 1e300]), centred=st.booleans())
def test_scale_does_not_matter(scale, centred):
    table = with_singular_values([3, 2, 0.01, 0.001])
    assert effective_rank(scale * table, centred=centred) == effective_rank(table, centred=centred)


def test_refusals(as_user):
    table = np.ones((4, 3))
    for share in (0.0, 1.01, np.nan):
        with pytest.raises(ValueError, match=rf"share must lie in \(0, 1\], got {share}; the paper's is 0.99"):
            effective_rank(table, share)
    for q in (np.ones(3), np.ones((0, 3))):
        with pytest.raises(ValueError, match=r"q must be a table \[S, A\] with at least one entry, got shape"):
            effective_rank(q)
    table[2, 1] = np.nan
    with pytest.raises(ValueError, match="q must be finite, got nan at state 2, action 1"):
        effective_rank(table)
