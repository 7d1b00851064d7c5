"""Lines about how far the campaign is."""

from rich.console import Console

console = Console(highlight=False)


def say(sentence: str) -> None:
    console.print(f"  {sentence}", markup=False)


def head(sentence: str) -> None:
    console.print(f"[bold]{sentence}[/]")
