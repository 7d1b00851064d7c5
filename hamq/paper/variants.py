"""The three versions of every experiment, as arguments of `solve`, and the law that each is measured by.

    literal     as printed: HMC on the continuous density, exhaustive sum and Q* on point masses at the grid points, IID from
                the normalised row of point masses; rows without an entry are set to 0 by the completion
    corrected   the same schedule with one law for all (cell masses), and rows without an entry keep their value
    ours        the defaults of the library, on the cell law; `hmc-1M` is the same with a budget of 10⁶ gradients

The walls of the potential have the right sign in all of them: with the printed one the chain leaves the box.
"""

import dataclasses
from typing import Any, Literal, NamedTuple

from hamq.learning.literal import literal_provenance, paper_literal
from hamq.paper.tasks import pose
from hamq.problem.problem import Problem
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID
from hamq.types import Law

Variant = Literal["literal", "corrected", "ours"]
VARIANTS: tuple[Variant, ...] = ("literal", "corrected", "ours")

OUR_IID_SAMPLES = 400
"""Draws per pair of `ours` with IID. With anchors that is what the default budget buys HMC; where all pairs are backed up,
IID then has up to 3.4 times the samples of HMC (both stand in the tables)."""


class Posed(NamedTuple):
    """A problem to solve, the arguments of `solve`, and the law whose Q* it is compared with; no options: full sweeps."""

    problem: Problem
    law: Law
    options: dict[str, Any] | None


def law_of(variant: str) -> Law:
    return "point" if variant == "literal" else "cell"


def posed(task: str, variant: str, method: str) -> Posed:
    """What a run of this group solves; `method` is exhaustive, hmc, hmc-<budget> or iid."""
    law = law_of(variant)
    if method == "exhaustive":
        return Posed(pose(task, law), law, None)
    is_hmc = method.startswith("hmc")
    problem = pose(task, "cell" if is_hmc else law)
    if variant == "ours":
        options = {"max_gradients": budget(method)} if "-" in method else {} if is_hmc else {"sampler": IID(OUR_IID_SAMPLES)}
        return Posed(problem, law, options)
    options = paper_literal(problem)
    if variant == "corrected":
        options["completion"] = dataclasses.replace(options["completion"], unidentified="keep")
    if not is_hmc:
        options["sampler"] = IID(options["sampler"].num_samples)
    return Posed(problem, law, options)


def budget(method: str) -> int:
    """Gradients of a method such as `hmc-250k`."""
    number = method.partition("-")[2]
    return int(number[:-1]) * {"k": 1_000, "M": 1_000_000}[number[-1]]


def first_table_top(problem: Problem) -> float:
    """Upper end of the paper's uniformly random first table."""
    return literal_provenance(problem)["initial"].value


def literal_sampler(problem: Problem) -> HMC:
    return paper_literal(problem)["sampler"]
