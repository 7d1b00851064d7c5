"""Where each constant of the paper's problems comes from."""

from hamq.problem.zoo.acrobot import PRESETS as ACROBOT
from hamq.problem.zoo.cart_double_pendulum import PRESETS as CART_DOUBLE_PENDULUM
from hamq.problem.zoo.cartpole import PRESETS as CARTPOLE
from hamq.problem.zoo.double_integrator import PRESETS as DOUBLE_INTEGRATOR
from hamq.problem.zoo.pendulum import PRESETS as PENDULUM
from hamq.problem.zoo.preset import Sourced, find_preset
from hamq.types import HamqError

PRESETS = {
    "pendulum": PENDULUM,
    "double_integrator": DOUBLE_INTEGRATOR,
    "cartpole": CARTPOLE,
    "acrobot": ACROBOT,
    "cart_double_pendulum": CART_DOUBLE_PENDULUM,
}


def provenance(name: str, preset: str = "paper") -> dict[str, Sourced]:
    """The constants of one preset by name, each with its value and its source (see `Sourced`)."""
    if name not in PRESETS:
        raise HamqError(f"provenance: the paper's problems are {', '.join(PRESETS)}; got {name!r}.")
    return find_preset(name, PRESETS[name], preset).provenance()
