"""The same bits on 1, 2 and 5 devices, and iterations on the devices that do what those on the host do."""

import dataclasses
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hamq.completion.anchors import Anchors
from hamq.completion.cross import mixing_weights
from hamq.learning import devices as devices_module
from hamq.learning.devices import LOST, LostProcessError, broadcast, choose_devices, end_when_lost, is_any, waiting
from hamq.learning.passes import Passes
from hamq.learning.preparation import prepare_run
from hamq.learning.q_iteration import State, q_iteration, solve, tables_of
from hamq.learning.settings import resolve
from hamq.learning.sweep import make_sweep
from hamq.problem import zoo
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem
from hamq.sampling.iid import IID
from hamq.types import NonFiniteError, as_key

ROOT = Path(__file__).parents[2]
PENDULUM = zoo.pendulum(points=9, num_actions=9)
SAMPLER = IID(4)
CASES = ("anchors", "linear", "pieces", "regenerated", "fresh")


@pytest.fixture(scope="module")
def on_devices():
    """What tests/learning/on_devices.py finds, in one process of its own: JAX can be given devices only at its start."""
    cache = jax.config.jax_compilation_cache_dir
    given = {"JAX_NUM_CPU_DEVICES": "5", "PYTHONPATH": str(ROOT)}
    given |= {} if cache is None else {"JAX_COMPILATION_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "tests.learning.on_devices", *CASES]
    found = subprocess.run(command, env=os.environ | given, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


@pytest.mark.bits
@pytest.mark.parametrize("case", CASES)
def test_bits_do_not_depend_on_the_number_of_devices(on_devices, case):
    found = on_devices[case]
    assert found["1"] == found["2"] == found["5"]
    assert found["used"] == 4  # of 5: one has nothing but padding


def test_draws_made_again_are_those_kept():
    """Tables agree to rounding: what is kept is improved on the devices, what is made again on the host, in float64."""
    options = {"iterations": 4, "key": 5}
    kept = solve(PENDULUM, SAMPLER, None, **options)
    again = solve(PENDULUM, SAMPLER, None, passes=Passes(draws="regenerate"), **options)
    np.testing.assert_allclose(again.q, kept.q, rtol=1e-12)
    fresh = solve(PENDULUM, SAMPLER, None, passes=Passes(draws="fresh"), **options)
    assert np.abs(fresh.q - kept.q).max() > 1e-3


def same_for_all_actions() -> Problem:
    """E[V] does not depend on the action, so that any two columns are one: U has the rank 1."""
    return Problem(
        grid=Grid([-1.0], [1.0], [30]),
        actions=jnp.linspace(-1.0, 1.0, 5),
        kernel=GaussianKernel(lambda s, a: 0.9 * s + 0.0 * a, [0.1]),
        reward=lambda s, a: -jnp.sum(s**2) - 0.1 * (a - s[0]) ** 2,
        discount=0.9,
        terminal=lambda s: s[0] > 0.9,
        name="same",
    )


@pytest.mark.bits
@pytest.mark.parametrize(
    ("problem", "completion", "rank"),
    [
        (PENDULUM, Anchors(num_columns=3, num_states=8), 3),
        (PENDULUM, None, 9),
        (same_for_all_actions(), Anchors(num_columns=2, num_states=6), 1),
    ],
    ids=["anchors", "whole", "rank-deficient"],
)
def test_iterations_on_the_devices_equal_those_on_the_host(problem, completion, rank):
    given = {"iterations": 3, "tolerance": None, "max_gradients": None, "passes": Passes(step_size=0.8)}
    settings = resolve(problem, SAMPLER, completion, **given)
    exact = solve(problem, SAMPLER, None, iterations=2, key=7)  # anything to measure the distance to
    on_host = prepare_run(problem, settings, exact, None, key=as_key(1), progress=None)
    assert on_host.sweep is None and on_host.stocks is not None  # small, and a CPU: nothing to gain from it
    sweep = make_sweep(problem, on_host.completion, on_host.stocks, on_host.rewards, on_host.is_ended, exact.q)
    run = dataclasses.replace(on_host, sweep=sweep)
    states = [State(tables_of(run).place(run.first), (), run.cost), State(run.first, (), run.cost)]
    for t in range(3):
        (states[0], row), (states[1], expected) = q_iteration(run, states[0], t), q_iteration(on_host, states[1], t)
        found = tables_of(run).fetch(states[0].q)
        np.testing.assert_allclose(found, states[1].q, rtol=1e-9, atol=1e-9 * np.abs(states[1].q).max())
        np.testing.assert_allclose(row[:3], expected[:3], rtol=1e-6)
        assert row.rank == expected.rank
    assert row.rank == rank


def test_mixing_equals_least_squares(x64):
    rng = np.random.default_rng(0)
    for k in (1, 3, 5):
        rows, inside = rng.normal(size=(12, 9)), np.sort(rng.permutation(9)[:k])
        rows[:, inside[-1]] += 1e4 * rows[:, inside[0]]  # far from orthogonal
        expected = np.linalg.lstsq(rows[:, inside], rows, rcond=1e-10)[0]
        for found in (mixing_weights(rows, inside), jax.jit(mixing_weights, static_argnums=1)(rows, tuple(inside.tolist()))):
            np.testing.assert_allclose(found[0], expected, atol=1e-9 * np.abs(expected).max())
            assert int(found[1]) == k


def test_mixing_of_columns_that_others_express(x64):
    rows = np.random.default_rng(1).normal(size=(12, 6))
    rows[:, 2] = 2 * rows[:, 0] - rows[:, 1]
    inside = rows[:, [0, 1, 2, 4]]
    expected = np.linalg.lstsq(inside, rows, rcond=1e-10)[0]
    for find in (mixing_weights, jax.jit(mixing_weights, static_argnums=1)):
        weights, rank = find(rows, (0, 1, 2, 4))
        assert int(rank) == 3
        np.testing.assert_allclose(inside @ np.asarray(weights), inside @ expected, atol=1e-9)


def test_the_pair_is_named_where_devices_find_what_is_not_finite():
    problem = PENDULUM
    given = {"iterations": 3, "tolerance": None, "max_gradients": None, "passes": None}
    run = prepare_run(problem, resolve(problem, SAMPLER, None, **given), None, None, key=as_key(1), progress=None)
    assert run.stocks is not None
    sweep = make_sweep(problem, run.completion, run.stocks, run.rewards, run.is_ended, None)
    run = dataclasses.replace(run, sweep=sweep)
    first = np.full(run.first.shape, 1e300)
    with pytest.raises(NonFiniteError, match=r"iteration 1: Q is inf at state 0 .*, action 0"):
        q_iteration(run, State(tables_of(run).place(first), (), run.cost), 0)


def test_one_process_talks_to_itself():
    devices = choose_devices()
    assert devices.is_alone and broadcast(devices, b"words") == b"words"
    assert is_any(devices, True) and not is_any(devices, False)


@pytest.mark.parametrize(
    ("num", "sentence"),
    [
        (0, "devices must be a whole number of at least 1, got 0"),
        (True, "got True"),
        (1000, r"devices = 1000, and JAX has \d+ of kind cpu; on a CPU call jax\.config\.update"),
    ],
)
def test_refused_numbers_of_devices(as_user, num, sentence):
    with pytest.raises(ValueError, match=sentence):
        choose_devices(num)


@pytest.fixture
def of_two(monkeypatch):
    """As if there were another process."""
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    monkeypatch.setattr(devices_module, "PATIENCE", 0.05)
    monkeypatch.setattr(devices_module, "_watch", devices_module._Watch())


def test_patience_ends(of_two, capsys):
    ends, is_over = [], threading.Event()
    end_when_lost(lambda code: (ends.append(code), is_over.set()))
    with waiting():
        assert is_over.wait(5)
    assert ends == [LOST] and "process 0 of 2 waited 0 s for the other processes in vain" in capsys.readouterr().err


def test_nobody_ends_the_process_of_a_caller_of_the_library(of_two, monkeypatch, capsys):
    said, ended = threading.Event(), []
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(devices_module, "lost_sentence", lambda what: (said.set(), what)[1])
    with waiting():
        assert said.wait(5)
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):  # what gives up is done before anything is judged
            thread.join(5)
    assert ended == [] and "for the other processes in vain" in capsys.readouterr().err


def test_what_comes_in_time_is_not_lost(of_two):
    ends = []
    end_when_lost(ends.append)
    for _ in range(3):
        with waiting():
            pass
    threading.Event().wait(0.2)
    assert ends == []


def test_a_broken_connection_is_a_lost_process_and_nothing_else_is(of_two):
    with pytest.raises(LostProcessError, match=r"process 0 of 2 lost the connection .* start all of them again"), waiting():
        raise ValueError("UNKNOWN: Gloo AllGather failed: Connection closed by peer")
    with pytest.raises(ValueError, match="another mistake"), waiting():
        raise ValueError("another mistake")
