"""Chains in chunks: the draws of `HMC.draw`, whatever the chunk; few programs, which numbers of draws and pairs share."""

import dataclasses
import gc
import weakref

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import hamq
from hamq.learning import chunks, draws
from hamq.learning.draws import draw_pairs
from hamq.problem import programs
from hamq.sampling.draws import Target
from hamq.sampling.hmc import HMC
from tests.sampling.posed import pose

SAMPLERS = {
    "warm-up and a chunk that is not full": HMC(21, num_leapfrog=2, step_size=0.4),
    "two chains, dispersed": HMC(24, num_leapfrog=2, step_size=0.4, num_chains=2, dispersed=True),
    "even": HMC(8, num_leapfrog=2, step_size=0.4, num_warmup=0, calibrate=False),
    "more warm-up than a chunk": HMC(4, num_leapfrog=2, step_size=0.4, num_warmup=19),
}


@pytest.mark.parametrize(
    ("kernel", "name"), [("two-modes", next(iter(SAMPLERS))), *(("product", name) for name in list(SAMPLERS)[1:])]
)
def test_chunks_make_the_draws_of_one_pair(monkeypatch, kernel, name):
    """State 0 has stream 0, which is that of `draw`; rounding may turn single acceptances, and what follows them."""
    monkeypatch.setattr(chunks, "CHUNK", 16)
    monkeypatch.setattr(chunks, "NOISE_BLOCK", 8)
    sampler, problem = SAMPLERS[name], pose(kernel, law="linear")
    made = draw_pairs(problem, sampler, np.zeros(1, int), np.asarray([[0, 1]]), key=jr.key(3))
    state = jnp.asarray(problem.grid.states_at(np.zeros(1, int))[0], jnp.float32)
    draw = jax.jit(lambda action: sampler.draw(Target(problem, state, action), key=jr.key(3)))
    for a in (0, 1):
        one, info = draw(jnp.asarray(problem.actions[a], jnp.float32))
        points, wanted = np.asarray(made.draws.locations[0, a]), np.asarray(one.points)
        assert points.shape == wanted.shape
        assert np.mean(np.all(np.abs(points - wanted) < 1e-3, axis=0)) > 0.9
        if made.weights is not None:
            np.testing.assert_allclose(np.exp(made.draws.log_weights[0, a]), np.exp(one.log_weights), rtol=0.02, atol=1e-4)
        mine = jax.tree.map(lambda of_pairs, a=a: np.asarray(of_pairs)[0, a], made.info)
        np.testing.assert_allclose(mine.acceptance, info.acceptance, atol=0.02)
        same = ("is_stuck", "num_modes", "has_failed", "density_evaluations", "gradient_evaluations", "outside")
        assert {field: getattr(mine, field) for field in same} == {field: getattr(info, field) for field in same}


@pytest.fixture
def num_compiled():
    """How many programs XLA has been asked for so far."""
    names = []

    def listen(event, _, **about):
        if event.endswith("backend_compile_duration"):
            names.append(about.get("fun_name"))

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield names
    jax.monitoring.unregister_event_duration_listener(listen)


KEPT = []


def own():
    """A problem whose density nobody has compiled before this file, until the last test forgets it."""
    if not KEPT:
        KEPT.append(made())
    return KEPT[0]


def made():
    def logdensity(following, state, action):
        u = following - 0.8 * state - 0.3 * action
        return -2 * jnp.sum(u**2) + 0.3 * jnp.sum(jnp.cos(3 * u))

    grid = hamq.Grid(lower=[-2.0], upper=[2.0], points=[20])
    return hamq.Problem(grid, [-1.0, 0.0, 1.0], hamq.UnnormalizedKernel(logdensity), lambda s, a: -jnp.sum(s**2), 0.9)


def test_numbers_of_draws_chains_states_and_actions_compile_nothing(num_compiled):
    problem = own()
    sampler, _ = draws.prepare(problem, HMC(20, num_leapfrog=2), key=jr.key(0))
    draw_pairs(problem, sampler, np.arange(20), np.zeros((20, 2), int), key=jr.key(0))
    before = len(num_compiled)
    for more, num_states, width in ({"num_samples": 300}, 20, 3), ({"num_samples": 6, "num_chains": 2}, 7, 2):
        other = dataclasses.replace(sampler, **more)
        actions = np.broadcast_to(np.arange(width), (num_states, width))
        draw_pairs(problem, other, np.arange(num_states), actions, key=jr.key(1))
    # One program may be compiled: the random numbers of pairs that share none.
    draw_pairs(problem, sampler, np.arange(9), np.zeros((9, 1), int), key=jr.key(2))
    assert [name for name in num_compiled[before:] if "noise" not in name] == []


def test_a_reward_or_a_discount_compiles_no_draws_and_nothing_is_left(num_compiled):
    problem, sampler = own(), HMC(20, num_leapfrog=2)
    hamq.solve(problem, sampler, max_gradients=400_000, iterations=2)
    before = len(num_compiled)
    other = hamq.Problem(problem.grid, problem.actions, problem.kernel, lambda s, a: jnp.sum(s) * a, 0.5)
    hamq.solve(other, sampler, max_gradients=400_000, iterations=2)
    assert not [name for name in num_compiled[before:] if "advance" in name or "modes" in name]
    reference = weakref.ref(problem.kernel.logdensity)
    num = len(programs._programs.found)
    del problem, other
    KEPT.clear()
    gc.collect()
    assert reference() is None
    assert len(programs._programs.found) <= num - 2, "modes and transitions were compiled for it alone"
