"""What a finished run holds: a table of action values with its bounds, or the cores of a tensor train.

In result.npz a table is `q`, `lower`, `upper`, and where draws were reused `health/acceptance`, `health/stuck` and
`health/effective` (see `Health`); a train is `core/0`, `core/1`, … (float64) and `order`, their axes.
"""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from hamq.runs.errors import damaged
from hamq.runs.storage import TABLES
from hamq.solution import Health, Solution
from hamq.tensor.solution import TensorSolution

CORE = "core/"
HEALTH = "health/"
HEALTH_NAMES = tuple(field.name for field in dataclasses.fields(Health))


def arrays_of(solution: Solution | TensorSolution) -> dict[str, np.ndarray]:
    """What result.npz holds."""
    if isinstance(solution, TensorSolution):
        cores = {f"{CORE}{k}": np.asarray(core, np.float64) for k, core in enumerate(solution.cores)}
        return cores | {"order": np.asarray(solution.order, np.int64)}
    tables = {"q": solution.q, "lower": solution.lower, "upper": solution.upper}
    held = {name: table for name, table in tables.items() if table is not None}
    return held | ({HEALTH + name: getattr(solution.health, name) for name in HEALTH_NAMES} if solution.health else {})


def outcome_of(solution: Solution | TensorSolution) -> dict[str, Any]:
    """What result.json says of the solution."""
    head = {"result": solution.result, "converged": solution.converged}
    if isinstance(solution, TensorSolution):
        return head | {"residual": solution.residual}
    return head | {"error": solution.error, "expected_error": solution.expected_error}


def outcome_names(is_train: bool) -> tuple[str, ...]:
    """The fields of result.json that come from the solution; the others are its writer's summary."""
    return ("result", "converged", *(("residual",) if is_train else ("error", "expected_error")))


def fields_of(folder: Path, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """The fields of a Run; refuses arrays that are neither tables nor a train."""
    names = [f"{CORE}{k}" for k in range(len(arrays) - 1)]
    if "order" in arrays and arrays.keys() == {"order", *names}:
        cores, order = tuple(arrays[name] for name in names), arrays["order"]
        is_order = order.dtype.kind in "iu" and sorted(order.ravel().tolist()) == list(range(len(cores)))
        if not _is_train(cores) or not is_order:
            raise damaged(folder, TABLES, "its cores are not those of a tensor train")
        return {"cores": cores, "order": tuple(order.ravel().tolist())}
    health = {name.removeprefix(HEALTH): array for name, array in arrays.items() if name.startswith(HEALTH)}
    tables = {name: array for name, array in arrays.items() if not name.startswith(HEALTH)}
    if "q" not in tables or not tables.keys() <= {"q", "lower", "upper"}:
        raise damaged(folder, TABLES, f"its arrays {sorted(arrays)} are neither tables nor a tensor train")
    kinds = {(array.shape, array.dtype.type) for array in tables.values()}
    if len(kinds) > 1 or tables["q"].ndim != 2 or tables["q"].dtype.kind != "f" or not tables["q"].size:
        raise damaged(folder, TABLES, "its tables are not all of float numbers [states, actions]")
    if not health:  # nothing was reused, or an older version wrote it
        return tables
    kind, kinds = (tables["q"].shape[:1], np.float64), {(array.shape, array.dtype.type) for array in health.values()}
    if set(health) != set(HEALTH_NAMES) or kinds != {kind}:
        raise damaged(folder, TABLES, f"the health of its sampler is not {', '.join(HEALTH_NAMES)} of every state")
    return tables | {"health": health}


def _is_train(cores: tuple[np.ndarray, ...]) -> bool:
    if not cores or any(core.ndim != 3 or core.dtype != np.float64 or not np.all(np.isfinite(core)) for core in cores):
        return False
    return [core.shape[0] for core in cores] + [1] == [1] + [core.shape[2] for core in cores]
