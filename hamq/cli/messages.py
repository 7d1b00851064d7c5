"""What every command prints the same way: sentences on stderr, one JSON object on stdout."""

import json
import math
import sys
from typing import Any


def say(sentence: str) -> None:
    """One line for people, on stderr: stdout is for results."""
    print(f"hamq: {sentence}", file=sys.stderr, flush=True)


def print_json(value: dict[str, Any]) -> None:
    print(json.dumps(_strict(value), ensure_ascii=False))


def _strict(value: Any) -> Any:
    """The value as standard JSON has it: no NaN, no infinities."""
    if isinstance(value, dict):
        return {name: _strict(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
