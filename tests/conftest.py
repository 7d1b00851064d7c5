"""Strict settings for every test: types and shapes checked, no silent promotion.

Nothing of `hamq` may be imported before this file has run, or its annotations are not checked.
"""

import ctypes
import gc
import os
import platform
import tempfile
from importlib.metadata import version
from pathlib import Path

# XLA reads NPROC and its flags, BLAS its own variable; all before they start. Workers share the cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
if workers := os.environ.get("PYTEST_XDIST_WORKER_COUNT"):
    os.environ["NPROC"] = str(max(1, (os.cpu_count() or 1) // int(workers)))

# XLA's older emitters compile in two thirds of the time. Only where the flag is known to exist: others end the process.
# `make check` runs slow tests, and once more those of equal bits, with the emitters that users have.
if version("jaxlib").startswith("0.10.") and os.environ.get("HAMQ_TEST_EMITTERS") != "default":
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false".strip()

import hypothesis
import jax
import jaxtyping
import pytest

jaxtyping.install_import_hook("hamq", "beartype.beartype")

# Collecting makes half a million objects that stay: nothing is looked through until they are frozen, below.
gc.disable()

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_enable_x64", False)

# Fixed examples: a failure is repeatable and a green run stays green.
hypothesis.settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("fixed")


def compilation_cache() -> Path | None:
    """A folder of this user, one per machine and JAX version; None if someone else owns it."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    folder = Path(tempfile.gettempdir()) / f"hamq-tests-{user}-{platform.node()}-jax{jax.__version__}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        is_ours = not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid()
    except OSError:
        return None
    return folder if is_ours and os.access(folder, os.W_OK) else None


if (folder := compilation_cache()) is not None:
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)  # small ones too: both workers need most of them


def pytest_collection_finish():
    """What was collected is never garbage; what is traced rarely is, and there is much of it."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


@pytest.fixture(autouse=True, scope="module")
def compiled_code_is_forgotten():
    """What a whole suite compiles is gigabytes for each worker: it is dropped between files once it is too much."""
    yield
    if _resident_bytes() > 1.55e9:
        from hamq.problem import programs

        programs.forget_all()
        jax.clear_caches()
        gc.collect()
        if platform.libc_ver()[0] == "glibc":  # which keeps what is free until it is asked
            ctypes.CDLL(None).malloc_trim(0)


def _resident_bytes() -> float:
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else 0.0


@pytest.fixture
def x64():
    """float64 for one test; the default is float32, as users have it."""
    with jax.enable_x64(True):
        yield
