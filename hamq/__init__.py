"""Stochastic control with transition densities known up to a constant. The public names, imported when first used."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hamq import deep as deep
    from hamq import envs as envs
    from hamq.certificates import theory as theory
    from hamq.certificates.certificate import Certificate as Certificate
    from hamq.certificates.certificate import PartialCertificate as PartialCertificate
    from hamq.certificates.certify import certify as certify
    from hamq.certificates.chain_diagnosis import ChainDiagnosis as ChainDiagnosis
    from hamq.certificates.comparison import Comparison as Comparison
    from hamq.certificates.comparison import compare as compare
    from hamq.certificates.diagnostics import diagnose as diagnose
    from hamq.certificates.tensor_residual import Residuals as Residuals
    from hamq.certificates.tensor_residual import tensor_residuals as tensor_residuals
    from hamq.completion.anchors import Anchors as Anchors
    from hamq.completion.completion import AbstractCompletion as AbstractCompletion
    from hamq.completion.keep import Keep as Keep
    from hamq.completion.nuclear_norm import NuclearNorm as NuclearNorm
    from hamq.completion.rank import effective_rank as effective_rank
    from hamq.completion.soft_impute import SoftImpute as SoftImpute
    from hamq.control.linear_quadratic import lqr_policy as lqr_policy
    from hamq.control.model_predictive import mpc_policy as mpc_policy
    from hamq.control.rollouts import Rollouts as Rollouts
    from hamq.control.rollouts import paired_difference as paired_difference
    from hamq.control.rollouts import random_starts as random_starts
    from hamq.control.rollouts import rollouts as rollouts
    from hamq.envs.evaluation import Evaluation as Evaluation
    from hamq.envs.evaluation import evaluate as evaluate
    from hamq.errors import HamqError as HamqError
    from hamq.errors import HamqWarning as HamqWarning
    from hamq.exact.bellman import evaluate_policy as evaluate_policy
    from hamq.learning.backup import expected_values as expected_values
    from hamq.learning.draws import draw_each as draw_each
    from hamq.learning.literal import literal_provenance as literal_provenance
    from hamq.learning.literal import paper_literal as paper_literal
    from hamq.learning.passes import Passes as Passes
    from hamq.problem import zoo as problems
    from hamq.problem.actions import ProductActions as ProductActions
    from hamq.problem.grid import Grid as Grid
    from hamq.problem.kernels.axes import AxesKernel as AxesKernel
    from hamq.problem.kernels.gaussian import GaussianKernel as GaussianKernel
    from hamq.problem.kernels.kernel import AbstractDensity as AbstractDensity
    from hamq.problem.kernels.kernel import AbstractKernel as AbstractKernel
    from hamq.problem.kernels.unnormalized import UnnormalizedKernel as UnnormalizedKernel
    from hamq.problem.problem import Problem as Problem
    from hamq.problem.programs import use_compilation_cache as use_compilation_cache
    from hamq.problem.scene import Scene as Scene
    from hamq.report.policy_map import plot as plot
    from hamq.report.writing import report as report
    from hamq.runs.loading import load as load
    from hamq.runs.loading import load_tensor as load_tensor
    from hamq.runs.reading import Run as Run
    from hamq.runs.reading import read_run as read_run
    from hamq.runs.solving import solve as solve
    from hamq.runs.solving import solve_exact as solve_exact
    from hamq.runs.solving import solve_tensor as solve_tensor
    from hamq.sampling.draws import AbstractSampler as AbstractSampler
    from hamq.sampling.exhaustive import Exhaustive as Exhaustive
    from hamq.sampling.hmc import HMC as HMC
    from hamq.sampling.iid import IID as IID
    from hamq.sampling.importance import Importance as Importance
    from hamq.solution import AbstractSolution as AbstractSolution
    from hamq.solution import Solution as Solution
    from hamq.tensor.solution import TensorSolution as TensorSolution

_HOME = {
    "AbstractCompletion": "hamq.completion.completion",
    "AbstractDensity": "hamq.problem.kernels.kernel",
    "AbstractKernel": "hamq.problem.kernels.kernel",
    "AbstractSampler": "hamq.sampling.draws",
    "AbstractSolution": "hamq.solution",
    "Anchors": "hamq.completion.anchors",
    "AxesKernel": "hamq.problem.kernels.axes",
    "ChainDiagnosis": "hamq.certificates.chain_diagnosis",
    "Certificate": "hamq.certificates.certificate",
    "Comparison": "hamq.certificates.comparison",
    "Evaluation": "hamq.envs.evaluation",
    "Exhaustive": "hamq.sampling.exhaustive",
    "GaussianKernel": "hamq.problem.kernels.gaussian",
    "Grid": "hamq.problem.grid",
    "HMC": "hamq.sampling.hmc",
    "HamqError": "hamq.errors",
    "HamqWarning": "hamq.errors",
    "IID": "hamq.sampling.iid",
    "Importance": "hamq.sampling.importance",
    "Keep": "hamq.completion.keep",
    "NuclearNorm": "hamq.completion.nuclear_norm",
    "PartialCertificate": "hamq.certificates.certificate",
    "Passes": "hamq.learning.passes",
    "Problem": "hamq.problem.problem",
    "ProductActions": "hamq.problem.actions",
    "Residuals": "hamq.certificates.tensor_residual",
    "Rollouts": "hamq.control.rollouts",
    "Run": "hamq.runs.reading",
    "Scene": "hamq.problem.scene",
    "SoftImpute": "hamq.completion.soft_impute",
    "Solution": "hamq.solution",
    "TensorSolution": "hamq.tensor.solution",
    "UnnormalizedKernel": "hamq.problem.kernels.unnormalized",
    "certify": "hamq.certificates.certify",
    "compare": "hamq.certificates.comparison",
    "diagnose": "hamq.certificates.diagnostics",
    "draw_each": "hamq.learning.draws",
    "effective_rank": "hamq.completion.rank",
    "evaluate": "hamq.envs.evaluation",
    "evaluate_policy": "hamq.exact.bellman",
    "expected_values": "hamq.learning.backup",
    "literal_provenance": "hamq.learning.literal",
    "load": "hamq.runs.loading",
    "load_tensor": "hamq.runs.loading",
    "lqr_policy": "hamq.control.linear_quadratic",
    "mpc_policy": "hamq.control.model_predictive",
    "paired_difference": "hamq.control.rollouts",
    "paper_literal": "hamq.learning.literal",
    "plot": "hamq.report.policy_map",
    "random_starts": "hamq.control.rollouts",
    "read_run": "hamq.runs.reading",
    "rollouts": "hamq.control.rollouts",
    "solve": "hamq.runs.solving",
    "solve_exact": "hamq.runs.solving",
    "solve_tensor": "hamq.runs.solving",
    "tensor_residuals": "hamq.certificates.tensor_residual",
    "use_compilation_cache": "hamq.problem.programs",
}

__version__ = "0.1.0"
_MODULES = {
    "deep": "hamq.deep",
    "envs": "hamq.envs",
    "problems": "hamq.problem.zoo",
    "report": "hamq.report",
    "theory": "hamq.certificates.theory",
}
__all__ = [*_HOME, "deep", "envs", "problems", "report", "theory"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'hamq' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
