"""Certificates made by hand: they need no draws, and no solver."""

import dataclasses
from typing import Any

import numpy as np

from hamq.certificates.certificate import Certificate, PartialCertificate
from hamq.problem.problem import Problem
from hamq.solution import Cost

COST = Cost(7000, 35_000, 2_000)


def certificate(problem: Problem, q: np.ndarray, seed: int = 0, **changes: Any) -> Certificate:
    """Bounds at random distances of Q, another one on each side."""
    rng = np.random.default_rng(seed)
    lower, upper = q - rng.uniform(0.1, 1, q.shape), q + rng.uniform(0.1, 1, q.shape)
    error = float(np.maximum(q - lower, upper - q).max())
    loss = rng.uniform(0, 2, len(q))
    made = Certificate(problem, "guaranteed", 0.95, lower, upper, error, loss, 9.0, 100.0, 1234, COST, 1.5)
    return dataclasses.replace(made, **changes)


def vacuous(problem: Problem, q: np.ndarray) -> Certificate:
    return certificate(problem, q, error=9.0)


def partial(problem: Problem) -> PartialCertificate:
    return PartialCertificate(problem, "asymptotic", 0.9, 0.05, 0.25, 300, 64.0, COST, 2.5)
