"""What every command prints the same way: sentences on stderr, results, tables or one JSON object on stdout.

Names of problems and folders, and all that a run folder holds, may come from anybody: none of it steers the terminal.
"""

import dataclasses
import json
import math
import sys
import unicodedata
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import rich.console
    import rich.table

STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Kinds of characters that move the cursor, turn the direction of writing, or are none: controls, formats, surrogates."""
PLAIN_WIDTH = 110
"""Where nobody says how wide a line may be."""


@dataclasses.dataclass(frozen=True)
class PrintOptions:
    """What is printed."""

    json: bool = False
    """Print one JSON object on stdout."""


def say(sentence: str) -> None:
    """One line for people, on stderr: stdout is for results."""
    print(f"hamq: {inert(sentence)}", file=sys.stderr, flush=True)


def tell(sentence: str) -> None:
    """One line of a result, on stdout."""
    print(inert(sentence))


def inert(text: str) -> str:
    """The text with `\\u001b` instead of an escape, and so on; ends of lines stay."""
    if text.isprintable():
        return text
    return "".join(json.dumps(c)[1:-1] if c != "\n" and unicodedata.category(c) in STEERING else c for c in text)


def print_json(value: dict[str, Any]) -> None:
    print(inert(json.dumps(_strict(value), ensure_ascii=False)))


def _strict(value: Any) -> Any:
    """The value as standard JSON has it: no NaN, no infinities."""
    if isinstance(value, dict):
        return {name: _strict(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def make_console() -> "rich.console.Console":
    """A console on which texts stay texts, whoever wrote them."""
    from rich.console import Console
    from rich.text import Text

    class InertConsole(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(inert(text), **options)

    return InertConsole(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False, markup=False, emoji=False)


def make_table(columns: Sequence[str], texts: Collection[str], title: str | None = None) -> "rich.table.Table":
    """An empty table: columns of texts on the left, of numbers on the right, `_` as a space."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(column.replace("_", " "), justify="left" if column in texts else "right")
    return table
