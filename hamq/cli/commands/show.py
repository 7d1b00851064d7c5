"""`hamq show`: what a run folder holds."""

from collections.abc import Callable
from typing import Any

import hamq
from hamq.cli.messages import PrintOptions, inert, make_console, make_table, print_json
from hamq.cli.parsing import Command, Request

COMMAND = Command("RUN", "what a run folder holds", 5, {"output": PrintOptions()})
DRAWN = ("distance", "residual", "change", "error", "rank", "unidentified")
"""Columns of the history that are drawn where they vary."""
SPENT = ("reads", "samples", "density_evaluations", "gradient_evaluations", "seconds")
"""Columns that only grow."""
DIGITS = {"seconds": 1}


def run(request: Request) -> int:
    name = request.words[0]
    found = hamq.read_run(name)
    if request.options["output"].json:
        print_json(_described(found))
        return 0
    console = make_console()
    console.print(_settings(name, found))
    console.print(_result(found))
    if found.certificate is not None:
        console.print(f"Certificate: {found.certificate.sentence}")
    if (line := _health(found)) is not None:
        console.print(line)
    if len(found.history):
        console.print(_history(found))
    if (picture := _map(found)) is not None:
        console.print(*picture, sep="\n")
    versions = ", ".join(f"{package} {version}" for package, version in found.manifest.versions.items())
    console.print(f"Written with {versions}; problem {found.manifest.problem[:12]}.", style="dim")
    return 0


def can_resume(found: "hamq.Run") -> bool:
    from hamq.runs.storage import CHECKPOINT

    is_open = CHECKPOINT in found.manifest.files or not found.is_finished
    return found.setup.command in ("solve", "solve-tensor") and is_open


def _described(found: "hamq.Run") -> dict[str, Any]:
    return {
        "path": str(found.path),
        "config": found.config,
        "finished": found.is_finished,
        "can_resume": can_resume(found),
        "result": found.result,
        "converged": found.converged,
        "error": found.error,
        "expected_error": found.expected_error,
        "residual": found.residual,
        "certificate": None if found.certificate is None else found.certificate.facts(),
        "health": health_summary(found),
        "summary": found.summary,
        "history": {name: column.tolist() for name, column in found.history.columns.items()},
        "versions": found.manifest.versions,
        "problem_hash": found.manifest.problem,
    }


def _settings(name: str, found: "hamq.Run") -> Any:
    from rich import box
    from rich.table import Table

    table = Table(title=f"{found.setup.command} in {name}", title_justify="left", box=box.SIMPLE, show_header=False)
    for key, value in found.config.items():
        if value is not None and key not in ("command", "output"):
            table.add_row(key, _text(value))
    return table


def _text(value: Any) -> str:
    """`kind(field=value, …)` for what has one, without what is not set."""
    if not isinstance(value, dict):
        return str(value)
    head = value.get("kind") or value.get("name", "")
    fields = value.get("options", {key: entry for key, entry in value.items() if key != "kind"})
    if fields is None:  # the problem was given as an object
        return head
    return f"{head}({', '.join(f'{key}={entry}' for key, entry in fields.items() if entry is not None)})"


def _result(found: "hamq.Run") -> Any:
    from rich.text import Text

    if not found.is_finished:
        saved = f"Not finished: {len(found.history)} iterations are saved; the same command with --resume continues it."
        return Text(saved, "yellow")
    more = " It can be resumed with more --iterations." if can_resume(found) else ""
    more += "" if found.cores is None else f"\n{_ranks(found)}"
    return Text(f"{inert(str(found.result))}.", "green" if found.converged else "yellow") + Text(more)


def health_summary(found: "hamq.Run") -> dict[str, Any] | None:
    """Medians, worst states and the stuck share of the sampler; None of what its sampler does not have."""
    import numpy as np

    if found.health is None:
        return None
    acceptance, stuck, effective = (found.health[name] for name in ("acceptance", "stuck", "effective"))
    return {
        "median_acceptance": _over(np.nanmedian, acceptance),
        "worst_acceptance": _over(np.nanmin, acceptance),
        "worst_state": _over(np.nanargmin, acceptance),
        "stuck": _over(np.nanmean, stuck),
        "median_effective": _over(np.nanmedian, effective),
        "worst_effective": _over(np.nanmin, effective),
    }


def _over(measure: Callable[[Any], Any], values: Any) -> float | int | None:
    """None where nothing was measured: all are NaN, which differs from itself."""
    return None if (values != values).all() else measure(values).item()


def _health(found: "hamq.Run") -> str | None:
    measured = health_summary(found)
    if measured is None or measured["median_effective"] is None:
        return None
    parts = []
    if measured["median_acceptance"] is not None:
        median, worst, state = (measured[name] for name in ("median_acceptance", "worst_acceptance", "worst_state"))
        parts.append(f"acceptance {median:.2f} in the median state, {worst:.2f} in the worst (state {state})")
    if measured["stuck"] is not None:
        parts.append(f"{measured['stuck']:.2g} of the chains stuck")
    few = measured["worst_effective"]
    parts.append(f"{measured['median_effective']:,.3g} effective draws per pair, {few:,.3g} in the worst state")
    if found.expected_error is not None:
        parts.append(f"expected error of Q {found.expected_error:.1%} of the range of V")
    return f"Sampler: {'; '.join(parts)}."


def _ranks(found: "hamq.Run") -> str:
    from hamq.tensor import train

    assert found.cores is not None and found.order is not None
    size = sum(core.size for core in found.cores)
    ranks, axes = ", ".join(map(str, train.ranks(found.cores))), ", ".join(map(str, found.order))
    return f"Ranks {ranks} between the axes {axes}; {size:,} numbers."


def _history(found: "hamq.Run") -> Any:
    import numpy as np

    from hamq.cli.terminal import sparkline

    bars = f"{len(found.history)} iterations, logarithmic"
    table = make_table(("history", "first", "last", bars), ("history", bars))
    for name in (name for name in DRAWN if name in found.history.columns):
        column = found.history.columns[name].astype(float)
        if np.isfinite(column).any() and np.ptp(column) > 0:
            table.add_row(name, f"{column[0]:.3g}", f"{column[-1]:.3g}", sparkline(column))
    for name in (name for name in SPENT if name in found.history.columns):
        table.add_row(name.replace("_", " "), "", f"{found.history.columns[name][-1].item():,.{DIGITS.get(name, 0)}f}", "")
    return table


def _map(found: "hamq.Run") -> Any:
    from hamq.cli.terminal import policy_map, value_map

    if found.q is not None:
        return policy_map(found.q, found.outcome.grid.points)
    return None if found.cores is None or found.order is None else value_map(found.cores, found.order)
