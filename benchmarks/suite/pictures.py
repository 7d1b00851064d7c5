"""The two pictures of docs/benchmarks.md."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.suite.cells import number
from benchmarks.suite.page import TITLES
from benchmarks.suite.record import comparisons, ratio

BLUE, ORANGE = "#0072B2", "#D55E00"
COLOURS = {"sampling": BLUE, "exact": "#009E73", "completion": "#CC79A7", "solving": "#E69F00", "devices": "#555555"}


def draw_peers(record: dict, path: Path) -> None:
    """One bar per comparison from 1 to the median ratio, with its quartiles, on a log axis."""
    rows = comparisons(record)
    figure = Figure(figsize=(11, 1.2 + 0.27 * len(rows)), layout="constrained")
    panel = figure.subplots()
    places = np.arange(len(rows))[::-1]
    for place, row in zip(places, rows, strict=True):
        low, median, high = ratio(row)
        panel.barh(place, median - 1, left=1, height=0.7, color=COLOURS[row["part"]])
        panel.plot([low, high], [place, place], color="black", linewidth=1.5)
        panel.annotate(
            number(median),
            (max(high, 1), place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    panel.axvline(1, color="black", linewidth=1)
    panel.set_xscale("log")
    top = max([ratio(row)[2] for row in rows], default=1.0)
    panel.set_xlim(min([0.5, *(ratio(row)[0] / 1.2 for row in rows)]), 2 * max(top, 1))
    panel.set_yticks(places, [f"{row['name']} – {row['peer']}" for row in rows], fontsize=8)
    panel.set_ylim(-0.7, len(rows) - 0.3)
    panel.set_xlabel("time of the peer / time of hamq: right of 1 hamq is faster (black: quartiles)")
    panel.grid(axis="x", alpha=0.3)
    parts = dict.fromkeys(row["part"] for row in rows)
    handles = [panel.barh(-9, 0, color=COLOURS[part], label=TITLES[part]) for part in parts]
    panel.legend(handles=handles, loc="lower right", fontsize=8)
    figure.savefig(path, dpi=150)


def draw_scaling(studies: dict, path: Path) -> None:
    """CPU seconds against each size, with the fitted exponents."""
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    for panel, (name, study) in zip(figure.subplots(1, len(studies)), studies.items(), strict=True):
        for of, colour in (("draws", BLUE), ("iteration", ORANGE)):
            values = [cost[of] for cost in study["costs"]]
            panel.loglog(study["sizes"], values, "o-", color=colour, label=f"{of}: {study['exponents'][of]:.2f}")
        panel.set_xlabel(name)
        panel.set_xticks(study["sizes"], [str(size) for size in study["sizes"]])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
        low, high = panel.get_ylim()
        panel.set_ylim(low, high * (high / low) ** 0.45)  # room for the legend
        panel.legend(title="fitted exponent", fontsize=8, title_fontsize=8, loc="upper left")
    figure.axes[0].set_ylabel("CPU seconds")
    figure.savefig(path, dpi=150)
