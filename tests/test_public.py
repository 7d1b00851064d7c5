"""The public names: all there, lazy, and each what it says."""

import subprocess
import sys

import pytest

import hamq

NAMES = [
    "Exhaustive",
    "GaussianKernel",
    "Grid",
    "HMC",
    "HamqWarning",
    "IID",
    "Importance",
    "Problem",
    "ProductActions",
    "Solution",
    "UnnormalizedKernel",
    "evaluate_policy",
    "load_tensor",
    "lqr_policy",
    "mpc_policy",
    "paired_difference",
    "problems",
    "random_starts",
    "rollouts",
    "solve_exact",
    "tensor_residuals",
    "use_compilation_cache",
]


def test_importing_costs_nothing():
    """Neither JAX nor NumPy before a name is used."""
    code = "import sys, hamq; dir(hamq); print([m for m in ('jax', 'numpy', 'scipy', 'equinox') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_names_are_listed():
    assert set(NAMES) <= set(dir(hamq))
    assert dir(hamq) == sorted(dir(hamq))
    assert set(hamq.__all__) == set(dir(hamq))


@pytest.mark.parametrize("name", NAMES)
def test_name_resolves(name):
    found = getattr(hamq, name)
    assert found.__name__ in (name, "hamq.problem.zoo")


def test_every_listed_name_resolves():
    for name in hamq.__all__:
        assert getattr(hamq, name) is not None


@pytest.mark.parametrize(
    ("module", "names"),
    [("deep", ("deep_config", "train_seeds", "make_train", "fit_value_network")), ("envs", ("ProblemEnv", "IDS"))],
)
def test_modules_of_extras_need_no_import_of_their_own(module, names):
    code = f"import hamq; print([getattr(hamq.{module}, name) is not None for name in {names}], dir(hamq.{module}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "False" not in run.stdout and all(name in run.stdout for name in names)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="module 'hamq' has no attribute 'solve_by_magic'"):
        hamq.solve_by_magic  # noqa: B018


def test_the_zoo_is_public():
    paper = {"acrobot", "cart_double_pendulum", "cartpole", "double_integrator", "pendulum"}
    assert paper | {"pendulum_chain", "repelling_agents", "spring_chain"} <= set(dir(hamq.problems))
