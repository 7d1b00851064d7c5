"""What a page can show of a run: functions of the state, as tensor trains or as tables, and how their numbers are stored.

A train keeps its cores, a table one number per grid state: float32 where the page stays small, otherwise 16 bits between
the least and the largest value of the layer, which errs by 1e-5 of that range. Policies keep the number of the action and a
list of what the actions are.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int, UInt16

from hamq.problem.grid import Grid
from hamq.types import HamqError

MAX_FLOATS = 400_000
"""Numbers in tables of one page that are stored as float32, 4/3 · 4 bytes each; more are stored as 16 bits."""
CODES = 2**16 - 1
"""Values that 16 bits tell apart; one more code means that there is no number."""
NO_NUMBER = CODES


@dataclass(frozen=True, eq=False)
class Layer:
    """A tensor train to show: cores[k] is [r_k, points, r_{k+1}] for the grid's axis order[k], r_0 = r_d = 1.

    Layers of one name are the same thing of different runs; `run` is the number of theirs. `about` says
    what it is, `note` what is special about this one.
    """

    name: str
    cores: tuple[np.ndarray, ...]
    order: tuple[int, ...]
    unit: str = ""
    is_diverging: bool = False
    note: str = ""
    about: str = ""
    run: int = 0

    def __post_init__(self):
        if any(core.ndim != 3 for core in self.cores):
            shapes = [core.shape for core in self.cores]
            raise HamqError(f"Layer {self.name!r}: cores must be [left rank, points, right rank], got shapes {shapes}.")
        left, right = [core.shape[0] for core in self.cores], [core.shape[2] for core in self.cores]
        if [*left, 1] != [1, *right]:
            raise HamqError(f"Layer {self.name!r}: ranks {left} on the left and {right} on the right do not fit together.")
        if sorted(self.order) != list(range(len(self.cores))):
            raise HamqError(
                f"Layer {self.name!r}: order must name each of the {len(self.cores)} axes once, got {self.order}."
            )

    @property
    def points(self) -> tuple[int, ...]:
        """Of the grid's axes, in the grid's order."""
        by_axis = sorted(zip(self.order, self.cores, strict=True), key=lambda pair: pair[0])
        return tuple(core.shape[1] for _, core in by_axis)


@dataclass(frozen=True, eq=False)
class TableLayer:
    """One number per state of a grid of `points`, last axis fastest.

    With `levels` the numbers are positions in that list: a policy, which is shown in cells and never interpolated.
    `floor`: the least value there can be, where the colours then begin.
    """

    name: str
    values: Float[np.ndarray, " S"] | Int[np.ndarray, " S"]
    points: tuple[int, ...]
    unit: str = ""
    is_diverging: bool = False
    note: str = ""
    about: str = ""
    run: int = 0
    levels: Sequence[float] | None = None
    floor: float | None = None

    def __post_init__(self):
        if self.values.shape != (int(np.prod(self.points)),):
            raise HamqError(
                f"Layer {self.name!r}: {self.points} points need one value per state, got shape {self.values.shape}."
            )
        if self.levels is None:
            return
        is_whole = np.issubdtype(self.values.dtype, np.integer)
        if not is_whole or self.values.min() < 0 or self.values.max() >= len(self.levels):
            raise HamqError(f"Layer {self.name!r}: values must be positions in its {len(self.levels)} levels.")


AnyLayer = Layer | TableLayer


def require_fitting(layers: Sequence[AnyLayer], grid: Grid, num_runs: int) -> None:
    """Every layer has as many axes as the grid; those of the first run have its points too."""
    if not layers:
        raise HamqError("make_page: at least one layer is needed, got none.")
    for layer in layers:
        if not 0 <= layer.run < num_runs:
            raise HamqError(f"make_page: layer {layer.name!r} is of run {layer.run}, and there are {num_runs}, from 0.")
        points, expected = list(layer.points), list(grid.points)
        if len(points) != len(expected) or (layer.run == 0 and points != expected):
            raise HamqError(f"make_page: layer {layer.name!r} has {points} points, the grid {expected}.")


def encoded(layers: Sequence[AnyLayer]) -> list[dict[str, Any]]:
    """What fields.js reads."""
    num_numbers = sum(layer.values.size for layer in layers if isinstance(layer, TableLayer) and layer.levels is None)
    is_small = num_numbers <= MAX_FLOATS
    return [_train(layer) if isinstance(layer, Layer) else _table(layer, is_small) for layer in layers]


def _head(kind: str, layer: AnyLayer) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": layer.name,
        "note": layer.note,
        "about": layer.about,
        "unit": layer.unit,
        "isDiverging": layer.is_diverging,
        "run": layer.run,
        "points": [int(n) for n in layer.points],
    }


def _train(layer: Layer) -> dict[str, Any]:
    """All cores one after the other, float32."""
    entries = _floats(layer, np.concatenate([np.ravel(core) for core in layer.cores]), "cores that are not finite")
    order, shapes = [int(axis) for axis in layer.order], [core.shape for core in layer.cores]
    return _head("train", layer) | {"order": order, "shapes": shapes, "cores": text_of(entries)}


def _table(layer: TableLayer, is_small: bool) -> dict[str, Any]:
    head = _head("table", layer) | {"floor": layer.floor}
    if layer.levels is not None:
        digits = "u1" if len(layer.levels) <= 2**8 else "u2" if len(layer.levels) <= 2**16 else "f4"
        levels = [float(level) for level in layer.levels]
        return head | {"digits": digits, "levels": levels, "values": text_of(layer.values.astype(f"<{digits}"))}
    if np.isinf(layer.values).any():
        raise HamqError(f"make_page: layer {layer.name!r} has infinite values.")
    if is_small:
        return head | {"digits": "f4", "values": text_of(_floats(layer, layer.values, "values that are not finite"))}
    codes, low, step = quantised(layer.values)
    return head | {"digits": "u2", "offset": low, "scale": step, "values": text_of(codes)}


def quantised(values: Float[np.ndarray, " S"]) -> tuple[UInt16[np.ndarray, " S"], float, float]:
    """16-bit codes with their offset and scale: value = offset + scale · code; NaN has the code NO_NUMBER."""
    is_number = ~np.isnan(values)
    low = float(np.min(values, where=is_number, initial=np.inf)) if is_number.any() else 0.0
    high = float(np.max(values, where=is_number, initial=-np.inf)) if is_number.any() else 0.0
    step = (high - low) / (CODES - 1) or 1.0
    codes = np.where(is_number, np.rint((np.where(is_number, values, low) - low) / step), NO_NUMBER)
    return codes.astype("<u2"), low, step


def text_of(numbers: np.ndarray) -> str:
    """Base64; the numbers must be little endian."""
    return base64.b64encode(numbers.tobytes()).decode("ascii")


def _floats(layer: AnyLayer, entries: np.ndarray, what: str) -> np.ndarray:
    with np.errstate(over="ignore"):  # said below, with the layer's name
        small = entries.astype("<f4")
    lost = ~np.isfinite(small) if isinstance(layer, Layer) else np.isinf(small)
    if lost.any():
        raise HamqError(f"make_page: layer {layer.name!r} has {what} in float32; balance their scales.")
    return small
