"""The words and options of one command: misspelt ones refused with the nearest, the rest parsed by tyro.

Which options there are depends on the problem, the sampler and the completion that are named, so the words are read
twice: here for what is named, and then, by tyro, with the dataclasses of just these. Nothing here imports JAX.
"""

import dataclasses
import functools
import importlib
import pkgutil
import typing
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Literal, NamedTuple

import tyro

from hamq.cli import commands
from hamq.cli.problems import ZOO, OwnOptions
from hamq.errors import HamqError, suggestion

SHORT = {"-h": "--help", "-o": "--out"}
"""Options with one letter."""

REMEDIES = {
    "PROBLEM": "hamq list shows those there are",
    "RUN": "give the --out folder of a run",
    "FIGURE": "hamq paper list shows those there are, and all means all of them",
}
"""Where to look for a word that is missing."""

PROBLEM_NOTE = """
PROBLEM is a name of `hamq list`, or your own as file.py:function or module:function, a function that returns a
hamq.Problem. Shown are the options of what is named: add PROBLEM{others} to see theirs."""


class Choices(NamedTuple):
    """Options by the name that `--sampler` or `--completion` gives, and the names where none is given, or --literal is."""

    options: dict[str, Any]
    default: str
    literal: str = ""

    def chosen(self, role: str, values: dict[str, str | None]) -> Any:
        default = self.literal if self.literal and "--literal" in values else self.default
        return self.options[values.get(f"--{role}") or default]


class Command(NamedTuple):
    """What a command takes: the words it needs, what it does, its default options by role, its place in `hamq --help`.

    choices     options of a sampler or a completion, by its name
    problem     defaults of problems of the zoo that this command changes
    check       refuses words
    is_long     whether a sentence is said before JAX is imported
    """

    needed: str
    summary: str
    place: int
    options: dict[str, Any]
    choices: dict[str, Choices] = {}  # noqa: RUF012 (never changed)
    problem: dict[str, Any] = {}  # noqa: RUF012
    check: Callable[[Sequence[str]], None] = lambda words: None
    is_long: Callable[[Sequence[str]], bool] = lambda words: False

    @property
    def takes_problem(self) -> bool:
        return self.needed == "PROBLEM"

    def chosen(self, words: Sequence[str], values: dict[str, str | None]) -> dict[str, Any]:
        """The default options of every role that this command line has."""
        found = self.options | {role: of_role.chosen(role, values) for role, of_role in self.choices.items()}
        if not self.takes_problem:
            return found
        if words and words[0] in ZOO:
            found["problem"] = dataclasses.replace(ZOO[words[0]].options, **self.problem)
        return found | {"own": OwnOptions()}

    def groups(self) -> list[Any]:
        """Every dataclass whose options this command may have."""
        found = list(self.chosen([], {}).values())
        found += [entry.options for entry in ZOO.values()] if self.takes_problem else []
        return found + [group for of_role in self.choices.values() for group in of_role.options.values()]


@functools.cache
def command_names() -> tuple[str, ...]:
    """All commands, in the order of `hamq --help`."""
    names = [found.name.replace("_", "-") for found in pkgutil.iter_modules(commands.__path__)]
    return tuple(sorted(names, key=lambda name: described(name).place))


def module_of(command: str) -> ModuleType:
    return importlib.import_module(f"{commands.__name__}.{command.replace('-', '_')}")


def described(command: str) -> Command:
    return module_of(command).COMMAND


@dataclasses.dataclass(frozen=True)
class Request:
    """A command with its words (problem or runs), its options by role, and the names of those that were given."""

    command: str
    argv: tuple[str, ...]
    words: tuple[str, ...]
    options: dict[str, Any]
    given: frozenset[str]

    def given_in(self, role: str) -> dict[str, Any]:
        """The options of this role that were given, by the name of their field."""
        return {name: getattr(self.options[role], name) for name in _names(self.options[role]) if name in self.given}


def parse(command: str, argv: Sequence[str]) -> Request:
    """The request; HamqError with one sentence if it makes no sense. `--help` prints and raises SystemExit."""
    words, tokens, values = _scan(command, argv)
    chosen = described(command).chosen(words, values)
    _refuse_foreign(command, chosen, values)
    for field in dataclasses.fields(chosen["problem"]) if "problem" in chosen else ():
        if value := values.get(_flag(field.name)):  # another problem may allow more
            _require_value(_flag(field.name), field, value)
    if "--help" not in values:
        _require_words(command, words)
    parsed = _by_tyro(command, chosen, tokens)
    given = frozenset(_field(flag) for flag in values)
    return Request(command, tuple(argv), tuple(words), dict(zip(chosen, parsed, strict=True)), given)


class Scanned(NamedTuple):
    """What is on a command line: words, option tokens as they stand, and the options with their values (None: a switch)."""

    words: list[str]
    tokens: list[str]
    values: dict[str, str | None]


def _scan(command: str, argv: Sequence[str]) -> Scanned:
    fields = {_flag(field.name): field for group in described(command).groups() for field in dataclasses.fields(group)}
    switches = {flag for flag, field in fields.items() if field.type is bool}
    switches |= {flag.replace("--", "--no-", 1) for flag in switches} | {"--help"}
    words, tokens, values, rest = [], [], {}, list(argv)
    while rest:
        token = rest.pop(0)
        if not token.startswith("-"):
            words.append(token)
            continue
        name, equals, value = token.partition("=")
        flag = SHORT.get(name, name.replace("_", "-"))
        if flag in switches and not equals:
            values[flag] = None
            tokens.append(flag)
        elif flag in fields:
            if not equals and (not rest or rest[0].startswith("--")):
                raise HamqError(f"{flag} needs a value; see hamq {command} --help.")
            values[flag] = value if equals else rest.pop(0)
            _require_value(flag, fields[flag], values[flag])
            tokens += [flag, values[flag]]
        else:
            raise HamqError(f"hamq {command} has no option {flag}{suggestion(flag, [*fields, *switches])}")
    return Scanned(words, tokens, values)


def _require_value(flag: str, field: dataclasses.Field, value: str) -> None:
    """Refuses what the type of the field does not allow, before tyro would, which shows a page instead of a sentence."""
    parts = _parts(field.type)
    if value == "None" and type(None) in parts:
        return
    choices = [choice for part in parts if typing.get_origin(part) is Literal for choice in typing.get_args(part)]
    choices += ["True", "False"] if bool in parts else []
    if choices and value not in choices:
        raise HamqError(f"{flag} must be one of {', '.join(choices)}, got {value}{suggestion(value, choices)}")
    for number, name in ((int, "a whole number"), (float, "a number")):
        if number in parts:
            try:
                number(value)
            except ValueError:
                raise HamqError(f"{flag} takes {name}, got {value!r}.") from None


def _parts(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself."""
    return typing.get_args(annotation) if type(None) in typing.get_args(annotation) else (annotation,)


def _require_words(command: str, words: Sequence[str]) -> None:
    found = described(command)
    needed = found.needed
    if len(words) < bool(needed):
        remedy = REMEDIES[needed.split()[0]]
        raise HamqError(f"hamq {command} needs a {needed.split()[0]}; {remedy}.")
    if len(words) > bool(needed) and "..." not in needed:
        raise HamqError(f"hamq {command} takes {needed or 'no words'} and options; {words[-1]!r} is too much.")
    found.check(words)
    if found.takes_problem and words[0] not in ZOO and ":" not in words[0]:
        raise HamqError(
            f"there is no problem {words[0]!r} among {', '.join(ZOO)}, and your own are given as "
            f"file.py:function{suggestion(words[0], ZOO)}"
        )


def _refuse_foreign(command: str, chosen: dict[str, Any], values: dict[str, str | None]) -> None:
    """Refuses options of a sampler, a completion or a problem that is not the one named."""
    known = {name for group in chosen.values() for name in _names(group)}
    for flag in values:
        field = _field(flag)
        if field in known or flag == "--help":
            continue
        owners = [
            f"--{role} {name}"
            for role, of_role in described(command).choices.items()
            for name, group in of_role.options.items()
            if field in _names(group)
        ]
        owners += [name for name, entry in ZOO.items() if field in _names(entry.options)]
        own = "" if "problem" in chosen or owners[0] not in ZOO else f"; give your own arguments as --set {field}=VALUE"
        raise HamqError(f"{flag} belongs to {' or '.join(owners)}, which this hamq {command} has not{own}.")


def _by_tyro(command: str, chosen: dict[str, Any], tokens: Sequence[str]) -> list[Any]:
    """The chosen options, as the tokens change them."""
    fields = [(role, type(group), dataclasses.field(default=group)) for role, group in chosen.items()]
    form = dataclasses.make_dataclass(command.replace("-", "_"), fields, frozen=True)
    needed, summary, *_ = described(command)
    others = "".join(f" --{role} NAME" for role in described(command).choices)
    note = PROBLEM_NOTE.format(others=others).replace("\n", " ") if needed == "PROBLEM" else ""
    found = tyro.cli(
        form,
        prog=f"hamq {command} {needed}".strip(),
        description=f"{summary[0].upper()}{summary[1:]}.{note}",
        args=tokens,
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.UseAppendAction),
    )
    return [getattr(found, role) for role in chosen]


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _field(flag: str) -> str:
    """The name of the field that a flag sets."""
    return flag.removeprefix("--no-").removeprefix("--").replace("-", "_")


def _names(group: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(group)]
