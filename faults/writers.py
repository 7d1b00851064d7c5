"""Several writers and readers of one folder: one writes, the others are refused with a reason, readers see whole runs."""

import random
import tempfile
import time
from collections import Counter
from pathlib import Path

from faults import children
from faults.cases import RESTLESS, outcome, require_prefix
from faults.progress import say
from hamq.errors import RunError
from hamq.runs.reading import read_run

SEED = 3
REFUSALS = ("is being written by process", "already holds a run", "is not a run folder")
"""What a writer may be told that came second; the last where it wants to resume what is not there yet."""
FLAGS = ((), ("--resume",), ("--overwrite",))


def main(is_quick: bool = False) -> dict:
    began, rng, codes, reads = time.monotonic(), random.Random(SEED), Counter[str](), 0
    rounds = 3 if is_quick else 24
    with tempfile.TemporaryDirectory(prefix="hamq-faults-") as name:
        root = Path(name)
        words = [*RESTLESS, "--checkpoint-every", "1", "--out"]
        code, said = children.run([*words, root / "whole"], root / "printed")
        assert code == 0, said
        for number in range(rounds):
            folder, flags = root / f"run{number}", FLAGS[number % len(FLAGS)]
            if flags:  # there is something to resume or to overwrite
                first = children.start([*words, folder], root / "printed")
                while first.is_running() and not (folder / "history.csv").exists():
                    time.sleep(0.001)
                first.kill()
                first.wait()
            writers = [children.start([*words, folder, *flags], root / f"printed{i}") for i in range(3)]
            while any(writer.is_running() for writer in writers):
                reads += _read(folder, root / "whole")
                time.sleep(rng.random() * 0.002)
            ended = [(writer.wait(), writer.printed.read_text()) for writer in writers]
            for code, said in ended:
                is_refused = code == 2 and any(sentence in said for sentence in REFUSALS)
                assert code == 0 or is_refused, said
                codes["wrote" if code == 0 else "refused"] += 1
            assert any(code == 0 for code, _ in ended), ended
            assert outcome(folder) == outcome(root / "whole")
    say(f"{rounds} rounds of 3 writers: {dict(codes)}; {reads} whole reads meanwhile")
    return {"seed": SEED, "rounds": rounds, "writers": 3, **codes, "reads": reads, "seconds": time.monotonic() - began}


def _read(folder: Path, whole: Path) -> int:
    """1 where there was something to read."""
    try:
        require_prefix(folder, read_run(whole))
        return 1
    except RunError as error:
        assert "it has no manifest.json" in str(error), error
        return 0
