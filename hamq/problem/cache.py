"""JAX's persistent compilation cache, per user and machine: a second run of the same program compiles nothing."""

import os
import platform
from pathlib import Path

import jax

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
