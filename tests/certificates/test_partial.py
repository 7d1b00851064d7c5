"""Statements about most pairs: what is looked at, how the risk is split, and that the share is right."""

import math

import jax.random as jr
import numpy as np
import pytest

from hamq.certificates import partial as module
from hamq.certificates.certify import certify
from hamq.certificates.evidence import evidence_of
from hamq.certificates.partial import NUM_DRAWS, SHARE, certify_part, least_pairs, quantile_bound
from hamq.certificates.sampled import judge
from hamq.exact.bellman import make_operator
from hamq.solution import Cost
from hamq.types import as_key, np_generator
from tests.certificates.test_proposal import ENDS, bent, posed
from tests.sampling.posed import pose

NUM_PAIRS = 150


class Exact:
    """An experiment whose bounds are the backups themselves, and a little more."""

    class source:
        per_round = 100

    def __init__(self, operator, level, width=0.0):
        self.operator, self.level, self.width, self.pairs = operator, level, width, None

    def prepare(self, pairs, value, num, progress):
        self.pairs = pairs
        return type("Prepared", (), {"cost": Cost(100 * len(pairs), 0, 0)})

    def bounds(self, pairs, rounds, functions, signs, prepared, progress):
        expected = [self.operator.law(value - value.mean()) + value.mean() for value in functions]
        bounds = [table.reshape(-1)[pairs] + sign * self.width for table, sign in zip(expected, signs, strict=True)]
        return np.stack(bounds), Cost(100 * int(rounds.sum()), 0, 0)


@pytest.fixture
def exact_draws(monkeypatch):
    def start(ends, width=0.0):
        operator, true = posed(ends)
        made = []

        def make(problem, kind, level, rules, *, key):
            made.append(Exact(operator, level, width))
            return made[-1], Cost(0, 0, 0)

        monkeypatch.setattr(module, "make_experiment", make)
        q = bent(true, operator.ended)
        residual = np.abs(operator.backup(judge(operator.problem, q).value) - q)
        return operator.problem, q, residual, made

    return start


@pytest.mark.parametrize("ends", ENDS)
def test_risk_is_split_between_bounds_and_quantile(exact_draws, monkeypatch, ends):
    asked = {}

    def watched(values, **options):
        asked.update(options)
        return quantile_bound(values, **options)

    monkeypatch.setattr(module, "quantile_bound", watched)
    problem, q, residual, made = exact_draws(ends)
    found = certify_part(problem, q, "guaranteed", 0.5, NUM_PAIRS, key=as_key(3))
    picked = np_generator(jr.fold_in(as_key(3), 0)).integers(q.size, size=NUM_PAIRS)
    (trial,) = made
    np.testing.assert_array_equal(trial.pairs, np.unique(picked))
    assert trial.level == pytest.approx(0.25 / (2 * len(np.unique(picked))))
    seen = residual.reshape(-1)[picked]
    assert asked == {"share": SHARE, "confidence": pytest.approx(0.75)}
    assert found.residual == pytest.approx(quantile_bound(seen, share=SHARE, confidence=0.75))
    assert (found.num_pairs, found.share, found.draws) == (NUM_PAIRS, 0.05, 1000.0)
    assert found.cost.samples == 1000 * len(np.unique(picked))
    assert not found.is_vacuous
    assert "at most 5% of the pairs have |TQ − Q| above" in found.sentence
    assert "no bound of |Q − Q*|" in found.sentence


def test_width_of_the_bounds_is_in_the_residual(exact_draws):
    problem, q, *_ = exact_draws("goes on")
    sure = certify_part(problem, q, "guaranteed", 0.9, NUM_PAIRS, key=as_key(3))
    exact_draws("goes on", width=0.1)
    unsure = certify_part(problem, q, "guaranteed", 0.9, NUM_PAIRS, key=as_key(3))
    assert unsure.residual == pytest.approx(sure.residual + 0.1 * problem.discount, abs=1e-9)


@pytest.mark.slow
def test_statements_hold_as_often_as_they_say(exact_draws):
    """With exact residuals of 60 pairs half of the risk is left: of 200 keys at most 10 % miss, z = 4.75 above."""
    problem, q, residual, _ = exact_draws("goes on")
    missed = 0
    for seed in range(200):
        found = certify_part(problem, q, "guaranteed", 0.8, NUM_PAIRS, key=as_key(seed))
        missed += np.mean(residual > found.residual + 1e-9) > SHARE
    assert missed <= 20 + 4.75 * np.sqrt(200 * 0.1 * 0.9)


def test_too_few_pairs_say_nothing(exact_draws):
    problem, q, *_ = exact_draws("goes on")
    assert least_pairs(0.95) == 72
    for num, is_vacuous in ((72, False), (71, True)):
        found = certify_part(problem, q, "guaranteed", 0.95, num, key=as_key(0))
        assert found.is_vacuous == is_vacuous
    assert "71 of 60 pairs are too few" in found.sentence


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["guaranteed", "asymptotic"])
def test_share_of_all_pairs_is_right(kind):
    """Real draws of 200 of 800 pairs: at most 5 % of all pairs have a larger residual, as the exact operator says."""
    problem = pose("correlated", "cell", (20, 20))
    q = np.random.default_rng(0).normal(size=(400, 2))
    budget = math.ceil(200 * NUM_DRAWS * evidence_of(kind).evaluations_per_draw(problem))
    found = certify(q, problem, method=kind, max_evaluations=budget, key=5)
    assert found.num_pairs == 200
    spent = found.cost.density_evaluations + found.cost.gradient_evaluations
    assert (found.cost.samples if kind == "guaranteed" else spent) <= budget
    residual = np.abs(make_operator(problem).backup(q.max(axis=1)) - q)
    assert np.mean(residual > found.residual) <= SHARE
    assert found.residual < 1.5 * np.quantile(residual, 0.95)
