"""docs/benchmarks.md, made of the records alone: the same records always give the same page."""

import json

from benchmarks.suite import cells
from benchmarks.suite.check import LEAST
from benchmarks.suite.reasons import is_slower, reason
from benchmarks.suite.record import ROOT, comparisons

START = ROOT / "benchmarks" / "records" / "start.json"
SCALING, PEERS = "images/bench_scaling.png", "images/bench_peers.png"
TITLES = {
    "sampling": "Sampling",
    "exact": "Exact answers",
    "completion": "Completion",
    "solving": "Solving, end to end",
    "devices": "Several devices",
    "scaling": "How cost grows",
}
ABOUT = {
    "sampling": """\
The paper's settings (sigmoid walls, 100 leapfrog steps of 0.02, 100 draws), 1,920 chains at once (`make bench-full`: those
of all states), on the same Gaussian target in a box. *Autodiff* is our sampler on the same density given as a function.
*One draw of HMC* is with our own independent draws, as many of each: it compares time, not accuracy
([what a draw is worth](sampling.md)).""",
    "exact": """\
Q* to 1e-6, one BLAS thread, everything but the set-up of tables or rows; of the peers' methods the one with the fewest CPU
seconds (at 6,400 × 10 `make bench` tries only the one that wins at 625 × 10, `make bench-full` all three). mdpsolver takes
nested Python lists, which need 13 GB at 6,400 × 10: it is measured at 625 × 10.""",
    "completion": """\
Noisy Q tables, a fifth of the entries observed. CVXPY minimises the nuclear norm, the soft-impute codes the penalised
objective; *classical* is soft-impute as published, in ten lines of NumPy.""",
    "solving": """\
Whole runs of 200 iterations from the first draw to the last table: the defaults of `solve`, full sweeps, and the paper's
algorithm to the letter. Errors are distances to Q*.""",
    "devices": """\
One CPU that is made to look like two devices: what dividing the states costs, and whether it changes a bit.""",
    "scaling": """\
A Gaussian problem, d = 2, 27 points per axis, 10 actions and 100 draws where they do not vary. *Draws*: HMC for all pairs;
*iteration*: one full sweep on draws that are kept; both without compilation, best of several.""",
}
HEADS: dict[str, str] = {"worst loss": "loss, worst seed"}
"""Columns whose name in the record says too little."""
OURS = ("hamq", "the paper's algorithm")
"""How peers begin that are code of ours."""
INTRODUCTION = f"""\
# Benchmarks

`make bench` (minutes) or `make bench-full` (half an hour) measures hamq against its peers and writes this page, its two
pictures and `benchmarks/records/suite.json`; nothing in its tables is typed. `python -m benchmarks.run --only exact`
measures one part again, and `--check` fails where a ratio fell below {LEAST:g} of the last record's.

**How to read it.** A ratio is the peer's time over ours: **above 1 hamq is faster**. The codes take turns, on the same
problem with the same settings and accuracy; given is the median of the turns with its quartiles. *First* is the first
call, which compiles or fills caches; *run* is the median of the later ones in wall seconds, *CPU* the same in CPU seconds
of all threads. Ratios of other machines will be similar, seconds will not. In bold is the ratio that the check and the
picture take: wall seconds where all cores may help, CPU seconds where both sides have one thread.

![Ratio of the peers' time to ours]({PEERS})
"""


def page(record: dict, gpu: dict | None) -> str:
    parts = record["parts"]
    text = [INTRODUCTION, slower_section(record), claims_section(record)]
    text += [part_section(name, parts[name]) for name in TITLES if name in parts]
    start = json.loads(START.read_text(encoding="utf-8")) if START.exists() else None
    text += [start_section(start), gpu_section(gpu), versions_section(record)]
    return "\n".join(text)


def slower_section(record: dict) -> str:
    slower = [row for row in comparisons(record) if is_slower(row)]
    lines = ["## Where a peer is faster\n"]
    if not slower:
        lines.append("In none of the comparisons below.")
    for why in dict.fromkeys(reason(row) for row in slower):
        found = [f"**{title(row)}** {both(row)}" for row in slower if reason(row) == why]
        lines.append(f"- {'; '.join(found)}. Why: {why or 'nobody has found out yet'}.")
    return "\n".join([*lines, *first_calls(comparisons(record))]) + "\n"


def title(row: dict) -> str:
    return f"{row['name']}, {row['peer']}"


def both(row: dict) -> str:
    return f"{cells.ratio(row['wall'])} in wall seconds, {cells.ratio(row['cpu'])} in CPU seconds"


def first_calls(rows: list[dict]) -> list[str]:
    """How many first calls of ours take longer than the peer's, and the worst of them; nothing where none does."""
    longer = sorted((row for row in rows if first_factor(row) > 1), key=first_factor)
    if not longer:
        return []
    of_others = [row for row in longer if not row["peer"].startswith(OURS)]
    of_ours = [row for row in longer if row["peer"].startswith(OURS)]
    worst = [f"against code of others {first_seconds(row)}" for row in of_others[-1:]]
    worst += [f"against our own {first_seconds(row)}" for row in of_ours[-1:]]
    return [
        f"\nOur first call, which compiles, takes longer than the peer's in {len(longer)} of {len(rows)} comparisons; at "
        f"worst, {', and '.join(worst)}. Why: our programs hold mode search, calibration and diagnosis besides the chain; "
        "they are cached between runs of the command line. (On two devices the first call comes before that on one, which "
        "then finds much of it compiled.)"
    ]


def first_factor(row: dict) -> float:
    """Our first call over the peer's."""
    return row["ours"]["first_s"] / row["theirs"]["first_s"]


def first_seconds(row: dict) -> str:
    ours, theirs = (cells.number(row[side]["first_s"]) for side in ("ours", "theirs"))
    return f"{cells.number(first_factor(row))} times as long ({title(row)}: {ours} against {theirs} s)"


def claims_section(record: dict) -> str:
    found = [claim for part in record["parts"].values() for claim in part["claims"]]
    if not found:
        return ""
    lines = [f"- {'Holds' if claim['holds'] else '**Does not hold**'}: {claim['text']}." for claim in found]
    return "\n".join(["## What was to hold\n", *lines]) + "\n"


def part_section(name: str, part: dict) -> str:
    quick = "`make bench-full`" if part["is_full"] else "`make bench`"
    lines = [f"## {TITLES[name]}\n", f"{ABOUT[name]}\n", f"*{part['date']}, {quick}, {part['seconds']:.0f} s.*\n"]
    if part["comparisons"]:
        lines += [markdown(cells.HEAD, [bold(row) for row in part["comparisons"]]), ""]
    for one in part["tables"]:
        head = [HEADS.get(name, name) for name in list[str](one["head"])]
        rows = [[cells.cell(value) for value in row] for row in one["rows"]]
        lines += [
            f"**{one['title']}.** {one['note'][:1].upper()}{one['note'][1:]}".rstrip() + "\n",
            markdown(head, rows),
            "",
        ]
    if "studies" in part:
        lines += [f"![CPU seconds against four sizes, with fitted exponents]({SCALING})\n"]
    lines += [f"{note}\n" for note in part["notes"]]
    return "\n".join(lines)


def bold(row: dict) -> list[str]:
    found = cells.comparison(row)
    at = 4 if row["measure"] == "wall" else 5
    median, _, rest = found[at].partition(" ")
    return [*found[:at], f"**{median}** {rest}", *found[at + 1 :]]


def markdown(head: list[str], rows: list[list[str]]) -> str:
    rule = ["---", "---", *["---:"] * (len(head) - 2)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *rows])


START_COLUMNS = {
    "title": "case",
    "first_s": "seconds",
    "programs": "programs",
    "tracing_s": "tracing",
    "lowering_s": "lowering",
    "xla_s": "XLA",
    "second_s": "second call",
}
START_ABOUT = """\
`python benchmarks/start.py --record` measures the first answer of a new process, with nothing compiled before. *Seconds* run
from building the problem to the solution. Imports are not in them. They take {imports} s. *Programs* is how many XLA
compiles. *Tracing*, *lowering* and *XLA* are the seconds in which JAX does these things, and they may overlap. The
*second call* has the same problem."""


def start_section(start: dict | None) -> str:
    lines = ["## First answers\n"]
    if start is None:
        return "\n".join([*lines, "There is no record of first answers (`benchmarks/records` has no start.json).\n"])
    where, cases = start["machine"], start["cases"]
    ours = [row for name, row in cases.items() if "programs" in row and name != "blackjax"]
    imports = " to ".join(f"{end(row['import_s'] for row in ours):.1f}" for end in (min, max))
    packages = ", ".join(f"{name} {number}" for name, number in start["versions"].items())
    lines += [START_ABOUT.format(imports=imports) + "\n"]
    lines += [f"*{start['date']}, {where['cpu']}, {where['cores']} cores, JAX on {where['device']}; {packages}.*\n"]
    lines += [markdown(list(START_COLUMNS.values()), [[cells.cell(row[key]) for key in START_COLUMNS] for row in ours]), ""]
    chains, one, two, shell, loop = (cases[name] for name in ("blackjax", "numpy1", "numpy2", "shell", "loop"))
    return "\n".join(
        [
            *lines,
            f"BlackJAX has its first draws after {cells.number(chains['first_s'])} s: 81 chains of 100 steps of HMC on a "
            "Gaussian that is given as a function.\n",
            f"Plain NumPy, with sums over a fine grid and value iteration, takes {cells.number(one['first_s'])} s for the "
            f"own density in one dimension and {cells.number(two['first_s'])} s in two.\n",
            f"A process that solves 30 own problems holds {cells.cell(loop['settled_mb'])} MB after the third and "
            f"{cells.cell(loop['last_mb'])} MB after the last.\n",
            f"From the shell `hamq solve pendulum` takes {cells.number(shell['first_s'])} s with nothing compiled, and "
            f"{cells.number(shell['second_s'])} s after that.\n",
        ]
    )


def gpu_section(gpu: dict | None) -> str:
    lines = ["## On a GPU\n"]
    if gpu is None:
        return "\n".join([*lines, "There is no record of a GPU (`benchmarks/records` has no gpu.json).\n"])
    about = [gpu["device"], *([gpu["date"]] if "date" in gpu else []), *(f"{k} {v}" for k, v in gpu["versions"].items())]
    rows = [[row["name"], cells.number(row["value"]), row["unit"], row["note"]] for row in gpu["rows"]]
    lines += [f"*Measured apart, on another machine: {', '.join(about)}.*\n"]
    return "\n".join([*lines, markdown(["what", "value", "unit", "note"], rows), ""])


def versions_section(record: dict) -> str:
    lines = ["## Versions and machines\n"]
    for name, part in record["parts"].items():
        where, packages = part["machine"], ", ".join(f"{k} {v}" for k, v in part["versions"].items())
        lines.append(f"- {TITLES[name]}: {where['cpu']}, {where['cores']} cores, JAX on {where['device']}; {packages}")
    return "\n".join(lines) + "\n"
