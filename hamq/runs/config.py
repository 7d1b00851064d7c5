"""What a run was asked for (config.json), and which configs may continue each other's runs.

Settings of a solver as JSON, and samplers made of it again.

A sampler or a completion is its kind and its fields, an array its shape and SHA-256, a function its name: enough to see that
a run is continued with the same ones, and to make hamq's own again.
"""

import dataclasses
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import jax
import numpy as np

from hamq.errors import RunError, damaged, suggestion
from hamq.problem.problem import Problem
from hamq.runs.flat import SELECTS, flat, spelt_out
from hamq.runs.naming import Named
from hamq.runs.storage import CONFIG
from hamq.sampling.draws import AbstractSampler
from hamq.sampling.exhaustive import Exhaustive
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID
from hamq.sampling.importance import Importance

SAMPLERS = {kind.__name__: kind for kind in (Exhaustive, HMC, IID, Importance)}


def described(value: Any) -> Any:
    """What config.json keeps of a setting."""
    if isinstance(value, (np.ndarray, jax.Array)):
        array = np.asarray(value)
        return array.item() if array.ndim == 0 else {"kind": "array", "shape": list(array.shape), "sha256": _digest(array)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if not field.metadata.get("is_settled")]
        return {"kind": type(value).__name__} | {name: described(getattr(value, name)) for name in names}
    if isinstance(value, (list, tuple)):
        return [described(entry) for entry in value]
    return {"kind": "function", "name": getattr(value, "__qualname__", repr(value))} if callable(value) else value


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(array.dtype.str.encode() + np.ascontiguousarray(array).tobytes()).hexdigest()


def sampler_of(folder: Path, found: Any) -> AbstractSampler | None:
    """The sampler that was described; fields of earlier versions that were not set are left out."""
    if found is None:
        return None
    try:
        kind = SAMPLERS.get(found["kind"])
        if kind is None:
            raise RunError(
                f"{folder} was solved with the sampler {found['kind']!r:.60}, which is not one of hamq's "
                f"({', '.join(SAMPLERS)}); give it: hamq.load(path, sampler=...)."
            )
        known = {field.name for field in dataclasses.fields(kind)}
        return kind(
            **{name: value for name, value in found.items() if name != "kind" and (name in known or value is not None)}
        )
    except (KeyError, TypeError) as error:
        raise damaged(folder, CONFIG, f"it does not say how backups are made ({error!r})") from error


Command = Literal["solve", "solve-tensor", "exact"]
FREE_FIELDS = ("iterations", "tolerance", "output")
"""What may change when a run is continued: how long it runs and what it prints, not what it computes."""


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """What was asked for.

    command     of the shell, or the function of its name: solve, solve-tensor or exact
    problem     what makes the problem again
    settings    all other arguments of the solver by their names, as JSON has them; the seed among them
    output      how often checkpoints were written, where the shell was told
    """

    command: Command
    problem: Named
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    output: dict[str, Any] | None = None

    def encode(self) -> dict[str, Any]:
        """What config.json holds."""
        head = {"command": self.command, "problem": self.problem._asdict(), **self.settings}
        return head if self.output is None else head | {"output": self.output}

    @property
    def seed(self) -> Any:
        return self.settings.get("seed")

    @property
    def sampler(self) -> dict[str, Any] | None:
        """Kind and fields; None where the solver chose."""
        return self.settings.get("sampler")

    @property
    def law(self) -> str | None:
        """Of the problem, where its options say."""
        return (self.problem.options or {}).get("law")


def config_of(folder: Path, found: Mapping[str, Any]) -> RunConfig:
    """The config that was read; DamagedError unless it is one."""
    if found.get("command") not in get_args(Command):
        raise damaged(
            folder, CONFIG, f"its command is {found.get('command')!r:.60}, not one of {', '.join(get_args(Command))}"
        )
    given, kinds = found.get("problem"), ({"name": str, "options": dict}, {"name": str, "options": type(None)})
    if not isinstance(given, dict) or {name: type(value) for name, value in given.items()} not in kinds:
        raise damaged(folder, CONFIG, f"its problem is {given!r:.60}, not a name with options")
    for name in ("sampler", "output"):
        if not isinstance(found.get(name), dict | None):
            raise damaged(folder, CONFIG, f"its {name} is {found[name]!r:.60}, not its fields")
    settings = {name: value for name, value in spelt_out(found).items() if name not in ("command", "problem", "output")}
    return RunConfig(found["command"], Named(**given), settings, found.get("output"))


def new_config(command: Command, problem: Problem | Named, arguments: Mapping[str, Any], **more: Any) -> RunConfig:
    """Of a solver that is called with these arguments; on how many devices does not matter to it."""
    named = Named(problem.name, None) if isinstance(problem, Problem) else problem
    is_table = command == "solve" and "completion" in arguments  # tables that nobody solved have none
    given = flat(arguments) if is_table else arguments
    kept = {name: described(value) for name, value in given.items() if name not in ("key", "devices")}
    if is_table and kept["completion"] is not None:  # what it selects stands beside it
        kept["completion"] = {n: v for n, v in kept["completion"].items() if n not in SELECTS.values()}
    seed = {"seed": arguments["key"]} if "key" in arguments else {}
    return RunConfig(command, named, seed | kept | more)


def free_fields(config: RunConfig) -> tuple[str, ...]:
    """What may change when the run is continued; not the iterations where the number of draws comes from them."""
    settings = config.settings
    is_counted = settings.get("max_gradients") is not None or settings.get("sampler") is None
    is_fixed = (settings.get("draws") == "fresh" and is_counted) or settings.get("schedule") == "lemma3"
    return tuple(name for name in FREE_FIELDS if not (is_fixed and name == "iterations"))


def require_same_config(folder: Path, old: dict[str, Any], new: dict[str, Any], free: Collection[str]) -> None:
    """Refuses `new`, with the names of the fields, where it differs from `old` in more than the `free` fields.

    A free field frees what is below it: `output` frees `output.every`.
    """
    before, now = (dict(_flat(spelt_out(config), free)) for config in (old, new))
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
    near = suggestion(name, known)
    return f"{name} is not a field of it" + (f" ({near.removeprefix('; ')})" if near != "." else "")
