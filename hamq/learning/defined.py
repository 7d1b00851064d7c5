"""Whether a log-density is a number, or −inf, wherever one looks: NaN and +inf are refused before anything is drawn.

A chain takes NaN for a place where nobody can be, and says nothing. So some pairs, all of a small problem, are looked at in
places of the whole box, its corners and walls among them. Later looks (tables of cells, lines through draws) go through
`Chains.logs_at`, which refuses in the same way.
"""

import itertools

import numpy as np
from jaxtyping import Float

from hamq.learning.chunks import PLACES, Chains
from hamq.learning.layout import call_shape
from hamq.learning.pilot import pilot_pairs
from hamq.problem.grid import Grid
from hamq.problem.problem import Problem, listed_actions
from hamq.sampling.hmc import HMC
from hamq.sampling.modes import low_discrepancy
from hamq.types import Key, np_generator

INSET = 1e-3
"""Distance from a wall, in widths of the box: on the wall itself a density may have a pole."""
MOST_CORNERS = 32


def require_defined(problem: Problem, *, key: Key) -> int:
    """Density evaluations of the look; refuses NaN and +inf with the state, the action and the next state."""
    num = int(np.prod(call_shape()))
    total = problem.num_states * problem.num_actions
    if total <= num:
        state, action = np.divmod(np.minimum(np.arange(num), total - 1), problem.num_actions)
        states = problem.grid.states_at(state).astype(np.float32)
        actions = np.asarray(listed_actions(problem), np.float32)[action]
    else:
        states, actions = pilot_pairs(problem, num, key=key)
    places = looked_at(problem.grid, key=key)
    Chains(problem, HMC(1)).logs_at(states, actions, np.broadcast_to(places, (num, *places.shape)))
    return min(total, num) * len(places)


def looked_at(grid: Grid, *, key: Key) -> Float[np.ndarray, "places d"]:
    """Corners, the middle of every wall, and places spread over the box."""
    d, random = grid.dimension, np_generator(key)
    signs = np.asarray(list(itertools.product((0, 1), repeat=d))) if 2**d <= MOST_CORNERS else None
    corners = random.integers(2, size=(MOST_CORNERS, d)) if signs is None else signs
    middles = np.full((2 * d, d), 0.5)
    middles[np.arange(2 * d), np.arange(2 * d) // 2] = np.arange(2 * d) % 2
    edge = np.clip(np.concatenate([corners, middles[: PLACES - len(corners)]]), INSET, 1 - INSET)
    shares = np.concatenate([edge, low_discrepancy(PLACES - len(edge), d)])
    return (np.asarray(grid.lower) + np.asarray(grid.widths) * shares).astype(np.float32)
