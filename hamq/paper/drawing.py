"""What the pictures of the paper are made of: statistics over seeds, lines with bands, ladders, maps and words.

A series is the interquartile mean over the seeds with its bootstrap interval, or a sentence that says why there is none;
panels write that sentence, so that none is empty without a word. Nothing else is computed from the records.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hamq.control.statistics import bootstrap_interval, difference_interval, interquartile_mean
from hamq.errors import MissingExtraError
from hamq.paper.evidence import Estimate, estimate
from hamq.paper.records import Group, Record

try:
    import matplotlib
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter, MaxNLocator
except ImportError as error:
    raise MissingExtraError("hamq.paper needs matplotlib: pip install 'hamq[plot]'.") from error

Records = dict[Group, list[Record]]
Measure = Callable[[Record], np.ndarray]

FONT = 8
WIDTH = 7.2
"""Inches of a page in print, so that the font is as large there as here."""
NUM_RESAMPLES = 500

LOW_LADDER = ("hmc", "hmc-1M", "hmc-400k")
HIGH_LADDER = ("hmc", "hmc-14M", "hmc-7M")
"""The methods of `ours` that differ in their budget of gradients only, the largest first."""
LADDER_WORDS = (
    "With a table ours spends all before its first iteration: its points are runs with different budgets, each where it "
    "ended, not moments of one run."
)


class Picture(NamedTuple):
    """`name` is that of its file."""

    name: str
    figure: Figure
    caption: str


class Look(NamedTuple):
    label: str
    colour: str
    line: Any
    marker: str


# Okabe and Ito's colours; lines and markers differ too, for print without colour.
METHOD_LOOKS = {
    "exhaustive": Look("exhaustive", "#000000", "-", "s"),
    "hmc": Look("HMC", "#0072B2", "--", "o"),
    "iid": Look("IID", "#D55E00", "-.", "^"),
    "one": Look("one draw", "#009E73", ":", "D"),
}
VARIANT_LOOKS = {
    "literal": Look("literal (as printed)", "#D55E00", "-.", "^"),
    "corrected": Look("corrected (one law, rows kept)", "#E69F00", "--", "s"),
    "ours": Look("ours (library defaults)", "#0072B2", "-", "o"),
}
LEVEL: dict[str, Any] = {"color": "0.4", "linestyle": (0, (6, 3)), "linewidth": 0.9}
"""The look of what is for scale."""
TASK_WORDS = {
    "pendulum": "inverted pendulum",
    "double_integrator": "double integrator",
    "cartpole": "cartpole",
    "acrobot": "acrobot",
    "cart_double_pendulum": "cart double pendulum",
}


class Series(NamedTuple):
    """What one line shows.

    `is_ladder`: every point is a set of runs of its own, and `lacks` says which should be there and are not.
    """

    x: np.ndarray
    middle: np.ndarray
    low: np.ndarray
    high: np.ndarray
    is_ladder: bool = False
    lacks: str = ""

    def settled_at(self, level: float) -> float | None:
        """The x from which on the line stays at or below the level; a dip on the way does not count."""
        above = np.flatnonzero(self.middle > level)
        first = int(above[-1]) + 1 if above.size else 0
        return float(self.x[first]) if first < len(self.x) else None


def finite(runs: Sequence[Record]) -> list[Record]:
    """Runs that ended with numbers."""
    return [run for run in runs if run.is_finite]


def absence(runs: Sequence[Record]) -> str:
    """Why nothing can be drawn of these runs, or nothing."""
    return "not run" if not runs else "" if finite(runs) else "diverged"


def summary(runs: Sequence[Record], of: Callable[[Record], float]) -> Estimate | None:
    values = [of(run) for run in finite(runs)]
    return estimate(values) if values else None


def final(name: str) -> Callable[[Record], float]:
    return lambda run: float(run.final[name])  # type: ignore[arg-type]  (of runs that ended with numbers)


def spent(name: str) -> Callable[[Record], float]:
    return lambda run: float(run.cost[name])


def column(name: str) -> Measure:
    return lambda run: np.array(run.curve[name], float)


def normalised(power: int) -> Measure:
    """(‖Q − Q*‖_F/max over the curve)^power."""
    return lambda run: (column("frobenius")(run) / np.nanmax(column("frobenius")(run))) ** power


def normalised_final(power: int) -> Callable[[Record], float]:
    """The same of the last table, which need not be one of the moments of the curve."""
    return lambda run: float((run.final["frobenius"] / np.nanmax(column("frobenius")(run))) ** power)


def over(runs: Sequence[Record], x: str, measure: Measure, is_log: bool = False) -> Series | str:
    """A measure against a column of the curve, at the moments that all seeds have, where all are finite (x > 0 if log)."""
    if why := absence(runs):
        return why
    runs = finite(runs)
    clock = "iteration" if "iteration" in runs[0].curve else "step"
    shared = set.intersection(*(set(run.curve[clock]) for run in runs))
    rows = [np.isin(column(clock)(run), list(shared)) for run in runs]
    xs = np.stack([column(x)(run)[kept] for run, kept in zip(runs, rows, strict=True)])
    ys = np.stack([measure(run)[kept] for run, kept in zip(runs, rows, strict=True)])
    seen = np.isfinite(xs).all(axis=0) & np.isfinite(ys).all(axis=0)
    if is_log:
        seen &= (xs > 0).all(axis=0)
    if not seen.any():
        return "nothing recorded"
    return _series(interquartile_mean(xs[:, seen]), ys[:, seen])


def ladder(records: Records, groups: Sequence[Group], x: str, of: Callable[[Record], float]) -> Series | str:
    """What groups ended with against what they cost, one point per group."""
    found = [group for group in groups if finite(records.get(group, []))]
    if not found:
        return absence(records.get(groups[0], []))
    points = [[summary(records[group], what) for what in (spent(x), of)] for group in found]
    order = np.argsort([cost.value for cost, _ in points if cost])
    ends = [(y.value, y.lowest, y.highest) for _, y in points if y]
    middle, low, high = np.array(ends)[order].T
    lacks = "\n".join(f"{group.method} {absence(records.get(group, []))}" for group in groups if group not in found)
    return Series(np.array([cost.value for cost, _ in points if cost])[order], middle, low, high, True, lacks)


def against(records: Records, groups: Sequence[Group], x: str, power: int) -> Series | str:
    """Normalised error to a power against cost: the curve of the first group, or where it spends all before its first
    iteration, so that its curve has one x only, the ladder of all groups."""
    series = over(records.get(groups[0], []), x, normalised(power), is_log=True)
    if isinstance(series, Series) and series.x[-1] > series.x[0] * (1 + 1e-9):  # rounding is no progress
        return series
    return ladder(records, groups, x, normalised_final(power))


def canvas(rows: int, columns: int, height: float, note: str, **sharing: Any) -> tuple[Figure, np.ndarray]:
    """A figure of the width of a page with `[rows, columns]` panels; the note stands at the bottom right."""
    with matplotlib.rc_context({"font.size": FONT, "axes.titlesize": FONT, "axes.labelsize": FONT}):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False, **sharing)
    for panel in panels.flat:
        panel.tick_params(labelsize=FONT)
    if note:
        room = 0.2 / height
        figure.get_layout_engine().set(rect=(0, room, 1, 1 - room))  # type: ignore[union-attr]
        figure.text(0.995, 0.02 / height, note, ha="right", va="bottom", fontsize=FONT, style="italic")
    return figure, panels


def legend(figure: Figure, looks: Iterable[Look], extra: Sequence[Line2D] = (), panel: Axes | None = None) -> None:
    """A legend above all panels, or in one of them."""
    lines = [Line2D([], [], color=c, linestyle=line, marker=m, markersize=4, label=label) for label, c, line, m in looks]
    handles = [*lines, *extra]
    style: dict[str, Any] = {"fontsize": FONT, "frameon": False, "columnspacing": 1.0, "handlelength": 2.2}
    if panel is not None:
        panel.legend(handles=handles, **style)
    else:
        figure.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 4), **style)


def entitle(panel: Axes, words: str) -> None:
    """A title, above what `draw` had to say."""
    panel.set_title("\n".join(part for part in (words, panel.get_title()) if part), fontsize=FONT)


def draw(panel: Axes, entries: Iterable[tuple[Look, Series | str]]) -> None:
    """Lines with their bands, ladders with their bars, and words for what is not there."""
    words, num = [], 0
    for i, (look, series) in enumerate(entries):
        if isinstance(series, str):
            words.append(f"{_short(look)} {series}")
            continue
        num += 1
        if series.is_ladder:
            bars = [np.maximum(series.middle - series.low, 0), np.maximum(series.high - series.middle, 0)]
            style: dict[str, Any] = {"linestyle": look.line, "marker": look.marker, "markersize": 4, "capsize": 2}
            panel.errorbar(series.x, series.middle, bars, color=look.colour, linewidth=1, **style)
        else:
            panel.fill_between(series.x, series.low, series.high, color=look.colour, alpha=0.25, linewidth=0)
            # Few markers, and apart on lines that coincide.
            style = {"marker": look.marker, "markersize": 3, "markevery": (0.07 * i, 0.25) if len(series.x) > 2 else None}
            panel.plot(series.x, series.middle, color=look.colour, linestyle=look.line, linewidth=1.2, **style)
        if series.lacks:
            words.append(series.lacks)
    if num == 0:
        say(panel, "not run" if all(word.endswith("not run") for word in words) else "\n".join(words))
    else:
        entitle(panel, "\n".join(words))  # above, where it hides no line


def say(panel: Axes, words: str) -> None:
    """Words in the middle of a panel that has nothing else to show."""
    panel.text(0.5, 0.5, words, transform=panel.transAxes, ha="center", va="center", fontsize=FONT, color="0.3")
    # Numbers on axes that nothing else uses would mean nothing.
    if len(panel.get_shared_x_axes().get_siblings(panel)) == 1:
        panel.tick_params(axis="x", which="both", bottom=False, labelbottom=False)
    if len(panel.get_shared_y_axes().get_siblings(panel)) == 1:
        panel.tick_params(axis="y", which="both", left=False, labelleft=False)


def constants(panel: Axes, records: Records, groups: Iterable[Group]) -> None:
    """Dashed lines at the loss of the best constant action, grey if it is one, else in the colours of the variants."""
    found: dict[float, str] = {}
    for group in groups:
        for run in finite(records.get(group, [])):
            found.setdefault(float(f"{run.final['constant_action_loss']:.3g}"), VARIANT_LOOKS[group.variant].colour)
    for value, colour in found.items():
        line = panel.axhline(value, **LEVEL)
        if len(found) > 1:
            line.set_color(colour)


def rescale(panel: Axes, x: str, y: str = "log") -> None:
    """Axes that are "log" or "linear", after drawing; a logarithmic one spans enough for two labels."""
    if x == "log":
        panel.set_xscale("log")
        panel.set_xlim(*_widened(*panel.get_xlim(), factor=100.0))
        panel.xaxis.set_minor_formatter(FuncFormatter(lambda value, position: ""))
    else:
        panel.xaxis.set_major_locator(MaxNLocator(4))
    if y != "log":
        return
    heights = np.concatenate([np.asarray(line.get_ydata(), float) for line in panel.lines] or [np.ones(1)])
    if (heights <= 0).any():  # a loss of exactly 0 has no logarithm, and must be seen
        smallest = heights[heights > 0].min(initial=1.0)
        panel.set_yscale("symlog", linthresh=10 ** np.floor(np.log10(smallest)))
        return
    panel.set_yscale("log")
    low, high = _widened(*panel.get_ylim(), factor=4.0)
    panel.set_ylim(low, high)
    is_narrow = high < 100 * low
    panel.yaxis.set_minor_formatter(FuncFormatter(lambda value, position: _short_number(value) if is_narrow else ""))
    if is_narrow:
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:g}"))


def verdict(a: Sequence[Record], b: Sequence[Record], of: Callable[[Record], float], names: tuple[str, str]) -> str:
    """Which of two is lower, by the interval of the ratio of their interquartile means; paired if the seeds are the same."""
    seeds = [[run.seed for run in finite(runs)] for runs in (a, b)]
    values = [[of(run) for run in finite(runs)] for runs in (a, b)]
    if min(map(len, values)) < 2 or min(map(min, values)) <= 0:
        return "undecided"
    ratio = np.exp(difference_interval(values[0], values[1], scale="log_ratio", paired=seeds[0] == seeds[1]))
    word = f"{names[0]} lower" if ratio[1] < 1 else f"{names[1]} lower" if ratio[0] > 1 else "no difference seen"
    return f"{word}, ratio in [{ratio[0]:.4g}, {ratio[1]:.4g}]"


def references(records: Records, groups: Iterable[Group]) -> str:
    """Which Q* the variants are measured by, where it is not the same for all."""
    laws: dict[str, str] = {}
    for group in groups:
        for run in records.get(group, []):
            laws[group.variant] = str(run.settings.get("law_of_reference", ""))
    if len(set(laws.values())) < 2:
        return ""
    names = listed(f"{name}: {law}" for name, law in laws.items())
    return f"Each variant is measured by Q* and the best constant action of its own law ({names})."


def seeds(records: Records, groups: Iterable[Group]) -> str:
    """What brackets and bands are, and of how many seeds."""
    counts = sorted({len(records[group]) for group in groups if records.get(group)})
    if not counts:
        return ""
    if counts[-1] == 1:
        return "One seed, so no interval."
    num = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"Interquartile mean [95 % bootstrap interval] of {num} seeds."


def gaps(records: Records, groups: Iterable[Group]) -> str:
    """What was not run or is left out, as sentences; nothing if there is no such thing."""
    groups = list(dict.fromkeys(groups))
    absent: dict[str, list[str]] = {}
    left_out = []
    for group in groups:
        runs, name, task = records.get(group, []), f"{group.variant} {group.method}", TASK_WORDS.get(group.task, group.task)
        if not runs:
            absent.setdefault(name, []).append(task)
        elif num := len(runs) - len(finite(runs)):
            left_out.append(f"{num} of {len(runs)} runs of {name} on {task}")
    if sum(map(len, absent.values())) == len(groups):
        return "Nothing was run."
    names = [f"{name} on {', '.join(tasks)}" for name, tasks in absent.items()]
    sentences = [
        f"Not run: {listed(names)}." if names else "",
        f"Left out, not finite: {listed(left_out)}." if left_out else "",
    ]
    return caption(*sentences)


def caption(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


def listed(parts: Iterable[str]) -> str:
    return "; ".join(part for part in parts if part)


def groups_of(tasks: Iterable[str], variants: Iterable[str], methods: Sequence[str]) -> tuple[Group, ...]:
    return tuple(Group(task, variant, method) for task in tasks for variant in variants for method in methods)


def _series(x: np.ndarray, values: np.ndarray) -> Series:
    """values: [seeds, points]."""
    middle = interquartile_mean(values)
    low, high = bootstrap_interval(values, num=NUM_RESAMPLES) if len(values) > 1 else (middle, middle)
    return Series(x, middle, low, high)


def _short(look: Look) -> str:
    return look.label.partition(" (")[0]


def _widened(low: float, high: float, factor: float) -> tuple[float, float]:
    """Limits around the same middle whose ratio is `factor` at least."""
    if high >= factor * low:
        return low, high
    middle = float(np.sqrt(low * high))
    return middle / factor**0.5, middle * factor**0.5


def _short_number(value: float) -> str:
    """0.2, 0.5, 2, 5, …; nothing for what would stand too near to them."""
    digit = round(value / 10 ** np.floor(np.log10(value)))
    return f"{value:g}" if digit in (2, 5) else ""
