"""The words and options of one command: misspelt ones refused with the nearest, the rest parsed by tyro.

Which options there are depends on the problem, the sampler and the completion that are named, so the words are read
twice: here for what is named, and then, by tyro, with the dataclasses of just these. Nothing here imports JAX.
"""

import dataclasses
import typing
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import tyro

from hamq.cli import certify_options, diagnose_options, gym_options, options, tensor_options
from hamq.errors import HamqError, suggestion

COMMANDS = {
    "list": ("", "the problems of the zoo"),
    "solve": ("PROBLEM", "solve a problem by Hamiltonian Q-Learning"),
    "solve-tensor": ("PROBLEM", "solve one of many dimensions, V as a tensor train"),
    "exact": ("PROBLEM", "solve it exactly, between certified bounds"),
    "compare": ("RUN [RUN ...]", "runs against the exact answer and each other"),
    "show": ("RUN", "what a run folder holds"),
    "report": ("RUN [RUN ...]", "a page to look at runs: maps of policy, value and error, convergence, facts"),
    "plot": ("RUN [RUN ...]", "a picture for papers: maps of policy, value and error"),
    "certify": ("RUN", "how far a run is from Q*, and what its policy loses, with stated confidence"),
    "diagnose": ("RUN", "whether fresh chains agree on the value that a run found"),
    "evaluate": ("RUN", "the policy of a run, scored in an environment of Gymnasium"),
    "paper": ("FIGURE [FIGURE ...]", "the paper's figures and claims, as printed, corrected and improved"),
}
"""By name: what must be given, and what it does."""

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
    chosen = _chosen(command, words, values)
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
    fields = {_flag(field.name): field for group in _all_groups(command) for field in dataclasses.fields(group)}
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
    needed = COMMANDS[command][0]
    if len(words) < bool(needed):
        remedy = REMEDIES[needed.split()[0]]
        raise HamqError(f"hamq {command} needs a {needed.split()[0]}; {remedy}.")
    if len(words) > bool(needed) and "..." not in needed:
        raise HamqError(f"hamq {command} takes {needed or 'no words'} and options; {words[-1]!r} is too much.")
    if command == "paper":
        for word in words:
            if word not in (*options.FIGURES, "list", "all"):
                known = [*options.FIGURES, "all"]
                raise HamqError(f"there is no figure {word!r} among {', '.join(known)}{suggestion(word, known)}")
    if needed == "PROBLEM" and words[0] not in options.ZOO and ":" not in words[0]:
        raise HamqError(
            f"there is no problem {words[0]!r} among {', '.join(options.ZOO)}, and your own are given as "
            f"file.py:function{suggestion(words[0], options.ZOO)}"
        )


def _chosen(command: str, words: Sequence[str], values: dict[str, str | None]) -> dict[str, Any]:
    """The default options of every role that this command line has."""
    if command == "paper":
        return {"study": options.StudyOptions()}
    if command == "evaluate":
        return {"output": gym_options.EvaluateOptions()}
    if command == "certify":
        return {"output": certify_options.CertifyOptions()}
    if command == "diagnose":
        return {"output": diagnose_options.DiagnoseOptions()}
    if command == "plot":
        return {"output": options.PlotOptions()}
    if command == "report":
        return {"output": tensor_options.ReportOptions()}
    if COMMANDS[command][0] != "PROBLEM":
        return {"output": options.PrintOptions()}
    chosen: dict[str, Any] = {"exact": options.ExactOptions(), "output": options.ExactRunOptions()}
    if command == "solve":
        chosen = {
            "solve": options.SolveOptions(),
            "sampler": options.SAMPLERS[values.get("--sampler") or "hmc"],
            "completion": options.COMPLETIONS[values.get("--completion") or _completion(values)],
            "output": options.RunOptions(),
            "processes": options.ProcessOptions(),
        }
    if command == "solve-tensor":
        chosen = {
            "tensor": tensor_options.TensorOptions(),
            "sampler": tensor_options.TENSOR_SAMPLERS[values.get("--sampler") or "none"],
            "output": tensor_options.TensorRunOptions(),
        }
    if words and words[0] in options.ZOO:
        chosen["problem"] = _problem(command, words[0])
    return chosen | {"own": options.OwnOptions()}


def _problem(command: str, name: str) -> Any:
    """The options of a problem of the zoo; a train interpolates between the nodes, so its law is the linear one."""
    found = options.ZOO[name].options
    return dataclasses.replace(found, law="linear") if command == "solve-tensor" else found


def _completion(values: dict[str, str | None]) -> str:
    """The completion where none is named; to the letter it is the paper's."""
    return "nuclear_norm" if "--literal" in values else "anchors"


def _all_groups(command: str) -> list[Any]:
    """Every dataclass whose options this command may have."""
    groups = list(_chosen(command, [], {}).values())
    if COMMANDS[command][0] == "PROBLEM":
        groups += [entry.options for entry in options.ZOO.values()]
    return [*groups, *_samplers(command).values(), *_completions(command).values()]


def _samplers(command: str) -> dict[str, Any]:
    return {"solve": options.SAMPLERS, "solve-tensor": tensor_options.TENSOR_SAMPLERS}.get(command, {})


def _completions(command: str) -> dict[str, Any]:
    return options.COMPLETIONS if command == "solve" else {}


def _refuse_foreign(command: str, chosen: dict[str, Any], values: dict[str, str | None]) -> None:
    """Refuses options of a sampler, a completion or a problem that is not the one named."""
    known = {name for group in chosen.values() for name in _names(group)}
    for flag in values:
        field = _field(flag)
        if field in known or flag == "--help":
            continue
        owners = [f"--sampler {name}" for name, group in _samplers(command).items() if field in _names(group)]
        owners += [f"--completion {name}" for name, group in _completions(command).items() if field in _names(group)]
        owners += [name for name, entry in options.ZOO.items() if field in _names(entry.options)]
        own = (
            ""
            if "problem" in chosen or owners[0] not in options.ZOO
            else f"; give your own arguments as --set {field}=VALUE"
        )
        raise HamqError(f"{flag} belongs to {' or '.join(owners)}, which this hamq {command} has not{own}.")


def _by_tyro(command: str, chosen: dict[str, Any], tokens: Sequence[str]) -> list[Any]:
    """The chosen options, as the tokens change them."""
    fields = [(role, type(group), dataclasses.field(default=group)) for role, group in chosen.items()]
    form = dataclasses.make_dataclass(command.replace("-", "_"), fields, frozen=True)
    needed, summary = COMMANDS[command]
    others = " --sampler NAME" * bool(_samplers(command)) + " --completion NAME" * bool(_completions(command))
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
