"""What was measured, as tables in the terminal."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.suite import cells

CONSOLE = Console(width=150)


def part(found: dict) -> None:
    if found["comparisons"]:
        rows = [cells.comparison(row) for row in found["comparisons"]]
        table("against peers: median [quartiles] of theirs / ours", cells.HEAD, rows)
    for one in found["tables"]:
        table(one["title"], one["head"], [[cells.cell(value) for value in row] for row in one["rows"]], one["note"])
    for claim in found["claims"]:
        CONSOLE.print(f"{'holds' if claim['holds'] else 'DOES NOT HOLD'}: {claim['text']}", markup=False)
    for note in found["notes"]:
        CONSOLE.print(note, markup=False)


def table(title: str, head: list[str], rows: list[list[str]], note: str = "") -> None:
    shown = Table(title=escape(title), caption=escape(note))
    for index, name in enumerate(head):
        shown.add_column(escape(name), justify="left" if index == 0 else "right")
    for row in rows:
        shown.add_row(*map(escape, row))
    CONSOLE.print(shown)
