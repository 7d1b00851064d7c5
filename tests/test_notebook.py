"""What a notebook shows of a solution, a certificate and a comparison: well-formed HTML with the sentence and a true map."""

import dataclasses
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import hamq
from hamq.notebook import COLOURS, card, map_of, slice_of


@pytest.fixture(scope="module")
def exact():
    return hamq.solve_exact(hamq.problems.double_integrator(points=[5, 4], num_actions=3), tolerance=1e-3)


def cells(text: str) -> dict[tuple[int, int], str]:
    """(column, row from below) → colour."""
    root = ET.fromstring(text)
    svg = next(element for element in root.iter() if element.tag.endswith("svg"))
    height = int(svg.get("viewBox").split()[3])
    found = {}
    for rect in svg:
        x, y, width = (int(rect.get(name)) for name in ("x", "y", "width"))
        found |= {(x + i, height - 1 - y): rect.get("fill") for i in range(width)}
    return found


def test_the_map_has_a_cell_for_every_node_in_its_place():
    values = np.array([[0.0, 1.0], [2.0, 2.0], [0.0, 4.0]])
    found = cells(map_of(values, ("a", "b"), "x"))
    low, high = ("#" + "".join(f"{channel:02x}" for channel in colour) for colour in (COLOURS[0], COLOURS[-1]))
    assert set(found) == {(x, y) for x in range(3) for y in range(2)}
    assert found[0, 0] == found[2, 0] == low and found[2, 1] == high and found[1, 0] == found[1, 1]
    assert len(set(found.values())) == 4


def test_one_value_everywhere_and_many_cells():
    assert len(set(cells(map_of(np.ones((3, 3)), ("a", "b"), "x")).values())) == 1
    endless = cells(map_of(np.array([[0.0, np.inf], [1.0, np.nan]]), ("a", "b"), "x"))
    assert endless[0, 1] == endless[1, 1] == endless[1, 0] != endless[0, 0]
    assert len(set(cells(map_of(np.full((2, 2), np.inf), ("a", "b"), "x")).values())) == 1
    assert len(cells(map_of(np.random.default_rng(0).normal(size=(200, 7)), ("a", "b"), "x"))) <= 60 * 7


def test_axes_that_are_not_shown_are_in_their_middle():
    table = np.arange(2 * 3 * 5)
    np.testing.assert_array_equal(slice_of(table, (2, 3, 5)), table.reshape(2, 3, 5)[:, :, 2])
    assert slice_of(np.arange(4), (4,)).shape == (4, 1)


def test_names_of_others_are_text():
    text = card("<script>", "a & b", [("<i>", "<b>")])
    assert "<script>" not in text and "&lt;script&gt;" in text and "a &amp; b" in text
    ET.fromstring(text)


def test_a_table_shows_its_policy(exact):
    text = exact._repr_html_()
    assert exact.result in text and "20 states × 3 actions" in text and "≤" in text
    found = cells(text)
    policy = exact.policy.reshape(5, 4)
    colours = {number: {found[x, y] for x in range(5) for y in range(4) if policy[x, y] == number} for number in range(3)}
    assert all(len(of_one) <= 1 for of_one in colours.values()) and len(found) == 20


def test_a_line_a_train_and_a_table_with_nan(exact):
    line = hamq.Problem(
        hamq.Grid([0.0], [1.0], [4]), [0.0, 1.0], hamq.GaussianKernel(lambda s, a: s, [0.1]), lambda s, a: -a, 0.5
    )
    assert len(cells(hamq.solve_exact(line, tolerance=0.1)._repr_html_())) == 4
    train = hamq.solve_tensor(hamq.problems.spring_chain(1, points=4, num_actions=3), rank=2, iterations=1)
    assert len(cells(train._repr_html_())) == 16 and "V; " in train._repr_html_()
    assert exact.result in dataclasses.replace(exact, q=np.full_like(exact.q, np.nan))._repr_html_()


def test_certificates_and_comparisons(exact):
    certificate = hamq.certify(exact)
    text = certificate._repr_html_()
    assert len(cells(text)) == 20 and "|Q − Q*| ≤" in text and "exact" in text
    compared = hamq.compare(exact, exact)._repr_html_()
    ET.fromstring(compared)
    assert "policy loss" in compared and "Relative error 0.0000" in compared
