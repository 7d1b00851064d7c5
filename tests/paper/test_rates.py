"""Exponents: fits by hand, the grid's order and the sampling error on small cases, pictures that hold the data."""

import json

import numpy as np
import pytest

from hamq.exact.value_iteration import solve_exact
from hamq.paper import rates


def test_slopes_of_powers():
    x = (10, 30, 100, 1000)
    both = np.stack([7.0 * np.array(x) ** -0.5, 0.1 * np.array(x) ** -2.0])
    assert rates._slopes(x, both) == pytest.approx([-0.5, -2.0])


@pytest.mark.parametrize("law", ["cell", pytest.param("linear", marks=pytest.mark.slow)])
def test_grid_error_is_of_second_order(law):
    found = rates.measure_grid(2, 3, law)
    assert found["points"] == [3, 5, 9] and found["pairs"] == [27, 125, 729]
    assert found["order"] == pytest.approx(2, abs=0.15)


def test_grid_error_by_hand():
    """Nodes −1, 0, 1 of 3 points are nodes 0, 2, 4 of 5; actions too."""
    coarse, fine = (solve_exact(rates.pushed(1, m, m), tolerance=1e-8).q for m in (3, 5))
    by_hand = max(abs(fine[2 * s, 2 * a] - coarse[s, a]) for s in range(3) for a in range(3))
    assert rates.measure_grid(1, 2, "cell")["error"][0] == pytest.approx(by_hand, abs=1e-6)


def test_all_coordinates_look_the_same():
    """The family is symmetric in its coordinates, and one action pushes all of them."""
    exact = solve_exact(rates.pushed(2, 5, 3))
    q = exact.q.reshape(5, 5, 3)
    assert q == pytest.approx(np.swapaxes(q, 0, 1), abs=1e-5)
    assert np.ptp(exact.policy) > 0


def test_sampling_error_falls_with_the_draws():
    """Five runs of 20 and 320 draws: the error falls by 4 or so, with the square root; and stays below the bound."""
    found = rates.measure_sampling(1, 5, (20, 320))
    assert np.shape(found["errors"]) == (5, 2)
    assert -0.8 < found["slope"] < -0.25 and found["slope_low"] < found["slope"] < found["slope_high"]
    assert all(low <= error <= high for low, error, high in zip(found["low"], found["error"], found["high"], strict=True))
    assert np.all(np.array(found["errors"]) < found["bound"])
    assert found["samples"] == [20 * 85, 320 * 85]
    assert found["gradient_evaluations"][1] >= 320 * 85 * rates.NUM_LEAPFROG


def test_exponents_are_put_together_by_hand():
    """Order 2 in 3-D: |Ω| ~ ε^(−4/2); slope −1/2: |H| ~ ε^(−2)."""
    sampled = {"slope": -0.5, "slope_low": -0.6, "slope_high": -0.4}
    found = rates.combine({"dimension": 3, "order": 2.0}, sampled)
    assert found["exponent"] == pytest.approx(4)
    assert (found["low"], found["high"]) == pytest.approx((2 + 1 / 0.6, 2 + 1 / 0.4))
    assert found["theorem"] == 6 and found["second_order"] == 4 and found["lemmas"] == 10


@pytest.fixture(params=[True, False])
def record(request):
    quick = request.param
    grid = [
        {"dimension": d, "law": law, "pairs": [10 * d, 90 * d], "error": [0.5 * d, 0.1 * d], "order": 2 + 0.01 * d}
        for law in (rates.LAWS[:1] if quick else rates.LAWS)
        for d in (1, 2, 3, 4)
    ]
    for row in grid[4:]:
        row["error"] = [1.3 * error for error in row["error"]]
    sampling = [
        {
            "dimension": d,
            "num_samples": [30, 1000],
            "error": [0.2 + 0.01 * d, 0.03 + 0.001 * d],
            "low": [0.1, 0.02],
            "high": [0.3, 0.05],
            "slope": -0.5 - 0.01 * d,
            "slope_low": -0.6,
            "slope_high": -0.4,
        }
        for d in (1, 2, 3, 4)
    ]
    summary = [rates.combine(g, s) for g, s in zip(grid[:4], sampling, strict=True)]
    found = {"quick": quick, "seeds": 2, "replicates": 5, "grid": grid, "sampling": sampling, "summary": summary}
    return json.loads(json.dumps(found))


def test_picture_holds_what_was_measured(record):
    left, middle, right = rates.draw(record).axes
    assert all(panel.get_xlabel() and panel.get_ylabel() for panel in (left, middle, right))
    for panel, rows in ((left, record["grid"]), (middle, record["sampling"])):
        drawn = [list(line.get_ydata()) for line in panel.lines]
        assert all(row["error"] in drawn for row in rows)
        assert len(panel.get_legend().get_texts()) == 4
    exponents = [[row[name] for row in record["summary"]] for name in ("exponent", "theorem", "second_order")]
    drawn = [list(line.get_ydata()) for line in right.lines]
    assert all(row in drawn for row in exponents)


def test_caption_states_numbers_of_the_record(record):
    words = rates.caption(record)
    for row in record["summary"]:
        assert (
            f"{row['exponent']:.1f} [{row['low']:.1f}, {row['high']:.1f}] at d = {row['dimension']} ({row['theorem']})"
            in words
        )
    assert "power −0.51 to −0.54" in words and "over 5 runs" in words
