"""Facts and tables as HTML; whatever is put in stays text."""

import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hamq.report.curves import number
from hamq.types import HamqError

Cell = str | float | int | np.number
MAX_COLUMNS = 4
"""A table with more takes the whole width of the page."""


@dataclass(frozen=True)
class Table:
    """Rows under a header; numbers are shortened and stand on the right of their columns."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    fills_width: bool = False

    def __post_init__(self):
        for i, row in enumerate(self.rows):
            if len(row) != len(self.header):
                raise HamqError(f"Table {self.title!r}: row {i} has {len(row)} cells and the header {len(self.header)}.")

    @property
    def is_wide(self) -> bool:
        return self.fills_width or len(self.header) > MAX_COLUMNS


@dataclass(frozen=True)
class FactsCard:
    """A card of its own; see `facts_card`."""

    title: str
    facts: Sequence[tuple[str, str]]
    lead: str = ""


def card(title: str, body: str) -> str:
    """A titled part of the page; nothing where there is nothing to say."""
    if not body:
        return ""
    return f'<section class="card">\n<h2>{html.escape(title)}</h2>\n{body}\n</section>'


def facts_card(title: str, facts: Sequence[tuple[str, str]], lead: str = "") -> str:
    """A text to lead in, and below it (label, text), one below the other."""
    lines = [f"<dt>{html.escape(label)}</dt><dd>{html.escape(text)}</dd>" for label, text in facts]
    listed = "<dl>\n" + "\n".join(lines) + "\n</dl>" if lines else ""
    return card(title, (f'<p class="lead">{html.escape(lead)}</p>\n' if lead else "") + listed)


def table_card(table: Table) -> str:
    numeric = [bool(table.rows) and not any(isinstance(row[i], str) for row in table.rows) for i in range(len(table.header))]
    head = "".join(f'<th scope="col"{_side(numeric[i])}>{html.escape(text)}</th>' for i, text in enumerate(table.header))
    rows = [
        "<tr>" + "".join(f"<td{_side(numeric[i])}>{_cell(cell)}</td>" for i, cell in enumerate(row)) + "</tr>"
        for row in table.rows
    ]
    grid = (
        f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(rows)
        + "\n</tbody></table></div>"
    )
    caption = f'\n<p class="caption">{html.escape(table.caption)}</p>' if table.caption else ""
    return card(table.title, grid + caption)


def _side(is_numeric: bool) -> str:
    return ' class="numeric"' if is_numeric else ""


def _cell(cell: Cell) -> str:
    return html.escape(cell) if isinstance(cell, str) else number(float(cell))
