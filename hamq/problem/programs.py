"""Compiled programs, each for one job, kept as long as the functions that they were made of.

A program is found by what it does (a hashable key), by the user's functions within it, and by the shapes of what it is
given. It is compiled once, whoever asks first; others who ask meanwhile wait. `compile_beside` starts with it before it is
needed: XLA compiles on other cores while Python goes on. When one of its functions is gone, so is the program. For that no
program may hold on to a function: it is made from `trace`, which is dropped when the program is there.

JAX's persistent compilation cache, per user and machine: a second run of the same program compiles nothing.
"""

import os
import platform
import threading
import weakref
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax

Functions = tuple[Any, ...]
"""User's functions, or a kernel that has some."""


class Program(NamedTuple):
    """Two promises: the shapes of what it returns, and the program itself."""

    shapes: Future
    compiled: Future


class _Programs:
    """By key; `lock` guards the dictionary, never a compilation."""

    def __init__(self):
        self.lock = threading.RLock()
        self.found: dict[Any, Program] = {}
        self.facts: dict[Any, Any] = {}
        self.threads: ThreadPoolExecutor | None = None

    def forget(self, reference: weakref.ref) -> None:
        """Called when a function is gone."""
        with self.lock:
            for known in (self.found, self.facts):
                for key in [key for key in list(known) if any(reference is own.function for own in key[0])]:
                    known.pop(key, None)

    def beside(self, work: Callable[[], None]) -> None:
        with self.lock:
            if self.threads is None:
                self.threads = ThreadPoolExecutor(os.cpu_count() or 1, "hamq-compile")
            self.threads.submit(work)


_programs = _Programs()


def program(job: Hashable, functions: Functions, trace: Callable[..., Any], *given: Any) -> Any:
    """The compiled `trace` for arrays like those given; `job` names everything else that it depends on."""
    return _found(job, functions, trace, given, lambda work: work()).compiled.result()


def compile_beside(job: Hashable, functions: Functions, trace: Callable[..., Any], *given: Any) -> Any:
    """Starts to compile; returns the shapes of what the program will return. Arrays may be given by their shapes."""
    return _found(job, functions, trace, given, _programs.beside).shapes.result()


def remembered(job: Hashable, functions: Functions, find: Callable[[], Any]) -> Any:
    """What `find` says of the functions, asked once and kept as long as they are."""
    key = (_references(functions), job)
    with _programs.lock:
        if key in _programs.facts:
            return _programs.facts[key]
    found = find()
    with _programs.lock:
        _programs.facts[key] = found
    return found


def renew(function: Any, job: Hashable, reading: Hashable) -> None:
    """Releases what was made of a function that reads differently from the last time: it uses a global that has changed."""
    with _programs.lock:
        own = _Reference(function)
        last = _programs.facts.get(((own,), job))
        if last is not None and last != reading:
            for known in (_programs.found, _programs.facts):
                for key in [key for key in list(known) if own in key[0]]:
                    known.pop(key, None)
        _programs.facts[(own,), job] = reading


def forget_all() -> None:
    """Releases every program, whoever's it is; each is compiled again when it is asked for."""
    with _programs.lock:
        _programs.found.clear()
        _programs.facts.clear()


class _Reference:
    """A function by its identity, held weakly where that is possible; callable objects need no hash of their own."""

    def __init__(self, function: Any):
        self.address = id(function)
        try:
            self.function = weakref.ref(function, _programs.forget)
        except TypeError:
            self.function = lambda: function

    def __hash__(self) -> int:
        return self.address

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, _Reference) and self.address == other.address and self.function() is other.function()


def _references(functions: Functions) -> tuple[_Reference, ...]:
    return tuple(_Reference(function) for function in functions)


def _found(job, functions, trace, given, do: Callable[[Callable[[], None]], None]) -> Program:
    leaves, structure = jax.tree.flatten(given)
    shapes = tuple((tuple(leaf.shape), str(leaf.dtype)) for leaf in leaves)
    is_double = bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]
    device = next((leaf.device for leaf in leaves if isinstance(leaf, jax.Array)), None)
    device = device if isinstance(device, jax.Device) else jax.local_devices()[0]
    key = (_references(functions), job, structure, shapes, is_double, device)
    with _programs.lock:
        if (known := _programs.found.get(key)) is not None:
            return known
        new = _programs.found[key] = Program(Future(), Future())

    def settle(promise: Future, work: Callable[[], Any]) -> None:
        try:
            with jax.enable_x64(is_double), jax.default_device(device):
                promise.set_result(work())
        except BaseException as error:  # whoever waits gets it too, and the next one may try again
            with _programs.lock:
                _programs.found.pop(key, None)
            for waiting in new:
                if not waiting.done():
                    waiting.set_exception(error)

    def named(*arrays):
        return trace(*arrays)

    # A function of our own: JAX would keep a bound method, and all that it is bound to, for ever.
    # Its name is part of what is looked for on disk: never an address.
    name = job[0] if isinstance(job, tuple) else job
    named.__name__ = getattr(name, "__name__", str(name))
    traced: list[Any] = []
    settle(new.shapes, lambda: traced.append(jax.jit(named).trace(*given)) or traced[0].out_info)
    if traced:
        do(lambda: settle(new.compiled, lambda: traced.pop().lower().compile()))
    return new


MIN_SECONDS = 0.0
"""Small programs too: `hamq solve pendulum` has some thirty, and compiling them again takes the better part of a second."""


def use_compilation_cache() -> None:
    """Keeps compiled programs in `~/.cache/hamq` from now on, unless HAMQ_CACHE=off, or JAX has been given a folder already.

    The command line calls it. In Python call it before anything is solved.
    """
    if os.environ.get("HAMQ_CACHE") == "off" or _has_cache():
        return
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    # Code for one processor may not run on another that shares the home folder.
    folder = Path(base) / "hamq" / platform.node()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # a slower start, nothing else
    if os.access(folder, os.W_OK):
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", MIN_SECONDS)


def _has_cache() -> bool:
    return jax.config.jax_compilation_cache_dir is not None  # type: ignore[attr-defined]
