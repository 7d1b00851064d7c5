"""How tables look on the console."""

import sys
from collections.abc import Collection, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hamq.cli.messages import inert

PLAIN_WIDTH = 110
"""Where nobody says how wide a line may be."""


class InertConsole(Console):
    """A console on which texts stay texts, whoever wrote them."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(inert(text), **options)


def make_console() -> Console:
    return InertConsole(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False, markup=False, emoji=False)


def make_table(columns: Sequence[str], texts: Collection[str], title: str | None = None) -> Table:
    """An empty table: columns of texts on the left, of numbers on the right, `_` as a space."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column.replace("_", " "), justify="left" if column in texts else "right")
    return table
