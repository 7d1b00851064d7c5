"""The library on densities of the bank: nothing is silently wrong. `python -m benchmarks.bank` runs all of it.

One test is one capability on several densities that share compiled programs; a failure lists every density.
"""

import functools

import pytest

from tests.densities.bank import named
from tests.densities.capabilities import applies, put_through
from tests.densities.problems import pose_all

pytestmark = pytest.mark.timeout(1200)  # a test is one capability on many problems

QUICK = (
    "normal", "lognormal", "gamma_pole", "exponential", "uniform", "bimodal_far", "mode_half_narrow", "noise_twentieth",
)  # fmt: skip
PLANES = ("correlated", "ring", "funnel", "mode_5_2d", "wall_with_gate", "noise_twentieth_2d")
HATS = ("normal_2d", "gumbel_2d", "student_2d", "trimodal_2d", "exponential_2d", "repelling_pair")
SPACES = ("torus", "corner")
LAST = ("student_3d", "agents", "normal_4d", "shell_4d", "tube_4d", "half_space_4d", "gap", "income", "von_mises", "arc")
"""Those that share programs with few others, or none."""


@functools.cache
def posed(names: tuple[str, ...]) -> list:
    densities = named(names)
    return list(zip(densities, pose_all(densities), strict=True))


def nothing_is_wrong(names: tuple[str, ...], capability: str, only: tuple[str, ...] | None = None) -> None:
    outcomes = [
        put_through(density, problem, capability)
        for density, problem in posed(names)
        if (only is None or density.name in only) and applies(density, capability)
    ]
    wrong = [str(outcome) for outcome in outcomes if outcome.kind == "WRONG"]
    assert outcomes and not wrong, "\n".join(wrong)


@pytest.mark.parametrize("capability", ["exact", "solve", "lookahead"])
def test_a_line(capability):
    nothing_is_wrong(QUICK, capability)


@pytest.mark.parametrize("capability", ["rollouts", "environment"])
def test_steps_on_a_line(capability):
    """Simulators take a second for each density: a few of them, the rest with `make check`."""
    nothing_is_wrong(QUICK, capability, only=("normal", "lognormal", "uniform", "bimodal_far"))


OTHERS = ("solve_hmc", "solve_importance", "solve_iid", "solve_exhaustive", "certify", "certify_chains", "diagnose")
ALL = ("exact", "solve", *OTHERS, "rollouts", "environment", "lookahead")


@pytest.mark.slow
@pytest.mark.parametrize("capability", (*OTHERS, "rollouts", "environment"))
def test_a_line_by_every_sampler_and_certificate(capability):
    nothing_is_wrong(QUICK, capability)


@pytest.mark.slow
@pytest.mark.parametrize("capability", ALL)
def test_a_plane(capability):
    nothing_is_wrong(PLANES, capability)


@pytest.mark.slow
@pytest.mark.parametrize("capability", ["tensor", "solve", "rollouts", "environment", "lookahead"])
def test_a_plane_with_hats(capability):
    nothing_is_wrong(HATS, capability)


@pytest.mark.slow
@pytest.mark.parametrize("capability", ["solve", "certify_chains", "rollouts", "lookahead"])
def test_a_space(capability):
    nothing_is_wrong(SPACES, capability)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAST)
def test_what_shares_little(name):
    nothing_is_wrong((name,), "solve")
    nothing_is_wrong((name,), "rollouts")
