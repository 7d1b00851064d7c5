"""Densities that somebody posed who knew the documentation and not the code: right, refused or warned about."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.sampling.modes import find_modes
from hamq.sampling.walls import make_potential
from tests.densities.capabilities import put_through
from tests.densities.line import line
from tests.densities.problems import pose
from tests.densities.record import Density, mixture, normal, where

TIP = tuple(sign * 0.4 * 0.2**k for sign in (-1, 1) for k in range(1, 18))
CUSP = line("cusp", lambda xp, u: -6.0 * xp.abs(u) ** 0.3, 0.2, "cusp", "heavy tail", offsets=(0.0, *TIP), points=21)
"""Its gradient is infinite at the mode, and it bends the wrong way on both sides."""

SPIKES = tuple((0.5 + 0.1 * (7 * k % 10), -1.35 + 0.3 * k + 0.03 * math.sin(5 * k)) for k in range(10))


def _comb(xp, u):
    """Ten narrow spikes, none of them at a multiple of anything."""
    return mixture(xp, *((weight, normal(u - place, 0.004)) for weight, place in SPIKES))


COMB = line(
    "comb", _comb, 0.2, "ten modes", "narrow", points=21,
    offsets=tuple(place + 0.004 * k for _, place in SPIKES for k in (-9, -6, -4, -2.5, -1.2, 0, 1.2, 2.5, 4, 6, 9)),
)  # fmt: skip


def _turn(state, action):
    return (state[0] + 0.53 * action,)


def _seam(xp, next_state, state, action):
    """Von Mises noise on a circle that must not come near its seam."""
    is_allowed = xp.cos(next_state[0]) > -math.cos(0.71)
    return where(xp, is_allowed, 4.1 * xp.cos(next_state[0] - _turn(state, action)[0]))


SEAM = Density(
    "seam", (-math.pi,), (math.pi,), (24,), _seam, _turn, 0.3, ("jump", "forbidden", "periodic"), periodic=(True,),
    breaks=lambda state, action: ((0.71 - math.pi, math.pi - 0.71),),
)  # fmt: skip

QUICK = ("exact", "solve", "lookahead")
SAMPLED = ("solve_hmc", "solve_importance", "certify", "certify_chains", "diagnose", "rollouts", "environment")


def not_wrong(density: Density, capability: str) -> str:
    outcome = put_through(density, pose(density), capability)
    assert outcome.kind != "WRONG", outcome
    return outcome.kind


@pytest.mark.parametrize("capability", QUICK)
@pytest.mark.parametrize("density", [CUSP, COMB, SEAM], ids=lambda density: density.name)
def test_tables_are_right(density, capability):
    assert not_wrong(density, capability) == "right"


@pytest.mark.slow
@pytest.mark.parametrize("capability", SAMPLED)
@pytest.mark.parametrize("density", [CUSP, COMB, SEAM], ids=lambda density: density.name)
def test_draws_are_right_or_warned_about(density, capability):
    not_wrong(density, capability)


def test_a_cusp_is_drawn_and_not_refused():
    """The curvature at its tip is −10¹⁰; a factor of it in float32 was NaN, and every pair failed."""
    drawn = hamq.draw_each(pose(CUSP), hamq.Importance(4000), key=0)
    assert drawn.info.weight_share.min() > 0.01 and not drawn.info.has_failed.any()


def test_a_cusp_in_a_plane_is_drawn_widely():
    """The parabola at its tip is less than a thousandth of the box wide."""

    def logdensity(next_state, state, action):
        u, v = next_state - 0.6 * state - 0.3 * action + 0.0123
        return -6.0 * jnp.abs(u) ** 0.3 - 6.0 * jnp.abs(v - 0.5 * u) ** 0.3

    grid, state = hamq.Grid(lower=[-2, -2], upper=[2, 2], points=[3, 3]), jnp.zeros(2)
    density = hamq.UnnormalizedKernel(logdensity).at(grid, state, jnp.asarray(1.0))
    modes = find_modes(make_potential("logit", density, grid, 1.0), state)
    best = modes.factors[jnp.argmax(modes.log_weights)]
    assert np.linalg.svd(np.asarray(best), compute_uv=False).min() > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("density", [CUSP, SEAM], ids=lambda density: density.name)
def test_chains_of_a_cusp_and_beside_a_gap_are_healthy(density):
    """They were called suspect, and the remedy was a smaller step that changes nothing."""
    assert not_wrong(density, "diagnose") == "right"
