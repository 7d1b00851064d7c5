"""Arguments of `solve` by single names: what the shell asks for, and what config.json keeps of them.

Python has a completion that says what it selects, and `Passes`; options and config.json have one name for each setting.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from hamq.completion.keep import Keep
from hamq.completion.selection import FRACTION
from hamq.learning.passes import Passes
from hamq.types import HamqError

SELECTS = {"selection": "selection", "fraction": "fraction", "complete": "completes"}
"""Names of settings, and of the fields of a completion that they are."""
SELECTING = ("NuclearNorm", "SoftImpute", "Keep")
"""Kinds of completions that select a part of the pairs; in version 0.1 that was a setting of the solve."""
COMPLETED = {"NuclearNorm": "increment", "SoftImpute": "increment", "Anchors": "expectation"}
"""What kinds complete by default."""


def flat(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the completion and of the passes beside all others; None for what the completion does not have."""
    completion, passes = arguments.get("completion"), arguments.get("passes") or Passes()
    own = set() if completion is None else {field.name for field in dataclasses.fields(completion) if field.init}
    selects = {name: getattr(completion, field) if field in own else None for name, field in SELECTS.items()}
    others = {name: value for name, value in arguments.items() if name != "passes"}
    return others | selects | dataclasses.asdict(passes)


def assembled(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `solve`; HamqError where settings do not go with the completion."""
    given = dict(settings)
    of_passes = {field.name: given.pop(field.name) for field in dataclasses.fields(Passes)}
    selects = {name: given.pop(name) for name in SELECTS}
    return given | {"completion": _selecting(given["completion"], **selects), "passes": Passes(**of_passes)}


def _selecting(completion: Any, selection: str | None, fraction: float | None, complete: str | None) -> Any:
    """The completion with what was asked of it; where there is none, `Keep` for a part of the pairs."""
    if completion is None and fraction is None and selection in (None, "all"):
        return None
    name = "None" if completion is None else type(completion).__name__
    completion = Keep() if completion is None else completion
    fields = {field.name for field in dataclasses.fields(completion) if field.init}
    if selection is not None and (selection == "anchors") == ("selection" in fields):
        raise HamqError(
            f"solve: selection={selection!r} does not go with completion={name}; Anchors needs 'anchors', NuclearNorm and "
            "SoftImpute need 'per_state', 'bernoulli' or 'all', and None takes any of these."
        )
    if fraction is not None and ("fraction" not in fields or selection == "all"):
        where = "anchors" if "fraction" not in fields else "all"
        raise HamqError(
            f"solve: fraction = {fraction} has no meaning with selection={where!r}; it belongs to 'per_state' and "
            "'bernoulli'" + (" (Anchors has num_columns and num_states)." if where == "anchors" else ".")
        )
    given = {"selection": selection, "fraction": fraction, "completes": complete}
    return dataclasses.replace(completion, **{n: v for n, v in given.items() if v is not None and n in fields})


def spelt_out(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as config.json has them now: version 0.1 wrote null for what its completion selected by default."""
    found = dict(settings)
    if not set(SELECTS) <= set(found) or not isinstance(found.get("completion"), dict | None):
        return found
    kind = (found["completion"] or {}).get("kind")
    if kind is None and (found["fraction"] is not None or found["selection"] in ("per_state", "bernoulli")):
        found["completion"], kind = {"kind": "Keep"}, "Keep"
    if kind not in (None, *SELECTING, *COMPLETED):
        return found
    is_part = kind in SELECTING
    found["selection"] = (found["selection"] or "per_state") if is_part else None
    found["fraction"] = (FRACTION if found["fraction"] is None else found["fraction"]) if is_part else None
    found["complete"] = (found["complete"] or COMPLETED[kind]) if kind in COMPLETED else None
    return found
