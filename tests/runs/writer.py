"""Writes checkpoints until it is killed: `python writer.py FOLDER`. Prints the number of each one that was saved."""

import sys
from pathlib import Path

from hamq.runs.folder import RunFolder
from tests.runs.posed import CONFIG, HASH, history, state

SIZE = 20_000


def main(folder: Path) -> None:
    start = RunFolder.resume if (folder / "manifest.json").exists() else RunFolder.create
    with start(folder, CONFIG, HASH) as run:
        checkpoint = run.load_checkpoint()
        number = int(checkpoint.arrays["t"]) if checkpoint else 0
        print("ready", flush=True)
        while True:
            number += 1
            run.save_checkpoint(state(number, SIZE), history(number))
            print(number, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
