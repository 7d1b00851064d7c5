"""Pages to look at, and a problem whose names want to be more than text."""

from dataclasses import dataclass
from pathlib import Path

from hamq.problem.grid import Grid
from hamq.runs.reading import Run

HOSTILE = "</script><img src=x onerror='window.hurt=1'><script>window.hurt=1</script>\"&amp;{{data}}"
HOSTILE_PROBLEM = f"""
import jax.numpy as jnp
import hamq

def make():
    return hamq.Problem(
        grid=hamq.Grid([-1.0] * 3, [1.0] * 3, [3, 4, 5]),
        actions=jnp.array([-1.0, 0.5, 1.0]),
        kernel=hamq.GaussianKernel(mean=lambda s, a: 0.9 * s + 0.2 * a, covariance=[0.05] * 3),
        reward=lambda s, a: -jnp.sum(s**2) - 0.1 * a,
        discount=0.8,
        terminal=lambda s: s[0] > 0.9,
        name={HOSTILE!r},
        axis_names=[{HOSTILE!r} + str(i) for i in range(3)],
    )
"""


@dataclass(frozen=True)
class Posed:
    """A page and the runs that it shows, by their names."""

    path: Path
    runs: dict[str, Run]

    @property
    def run(self) -> Run:
        return next(iter(self.runs.values()))

    @property
    def grid(self) -> Grid:
        return Grid(**self.run.summary["grid"])

    @property
    def axis_names(self) -> list[str]:
        return self.run.summary["axis_names"]
