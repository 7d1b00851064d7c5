"""The paper to the letter, as arguments of `solve`."""

from typing import Any

from hamq.completion.nuclear_norm import NuclearNorm
from hamq.learning.passes import Passes
from hamq.problem.problem import Problem
from hamq.problem.zoo.preset import Sourced
from hamq.sampling.hmc import HMC

HIGH = 6
"""Dimension of the paper's large problem, which has settings of its own."""


def paper_literal(problem: Problem) -> dict[str, Any]:
    """The keyword arguments with which `solve` follows the paper to the letter; see `literal_provenance` for the sources.

    It does not converge: draws of different actions are independent, so that the maximum over actions is biased upward,
    and the completion sets rows without an entry (11 % of them with 10 actions) to 0. Where the paper's formula has the
    wrong sign (the walls, walls.py) or no value, the sign is mended and the value is marked as assumed.
    """
    given = {name: sourced.value for name, sourced in literal_provenance(problem).items()}
    sampler = HMC(
        num_samples=given["num_samples"],
        num_leapfrog=given["num_leapfrog"],
        step_size=given["leapfrog_step"],
        walls="sigmoid",
        sharpness=given["sharpness"],
        num_warmup=given["num_warmup"],
    )
    return {
        "sampler": sampler,
        "completion": NuclearNorm(unidentified="zero", selection="bernoulli", fraction=given["fraction"], completes="table"),
        "iterations": given["iterations"],
        "initial": f"uniform:{given['initial']:g}",
        "passes": Passes(draws="fresh", coupled=False, step_size=1.0),
    }


def literal_provenance(problem: Problem) -> dict[str, Sourced]:
    """Each setting with its value and where it comes from."""
    is_high = problem.grid.dimension >= HIGH
    return {
        "num_samples": Sourced(200 if is_high else 100, "paper"),
        "num_leapfrog": Sourced(100, "paper"),
        "leapfrog_step": Sourced(0.02, "paper"),
        "sharpness": Sourced(80.0, "authors' code"),
        "num_warmup": Sourced(5, "assumed"),
        "fraction": Sourced(0.2, "paper" if is_high else "assumed"),
        "iterations": Sourced(200, "paper"),
        "initial": Sourced(2.0 if is_high else 1.0, "paper"),
    }
