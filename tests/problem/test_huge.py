"""Problems that nobody can enumerate: they are described, printed and hashed; what would enumerate them says no."""

import jax.random as jr
import numpy as np
import pytest

import hamq
from hamq.deep.config import DeepConfig
from hamq.deep.train import make_train
from hamq.exact.value_iteration import outside_surprises
from hamq.learning.pilot import NUM_PAIRS, pilot_pairs
from hamq.problem import cells, tables
from hamq.problem.lapack import calls_lapack
from hamq.runs.problem_hash import problem_hash
from hamq.types import as_count, as_power

STATES = (
    r"must enumerate the grid's 2\.656e\+95 states, more than 2\.147e\+09; use fewer points per axis, or hamq\.solve_tensor"
)
ACTIONS = r"must list the 1\.59e\+06 actions of 13 actuators, more than 1\.00e\+06; use fewer levels or actuators, or hamq\."
ENUMERATING = {
    "solve": hamq.solve,
    "solving .* exactly": hamq.solve_exact,
    "evaluate_policy": lambda problem: hamq.evaluate_policy(problem, np.zeros(3, int)),
    "Drawing for every state and action": lambda problem: hamq.draw_each(problem, hamq.IID(5), np.arange(2), key=0),
    "deep": lambda problem: make_train(problem, DeepConfig(), hamq.IID(5)),
    "a table of all pairs": tables.reward_table,
}


def many_states() -> hamq.Problem:
    return hamq.problems.spring_chain(50)


def many_actions() -> hamq.Problem:
    return hamq.problems.repelling_agents(13, points=3, per_agent=True)  # 1.6 million states


@pytest.mark.parametrize("what", ENUMERATING)
def test_what_would_enumerate_refuses(what):
    with pytest.raises(ValueError, match=f"{what} {STATES}"):
        ENUMERATING[what](many_states())
    with pytest.raises(ValueError, match=f"{what} {ACTIONS}"):
        ENUMERATING[what](many_actions())


def test_a_hundred_dimensions_are_described():
    mine = many_states()
    assert (mine.num_states, mine.grid.dimension, mine.num_actions) == (9**100, 100, 9)
    assert repr(mine).startswith("Problem('spring_chain': 2.66e+95 states in 100 dimensions × 9 actions, GaussianKernel, ")
    assert not mine.is_product and mine.notes == ()
    assert outside_surprises(mine) == [] and not calls_lapack(mine)


def test_numbers_beyond_a_float_are_said():
    """9⁶⁰⁰ is 10⁵⁷², where floats end at 10³⁰⁸."""
    mine = hamq.problems.pendulum_chain(300, points=9)
    assert "3.51e+572 states in 600 dimensions × 1.37e+143 actions" in repr(mine)
    for refused in (lambda: hamq.solve(mine), lambda: mine.grid.states()):
        with pytest.raises(ValueError, match=r"enumerate .*3\.512e\+572 states"):
            refused()
    with pytest.raises(ValueError, match=r"It needs 1\.35e\+1289 bytes for the 3\.51e\+572 masses"):
        cells.require_room(mine, "It", None, None)


def test_counts_as_text():
    assert [as_power(n) for n in (9, 10**6, 9**40, 10**400)] == ["9.00e+00", "1.00e+06", "1.48e+38", "1.00e+400"]
    assert [as_count(n) for n in (6561, 10**9 - 1, 10**9)] == ["6561", "999999999", "1.00e+09"]
    assert as_count(6561, ",") == "6,561"


def test_hashes_of_products_that_are_not_listed():
    def chain(**changes):
        return hamq.problems.spring_chain(**({"num_masses": 50, "num_actuators": 25} | changes))

    found = [problem_hash(chain(**changes)) for changes in ({}, {"num_actuators": 24}, {"num_actions": 8}, {"noise": 1.1})]
    assert len(set(found)) == 4
    assert problem_hash(chain()) == found[0]


def test_pilots_try_all_kinds_of_actions():
    mine = many_actions()
    states, actions = pilot_pairs(mine, NUM_PAIRS, key=jr.key(0))
    assert states.shape == actions.shape == (NUM_PAIRS, 13)
    assert set(np.unique(actions)) == {-1.0, 0.0, 1.0}
    assert len(np.unique(actions, axis=0)) == NUM_PAIRS
