"""Trajectory lengths: the sampler is HMC's, theory and measurement agree on a Gaussian, pictures hold what was measured."""

import json

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from hamq.learning.draws import prepare
from hamq.paper import antithetic
from hamq.paper.tasks import reference
from hamq.sampling.draws import Target
from hamq.sampling.hmc import HMC

PAIRS = np.arange(3, 625, 41)
ACTIONS = (np.arange(len(PAIRS)) % 10)[:, None]


def test_blocks_of_steps_are_the_paper_s_trajectory():
    """Same key, same draws as `HMC`; rounding may turn single acceptances, and what follows them."""
    problem, key = reference("acrobot").exact.problem, jr.key(4)
    hmc, _ = prepare(problem, HMC(100, 25, 0.02, walls="sigmoid", sharpness=80.0, calibrate=False), key=key)
    ours = antithetic.LiteralHMC(jnp.asarray(5), 80.0)
    states, actions = problem.grid.states_at(PAIRS).astype(np.float32), problem.actions[ACTIONS[:, 0]].astype(np.float32)

    @jax.jit
    def drawn(states, actions, keys):
        """By both: the cells of the draws, and how often they were accepted."""

        def at(state, action, key):
            found = [sampler.draw(Target(problem, state, action), key=key) for sampler in (hmc, ours)]
            return [(jax.vmap(problem.grid.locate, in_axes=1)(draws.points), info.acceptance) for draws, info in found]

        return jax.vmap(at)(states, actions, keys)

    both = drawn(states, actions, jr.split(key, len(PAIRS)))
    cells, accepted = ([np.asarray(found) for found in part] for part in zip(*both, strict=True))
    is_same = cells[0] == cells[1]
    assert is_same[:, :20].mean() > 0.95 and is_same.mean() > 0.8
    assert np.mean(cells[0][:, 1:] != cells[0][:, :-1]) > 0.1  # and they move
    assert accepted[0].mean() == pytest.approx(accepted[1].mean(), abs=0.02)


def test_theory_by_hand():
    assert antithetic.theoretical("linear", 2.0) == pytest.approx((1 + 0.4161468) / (1 - 0.4161468))
    assert antithetic.theoretical("quadratic", 2.0) == pytest.approx((1 - 0.1731782) / (1 + 0.1731782), rel=1e-6)
    assert antithetic.theoretical("linear", np.pi / 2) == pytest.approx(1)


def test_gaussian_follows_the_theory(monkeypatch):
    """2,048 chains of 100 draws. A mean square of normals is within 4.9·√(2/2048) = 15 % (one in a million) of its
    expectation, squares of squares within twice that; 100 draws that start at the mode differ by up to 7 % from many."""
    monkeypatch.setattr(antithetic, "LENGTHS", (50, 100, 130))
    found = antithetic.measure_gaussian(8)
    for name, allowed in (("linear", 0.22), ("quadratic", 0.4)):
        row = found[name]
        for efficiency, low, high, theory in zip(row["efficiency"], row["low"], row["high"], row["theory"], strict=True):
            assert abs(efficiency / theory - 1) < allowed and low < efficiency < high
    assert found["linear"]["efficiency"][1] > 2 and found["quadratic"]["efficiency"][1] < 0.9


def test_task_measures_the_ratio_of_squared_errors(monkeypatch):
    """Acrobot, whose means lie outside the box: HMC is worse than IID at length 2 already, and far worse at π."""
    monkeypatch.setattr(antithetic, "LENGTHS", (100, 155))
    row = antithetic.measure_task("acrobot", 2)
    at_two, at_pi = row["efficiency"]
    assert 0.5 < at_two < 1 and at_pi < 0.4
    assert row["low"][0] < at_two < row["high"][0] < 1.2
    assert row["outside"] > 0.9 and row["outside_at_paper"] == pytest.approx(at_two, rel=0.1)
    assert all(0.8 < a <= 1 for a in row["acceptance"])


def test_efficiency_by_hand():
    """Two pairs with variances 1 and 3; squared errors 2, 2 at one length and 1, 1 at another: 4/4 and 4/2."""
    found = antithetic._efficiency(np.array([1.0, 3.0]), np.array([[2.0, 2.0], [1.0, 1.0]]))
    assert found["efficiency"] == pytest.approx([1, 2])
    assert found["low"] == pytest.approx([0.5, 1]) and found["high"] == pytest.approx([1.5, 3])


@pytest.fixture
def record():
    """Numbers that tell every line from every other."""
    length = [0.02 * steps for steps in antithetic.LENGTHS]
    at = antithetic.LENGTHS.index(100)

    def row(level):
        middle = [level * (1 + 0.1 * i) for i in range(len(length))]
        return {"efficiency": middle, "low": [0.9 * m for m in middle], "high": [1.2 * m for m in middle]}

    tasks = {
        task.name: row(0.3 + 0.2 * i) | {"outside": 0.1 * i, "acceptance": [1.0] * len(length)}
        for i, task in enumerate(antithetic.LOW)
    }
    functions = {
        name: row(level) | {"theory": [antithetic.theoretical(name, x) for x in length]}
        for name, level in (("linear", 1.7), ("quadratic", 0.53))
    }
    return json.loads(
        json.dumps(
            {
                "settings": {"num_chains": 4, "num_pairs": 256},
                "quick": True,
                "seeds": 2,
                "length": length,
                "paper_length": 2.0,
                "functions": functions,
                "tasks": tasks,
                "efficiency_at_paper": {name: task["efficiency"][at] for name, task in tasks.items()},
                "interval_at_paper": {name: [task["low"][at], task["high"][at]] for name, task in tasks.items()},
            }
        )
    )


def test_picture_holds_what_was_measured(record):
    left, right = antithetic.draw(record).axes
    for panel, rows in ((left, record["functions"]), (right, record["tasks"])):
        drawn = [line.get_ydata() for line in panel.lines]
        for row in rows.values():
            assert any(np.array_equal(y, row["efficiency"]) for y in drawn if len(y) == len(row["efficiency"]))
        assert any(np.array_equal(line.get_xdata(), [2.0, 2.0]) for line in panel.lines)
        labels = [text.get_text() for text in panel.get_legend().get_texts()]
        assert labels == [antithetic.LOOKS[name][2] for name in rows]


def test_caption_states_numbers_of_the_record(record):
    words = antithetic.caption(record)
    for name, value in record["efficiency_at_paper"].items():
        assert f"{value:.2g} [{record['interval_at_paper'][name][0]:.2g}" in words and antithetic.TASK_WORDS[name] in words
    assert "0%, 10%, 20%, 30% of the pairs" in words
    assert f"{100 * record['functions']['linear']['efficiency'][4]:.0f} independent ones" in words
