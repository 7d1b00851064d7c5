"""Stochastic control with transition densities known up to a constant. The public names, imported when first used."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hamq.exact.bellman import evaluate_policy as evaluate_policy
    from hamq.exact.solution import Solution as Solution
    from hamq.exact.value_iteration import solve_exact as solve_exact
    from hamq.learning.backup import expected_values as expected_values
    from hamq.learning.draws import draw_each as draw_each
    from hamq.problem import zoo as problems
    from hamq.problem.grid import Grid as Grid
    from hamq.problem.kernel import GaussianKernel as GaussianKernel
    from hamq.problem.kernel import UnnormalizedKernel as UnnormalizedKernel
    from hamq.problem.problem import Problem as Problem
    from hamq.sampling.exhaustive import Exhaustive as Exhaustive
    from hamq.sampling.hmc import HMC as HMC
    from hamq.sampling.iid import IID as IID
    from hamq.sampling.importance import Importance as Importance
    from hamq.types import HamqWarning as HamqWarning

_HOME = {
    "HMC": "hamq.sampling.hmc",
    "IID": "hamq.sampling.iid",
    "Exhaustive": "hamq.sampling.exhaustive",
    "GaussianKernel": "hamq.problem.kernel",
    "Grid": "hamq.problem.grid",
    "HamqWarning": "hamq.types",
    "Importance": "hamq.sampling.importance",
    "Problem": "hamq.problem.problem",
    "Solution": "hamq.exact.solution",
    "UnnormalizedKernel": "hamq.problem.kernel",
    "draw_each": "hamq.learning.draws",
    "evaluate_policy": "hamq.exact.bellman",
    "expected_values": "hamq.learning.backup",
    "solve_exact": "hamq.exact.value_iteration",
}

__version__ = "0.1.0"
__all__ = [*_HOME, "problems"]


def __getattr__(name: str) -> Any:
    if name == "problems":
        return importlib.import_module("hamq.problem.zoo")
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'hamq' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
