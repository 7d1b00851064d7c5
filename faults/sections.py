"""What the page says of each part: words that are written by hand, numbers that are read from the record."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

PATIENCE = 5


class Section(NamedTuple):
    """`verdict` is the part's line in the table at the top, `text` its own section."""

    title: str
    verdict: Callable[[Any], str]
    text: Callable[[Any], str]


def kills(part) -> str:
    rows = "\n".join(f"| {name} | {count} |" for name, count in part["phases"].items() if count)
    return f"""## Kills

{part["kills"]} times `kill -9` of `hamq solve`, over {part["runs"]} runs that were resumed and killed again
({part["came_too_late"]} kills came after the end of their run and do not count). After each, the rows on the disk had to be
the first ones of the uninterrupted run, and no fewer than the process had said were saved; after the last, q, policy and
history had to have its bits. All {part["runs_equal"]} did.

Most kills were aimed, because a phase of a few milliseconds is never hit by chance: before a random system call of opening,
checkpointing and the final write (a write is cut in half), or after a random time in a phase. These hit forks of a process
that had imported hamq and not started JAX; "command of a shell" are processes started from nothing, killed at any time of
their first 6 s. Where they fell:

| phase | kills |
|---|---|
{rows}
"""


def disk_full(part) -> str:
    by = "No tmpfs could be mounted where this was run."
    if part["tmpfs"]:
        pages, inodes = part["tmpfs"]["pages"]["full"], part["tmpfs"]["inodes"]["full"]
        by = f"""A small tmpfs was left with 0, 1, 2, … pages until a run fitted ({pages} full disks), then with few inodes
({inodes}). Each of these {pages + inodes} runs went on to the same bits when there was room again."""
    return f"""## Full disks

{by}

Besides, each of the {part["failing_calls"]} system calls of a writer of checkpoints, a result and a certificate failed once
with "No space left on device": what had been saved before was whole, and a write that failed for it succeeded when it was
tried again. Every write that failed, here and there, ended with one sentence with the folder's name and no traceback.
"""


def writers(part) -> str:
    return f"""## Several writers

{part["rounds"]} rounds of {part["writers"]} processes that wanted the same folder at once, new, with `--resume` and with
`--overwrite`: {part["wrote"]} wrote or found it done, {part["refused"]} were refused with a reason. Meanwhile
{part["reads"]:,} reads without a lock each saw a whole run. Every folder ended with the bits of a run of its own.
"""


def damage(part) -> str:
    return f"""## Damaged files

Every file of a run that is finished and certified, and of one that is not finished, cut off at {part["cuts_per_file"]}
places and with {part["flips_per_file"]} random bytes changed, one at a time: {part["damaged"]:,} damaged folders, each read,
opened as `hamq certify` does it, and resumed.

| what came of it | folders |
|---|---|
| refused, with the name of the file | {part["refused_by_name"]:,} |
| `checkpoint.npz`: refused to readers; `--resume` warns and goes on from `previous.npz` | {part["previous_used"]:,} |
| `previous.npz` or `hamq.lock`: not needed, the run goes on from its last checkpoint | {part["harmless"]:,} |
| not noticed | {part["silent"]} |

{part["resumed_to_the_same_bits"]} runs with a damaged or missing checkpoint were resumed to their end by `hamq solve`: all
had the bits of the uninterrupted run.
"""


def fuzzing(part) -> str:
    rows = "\n".join(
        f"| {name} | {one.get('refused', 0):,} | {one.get('read', 0):,} |" for name, one in part["readers"].items()
    )
    return f"""## Nonsense to read

{part["cases"]:,} cases by hypothesis: bytes changed, cut and repeated; JSON of any shape; manifests and archives that are
signed and lie; headers that promise a terabyte; a zip bomb. Readers raised nothing but `RunError`
({part["other_errors"]} other errors), none took {PATIENCE} s ({part["hangs"]} hangs), and none could have taken 1 GB: the
process was not allowed more, and ended {part["grown_megabytes"]:.0f} MB larger than it began.

| reader | refused | read |
|---|---|---|
{rows}
"""


def outcomes(part) -> str:
    rows = "\n".join(
        f"| {name} | {one.get('refused', 0):,} | {one.get('not trusted', 0):,} | {one.get('read', 0):,} |"
        for name, one in part["readers"].items()
    )
    return f"""## Nonsense as a result

{part["cases"]:,} cases more, by the same means and under the same limits: results and certificates that are signed and lie.
Readers raised nothing but `RunError` ({part["other_errors"]} other errors, {part["hangs"]} hangs), what they read was what
the files said, and a certificate of another table than the one beside it counted as none.

| file | refused | certificate not trusted | read |
|---|---|---|---|
{rows}
"""


def endurance(part) -> str:
    rows = "\n".join(
        f"| {name} | {one['grown_megabytes']:.1f} | {one['compiled_before']} | {one['compiled_after']} |"
        for name, one in part["runs"].items()
    )
    return f"""## {part["iterations"]:,} iterations

With checkpoints all along; from iteration {_first(part["runs"])["settled_at"]:,} on:

| run | memory grew by, MB | programs compiled before | after |
|---|---|---|---|
{rows}
"""


def memory(part) -> str:
    rows = "\n".join(
        f"| {name} | {one['estimate'] / 1e6:,.0f} | {one['measured'] / 1e6:,.0f} | {one['ratio']:.2f} | "
        f"{'yes' if one['holds'] else '**no**'} |"
        for name, one in part["solves"].items()
    )
    return f"""## Memory

What a solve refuses by, against what the peak of its process grew by. Half of the estimate was refused each time, before
anything large was allocated.

| solve | estimated, MB | taken, MB | ratio | within {part["factor"]:g} |
|---|---|---|---|---|
{rows}
"""


def devices(part) -> str:
    rows = "\n".join(f"| {name} | {one['seconds']:.1f} |" for name, one in part["cases"].items())
    return f"""## Processes and devices that disappear

Two processes of one solve, one of which is killed or stopped in the middle; the other must say so and end. Every run was
then resumed by one process, to the bits of a run that never had two.

| what was done to one | seconds until the other ended |
|---|---|
{rows}

> {_first(part["cases"])["sentence"]}
"""


def hostile(part) -> str:
    *most, last = part["attacks"]
    return f"""## Hostile names

Problems, axes, folders, configs and results called by {", ".join(most)} and {last} that want to be more than names:
{part["outputs"]} outputs, pages and tables, none with a character that steers a terminal, an element that is not ours, or a
cell that a spreadsheet would compute. {part["paths"]} run folders whose manifests or links lead out of them, or whose files
are pipes: refused, or written without following, and nothing outside changed. (Pages are also opened in a browser by the
tests.)
"""


def _first(rows: Mapping[str, Any]) -> Any:
    return next(iter(rows.values()))


def _of_kills(part) -> str:
    equal = f"{part['runs_equal']} of {part['runs']} runs equal"
    return f"{part['kills']} kills, {part['lost_iterations']} iterations lost, {equal}"


def _of_disks(part) -> str:
    full = sum(one["full"] for one in part["tmpfs"].values())
    return f"{full} full disks and {part['failing_calls']} failing calls, nothing lost"


def _of_iterations(part) -> str:
    return f"{part['iterations']:,} iterations, {sum(one['compiled_after'] for one in part['runs'].values())} compilations"


def _of_memory(part) -> str:
    ratios = [one["ratio"] for one in part["solves"].values()]
    held = sum(one["holds"] for one in part["solves"].values())
    said = f"taken over estimated {min(ratios):.2f} to {max(ratios):.2f}"
    return f"{said}; {held} of {len(ratios)} within {part['factor']:g}"


def _of_nonsense(part) -> str:
    return f"{part['cases']:,} cases, {part['other_errors']} other errors, {part['hangs']} hangs"


SECTIONS = {
    "kills": Section("kills", _of_kills, kills),
    "disk_full": Section("full disks", _of_disks, disk_full),
    "writers": Section("several writers", lambda part: f"{part['wrote'] + part['refused']} writers, one at a time", writers),
    "damage": Section("damaged files", lambda part: f"{part['damaged']:,} damages, {part['silent']} not noticed", damage),
    "fuzzing": Section("nonsense to read", _of_nonsense, fuzzing),
    "outcomes": Section("nonsense as a result", _of_nonsense, outcomes),
    "endurance": Section("many iterations", _of_iterations, endurance),
    "memory": Section("memory", _of_memory, memory),
    "devices": Section(
        "lost processes",
        lambda part: f"the slowest end took {max(one['seconds'] for one in part['cases'].values()):.0f} s",
        devices,
    ),
    "hostile": Section(
        "hostile names", lambda part: f"{part['outputs']} outputs and {part['paths']} folders, all inert", hostile
    ),
}
