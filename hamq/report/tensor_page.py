"""What a page shows of a run of `hamq solve-tensor`: V as it is stored, the policy as trains with their errors, facts."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from hamq.control.policy_train import NUM_HELD_OUT, SHARE, policy_train
from hamq.report.facts import COSTS, Facts, called, common_facts, versions
from hamq.report.layers import AnyLayer, Layer, TableLayer
from hamq.report.table_page import ACTION, VALUE, VALUE_ERROR
from hamq.runs.reading import Run
from hamq.tensor import train
from hamq.tensor.solution import TensorSolution

MAX_ERROR = 0.25
"""Part of the range beyond which a train of the policy would mislead."""
MAX_ACTUATORS = 4
"""Policies shown: each needs backups of its own."""


class TensorLayers(NamedTuple):
    """What is shown, and a sentence on each policy that is shown or left out."""

    layers: list[AnyLayer]
    notes: list[str]


def tensor_layers(
    run: Run,
    solution: TensorSolution | None,
    why_not: str = "",
    exact: Float[np.ndarray, "S A"] | None = None,
    number: int = 0,
) -> TensorLayers:
    """`solution`: the run's, for maps of the policy; None where it cannot be had, and `why_not` then says so."""
    assert run.cores is not None and run.order is not None
    layers: list[AnyLayer] = [Layer(VALUE, run.cores, run.order, about="The largest action value.", run=number)]
    if solution is None:
        notes = [f"no maps of the policy: {why_not}"]
    else:
        policies, notes = _policies(solution, number)
        layers += policies
    if exact is not None:
        layers.append(_error(run, exact, number))
    return TensorLayers(layers, notes)


def _policies(solution: TensorSolution, number: int) -> tuple[list[Layer], list[str]]:
    """A layer for each of the first actuators whose train is good enough, and a sentence on each."""
    count = math.prod(solution.problem.action_shape)
    shown = min(count, MAX_ACTUATORS)
    budget = SHARE * int(solution.history.reads[-1]) / shown
    layers, notes = [], []
    for i in range(shown):
        name = ACTION if count == 1 else f"{ACTION} {i + 1}"
        found = policy_train(solution, i, budget)
        error = f"{100 * found.error:.2g} % of its range, rms over {NUM_HELD_OUT:,} random states"
        if found.error > MAX_ERROR:
            notes.append(f"{name} has no map: the best train is off by {error}")
            continue
        note = f"rms error {100 * found.error:.2g} %"
        about = "The action with the largest value" + (f", its coordinate {i + 1}." if count > 1 else ".")
        layers.append(Layer(name, found.cores, solution.order, is_diverging=True, note=note, about=about, run=number))
        notes.append(f"{name} is shown as a train of rank {max(train.ranks(found.cores))}, off by {error}")
    if shown < count:
        notes.append(f"actuators {shown + 1} to {count} are not shown")
    return layers, notes


def _error(run: Run, exact: np.ndarray, number: int) -> TableLayer:
    """V − V* at the nodes: whoever has the exact answer can list them."""
    assert run.cores is not None and run.order is not None
    points = run.outcome.grid.points
    nodes = np.indices(points).reshape(len(points), -1).T
    values = train.entries(run.cores, nodes[:, list(run.order)])
    error = np.asarray(values, np.float64) - exact.max(axis=1)
    return TableLayer(VALUE_ERROR, error, points, is_diverging=True, about="V minus the exact V*.", run=number)


def tensor_facts(run: Run) -> Facts:
    config, found = run.setup, run.outcome
    assert config.sampler is not None and found.ranks is not None and found.order is not None
    spent = [f"{found.last[name]:,} {word}" for name, word in COSTS.items() if found.last.get(name)]
    names = found.axis_names or [f"s{axis + 1}" for axis in range(len(found.order))]
    return [
        *common_facts(run),
        ("Sampler", called(config.sampler["kind"], config.sampler)),
        ("Ranks", ", ".join(map(str, found.ranks))),
        ("Order of the axes", ", ".join(names[axis] for axis in found.order)),
        ("Residual", f"{run.residual:.2%} of V, rms over held-out states"),
        ("Backups", f"{found.last['reads']:,}"),
        ("Cost", ", ".join(spent) or "exact sums: nothing was drawn"),
        ("Time", f"{found.seconds:.1f} s, {found.iterations} iterations, seed {config.seed}"),
        versions(run),
    ]
