"""Which configs may continue each other's runs."""

import difflib
import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from hamq.runs.errors import RunError

FREE_FIELDS = ("iterations", "tolerance", "output")
"""What may change when a run is continued: how long it runs and what it prints, not what it computes."""


def require_same_config(folder: Path, old: dict[str, Any], new: dict[str, Any], free: Collection[str]) -> None:
    """Refuses `new`, with the names of the fields, where it differs from `old` in more than the `free` fields.

    A free field frees what is below it: `output` frees `output.every`.
    """
    before, now = (dict(_flat(config, free)) for config in (old, new))
    wrong = [_unknown(name, [*before, *free]) for name in now if name not in before]
    wrong += [f"{name} is missing (in the folder {before[name]})" for name in before if name not in now]
    wrong += [
        f"{name} is {now[name]} (in the folder {before[name]})"
        for name in before
        if name in now and now[name] != before[name]
    ]
    if wrong:
        raise RunError(
            f"The config does not continue the run of {folder}: {'; '.join(wrong)}; "
            "resume with the values in its config.json, or choose another folder."
        )


def _flat(value: Any, free: Collection[str], name: str = "") -> Iterator[tuple[str, str]]:
    """(dotted name, JSON text) of every field that is not free; text, because NaN does not equal itself."""
    if name in free:
        return
    if isinstance(value, dict) and value:
        for key, entry in value.items():
            yield from _flat(entry, free, f"{name}.{key}" if name else key)
    elif name:
        yield name, json.dumps(value)


def _unknown(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"{name} is not a field of it" + (f" (did you mean {near[0]}?)" if near else "")
