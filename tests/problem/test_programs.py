"""Compiled programs: found again, compiled once, and gone with the functions that they were made of."""

import dataclasses
import gc
import sys
import threading
import weakref

import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.learning.draws import draw_each
from hamq.problem import programs
from hamq.problem.programs import compile_beside, program
from hamq.problem.tables import reward_table


@pytest.fixture
def num_traces():
    """A function for programs, and a list that grows whenever it is traced."""
    traces = []

    def trace(x):
        traces.append(x.shape)
        return 2 * x

    return trace, traces


def test_a_program_is_found_again_by_job_functions_and_shapes(num_traces):
    trace, traces = num_traces
    (function, other), x = (lambda: 1, lambda: 2), jnp.ones(3)
    assert program("job", (function,), trace, x)(x).tolist() == [2, 2, 2]
    assert program("job", (function,), trace, x + 1) is program("job", (function,), trace, x)
    assert len(traces) == 1
    others = [("job", (function,), jnp.ones(4)), ("another job", (function,), x), ("job", (other,), x)]
    found = {id(program(job, functions, trace, given)) for job, functions, given in others}
    assert len(found | {id(program("job", (function,), trace, x))}) == 4


def test_programs_go_with_their_functions():
    def make():
        def function(x):
            return jnp.sin(x)

        program("job", (function,), lambda x: function(x) + 1, jnp.ones(3))
        return weakref.ref(function)

    reference = make()
    gc.collect()
    assert reference() is None, "nothing that was compiled may hold on to a user's function"
    assert all(of_key.function() is not None for key in programs._programs.found for of_key in key[0])


def test_compiling_ahead_tells_the_shapes_and_is_not_done_again(num_traces):
    trace, traces = num_traces
    function, x = (lambda: 1), jnp.ones((2, 3))
    assert compile_beside("ahead", (function,), trace, x).shape == (2, 3)
    assert program("ahead", (function,), trace, x)(x).shape == (2, 3)
    assert len(traces) == 1


def test_who_waits_gets_the_error_too_and_the_next_one_tries_again():
    function, tries = (lambda: 1), []

    def trace(x):
        tries.append(x)
        raise ValueError("no such thing")

    for _ in range(2):
        with pytest.raises(ValueError, match="no such thing"):
            program("broken", (function,), trace, jnp.ones(2))
    assert len(tries) == 2


def test_threads_that_ask_for_one_program_compile_it_once(num_traces):
    trace, traces = num_traces
    function, x, found = (lambda: 1), jnp.ones(5), []
    threads = [threading.Thread(target=lambda: found.append(program("one", (function,), trace, x))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(traces) == 1 and len(set(map(id, found))) == 1


def test_arrays_of_numpy_serve_both_precisions():
    """JAX keeps the constant of an array: traced in float64 for the reward, it must not turn up in a program of float32."""
    target = np.asarray([0.3, -0.2])

    def reward(state, action):
        return -jnp.sum((state - target) ** 2) + 0 * action

    def logdensity(next_state, state, action):
        return -jnp.sum((next_state - 0.8 * state - 0.1 * action - target) ** 2)

    grid = hamq.Grid([-1.0, -1.0], [1.0, 1.0], [3, 3])
    problem = hamq.Problem(grid, [-1.0, 1.0], hamq.UnnormalizedKernel(logdensity), reward, 0.9)
    for _ in range(2):
        assert reward_table(problem).dtype == np.float64
        drawn = draw_each(problem, hamq.Importance(4), key=0)
        assert drawn.weights is not None
        assert drawn.weights.dtype == np.float32


WEIGHT = 1.0


def weighted(state, action):
    return WEIGHT * jnp.sum(state**2) + 0 * action


def small(reward) -> hamq.Problem:
    grid = hamq.Grid([-1.0], [1.0], [3])
    return hamq.Problem(grid, [-1.0, 1.0], hamq.GaussianKernel(lambda s, a: 0.5 * s + 0.1 * a, [0.1]), reward, 0.9)


def test_a_global_that_has_changed_is_seen(monkeypatch):
    """Programs are kept for a function; a new problem reads the function again."""
    before = reward_table(small(weighted))
    monkeypatch.setattr(sys.modules[__name__], "WEIGHT", 2.0)
    np.testing.assert_array_equal(reward_table(small(weighted)), 2 * before)


@dataclasses.dataclass
class Unhashable:
    weight: float = 2.0

    def __call__(self, state, action):
        return self.weight * state[0] + 0 * action


class Slots:
    __slots__ = ()

    def __call__(self, state, action):
        return state[0] + 0 * action


@pytest.mark.parametrize("reward", [Unhashable(), Slots()])
def test_callable_objects_serve_as_functions(reward):
    first, second = (reward_table(small(reward)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert np.ptp(first) > 0


def test_names_hold_no_address():
    """Compiled programs are found on disk by their names, too, in another process."""

    def double(x):
        return 2 * x

    run = program((double, 1), (double,), double, jnp.ones(2))
    assert "HloModule jit_double," in run.as_text()
