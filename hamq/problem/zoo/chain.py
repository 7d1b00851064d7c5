"""What the chains have in common: which links are pushed, by how much, and by what set of actions."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from hamq.problem.actions import ProductActions
from hamq.problem.zoo.preset import is_number
from hamq.types import HamqError, require_count


def pushed_links(num_links: int, num_actuators: int) -> tuple[int, ...]:
    """⌊i·num_links/num_actuators⌋: spread evenly, the first at the first link."""
    return tuple(i * num_links // num_actuators for i in range(num_actuators))


def push_on_each(action: Float[Array, "..."], num_links: int) -> Float[Array, " links"]:
    """The action's numbers at the links they push, 0 elsewhere; a scalar is one actuator."""
    pushes = jnp.reshape(action, (-1,))
    num_actuators = pushes.shape[0]
    if num_actuators == num_links:
        return pushes
    source = np.full(num_links, num_actuators)  # of the links without an actuator: the 0 behind the pushes
    source[list(pushed_links(num_links, num_actuators))] = np.arange(num_actuators)
    return jnp.concatenate([pushes, jnp.zeros(1, pushes.dtype)])[source]


def neighbours(values: Float[Array, " links"]) -> tuple[Float[Array, " links"], Float[Array, " links"]]:
    """(what is to the left of each link, what is to its right); 0 beyond the ends."""
    beyond = jnp.zeros(1, values.dtype)
    return jnp.concatenate([beyond, values[:-1]]), jnp.concatenate([values[1:], beyond])


def make_actions(limit: float, num_actions: int, num_actuators: int) -> np.ndarray | ProductActions:
    """Levels spread evenly over ±limit (one: 0): scalars for one actuator, vectors for several."""
    levels = np.linspace(-limit, limit, num_actions) if num_actions > 1 else np.zeros(1)
    return levels if num_actuators == 1 else ProductActions([levels] * num_actuators)


def axis_names(link: str, coordinates: tuple[str, str], num_links: int) -> tuple[str, ...]:
    """(`mass 1 position`, `mass 1 velocity`, `mass 2 position`, …)."""
    return tuple(f"{link} {i + 1} {coordinate}" for i in range(num_links) for coordinate in coordinates)


def check_chain(name: str, links: str, num_links: Any, num_actuators: Any, num_actions: Any, noise: Any) -> None:
    require_count(f"{name}: {links}", num_links, 1, "the state has two coordinates for each")
    require_count(f"{name}: num_actuators", num_actuators, 1, f"each pushes another one of the {links}")
    if num_actuators > num_links:
        raise HamqError(f"{name}: num_actuators = {num_actuators} is more than {links} = {num_links}; use one for each.")
    require_count(f"{name}: num_actions", num_actions, 1, "they are the levels of one actuator")
    if not is_number(noise) or noise <= 0:
        raise HamqError(f"{name}: noise must be a finite number above 0, got {noise!r}; it multiplies every σ.")
