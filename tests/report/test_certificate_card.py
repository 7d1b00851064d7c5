"""The certificate of a run on its page: a card, two maps where something is bounded, a row where runs stand side by side."""

import base64
import re

import numpy as np
import pytest

from hamq.report.run_page import Shown, write_run_page
from hamq.report.table_page import certificate_card, certificate_layers
from hamq.runs.certificate import RunCertificate
from hamq.solution import Cost
from tests.report.test_table_page import POINTS, a_run, data_of, random_q

COST = Cost(7000, 35_000, 0)


def kept(q: np.ndarray, **changes) -> RunCertificate:
    """A bracket that is wider above than below in some pairs, and the other way round in others."""
    rng = np.random.default_rng(3)
    lower, upper = q - rng.uniform(0.1, 1, q.shape), q + rng.uniform(0.1, 1, q.shape)
    given = {
        "sentence": "Q is <b>good</b>.",
        "is_vacuous": False,
        "method": "guaranteed",
        "confidence": 0.95,
        "draws": 1000.0,
    }
    given |= {"cost": COST, "seconds": 2.5, "versions": {}, "error": 0.98765, "known_before": 8.5, "draws_needed": 4321}
    given |= {"lower": lower, "upper": upper, "policy_loss": rng.uniform(0, 2, len(q))}
    return RunCertificate(**given | changes)


def part() -> RunCertificate:
    said = {"sentence": "Of most pairs.", "is_vacuous": False, "method": "asymptotic", "confidence": 0.9, "draws": 64.0}
    return RunCertificate(**said, cost=COST, seconds=1.0, versions={}, share=0.05, residual=0.25, num_pairs=300)


def test_maps_are_the_widest_bounds_of_each_state():
    q = random_q(0)
    found = kept(q)
    error, loss = certificate_layers(found, q, POINTS, 1)
    for s in range(12):  # one pair at a time
        widest = max(max(found.upper[s, a] - q[s, a], q[s, a] - found.lower[s, a]) for a in range(3))
        assert error.values[s] == pytest.approx(widest)
    np.testing.assert_array_equal(loss.values, found.policy_loss)
    above, below = (found.upper - q).max(axis=1), (q - found.lower).max(axis=1)
    assert np.any(error.values > above) and np.any(error.values > below)  # each side decides somewhere
    assert (error.name, loss.name, error.floor, loss.floor, error.run, loss.run) == ("Error bound", "Loss bound", 0, 0, 1, 1)
    assert "0.95 confidence in all states at once" in error.about and "0.95" in loss.about
    assert "confidence" not in certificate_layers(kept(q, method="exact", confidence=1.0), q, POINTS)[0].about


def test_what_bounds_nothing_has_no_maps():
    q = random_q(0)
    for found in (None, kept(q, is_vacuous=True), part()):
        assert certificate_layers(found, q, POINTS) == []


def test_the_card_has_the_numbers():
    found = kept(random_q(0))
    card = certificate_card(found)
    facts = dict(card.facts)
    assert card.lead == found.sentence
    assert facts["Bound"] == "|Q − Q*| ≤ 0.988 in all pairs"
    worst, mean = found.policy_loss.max(), found.policy_loss.mean()
    assert facts["Policy loss"] == f"at most {worst:.3g} in any state, {mean:.3g} on average over the states"
    assert facts["Known before"] == "|Q − Q*| ≤ 8.5, from the rewards alone"
    assert (facts["Confidence"], facts["Draws"], facts["Time"]) == ("0.95", "1,000 fresh ones per pair", "2.5 s")
    assert facts["Method"].startswith("guaranteed, ") and facts["Cost"] == "7,000 draws, 35,000 densities"
    exact = dict(certificate_card(kept(random_q(0), method="exact", draws=0.0, cost=Cost(0, 0, 0))).facts)
    assert exact["Confidence"] == "1: nothing was drawn" and exact["Draws"] == "none"


def test_one_that_says_nothing_says_so_and_one_of_a_part_is_a_sentence():
    facts = dict(certificate_card(kept(random_q(0), is_vacuous=True)).facts)
    assert facts["Bound"].startswith("vacuous") and "Policy loss" not in facts
    assert (certificate_card(part()).lead, certificate_card(part()).facts) == ("Of most pairs.", [])


def test_the_page_of_one_run(tmp_path):
    found = kept(random_q(0))
    written = write_run_page(tmp_path / "p.html", [Shown("run0", a_run(tmp_path, certificate=found))])
    assert written.layers[-2:] == ("Error bound", "Loss bound")
    text = written.path.read_text()
    card = re.search(r"<h2>Certificate</h2>.*?</section>", text, re.DOTALL)[0]
    assert "Q is &lt;b&gt;good&lt;/b&gt;." in card and "<dt>Bound</dt><dd>|Q − Q*| ≤ 0.988 in all pairs</dd>" in card
    assert text.count("good") == 1  # not among the other facts as well
    stored = {layer["name"]: layer for layer in data_of(written.path)["layers"]}
    loss = np.frombuffer(base64.b64decode(stored["Loss bound"]["values"]), "<f4")
    np.testing.assert_array_equal(loss, found.policy_loss.astype("f4"))
    without = write_run_page(tmp_path / "p.html", [Shown("run0", a_run(tmp_path))])
    assert len(without.layers) == 3 and "Certificate" not in without.path.read_text()


def test_sentences_stand_side_by_side(tmp_path):
    runs = [
        Shown("bound", a_run(tmp_path, certificate=kept(random_q(0)))),
        Shown("part", a_run(tmp_path, 1, certificate=part())),
        Shown("none", a_run(tmp_path, 2)),
    ]
    text = write_run_page(tmp_path / "p.html", runs).path.read_text()
    row = re.search(r"<tr><td>Certificate</td>(.*?)</tr>", text)[1]
    assert row == "<td>Q is &lt;b&gt;good&lt;/b&gt;.</td><td>Of most pairs.</td><td></td>"
    layers = [(layer["name"], layer["run"]) for layer in data_of(tmp_path / "p.html")["layers"]]
    assert ("Error bound", 0) in layers and ("Error bound", 1) not in layers and "<h2>Certificate" not in text
