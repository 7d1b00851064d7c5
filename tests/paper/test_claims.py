"""Verdicts follow the records, and nothing but the records."""

import dataclasses
import math

import numpy as np
import pytest

from hamq.paper import tables
from hamq.paper.claims import CLAIMS, FIVE, FOUR, judge, samples_saved
from hamq.paper.evidence import Estimate, Evidence, estimate, number
from hamq.paper.records import Group
from tests.paper.posed import record

AGAINST_IID = next(claim for claim in CLAIMS if "instead of IID" in claim.quote and claim.figure == "fig2")
LEARNS = CLAIMS[0]
CLOSER = next(claim for claim in CLAIMS if claim.figure == "fig3")


def evidence_of(finals: dict[tuple[str, str, str], list[float]], field="frobenius", **studies) -> Evidence:
    """Records whose final numbers are given, seed by seed."""
    records = {}
    for key, values in finals.items():
        group, runs = Group(*key), []
        for seed, value in enumerate(values):
            run = record(group, seed)
            runs.append(
                dataclasses.replace(run, final=run.final | {field: value}, settings=run.settings | {"result": "settled"})
            )
        records[group] = runs
    return Evidence(records, studies)


def both(hmc, iid, variants=("literal", "corrected", "ours"), field="frobenius") -> Evidence:
    methods = {"hmc": hmc, "iid": iid}
    return evidence_of({(t, v, m): x for t in FOUR for v in variants for m, x in methods.items()}, field)


def test_hmc_against_iid_is_decided_by_the_interval():
    better = judge(AGAINST_IID, both([0.1, 0.11, 0.12, 0.1], [0.2, 0.21, 0.22, 0.2]))
    assert better.verdict == "holds" and "× 0.512" in better.measured["literal"] and "(yes)" in better.measured["ours"]
    unclear = judge(AGAINST_IID, both([0.1, 0.3, 0.1, 0.3], [0.2, 0.2, 0.2, 0.2]))
    assert unclear.verdict == "does not hold"
    worse = judge(AGAINST_IID, both([0.2, 0.21, 0.22, 0.2], [0.1, 0.11, 0.12, 0.1]))
    assert worse.verdict == "does not hold"


def test_closer_policies_are_those_that_agree_more():
    assert judge(CLOSER, both([0.9, 0.91, 0.92], [0.5, 0.5, 0.5], field="agreement")).verdict == "holds"
    assert judge(CLOSER, both([0.5, 0.5, 0.5], [0.9, 0.91, 0.92], field="agreement")).verdict == "does not hold"


def test_conditions_name_variant_and_tasks():
    errors = {"literal": [0.7, 0.72], "corrected": [0.01, 0.02], "ours": [0.5, 0.51]}
    finals = {(task, variant, "hmc"): values for task in FIVE for variant, values in errors.items()}
    finals["acrobot", "corrected", "hmc"] = [0.3, 0.31]
    verdict = judge(LEARNS, evidence_of(finals)).verdict
    assert verdict == "holds under a condition: corrected on pendulum, double integrator, cartpole, cart double pendulum"
    del finals["cartpole", "ours", "hmc"]
    assert judge(LEARNS, evidence_of(finals)).verdict == f"{verdict} (not run: cartpole)"


def test_what_was_not_run_is_said():
    found = judge(LEARNS, Evidence({}, {}))
    assert found.verdict == "not run" and "not run" in found.measured["ours"]
    page = tables.claims(Evidence({}, {}))
    assert page.count("**not run**") == len(CLAIMS)


def test_samples_saved_are_read_off_the_curves():
    finals = {("pendulum", "corrected", method): [0.2] for method in ("hmc", "exhaustive")}
    evidence = evidence_of(finals)

    def bend(method, errors, samples):
        run = evidence.records[Group("pendulum", "corrected", method)][0]
        curve = run.curve | {"frobenius": errors, "samples": samples}
        evidence.records[Group("pendulum", "corrected", method)] = [dataclasses.replace(run, curve=curve)]

    bend("hmc", [0.9, 0.5, 0.2], [10.0, 20.0, 30.0])
    bend("exhaustive", [0.9, 0.205, 0.1], [100.0, 240.0, 300.0])
    level, factor = samples_saved(evidence, "pendulum", "corrected")
    assert level == pytest.approx(0.21) and factor == pytest.approx(240 / 30)
    bend("exhaustive", [0.9, 0.8, 0.7], [100.0, 240.0, 300.0])
    assert samples_saved(evidence, "pendulum", "corrected") is None


def test_savings_need_error_and_loss():
    """The smallest budget that is at or below both others in both numbers."""
    finals = {(t, v, "hmc"): [0.05] for t in ("pendulum",) for v in ("literal", "corrected", "ours")}
    finals |= {("pendulum", "ours", "hmc-1M"): [0.04], ("pendulum", "ours", "hmc-250k"): [0.04]}
    evidence = evidence_of(finals)
    for group, runs in evidence.records.items():
        loss = {"literal": 0.6, "corrected": 0.3, "ours": 0.1}[group.variant]
        loss = 0.5 if group.method == "hmc-250k" else loss  # its error would do, its policy does not
        gradients = {"hmc-1M": 10**6, "hmc-250k": 250_000}.get(group.method, 2 * 10**9)
        final, cost = runs[0].final | {"policy_loss": loss}, runs[0].cost | {"gradient_evaluations": gradients}
        evidence.records[group] = [dataclasses.replace(runs[0], final=final, cost=cost)]
    row = tables.savings(evidence).splitlines()[-1]
    assert "| 1/2,000 |" in row and "0.300 / 0.100 = 3.00" in row


def test_error_tables_have_two_rows_for_scale():
    evidence = evidence_of({("pendulum", "corrected", "hmc"): [0.2, 0.3]})
    (run, other) = evidence.records[Group("pendulum", "corrected", "hmc")]
    final = {"random_policy_loss": 0.0123}
    runs = [dataclasses.replace(r, final=r.final | final) for r in (run, other)]
    group = Group("pendulum", "corrected", "hmc")
    text = tables.errors(Evidence({group: runs}, {}), [group])
    assert "best constant action" in text and "greedy on the random policy's Q" in text and "0.0123" in text
    assert "0.250 [0.200, 0.300]" in text


def test_estimates():
    assert estimate(np.asarray([2.0])) == Estimate(2.0, None, None)
    value = estimate(np.asarray([1.0, 2.0, 3.0, 4.0]))
    assert value.value == 2.5 and value.low < 2.5 < value.high
    assert [number(v) for v in (0.00161, 0.5, 2.0, 12.34, 999.0, 12345.0, 1.23e7, 5e10, 0.0, 3.7e-7, math.inf)] == [
        "0.00161", "0.500", "2.00", "12.3", "999", "12,345", "1.23e7", "5e10", "0", "3.7e-7", "inf",
    ]  # fmt: skip


def test_every_claim_has_its_place():
    for claim in CLAIMS:
        assert claim.where.startswith(("Abstract", "Introduction", "Results")) and claim.rule and claim.figure


def test_runs_that_diverged_are_left_out_and_counted():
    group = Group("pendulum", "corrected", "hmc")
    evidence = evidence_of({tuple(group): [0.2, 0.3, 0.4]})
    broken = dataclasses.replace(evidence.records[group][2], final={"frobenius": None, "policy_loss": None})
    evidence.records[group][2] = broken
    assert evidence.estimate(*group, "frobenius").value == pytest.approx(0.25)
    assert "2 of 3, others diverged" in tables.errors(evidence, [group])
    assert not Evidence({group: [broken]}, {}).has(*group)


def test_losses_of_zero_divide_nothing():
    evidence = evidence_of(
        {("pendulum", variant, "hmc"): [0.0] for variant in ("literal", "corrected", "ours")}, "policy_loss"
    )
    assert "0 / 0 |" in tables.savings(evidence)


def test_rates_rest_on_a_condition():
    claim = next(claim for claim in CLAIMS if claim.figure == "rates")
    row = {"dimension": 2, "exponent": 3.3, "low": 3.1, "high": 3.7, "theorem": 5}
    better = judge(claim, Evidence({}, {"rates": {"summary": [row]}}))
    assert better.verdict.startswith("holds under a condition: for a full table")
    worse = judge(claim, Evidence({}, {"rates": {"summary": [row | {"exponent": 6, "low": 5.5, "high": 6.5}]}}))
    assert worse.verdict == "does not hold"
