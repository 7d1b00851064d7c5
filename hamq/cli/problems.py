"""PROBLEM on the command line → hamq.Problem: a name of the zoo, or the user's own function in a file or a module."""

import ast
import dataclasses
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hamq.cli.options import ZOO
from hamq.cli.parsing import Request, suggestion
from hamq.problem import zoo
from hamq.problem.problem import Problem


class Named(NamedTuple):
    """What makes a problem again: kept in the config of a run."""

    name: str
    options: dict[str, Any]


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


def build(problem: Named) -> Problem:
    """The problem; ValueError with one sentence if it cannot be made."""
    make = getattr(zoo, problem.name) if problem.name in ZOO else _load(problem.name)
    _require_arguments(problem, make)
    if problem.name in ZOO:
        return make(**problem.options)
    source = problem.name.rpartition(":")[0]
    made = _call_users(source, lambda: make(**problem.options))
    if not isinstance(made, Problem):
        raise ValueError(f"{problem.name} must return a hamq.Problem, and returned {type(made).__name__}.")
    return made


def _assignment(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise ValueError(f"--set takes name=value, got {text!r}.")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value  # a word


def _points(text: str) -> int | list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--points takes a whole number, or one for each axis (9,9,5,5), got {text!r}.") from None
    return numbers[0] if len(numbers) == 1 else numbers


def _load(name: str) -> Callable[..., Any]:
    """The function of `file.py:function` or `module:function`."""
    source, _, wanted = name.rpartition(":")
    if source.endswith(".py") and not Path(source).is_file():
        raise ValueError(f"there is no file {source}; give your problem as file.py:function.")
    module = _call_users(source, lambda: _import(source))
    function = getattr(module, wanted, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise ValueError(f"{source} has no function {wanted!r}{suggestion(wanted, known)}")
    return function


def _import(source: str) -> Any:
    if not source.endswith(".py"):
        if "" not in sys.path and str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
        return importlib.import_module(source)
    path = Path(source)
    name = f"hamq_user_{path.stem}"  # json.py may be theirs too
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))  # its neighbours can be imported
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def _call_users(source: str, call: Callable[[], Any]) -> Any:
    """The result of the user's code; any error of it as one sentence with the line."""
    try:
        return call()
    except Exception as error:
        lines = [f", line {frame.lineno}" for frame in traceback.extract_tb(error.__traceback__) if frame.filename == source]
        said = " ".join(str(error).split())
        raise ValueError(f"{source}{lines[-1] if lines else ''}: {type(error).__name__}: {said}") from error


def _require_arguments(problem: Named, make: Callable[..., Any]) -> None:
    parameters = inspect.signature(make).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for name in problem.options:
        if name not in parameters and not takes_any:
            raise ValueError(f"--set {name}: {problem.name} has no argument {name!r}{suggestion(name, parameters)}")
    for name, parameter in parameters.items():
        is_plain = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if is_plain and parameter.default is parameter.empty and name not in problem.options:
            raise ValueError(f"{problem.name} needs the argument {name!r}; give it as --set {name}=VALUE.")
