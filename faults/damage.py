"""Every file of a run folder cut off at 20 places and with 100 flipped bytes: refused by its name, or gone on from before.

One run is finished and certified, one is not. Damage must be seen by who reads, by who would certify and by who resumes: a
bound that nobody certified would be the worst of all. A damaged `checkpoint.npz` is the one that need not be refused: the
run goes on from the checkpoint before, and ends with the same bits. `previous.npz`, that checkpoint, is not read while it is
not needed, and `hamq.lock` holds nothing of the run.
"""

import random
import shutil
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from faults import children
from faults.cases import HMC, RESTLESS, Outcome, outcome
from faults.progress import say
from hamq.errors import RunError
from hamq.runs.checkpoint import encode_checkpoint
from hamq.runs.folder import RunFolder
from hamq.runs.manifest import sha256
from hamq.runs.reading import Run, read_run
from hamq.runs.storage import BOUNDS, CERTIFICATE
from hamq.types import HamqWarning

SEED = 5
SPARE, LOCK, LAST = "previous.npz", "hamq.lock", "checkpoint.npz"
NUM_CUTS, NUM_FLIPS = 20, 100


def main(is_quick: bool = False) -> dict:
    began, rng = time.monotonic(), random.Random(SEED)
    counts, by_file = Counter[str](), {}
    with tempfile.TemporaryDirectory(prefix="hamq-faults-") as name:
        root = Path(name)
        finished, unfinished = root / "finished", root / "unfinished"
        words = [*RESTLESS, "--checkpoint-every", "7", "--out"]
        code, said = children.run([*words, finished], root / "printed")
        assert code == 0, said
        code, said = children.run(["certify", finished], root / "printed")
        assert code == 0 and {CERTIFICATE, BOUNDS} <= read_run(finished).manifest.files.keys(), said
        child = children.start([*words, unfinished], root / "printed", children.die_at(9 * 27, children.CHECKPOINTING))
        child.wait()
        assert not read_run(unfinished).is_finished and (unfinished / SPARE).exists()
        for folder in (finished, unfinished):
            for path in sorted(folder.iterdir()):
                found = damage(folder, path.name, rng, 5 if is_quick else NUM_CUTS, 10 if is_quick else NUM_FLIPS)
                by_file[f"{path.name} of a run that is {folder.name}"] = dict(found)
                counts += found
            say(f"a run that is {folder.name}: {dict(counts)}")
        resumed = 0
        whole = outcome(finished)
        for case, folder in (("cut", unfinished), ("flip", unfinished), ("gone", unfinished), ("flip", finished)):
            resumed += resume(root, folder, case, words, whole, rng)
        say(f"{resumed} runs with a damaged checkpoint finished with the same bits")
        resumed += hmc_resumes(root, rng)
    return {
        "seed": SEED,
        "cuts_per_file": NUM_CUTS,
        "flips_per_file": NUM_FLIPS,
        "damaged": sum(counts.values()),
        **{name.replace(" ", "_"): counts[name] for name in ("refused by name", "previous used", "harmless", "silent")},
        "resumed_to_the_same_bits": resumed,
        "files": by_file,
        "seconds": time.monotonic() - began,
    }


class Intact(NamedTuple):
    """A run before anything was done to it; the digests of its last checkpoint and of the one before."""

    config: dict[str, Any]
    problem: str
    certified: str
    last: str
    before: str


def damage(folder: Path, name: str, rng: random.Random, cuts: int, flips: int) -> Counter[str]:
    path, run = folder / name, read_run(folder)
    files = run.manifest.files
    intact = Intact(run.config, run.manifest.problem, _certified(run), files[LAST], files[SPARE])
    good, found = path.read_bytes(), Counter[str]()
    damaged = [good[: i * len(good) // cuts] for i in range(cuts)]
    for _ in range(flips):
        bad = bytearray(good)
        bad[rng.randrange(len(good))] ^= rng.randint(1, 255)
        damaged.append(bytes(bad))
    for content in damaged:
        path.write_bytes(content)
        found[judged(folder, name, intact)] += 1
    path.write_bytes(good)
    assert not found["silent"], f"damage of {name} was not seen"
    return found


def judged(folder: Path, name: str, intact: Intact) -> str:
    """What came of the damage, to a reader, to who would certify, and to a writer who wants to go on."""
    copy = folder.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    seen = _read(folder, intact), _opened(copy)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        writer = _resumed(copy, intact)
    is_told = any(issubclass(one.category, HamqWarning) and LAST in str(one.message) for one in said)
    if name == LAST and all(f"{name} of " in one for one in seen) and writer == SPARE and is_told:
        return "silent" if read_run(copy).is_finished or _certified(read_run(copy)) else "previous used"
    if name in (SPARE, LOCK):
        return "harmless" if not any(seen) and writer == LAST else "silent"
    return "refused by name" if all(f"{name} of " in one for one in (*seen, writer)) else "silent"


def _read(folder: Path, intact: Intact) -> str:
    """Why the run is not read; nothing where it is, with the certificate that it had."""
    try:
        return "" if _certified(read_run(folder)) == intact.certified else "another certificate"
    except RunError as error:
        return str(error)


def _opened(folder: Path) -> str:
    """Why the run is not opened, as `hamq certify` does it; nothing where it is."""
    try:
        RunFolder.open(folder).close()
        return ""
    except RunError as error:
        return str(error)


def _certified(run: Run) -> str:
    """Everything that the certificate says, its tables by their SHA-256; nothing where there is none."""
    if run.certificate is None:
        return ""
    tables = [run.certificate.lower, run.certificate.upper, run.certificate.policy_loss]
    digests = [None if table is None else sha256(table.tobytes()) for table in tables]
    return repr((run.certificate.facts(), run.certificate.versions, digests))


def _resumed(folder: Path, intact: Intact) -> str:
    """The name of the checkpoint that the run would go on from, or why it would not."""
    try:
        with RunFolder.resume(folder, intact.config, intact.problem) as run:
            checkpoint = run.load_checkpoint()
    except RunError as error:
        return str(error)
    assert checkpoint is not None
    return {intact.last: LAST, intact.before: SPARE}.get(sha256(encode_checkpoint(*checkpoint)), "another")


def resume(root: Path, folder: Path, case: str, words, whole: Outcome, rng: random.Random) -> int:
    """`hamq solve --resume` with a damaged checkpoint comes to the bits of the whole run, and says what it did."""
    copy = root / "resumed"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    content = bytearray((copy / LAST).read_bytes())
    content[rng.randrange(len(content))] ^= 1
    if case == "gone":
        (copy / LAST).unlink()
    else:
        (copy / LAST).write_bytes(content[: len(content) // 2] if case == "cut" else content)
    code, said = children.run([*words, copy, "--resume"], root / "printed")
    assert code == 0 and f"warning: {LAST} of {copy} is damaged: the run goes on from {SPARE}" in said, said
    assert outcome(copy) == whole and read_run(copy).certificate is None
    return 1


def hmc_resumes(root: Path, rng: random.Random) -> int:
    words = [*HMC, "--checkpoint-every", "10", "--out"]
    code, said = children.run([*words, root / "hmc"], root / "printed")
    assert code == 0, said
    return resume(root, root / "hmc", "flip", words, outcome(root / "hmc"), rng)
