"""Problems of the library made of the records of the bank.

Whatever the library compiles, it compiles for the functions of a problem, and takes the actions as an array. `pose_all`
uses that: densities of one grid share two functions, and an action is a pair, its value and the number of its density.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

import hamq
from tests.densities.record import Density


@functools.cache
def pose(density: Density) -> hamq.Problem:
    """The problem as a user would write it."""

    def logdensity(next_state, state, action):
        return density.logdensity(jnp, next_state, state, action)

    return _problem(density, jnp.asarray(density.actions, jnp.float32), logdensity, _reward(density.reward, False))


def pose_all(densities: Sequence[Density], size: int = 8) -> list[hamq.Problem]:
    """The same problems with actions `[A, 2]`, those of one grid with the same functions: compiled once for all of them."""
    found: dict[str, hamq.Problem] = {}
    for group in groups(densities, size):
        logdensity, reward = _switch(group), _reward(group[0].reward, True)
        for i, density in enumerate(group):
            actions = jnp.asarray([(value, i) for value in density.actions], jnp.float32)
            found[density.name] = _problem(density, actions, logdensity, reward)
    return [found[density.name] for density in densities]


def groups(densities: Sequence[Density], size: int = 8) -> list[list[Density]]:
    """Those that agree in everything that a compiled program takes for granted, at most `size` together.

    All densities of a group are evaluated wherever one is: eight take three times the time of one, and compile in less
    than twice.
    """
    found: dict[Any, list[Density]] = {}
    for density in densities:
        shape = density.lower, density.upper, density.points, density.circles, density.law, len(density.actions)
        found.setdefault((*shape, density.reward, density.discount), []).append(density)
    return [group[i : i + size] for group in found.values() for i in range(0, len(group), size)]


def _switch(group: Sequence[Density]):
    branches = [functools.partial(density.logdensity, jnp) for density in group]

    def logdensity(next_state, state, action):
        return jax.lax.switch(action[1].astype(jnp.int32), branches, next_state, state, action[0])

    return logdensity


def _reward(reward, is_pair: bool):
    return lambda state, action: reward(jnp, state, action[0] if is_pair else action)


def _problem(density: Density, actions: jax.Array, logdensity, reward) -> hamq.Problem:
    return hamq.Problem(
        grid=hamq.Grid(density.lower, density.upper, density.points, density.circles),
        actions=actions,
        kernel=hamq.UnnormalizedKernel(logdensity),
        reward=reward,
        discount=density.discount,
        law=density.law,  # type: ignore[arg-type]
        name=density.name,
    )
