"""What a function depends on: never too little, and no more than what its trace joins."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hamq.exact.axis_masses import axis_dependence, depends_on
from tests.problem.axes import DEPENDS_ON, pose

MATRIX = np.asarray([[1.0, 0, 0, 0], [0, 0, 2.0, 0]], np.float32)


def step(s, a):
    return jnp.stack([s[0] + s[1], s[1] + a, s[3] * s[2], s[3]])


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, s, a: x, ()),
        (lambda x, s, a: 1.0, ()),
        (lambda x, s, a: x + s[2], (2,)),
        (lambda x, s, a: x - s[-1] * a, (3, 4)),
        (lambda x, s, a: jnp.where(s[1] > 0, x, -jnp.inf), (1,)),
        (lambda x, s, a: step(s, a)[0] - x, (0, 1)),
        (lambda x, s, a: step(s, a)[2] - x, (2, 3)),
        (lambda x, s, a: (2 * s + 1)[1] * x, (1,)),
        (lambda x, s, a: jnp.sum(s[:2]), (0, 1)),
        (lambda x, s, a: jnp.concatenate([s[2:], s[:2]])[0] + x, (2,)),
        (lambda x, s, a: s[::-1][0], (3,)),
        (lambda x, s, a: s.reshape(2, 2).T[0, 1], (2,)),
        (lambda x, s, a: jax.nn.softplus(s[1]) + jax.nn.logsumexp(jnp.stack([x, a])), (1, 4)),
        (lambda x, s, a: jax.jit(lambda v: v[3])(s) + 0 * s[0], (0, 3)),
        # Joined: the trace does not say which row of a matrix is empty, what an index turns out to be, nor what branches and
        # loops do with what they are given.
        (lambda x, s, a: jax.lax.cond(s[0] > 0, lambda: x, lambda: s[1]), (0, 1, 2, 3)),
        (lambda x, s, a: jax.lax.fori_loop(0, 3, lambda i, v: v + s[2], x), (0, 1, 2, 3)),
        (lambda x, s, a: (MATRIX @ s)[0], (0, 1, 2, 3)),
        (lambda x, s, a: s[jnp.argmax(s)] * x, (0, 1, 2, 3)),
        (lambda x, s, a: jnp.cumsum(s)[0], (0, 1, 2, 3)),
        (lambda x, s, a: jnp.sort(s)[0], (0, 1, 2, 3)),
    ],
)
def test_coordinates_are_found(function, expected):
    assert depends_on(function, 4, ()) == expected


def test_actions_are_one_index():
    assert depends_on(lambda x, s, a: a[1] + x, 2, (3,)) == (2,)
    assert depends_on(lambda x, s, a: s[1] + x, 2, (3,)) == (1,)


def test_values_never_change_with_what_is_left_out():
    """Random functions of slices, stacks and sums: an input that is not named has no say."""
    random = np.random.default_rng(0)
    pieces = [
        lambda s, i: s[i],
        lambda s, i: jnp.sum(s[: i + 1]),
        lambda s, i: jnp.stack([s[i], s[0] * s[1]])[i % 2],
        lambda s, i: jnp.sort(s)[i],
        lambda s, i: jnp.where(s[i] > 0, s[0], 1.0),
        lambda s, i: jnp.flip(s)[i] ** 2,
    ]
    for _ in range(30):
        chosen = [(pieces[int(random.integers(len(pieces)))], int(random.integers(4))) for _ in range(2)]

        def function(x, s, a, chosen=chosen):
            return x * chosen[0][0](s, chosen[0][1]) - chosen[1][0](s, chosen[1][1])

        own = depends_on(function, 4, ())
        states = random.normal(size=(20, 4)).astype(np.float32)
        moved = np.where(np.isin(np.arange(4), own), states, random.normal(size=(20, 4))).astype(np.float32)
        at = jax.vmap(lambda s, f=function: f(jnp.float32(0.7), s, jnp.float32(0)))
        np.testing.assert_array_equal(at(states), at(moved))


def test_axes_of_the_problem():
    assert axis_dependence(pose()) == DEPENDS_ON
