"""Stochastic control with transition densities known up to a constant. The public names, imported when first used."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hamq.certificates import theory as theory
    from hamq.certificates.certificate import Certificate as Certificate
    from hamq.certificates.certificate import PartialCertificate as PartialCertificate
    from hamq.certificates.certify import certify as certify
    from hamq.certificates.chain_diagnosis import ChainDiagnosis as ChainDiagnosis
    from hamq.certificates.comparison import Comparison as Comparison
    from hamq.certificates.comparison import compare as compare
    from hamq.certificates.diagnostics import diagnose as diagnose
    from hamq.certificates.linear_quadratic import lqr_policy as lqr_policy
    from hamq.certificates.model_predictive import mpc_policy as mpc_policy
    from hamq.certificates.rollouts import Rollouts as Rollouts
    from hamq.certificates.rollouts import paired_difference as paired_difference
    from hamq.certificates.rollouts import random_starts as random_starts
    from hamq.certificates.rollouts import rollouts as rollouts
    from hamq.certificates.tensor_residual import Residuals as Residuals
    from hamq.certificates.tensor_residual import tensor_residuals as tensor_residuals
    from hamq.completion.anchors import Anchors as Anchors
    from hamq.completion.nuclear_norm import NuclearNorm as NuclearNorm
    from hamq.completion.rank import effective_rank as effective_rank
    from hamq.completion.soft_impute import SoftImpute as SoftImpute
    from hamq.envs.evaluation import Evaluation as Evaluation
    from hamq.envs.evaluation import evaluate as evaluate
    from hamq.exact.bellman import evaluate_policy as evaluate_policy
    from hamq.exact.solution import Solution as Solution
    from hamq.exact.value_iteration import solve_exact as solve_exact
    from hamq.learning.backup import expected_values as expected_values
    from hamq.learning.draws import draw_each as draw_each
    from hamq.learning.literal import literal_provenance as literal_provenance
    from hamq.learning.literal import paper_literal as paper_literal
    from hamq.learning.q_iteration import solve as solve
    from hamq.problem import zoo as problems
    from hamq.problem.actions import ProductActions as ProductActions
    from hamq.problem.cache import use_compilation_cache as use_compilation_cache
    from hamq.problem.grid import Grid as Grid
    from hamq.problem.kernel import GaussianKernel as GaussianKernel
    from hamq.problem.kernel import UnnormalizedKernel as UnnormalizedKernel
    from hamq.problem.problem import Problem as Problem
    from hamq.problem.scene import Scene as Scene
    from hamq.report.policy_map import plot as plot
    from hamq.runs.loading import load_tensor as load_tensor
    from hamq.runs.reading import read_run as read_run
    from hamq.sampling.exhaustive import Exhaustive as Exhaustive
    from hamq.sampling.hmc import HMC as HMC
    from hamq.sampling.iid import IID as IID
    from hamq.sampling.importance import Importance as Importance
    from hamq.tensor.solution import TensorSolution as TensorSolution
    from hamq.tensor.solve import solve_tensor as solve_tensor
    from hamq.types import HamqWarning as HamqWarning

_HOME = {
    "Anchors": "hamq.completion.anchors",
    "ChainDiagnosis": "hamq.certificates.chain_diagnosis",
    "Certificate": "hamq.certificates.certificate",
    "Comparison": "hamq.certificates.comparison",
    "Evaluation": "hamq.envs.evaluation",
    "Exhaustive": "hamq.sampling.exhaustive",
    "GaussianKernel": "hamq.problem.kernel",
    "Grid": "hamq.problem.grid",
    "HMC": "hamq.sampling.hmc",
    "HamqWarning": "hamq.types",
    "IID": "hamq.sampling.iid",
    "Importance": "hamq.sampling.importance",
    "NuclearNorm": "hamq.completion.nuclear_norm",
    "PartialCertificate": "hamq.certificates.certificate",
    "Problem": "hamq.problem.problem",
    "ProductActions": "hamq.problem.actions",
    "Residuals": "hamq.certificates.tensor_residual",
    "Rollouts": "hamq.certificates.rollouts",
    "Scene": "hamq.problem.scene",
    "SoftImpute": "hamq.completion.soft_impute",
    "Solution": "hamq.exact.solution",
    "TensorSolution": "hamq.tensor.solution",
    "UnnormalizedKernel": "hamq.problem.kernel",
    "certify": "hamq.certificates.certify",
    "compare": "hamq.certificates.comparison",
    "diagnose": "hamq.certificates.diagnostics",
    "draw_each": "hamq.learning.draws",
    "effective_rank": "hamq.completion.rank",
    "evaluate": "hamq.envs.evaluation",
    "evaluate_policy": "hamq.exact.bellman",
    "expected_values": "hamq.learning.backup",
    "literal_provenance": "hamq.learning.literal",
    "load_tensor": "hamq.runs.loading",
    "lqr_policy": "hamq.certificates.linear_quadratic",
    "mpc_policy": "hamq.certificates.model_predictive",
    "paired_difference": "hamq.certificates.rollouts",
    "paper_literal": "hamq.learning.literal",
    "plot": "hamq.report.policy_map",
    "random_starts": "hamq.certificates.rollouts",
    "read_run": "hamq.runs.reading",
    "rollouts": "hamq.certificates.rollouts",
    "solve": "hamq.learning.q_iteration",
    "solve_exact": "hamq.exact.value_iteration",
    "solve_tensor": "hamq.tensor.solve",
    "tensor_residuals": "hamq.certificates.tensor_residual",
    "use_compilation_cache": "hamq.problem.cache",
}

__version__ = "0.1.0"
_MODULES = {"problems": "hamq.problem.zoo", "theory": "hamq.certificates.theory"}
__all__ = [*_HOME, "problems", "theory"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'hamq' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
