"""The memory that a solve is refused by: what is kept of the draws, and once."""

import jax
import jax.random as jr
import numpy as np
import pytest

from hamq.completion.selection import some_states
from hamq.learning import layout
from hamq.learning.backup import draw_stock, stock_of
from hamq.learning.budget import PROGRAMS, memory_needed
from hamq.learning.devices import own_device
from hamq.learning.draws import draw_pairs, prepare
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID
from tests.exact.posed import swing

SAMPLERS = {"iid": IID(7), "hmc": HMC(7, num_leapfrog=1), "hmc, even": HMC(7, num_leapfrog=1, calibrate=False)}
BYTES = {"iid": (1, 8), "hmc": (5, 12), "hmc, even": (1, 8)}
"""Of a draw: an index of 35 states or a point of the plane, and a weight."""


def stocks(problem, sampler):
    """The same draws of 32 states × 3 actions, a multiple of what is computed at once: as they are kept, and from logs."""
    sampler, _ = prepare(problem, sampler, key=jr.key(0))
    pairs, devices = some_states(problem, np.arange(32)), own_device()
    kept, info, cost = draw_stock(problem, sampler, pairs, key=jr.key(1), coupled=True, devices=devices)
    drawn = draw_pairs(problem, sampler, *pairs, key=jr.key(1))
    jax.tree.map(np.testing.assert_array_equal, (info, cost), (drawn.info, drawn.cost))
    return kept, stock_of(drawn)


@pytest.mark.parametrize(("law", "name"), [*(("cell", name) for name in SAMPLERS), ("linear", "iid"), ("linear", "hmc")])
def test_a_draw_is_counted_as_it_is_kept(monkeypatch, law, name):
    monkeypatch.setattr(layout, "TILE", 16)  # two calls
    monkeypatch.setattr(layout, "STATES_PER_TILE", 16)
    problem, sampler = swing(law), SAMPLERS[name]
    kept, from_logs = stocks(problem, sampler)
    assert kept.rows.states.shape[1] == 2
    for ours, theirs in ((kept.locations, from_logs.locations), (kept.weights, from_logs.weights)):
        np.testing.assert_array_equal(ours, theirs)
    taken = kept.locations.nbytes + (0 if kept.weights is None else kept.weights.nbytes)
    assert taken == 32 * 3 * 7 * BYTES[name][law == "linear"]
    assert taken == memory_needed(problem, sampler, 32 * 3, 0) - memory_needed(problem, sampler, 0, 0)
    tables = 8 * 8 * problem.num_states * problem.num_actions
    assert memory_needed(problem, sampler, 0, 0) == PROGRAMS + tables
    assert memory_needed(problem, sampler, 0, 10) > PROGRAMS + tables + 10 * 7 * BYTES[name][law == "linear"]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, bool])
def test_devices_take_over_what_was_filled(dtype):
    """However it lies in memory by chance: 1, 2, 3 and more thousand numbers."""
    for length in range(1000, 9000, 1000):
        room = layout._aligned((length, 3), dtype)
        room[...] = 1
        placed = jax.device_put(room, jax.devices()[0])
        assert placed.shape == room.shape and placed.dtype == room.dtype
        assert placed.unsafe_buffer_pointer() == room.ctypes.data
