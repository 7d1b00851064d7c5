"""Peers whose pins clash with ours, each in an environment of its own, made on first use under build/peers.

A `Worker` is a process in such an environment that stays: it gets its data once, and then one line of JSON for every
run, which it answers with the seconds that it took. So a peer takes its turn beside our code, with its start and its
first call apart.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.suite.turns import Seconds

ROOT = Path(__file__).parents[2]
CACHE = ROOT / "build" / "peers"
INSTALL_S = 600


class MissingPeer(RuntimeError):
    """A peer that cannot be installed or does not run; the page shows the sentence."""


def environment(name: str, requirements: list[str]) -> Path:
    """The Python of an environment that has the requirements."""
    folder, wanted = CACHE / name, "\n".join(requirements)
    python, marker = folder / "bin" / "python", folder / "requirements.txt"
    if marker.exists() and marker.read_text() == wanted and python.exists():
        return python
    print(f"  making an environment for {name}: {', '.join(requirements)}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    install = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", *requirements]
    for command in ([sys.executable, "-m", "venv", str(folder)], install):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        except subprocess.TimeoutExpired as late:
            raise MissingPeer(f"{name}: pip took more than {INSTALL_S} s") from late
        if done.returncode:
            raise MissingPeer(f"{name}: {last_line(done.stderr) or 'pip failed'}")
    marker.write_text(wanted)
    return python


class Worker:
    """A script of this folder that runs in a peer's environment; use it in a `with`."""

    def __init__(self, name: str, requirements: list[str], script: str, **arrays: Any):
        self.name = name
        python = environment(name, requirements)
        self.folder = tempfile.TemporaryDirectory()
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by __exit__)
        data = Path(self.folder.name) / "data.npz"
        np.savez(data, allow_pickle=False, **arrays)
        command = [str(python), "-I", str(Path(__file__).parent / script), str(data)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=one_thread()
        )
        self.ready = self._answer()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_) -> None:
        self.process.kill()
        self.process.wait()
        self.errors.close()
        self.folder.cleanup()

    def ask(self, **settings) -> tuple[Seconds, np.ndarray]:
        """One run with these settings: its seconds and its result."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(settings) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it ended: what it said of it is read below
        answer = self._answer()
        return Seconds(answer["wall"], answer["cpu"]), np.load(Path(self.folder.name) / "data.npz.out.npy")

    def run(self, **settings) -> Seconds:
        return self.ask(**settings)[0]

    def _answer(self) -> dict:
        assert self.process.stdout is not None
        for line in self.process.stdout:  # peers may print lines of their own
            if line.startswith("{"):
                return json.loads(line)
        self.errors.seek(0)
        raise MissingPeer(f"{self.name}: {last_line(self.errors.read()) or 'its process ended'}")


def one_thread() -> dict[str, str]:
    """BLAS on one thread: on a busy machine its threads wait for each other."""
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1"}


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("WARNING")]
    return lines[-1][:200] if lines else ""
