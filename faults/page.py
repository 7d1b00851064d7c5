"""docs/reliability.md, from the record."""

from collections.abc import Mapping
from typing import Any

from faults.record import ROOT
from faults.sections import SECTIONS

PAGE = ROOT / "docs" / "reliability.md"

HEAD = """# Reliability

What happens to a run when the machine dies, the disk is full, a file rots, a process vanishes, or somebody sends a run
folder that is not what it seems. `make faults` tries it all and writes this page from its record
(`benchmarks/records/faults.json`), which took {minutes:.0f} minutes on {cores} cores. A part that fails does not enter it.

What a run folder promises:

- One rename commits. A kill at any instant leaves the last checkpoint whole, and `--resume` ends with the bits of a run that
  was never interrupted: table, policy and history, the seconds apart.
- Every file is held to its SHA-256. Damage is refused with the name of the file. The checkpoint before the last one is kept
  as `previous.npz`: where `checkpoint.npz` is damaged, `--resume` says so and goes on from there.
- One writer at a time, and readers see whole runs without a lock.
- What a folder holds is data, never instructions: no pickle, no name that leads out of the folder, nothing that steers a
  terminal or a page. (Your own problem is code: see the end.)
"""

NOT_COVERED = """## What is not covered

- **Power cuts.** Kills end a process, not the disk's cache. What must be on the disk before a rename is synced before it, in
  an order that tests check, but no disk was unplugged; one that lies about syncing can lose what it said it had.
- **Damage while a process runs.** Bits that flip in memory are written with a SHA-256 that fits them. Files are verified
  when they are read, not while they lie there.
- **Damage to more than one file.** With `checkpoint.npz` and `previous.npz` both damaged there is nothing to go on from; a
  damaged config, history, result, certificate or manifest is refused, not repaired.
- **GPUs that vanish.** The processes of these trials compute on CPUs. What notices a lost process is the same for GPUs, but
  no GPU was taken away; a device that fails inside of its own process ends it with JAX's error, and `--resume` goes on.
- **A device that hangs in a lone process.** Nobody watches it: the process waits for its driver.
- **Memory of other programs.** A solve refuses by its own estimate against half of the machine's memory, whatever else is
  running there.
- **Network file systems.** Locks and renames were tried on local disks alone.
- **Your own code.** A run of `file.py:function` makes its problem again by calling that function with the options that its
  `config.json` names, whenever a page, a picture, a comparison or a score needs the problem. Look at the config of a folder
  from somebody you do not trust before that: `hamq show` runs nothing.
- **Machines other than Linux.** Windows has no `flock`, and is refused.
"""


def page(record: dict[str, Any]) -> str:
    parts = record["parts"]
    minutes = sum(part["seconds"] for part in parts.values()) / 60
    cores = max((part["machine"]["cores"] for part in parts.values()), default=0)
    found = [HEAD.format(minutes=minutes, cores=cores), _summary(parts)]
    found += [section.text(parts[name]) for name, section in SECTIONS.items() if name in parts]
    if missing := [name for name in SECTIONS if name not in parts]:
        found.append(f"Not in the record yet: {', '.join(missing)}.\n")
    return "\n".join([*found, NOT_COVERED, _versions(parts)])


def _summary(parts: Mapping[str, Any]) -> str:
    rows = [
        f"| {SECTIONS[name].title} | {SECTIONS[name].verdict(part)} | {part['seconds']:,.0f} s |"
        for name, part in parts.items()
    ]
    return "\n".join(["| part | found | time |", "|---|---|---|", *rows]) + "\n"


def _versions(parts: Mapping[str, Any]) -> str:
    said = dict.fromkeys(
        f"{part['date']} with {', '.join(f'{k} {v}' for k, v in part['versions'].items())}" for part in parts.values()
    )
    return f"Carried out on {'; on '.join(said)}.\n"
