"""Calibration is used where its identities hold, and only there."""

import functools

import jax.random as jr
import numpy as np
import pytest

from hamq.learning import identities
from hamq.learning.backup import expected_values
from hamq.learning.continuity import find_jumps
from hamq.learning.draws import draw_each, prepare
from hamq.learning.identities import judge_density, shifted
from hamq.problem.grid import Grid
from hamq.sampling.hmc import HMC
from hamq.types import HamqWarning
from tests.learning.cut_densities import CUT, KINDS, SMOOTH, log_noise, masses_of, problem_of
from tests.stats import assert_mean_equals


def logs_of(kinds, points):
    with np.errstate(divide="ignore", invalid="ignore"):
        return log_noise(points[:, :, 0], kinds[:, None], np)


def test_jumps_are_seen_and_nothing_else():
    """In NumPy: lines through a place where each law has mass."""
    kinds = np.arange(len(KINDS))
    inside = np.asarray([0.6 if kind == "gap" else 0.05 for kind in KINDS])[:, None]
    found = find_jumps(Grid([-1.0], [1.0], 5), functools.partial(logs_of, kinds), inside)
    assert [KINDS[i] for i in np.flatnonzero(found.found)] == CUT
    at = dict(zip(KINDS, found.place, strict=True))
    assert abs(at["exponential"]) < 1e-5 and abs(at["step"]) < 1e-5 and abs(abs(at["uniform"]) - 0.3) < 1e-5
    assert found.size[KINDS.index("step")] == pytest.approx(1 - np.exp(-1), rel=0.01)


@pytest.mark.parametrize("width", [1e-3, 1e-2])
def test_narrow_laws_are_not_jumps_and_narrow_jumps_are(width):
    def logs(points):
        u = points[:, :, 0] / width
        with np.errstate(divide="ignore"):
            return np.stack([-0.5 * u[0] ** 2, np.where(np.abs(u[1]) < 1, 0, -np.inf)])

    found = find_jumps(Grid([-1.0], [1.0], 5), logs, np.asarray([[width / 3], [width / 3]]))
    assert found.found.tolist() == [False, True]


def test_a_jump_across_one_axis_of_three():
    def logs(points):
        return -np.sum(points**2, axis=-1) + np.where(points[..., 1] > 0.3, -2.0, 0.0)

    found = find_jumps(Grid([-1.0] * 3, [1.0] * 3, 3), logs, np.zeros((2, 3)))
    assert found.found.all() and np.all(found.axis == 1)
    np.testing.assert_allclose(found.place, 0.3, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_even_where_the_density_jumps(kind):
    sampler, cost = prepare(problem_of([kind]), HMC(40, num_leapfrog=3, step_size=0.3), key=jr.key(0))
    assert isinstance(sampler, HMC) and cost.density_evaluations > 0
    if kind in CUT:
        assert (sampler.judged, sampler.weighs) == ("cut", False)
        assert sampler.weights_note == "even weights, because the density jumps or ends inside of the box"
    else:
        assert (sampler.judged, sampler.weighs, sampler.weights_note) == ("smooth", True, "calibrated weights")


def test_what_was_asked_for_is_refused_or_kept():
    cut, smooth = problem_of(CUT[:2]), problem_of(SMOOTH[:1])
    fixed = HMC(40, num_leapfrog=3, step_size=0.3, calibrate=True)
    with pytest.raises(ValueError, match=r"calibrate=True needs a density without jumps, and the density of noisy jumps"):
        prepare(cut, fixed, key=jr.key(0))
    sampler, _ = prepare(smooth, fixed, key=jr.key(0))
    assert isinstance(sampler, HMC) and sampler.calibrate is True


def test_identities_that_fail_without_a_jump(monkeypatch):
    """Even weights, or a warning where calibration was asked for."""
    monkeypatch.setattr(identities, "shifted", lambda functions: "an identity fails")
    problem, asked = problem_of(SMOOTH[:1]), HMC(40, num_leapfrog=3, step_size=0.3, calibrate=True)
    with pytest.warns(HamqWarning, match=r"noisy: HMC has calibrate=True, and an identity fails; use calibrate=None"):
        kept, _ = prepare(problem, asked, key=jr.key(0))
    fallen, _ = prepare(problem, HMC(40, num_leapfrog=3, step_size=0.3), key=jr.key(0))
    assert isinstance(kept, HMC) and isinstance(fallen, HMC)
    assert (kept.calibrate, fallen.calibrate, fallen.judged) == (True, False, "shifted")


def test_shifts_are_told_from_noise():
    """128 chains of correlation 0.9: 6 standard errors are exceeded by chance in one of 10⁸ problems."""
    noise = np.random.default_rng(0).normal(size=(128, 4, 32))
    z = np.zeros_like(noise)
    for i in range(1, 32):
        z[:, :, i] = 0.9 * z[:, :, i - 1] + noise[:, :, i]
    assert shifted(z.astype(np.float32)) is None
    moved = z + np.asarray([0, 0, 1.5, 0])[None, :, None]
    assert "an identity that a density without jumps obeys fails" in str(shifted(moved.astype(np.float32)))


def test_verdict_is_counted():
    verdict = judge_density(problem_of(CUT[:1]), HMC(40, num_leapfrog=3, step_size=0.3), key=jr.key(1))
    assert not verdict.holds and verdict.jumps and "of 21 pairs that were looked at" in verdict.sentence
    assert verdict.gradient_evaluations > 21 * 32 * 3 and verdict.density_evaluations > 21 * 256


def test_draws_of_laws_with_jumps_agree_with_quadrature():
    """30 keys, five laws from two states; false alarm 1e-6. Calibrated, the gap is off by 0.3 (V has a range of 2)."""
    problem = problem_of(CUT)
    value, states = np.cos(3 * problem.grid.states()[:, 0]), np.asarray([4, 12])
    exact = masses_of(problem)[states] @ value
    sampler, found = HMC(120, num_leapfrog=3, step_size=0.3), []
    for key in range(30):
        draws = draw_each(problem, sampler, states, key=key).draws
        assert draws.log_weights is None
        found.append(expected_values(problem, draws, value.astype(np.float32)))
    assert_mean_equals(np.stack(found), exact, resolution=0.13)
