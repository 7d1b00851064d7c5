"""What a finished run holds: a table of action values with its bounds, or the cores of a tensor train.

In result.npz a table is `q`, `lower`, `upper`; a train is `core/0`, `core/1`, … (float64) and `order`, their axes.
"""

from pathlib import Path
from typing import Any

import numpy as np

from hamq.exact.solution import Solution
from hamq.runs.errors import damaged
from hamq.runs.storage import TABLES
from hamq.tensor.solution import TensorSolution

CORE = "core/"


def arrays_of(solution: Solution | TensorSolution) -> dict[str, np.ndarray]:
    """What result.npz holds."""
    if isinstance(solution, TensorSolution):
        cores = {f"{CORE}{k}": np.asarray(core, np.float64) for k, core in enumerate(solution.cores)}
        return cores | {"order": np.asarray(solution.order, np.int64)}
    tables = {"q": solution.q, "lower": solution.lower, "upper": solution.upper}
    return {name: table for name, table in tables.items() if table is not None}


def outcome_of(solution: Solution | TensorSolution) -> dict[str, Any]:
    """What result.json says of the solution."""
    head = {"result": solution.result, "converged": solution.converged}
    if isinstance(solution, TensorSolution):
        return head | {"residual": solution.residual}
    return head | {"error": solution.error}


def outcome_names(is_train: bool) -> tuple[str, ...]:
    """The fields of result.json that come from the solution; the others are its writer's summary."""
    return ("result", "converged", "residual" if is_train else "error")


def fields_of(folder: Path, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The fields of a Run; refuses arrays that are neither tables nor a train."""
    names = [f"{CORE}{k}" for k in range(len(arrays) - 1)]
    if "order" in arrays and arrays.keys() == {"order", *names}:
        cores, order = tuple(arrays[name] for name in names), arrays["order"]
        if not _is_train(cores) or sorted(order.ravel().tolist()) != list(range(len(cores))):
            raise damaged(folder, TABLES, "its cores are not those of a tensor train")
        return {"cores": cores, "order": tuple(order.ravel().tolist())}
    if "q" not in arrays or not arrays.keys() <= {"q", "lower", "upper"}:
        raise damaged(folder, TABLES, f"its arrays {sorted(arrays)} are neither tables nor a tensor train")
    return dict(arrays)


def _is_train(cores: tuple[np.ndarray, ...]) -> bool:
    if not cores or any(core.ndim != 3 or core.dtype != np.float64 or not np.all(np.isfinite(core)) for core in cores):
        return False
    return [core.shape[0] for core in cores] + [1] == [1] + [core.shape[2] for core in cores]
