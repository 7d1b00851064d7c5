"""10,000 iterations with checkpoints: memory stays, nothing is compiled again, and the files grow by their rows alone."""

import resource
import tempfile
import time

import jax

from faults.cases import HMC, RESTLESS
from faults.progress import say
from faults.statm import resident
from hamq.cli import main as hamq
from hamq.runs.reading import read_run
from hamq.runs.recording import Recording

CASES = {
    "HMC, drawn once": (*HMC, "--checkpoint-every", "100"),
    "fresh draws": (*RESTLESS, "--checkpoint-every", "500"),
}
ITERATIONS = 10_000
SETTLED = 0.2
"""Share of the iterations after which nothing may grow any more."""
COMPILED = "/jax/core/compile/backend_compile_duration"
MOST = 30e6
"""Bytes by which the memory may differ afterwards: the rows of the history are kept, and written as text."""


def main(is_quick: bool = False) -> dict:
    began = time.monotonic()
    found = {name: endure(name, words, 200 if is_quick else ITERATIONS) for name, words in CASES.items()}
    return {"iterations": 200 if is_quick else ITERATIONS, "runs": found, "seconds": time.monotonic() - began}


def endure(name: str, words: tuple[str, ...], iterations: int) -> dict:
    compiled, memory, seen = [0], {}, {}
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, _, **__: compiled.__setitem__(0, compiled[0] + (event == COMPILED))
    )
    real = Recording.add

    def add(self, iterate):
        real(self, iterate)
        if iterate.iteration % (iterations // 20) == 0:
            memory[iterate.iteration], seen[iterate.iteration] = resident(), compiled[0]

    Recording.add = add
    try:
        with tempfile.TemporaryDirectory(prefix="hamq-faults-") as folder:
            code = hamq([*words, "--iterations", str(iterations), "--out", f"{folder}/run", "--json"])
            assert code == 0 and len(read_run(f"{folder}/run").history) == iterations
    finally:
        Recording.add = real
    late = [t for t in memory if t >= SETTLED * iterations]
    grown = max(memory[t] for t in late) - memory[late[0]]
    again = seen[late[-1]] - seen[late[0]]
    say(f"{name}: {grown / 1e6:+.1f} MB and {again} compilations after iteration {late[0]}")
    assert again == 0, f"{again} programs were compiled after iteration {late[0]}"
    assert grown < MOST, f"memory grew by {grown / 1e6:.0f} MB after iteration {late[0]}"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {
        "settled_at": late[0],
        "grown_megabytes": grown / 1e6,
        "compiled_before": seen[late[0]],
        "compiled_after": again,
        "peak_megabytes": peak,
    }
