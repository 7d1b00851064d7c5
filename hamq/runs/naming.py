"""The name of a problem, as a run keeps it → hamq.Problem: of the zoo, or the user's own function in a file or a module.

A problem that was given as an object has no options that would make it again. If its name is one of the zoo, the default
of the zoo is tried, and the hash of the run says whether that is the one.
"""

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from hamq.errors import HamqError, suggestion
from hamq.problem import zoo
from hamq.problem.problem import Problem

ZOO = frozenset(name for name, made in vars(zoo).items() if inspect.isfunction(made) and made is not zoo.provenance)


class Named(NamedTuple):
    """What makes a problem again: kept in the config of a run. `options` is None where it was given as an object."""

    name: str
    options: dict[str, Any] | None


def build(problem: Named) -> Problem:
    """The problem; HamqError with one sentence if it cannot be made."""
    if problem.options is None:
        if problem.name not in ZOO:
            raise HamqError(
                f"{problem.name!r} was solved from Python, and a run cannot keep the functions of its problem; give the "
                "problem to hamq.load, or solve it from the shell as file.py:function."
            )
        return getattr(zoo, problem.name)()
    make = getattr(zoo, problem.name) if problem.name in ZOO else _load(problem.name)
    _require_arguments(problem, make)
    if problem.name in ZOO:
        return make(**problem.options)
    source = problem.name.rpartition(":")[0]
    made = _call_users(source, lambda: make(**(problem.options or {})))
    if not isinstance(made, Problem):
        raise HamqError(f"{problem.name} must return a hamq.Problem, and returned {type(made).__name__}.")
    return made


def _load(name: str) -> Callable[..., Any]:
    """The function of `file.py:function` or `module:function`."""
    source, _, wanted = name.rpartition(":")
    if source.endswith(".py") and not Path(source).is_file():
        raise HamqError(f"there is no file {source}; give your problem as file.py:function.")
    module = _call_users(source, lambda: _import(source))
    function = getattr(module, wanted, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise HamqError(f"{source} has no function {wanted!r}{suggestion(wanted, known)}")
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
        raise HamqError(f"{source}{lines[-1] if lines else ''}: {type(error).__name__}: {said}") from error


def _require_arguments(problem: Named, make: Callable[..., Any]) -> None:
    assert problem.options is not None
    parameters = inspect.signature(make).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    for name in problem.options:
        if name not in parameters and not takes_any:
            raise HamqError(f"--set {name}: {problem.name} has no argument {name!r}{suggestion(name, parameters)}")
    for name, parameter in parameters.items():
        is_plain = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if is_plain and parameter.default is parameter.empty and name not in problem.options:
            raise HamqError(f"{problem.name} needs the argument {name!r}; give it as --set {name}=VALUE.")
