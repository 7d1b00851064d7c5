"""PROBLEM and its options on the command line → what makes the problem, and makes it again."""

import ast
import dataclasses
from pathlib import Path
from typing import Any

from hamq.cli.options import ZOO
from hamq.cli.parsing import Request
from hamq.errors import HamqError
from hamq.runs.naming import Named


def named(request: Request) -> Named:
    """The problem of a request, with a file's absolute path and all options of a problem of the zoo."""
    name = request.words[0]
    given = dict(_assignment(text) for text in request.options["own"].set)
    if name in ZOO:
        options = dataclasses.asdict(request.options["problem"])
        return Named(name, options | {"points": _points(options["points"])} | given)
    source, _, function = name.rpartition(":")
    if source.endswith(".py"):
        source = str(Path(source).absolute())
    return Named(f"{source}:{function}", given)


def _assignment(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise HamqError(f"--set takes name=value, got {text!r}.")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value  # a word


def _points(text: str) -> int | list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise HamqError(f"--points takes a whole number, or one for each axis (9,9,5,5), got {text!r}.") from None
    return numbers[0] if len(numbers) == 1 else numbers
