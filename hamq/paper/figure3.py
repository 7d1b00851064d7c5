"""Figure 3: four tasks, which action in which state, for exhaustive sums, HMC and IID; where they differ and what it costs.

Figure 1 draws its slices with the functions of this file.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from hamq.paper.drawing import FONT, TASK_WORDS, Picture, Records, canvas, caption, entitle, gaps, groups_of, listed, say
from hamq.paper.records import Group, Map, Record
from hamq.paper.tasks import LOW
from hamq.paper.variants import VARIANTS
from hamq.problem.zoo.provenance import PRESETS

TITLE = "Figure 3: four tasks: policy heat maps of exhaustive sums, HMC and IID, and what their differences cost"
TASKS = tuple(task.name for task in LOW)
GROUPS: tuple[Group, ...] = (
    *groups_of(TASKS, ["literal", "corrected"], ["exhaustive", "hmc", "iid"]),
    *groups_of(TASKS, ["ours"], ["hmc", "iid"]),
)
OF_CORRECTED = ",\nof corrected"


def pictures(records: Records, note: str = "") -> list[Picture]:
    return [_policies(records, variant, note) for variant in VARIANTS]


def _policies(records: Records, variant: str, note: str) -> Picture:
    """A column per task: three maps, and what HMC and IID give up."""
    figure, panels = canvas(5, len(TASKS), 9.0, note, sharex="col", sharey="col")
    is_borrowed = variant == "ours"
    groups, sentences = [], []
    for task, column in zip(TASKS, panels.T, strict=True):
        chosen = [
            Group(task, "corrected" if is_borrowed else variant, "exhaustive"),
            *groups_of([task], [variant], ["hmc", "iid"]),
        ]
        groups += chosen
        exhaustive, hmc, iid = (find_map(records.get(group, []), "plane") for group in chosen)
        maps = {"exhaustive" + OF_CORRECTED * is_borrowed: exhaustive, "HMC": hmc, "IID": iid}
        _draw_column(figure, column, task, maps)
        entitle(column[0], TASK_WORDS[task])
        sentences.append(differences(f"{TASK_WORDS[task]}{held(maps.values())}", {"HMC": hmc, "IID": iid}, exhaustive))
    text = caption(
        f"Greedy actions of one seed, {variant}: exhaustive sums, HMC and IID. Below, what HMC and IID give up of max Q*, "
        "with crosses where they act differently from the exhaustive sum.",
        "The exhaustive maps are those of corrected." if is_borrowed else "",
        *sentences,
        gaps(records, groups),
    )
    return Picture(f"fig3-{variant}", figure, text)


def _draw_column(figure: Figure, column: np.ndarray, task: str, maps: dict[str, Map | str]) -> None:
    """Five panels of one task: the maps, the first of which is the reference, and what the other two give up."""
    reference, *others = maps.values()
    top = action_top(task)
    images = [draw_map(panel, part, "actions", top) for panel, part in zip(column[:3], maps.values(), strict=True)]
    for panel, label in zip(column[:3], maps, strict=True):
        entitle(panel, label)
    colour_bar(figure, images, [column[2]], "action")
    top = top_of(others, "given_up")
    images = [draw_map(panel, part, "given_up", top) for panel, part in zip(column[3:], others, strict=True)]
    for panel, part, label in zip(column[3:], others, list(maps)[1:], strict=True):
        mark(panel, part, reference)
        entitle(panel, cost_words(part, reference, label))
    colour_bar(figure, images, [column[4]], "value given up")
    across, up = axis_words(maps.values())
    for panel in column:
        panel.set_ylabel(up)
    for panel in column[[2, 4]]:
        panel.tick_params(labelbottom=True)
        panel.set_xlabel(across)


def find_map(runs: Sequence[Record], name: str) -> Map | str:
    """The map of the first run that has it."""
    found = [run.maps[name] for run in runs if name in run.maps]
    return found[0] if found else "no map recorded" if runs else "not run"


def draw_map(panel: Axes, part: Map | str, shown: str, top: float) -> AxesImage | None:
    """`shown`: "actions", in colours that diverge from 0, or "given_up", in greys."""
    if isinstance(part, str):
        say(panel, part)
        return None
    limits: dict[str, Any] = {"vmin": -top, "cmap": "PuOr"} if shown == "actions" else {"vmin": 0, "cmap": "Greys"}
    values = np.array(getattr(part, shown), float).T
    extent = (*_ends(part.x), *_ends(part.y))
    image = panel.imshow(values, origin="lower", aspect="auto", extent=extent, vmax=top, **limits)
    panel.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    panel.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    return image


def differing(part: Map, reference: Map) -> np.ndarray:
    """[x, y]: in which cells two policies act differently."""
    return ~np.isclose(np.array(part.actions), np.array(reference.actions))


def mark(panel: Axes, part: Map | str, reference: Map | str) -> None:
    """Crosses in the cells in which the two act differently."""
    if isinstance(part, str) or isinstance(reference, str):
        return
    i, j = np.nonzero(differing(part, reference))
    size = 100 / max(len(part.x), len(part.y)) ** 1.3
    panel.scatter(np.array(part.x)[i], np.array(part.y)[j], s=size, c="#D55E00", marker="x", linewidths=0.5 + size / 50)


def action_top(task: str) -> float:
    """The largest action of a task: one range of colours for all pictures."""
    return max(abs(end) for end in PRESETS[task]["paper"].action_range.value)


def top_of(parts: Iterable[Map | str], shown: str) -> float:
    """Largest size of what is shown, 1 if there is none."""
    found = [float(np.abs(getattr(part, shown)).max()) for part in parts if isinstance(part, Map)]
    return max(found, default=0.0) or 1.0


def colour_bar(figure: Figure, images: Iterable[AxesImage | None], panels: Any, label: str) -> None:
    """Below the panels, for images of the same limits; none if nothing was drawn."""
    for image in images:
        if image is not None:
            bar = figure.colorbar(image, ax=panels, location="bottom", aspect=15)
            bar.set_label(label, fontsize=FONT)
            bar.ax.tick_params(labelsize=FONT)
            low, high = image.get_clim()
            ticks = [low, (low + high) / 2, high]
            bar.set_ticks(ticks, labels=[f"{tick:.2g}".replace("-", "−") for tick in ticks])
            return


def axis_words(parts: Iterable[Map | str]) -> tuple[str, str]:
    return next((part.axes for part in parts if isinstance(part, Map)), ("first coordinate", "second coordinate"))


def held(parts: Iterable[Map | str]) -> str:
    """Where the other coordinates stand, in brackets; nothing where there are none."""
    return next((f" ({part.hold})" for part in parts if isinstance(part, Map) and part.hold), "")


def cost_words(part: Map | str, reference: Map | str, label: str) -> str:
    """The title of a panel of costs."""
    if isinstance(part, str):
        return label
    lost = f"gives up {np.mean(part.given_up):.2g}"
    if part is reference or isinstance(reference, str):
        return f"{label}\n{lost}"
    return f"{label}: {differing(part, reference).mean():.0%} differ,\n{lost}"


def differences(title: str, parts: dict[str, Map | str], reference: Map | str) -> str:
    """A sentence: in how many cells which policy acts differently, and what each gives up on average and at most."""
    found = []
    for label, part in parts.items():
        if isinstance(part, str):
            continue
        lost = f"gives up {np.mean(part.given_up):.2g} on average, {np.max(part.given_up):.2g} at most"
        if isinstance(reference, Map):
            apart = differing(part, reference)
            found.append(f"{label} differs in {apart.sum()} of {apart.size} cells and {lost}")
        else:
            found.append(f"{label} {lost}")
    if isinstance(reference, Map):
        found.append(f"the exhaustive sum gives up {np.mean(reference.given_up):.2g} on average")
    return f"{title[:1].upper()}{title[1:]}: {listed(found)}." if found else ""


def _ends(nodes: Sequence[float]) -> tuple[float, float]:
    """Cells are centred at their nodes, so the picture reaches half a cell beyond them."""
    half = (nodes[-1] - nodes[0]) / (2 * (len(nodes) - 1)) if len(nodes) > 1 else 0.5
    return nodes[0] - half, nodes[-1] + half
