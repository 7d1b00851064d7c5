"""`python benchmarks/start.py`: how long `hamq solve pendulum` takes from the shell, nothing compiled, and after that."""

import os
import statistics
import subprocess
import sys
import tempfile
import time

NUM_WARM = 7


def solve(folder: str, number: int) -> float:
    words = [sys.executable, "-m", "hamq", "solve", "pendulum", "--out", f"{folder}/{number}"]
    began = time.perf_counter()
    subprocess.run(words, env={**os.environ, "XDG_CACHE_HOME": folder}, capture_output=True, check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        cold, *warm = (solve(folder, number) for number in range(1 + NUM_WARM))
    print(f"cold: {cold:.1f} s")
    print(f"warm: {statistics.median(warm):.1f} s ({min(warm):.1f} to {max(warm):.1f}, {NUM_WARM} times)")
