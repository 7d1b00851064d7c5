"""What every command prints the same way: sentences on stderr, results or one JSON object on stdout.

Names of problems and folders, and all that a run folder holds, may come from anybody: none of it steers the terminal.
"""

import json
import math
import sys
import unicodedata
from typing import Any

STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Kinds of characters that move the cursor, turn the direction of writing, or are none: controls, formats, surrogates."""


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
