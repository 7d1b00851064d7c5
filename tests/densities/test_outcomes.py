"""The judge of the bank, and its page, on answers that are made up."""

import warnings

import numpy as np
import pytest

from benchmarks.bank_page import COLUMNS, write_page
from hamq.types import HamqWarning
from tests.densities.bank import BANK, BY_NAME, named
from tests.densities.capabilities import CAPABILITIES, _chi_square, _nearest, applies
from tests.densities.outcomes import Found, judge
from tests.densities.problems import groups
from tests.densities.quadrature import states

UNIFORM, NORMAL, RING = BY_NAME["uniform"], BY_NAME["normal"], BY_NAME["ring"]


def answer(found=None, warning=None, error=None):
    def measure():
        if warning:
            warnings.warn(warning, HamqWarning, stacklevel=2)
        if error:
            raise error
        return found

    return measure


@pytest.mark.parametrize(
    ("measure", "kind"),
    [
        (answer(Found(0.01, 0.02)), "right"),
        (answer(Found(0.01, 0.02), warning="careful"), "right"),
        (answer(Found(0.03, 0.02)), "WRONG"),
        (answer(Found(np.nan, 0.02)), "WRONG"),
        (answer(Found(0.03, 0.02), warning="careful"), "warned"),
        (answer(Found(0.03, 0.02, is_doubted=True)), "warned"),
        (answer(Found(np.nan, 0.0, is_silent=True)), "refused"),
        (answer(error=ValueError("a density of four dimensions is too much")), "refused"),
        (answer(error=ValueError("Q is inf; look at the reward there")), "WRONG"),
        (answer(error=TypeError("lax.sub requires arguments to have the same dtypes")), "WRONG"),
        (answer(Found(0.03, 0.02), warning="the weights collapsed; use HMC"), "WRONG"),
    ],
)
def test_verdicts(measure, kind):
    assert judge(RING, "solve", measure).kind == kind


def test_smaller_steps_are_no_remedy_for_a_jump():
    measure = answer(Found(0.03, 0.02), warning="trajectories were rejected; use a smaller step_size")
    assert judge(RING, "solve", measure).kind == "warned"
    outcome = judge(UNIFORM, "solve", measure)
    assert outcome.kind == "WRONG" and "remedy" in outcome.said


def test_what_is_benign_must_be_right():
    assert judge(NORMAL, "solve", answer(Found(0.01, 0.02))).kind == "right"
    for measure in (answer(error=ValueError("no")), answer(Found(0.03, 0.02), warning="careful")):
        assert judge(NORMAL, "solve", measure).kind == "WRONG"


def test_cells_of_states_between_the_nodes():
    for name in ("cylinder", "ring", "shell"):
        density = BY_NAME[name]
        at = states(density)
        assert _nearest(density, at + 0.01).tolist() == list(range(len(at)))
    assert _nearest(BY_NAME["von_mises"], np.asarray([[np.pi - 0.01]])).tolist() == [0]


def test_counts_where_there_is_no_mass_are_refuted():
    masses = np.asarray([0.5, 0.5, 0.0])
    assert _chi_square(np.asarray([200, 200, 0]), masses) < 1
    assert _chi_square(np.asarray([260, 140, 0]), masses) > 1
    assert _chi_square(np.asarray([200, 199, 1]), masses) == np.inf


def test_groups_hold_every_density_once_and_one_grid_each():
    found = groups(BANK)
    assert sorted(d.name for group in found for d in group) == sorted(d.name for d in BANK)
    assert all(len({(d.points, d.law, d.reward) for d in group}) == 1 and len(group) <= 8 for group in found)
    with pytest.raises(ValueError, match="the bank has no density 'rnig'"):
        named(["rnig"])


def test_page_has_every_outcome(tmp_path):
    assert set(COLUMNS) == set(CAPABILITIES)
    about = {"dimension": 2, "points": [7, 7], "actions": 3, "law": "cell", "traits": ["ring"], "note": "", "doubt": 1e-6}
    cells = {"exact": {"kind": "right", "number": 0.012345}, "solve": {"kind": "WRONG", "number": None}}
    cells["certify"] = {"kind": "refused", "number": None}
    write_page({"densities": {"ring": about}, "outcomes": {"ring": cells}}, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "| ring | right 0.012 | **WRONG** | refused |" in text
    assert "| solve | 0 | 0 | 0 | 1 |" in text
    assert not applies(BY_NAME["ring"], "tensor") and applies(BY_NAME["banana"], "tensor")
