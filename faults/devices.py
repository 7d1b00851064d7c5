"""Devices that disappear: processes of one solve over loopback, of which one is killed or stopped.

A device is lost with the process that has it; the others must end with a sentence, within the time that the lifeline allows
(30 s of silence, 2 s for a connection that broke), and a resumed run must have the bits of one process.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from faults import children
from faults.cases import outcome
from faults.progress import say
from hamq.learning.devices import LOST

WORDS = (
    *("solve", "pendulum", "--points", "10", "--num-actions", "5", "--seed", "4", "--sampler", "iid", "--num-samples", "3"),
    *("--completion", "none", "--checkpoint-every", "1"),
)
ITERATIONS = 400
TWO_DEVICES = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
LIMIT = 60.0
"""Seconds within which the others must have ended."""
CASES = {
    "killed": (signal.SIGKILL, 1),
    "process 0 killed": (signal.SIGKILL, 0),
    "stopped": (signal.SIGSTOP, 1),
    "process 0 stopped": (signal.SIGSTOP, 0),
}


def main(is_quick: bool = False) -> dict:
    began, found = time.monotonic(), {}
    with tempfile.TemporaryDirectory(prefix="hamq-faults-") as name:
        root = Path(name)
        words = [*WORDS, "--iterations", ITERATIONS]
        code, said = children.run([*words, "--out", root / "whole"], root / "printed")
        assert code == 0, said
        for case, (how, whom) in CASES.items():
            if is_quick and case != "killed":
                continue
            folder = root / case
            seconds, sentence = lose(words, folder, how, whom)
            code, said = children.run([*words, "--out", folder, "--resume"], root / "printed")
            assert code == 0, said
            assert outcome(folder) == outcome(root / "whole")
            found[case] = {"seconds": seconds, "sentence": sentence}
            say(f"{case}: the other ended after {seconds:.1f} s")
        # A CPU is made to look like as many devices as are asked for, unless somebody has said how many it has.
        child = children.start([*words, "--devices", "99"], root / "printed", lambda _: os.environ.update(TWO_DEVICES))
        code, said = child.wait(), child.printed.read_text()
        assert code == 2 and "devices = 99, and JAX has 2 of kind" in said and "Traceback" not in said, said
    return {"processes": 2, "cases": found, "limit": LIMIT, "seconds": time.monotonic() - began}


def lose(words, folder: Path, how: signal.Signals, whom: int) -> tuple[float, str]:
    """Seconds until the other process ended, and what it said."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    at = ["--coordinator", f"127.0.0.1:{port}", "--num-processes", "2", "--process-id"]
    command = [sys.executable, "-m", "hamq", *map(str, words), "--out", str(folder), *at]
    started = [
        subprocess.Popen([*command, str(i)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
        for i in range(2)
    ]
    try:
        while not (folder / "history.csv").exists():
            assert all(process.poll() is None for process in started), [process.communicate() for process in started]
            time.sleep(0.005)
        started[whom].send_signal(how)
        began = time.monotonic()
        _, err = started[1 - whom].communicate(timeout=LIMIT)
        assert started[1 - whom].returncode == LOST and "Traceback" not in err, err
        (sentence,) = [line for line in err.splitlines() if f"process {1 - whom} of 2 " in line or "--resume" in line]
        return time.monotonic() - began, sentence
    finally:
        for process in started:
            process.kill()
            process.communicate()
