"""Certificates from draws that NumPy makes of the exact law, independent or in sticky chains: all but the samplers.

Coverage: 10 seeds of nominal 95 % in all pairs at once may miss 6 times, 100 may 18 times (false alarm 1e-6).
"""

import functools

import numpy as np
import pytest
from scipy.stats import binom

from hamq.certificates import experiment as module
from hamq.certificates import sampled
from hamq.certificates.chains import PER_CHAIN
from hamq.certificates.experiment import ALL_RULES, Experiment, Rules
from hamq.certificates.fresh import Seen, Source
from hamq.certificates.sampled import bracket_of, certify_by_draws, judge, proposed, verify
from hamq.problem.problem import Problem
from hamq.solution import Cost
from hamq.types import as_key
from tests.certificates.test_proposal import ENDS, bent, posed

KINDS = ("guaranteed", "asymptotic")
NUM_CHAINS, STICKY = 20, 0.3
PER_ROUND = {"guaranteed": 100, "asymptotic": NUM_CHAINS * PER_CHAIN}
CONFIDENCE = 0.95


@functools.cache
def cumulative(ends):
    """Distribution functions `[S·A, S]` of the exact law."""
    operator, _ = posed(ends)
    num_states = operator.problem.num_states
    rows = np.stack([operator.law(unit) for unit in np.eye(num_states)], axis=-1).reshape(-1, num_states)
    return np.cumsum(rows, axis=1) / rows.sum(axis=1, keepdims=True)


class Numpy:
    """Draws a round of the exact law and remembers which round, of how many pairs, for what."""

    def __init__(self, ends):
        self.ends, self.asked = ends, []

    def __call__(self, source, states, actions, functions, number, *, keeps_locations=False, progress=None):
        self.asked.append((number, len(states), keeps_locations))
        rng, pairs = np.random.default_rng([source.key, number]), states * source.problem.num_actions + actions
        rows, shape = cumulative(self.ends), (source.per_round // PER_CHAIN, PER_CHAIN)
        # The pairs of a call may be fewer: each has its own numbers all the same.
        uniforms, stays = rng.random((2, len(rows), *shape))[:, pairs]
        index = np.stack([np.searchsorted(row, u) for row, u in zip(rows[pairs], uniforms, strict=True)])
        if source.per_round == PER_ROUND["asymptotic"]:
            for t in range(1, PER_CHAIN):
                index[:, :, t] = np.where(stays[:, :, t] < STICKY, index[:, :, t - 1], index[:, :, t])
        index = index.reshape(len(states), -1)
        plain = functions[:, index].swapaxes(0, 1)
        return Seen(plain, None, None, index if keeps_locations else None, Cost(index.size, 0, 0))


@pytest.fixture
def drawing(monkeypatch):
    def start(ends="goes on"):
        numpy = Numpy(ends)
        monkeypatch.setattr(module, "draw_round", numpy)
        monkeypatch.setattr(sampled, "make_experiment", make)
        return numpy

    def make(problem, kind, level, rules, *, key):
        return experiment(problem, kind, level, rules, seed=int(np.asarray(key._base_array)[-1])), Cost(0, 0, 0)

    return start


def experiment(problem, kind, level=1e-4, rules=ALL_RULES, seed=0) -> Experiment:
    source = Source(problem, None, seed, PER_ROUND[kind], False, False, True)
    return Experiment(problem, kind, level, source, rules)


@pytest.mark.parametrize(
    ("ends", "kind", "num_seeds"),
    [
        ("goes on", "guaranteed", 10),
        ("ends", "asymptotic", 10),
        *(pytest.param(ends, kind, 100, marks=pytest.mark.slow) for ends in ENDS for kind in KINDS),
    ],
)
def test_everything_is_covered_at_once(drawing, ends, kind, num_seeds):
    """All backups, and what follows from them for Q* and V^π."""
    drawing(ends)
    operator, true = posed(ends)
    q = bent(true, operator.ended)
    judged, num = judge(operator.problem, q), 1000.0 if kind == "guaranteed" else 2000.0
    value = operator.evaluate(q.argmax(axis=1), tolerance=1e-9).value
    going = np.ones(len(q), bool) if operator.ended is None else ~operator.ended
    followed, missed, missed_answers = (np.arange(len(q)), q.argmax(axis=1)), 0, 0
    for seed in range(num_seeds):
        trial = experiment(operator.problem, kind, (1 - CONFIDENCE) / (2 * q.size + len(q)), seed=seed)
        proposal, prepared, _ = proposed(judged, trial, num, None)
        verified, _ = verify(judged, trial, proposal, prepared, None)
        upper, lower, policy = (operator.backup(function) for function in proposal[:3])
        is_covered = np.all(upper <= verified.upper) and np.all(lower >= verified.lower)
        missed += not (is_covered and np.all(policy[followed] >= verified.policy[followed]))
        found = bracket_of(judged, proposal, verified)
        is_right = np.all((found.lower <= true)[going]) and np.all((true <= found.upper)[going])
        missed_answers += not (is_right and np.all((found.policy_value <= value)[going]))
        assert np.max(found.upper - found.lower) < 1.5 * np.ptp(true), "bounds that say nothing cover everything"
    assert missed <= binom.isf(1e-6, num_seeds, 1 - CONFIDENCE)
    assert missed_answers <= binom.isf(1e-6, num_seeds, 1 - CONFIDENCE)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_that_verify_are_not_those_of_the_pilot(drawing, kind):
    """Rounds of their own; as many as were allotted, and all of them counted."""
    numpy = drawing()
    operator, true = posed("goes on")
    q = bent(true, None)
    found = certify_by_draws(operator.problem, q, kind, CONFIDENCE, 2000.0, key=as_key(0))
    pilots, others = ({number for number, _, is_pilot in numpy.asked if is_pilot == flag} for flag in (True, False))
    assert pilots and others and not pilots & others
    assert found.cost.samples == PER_ROUND[kind] * sum(num for _, num, _ in numpy.asked)
    assert found.draws == pytest.approx(found.cost.samples / q.size)
    assert 0.8 * 2000 < found.draws <= 2000
    assert max(num for _, num, is_pilot in numpy.asked if is_pilot) == q.size


def test_the_risk_is_split_over_all_statements(drawing, monkeypatch):
    """Two bounds of every pair, and one more of the policy's in every state."""
    drawing()
    operator, true = posed("goes on")
    make, levels = sampled.make_experiment, []

    def watched(problem, kind, level, rules, *, key):
        levels.append(level)
        return make(problem, kind, level, rules, key=key)

    monkeypatch.setattr(sampled, "make_experiment", watched)
    certify_by_draws(operator.problem, true, "guaranteed", 0.9, 300.0, key=as_key(0))
    assert levels == [pytest.approx(0.1 / (2 * 60 + 20))]


def test_one_key_gives_one_certificate(drawing):
    drawing()
    operator, true = posed("goes on")
    one, again, other = (
        certify_by_draws(operator.problem, true, "guaranteed", 0.95, 300.0, key=as_key(seed)) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.upper, again.upper)
    np.testing.assert_array_equal(one.policy_loss, again.policy_loss)
    assert np.any(one.upper != other.upper)


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_lie_on_their_sides_and_close_in(drawing, kind):
    """Of one function from above and from below, in few pairs with few and many rounds; widths as predicted."""
    drawing()
    operator, true = posed("goes on")
    value, pairs = true.max(axis=1), np.arange(10, 40)
    mean = (operator.law(value - value.mean()) + value.mean()).reshape(-1)[pairs]
    trial = experiment(operator.problem, kind)
    prepared = trial.prepare(pairs, value, 2, None)
    rounds = np.where(np.arange(30) % 2, 40, 4)
    (above, below), _ = trial.bounds(pairs, rounds, np.stack([value] * 2), (1, -1), prepared, None)
    assert np.all((below < mean) & (mean < above))
    width = above - below
    assert width[1::2].mean() < 0.6 * width[::2].mean()
    assert np.all(width <= 2.01 * np.ptp(value))
    predicted = trial.width(prepared, float(np.ptp(value)), rounds * float(PER_ROUND[kind]))
    assert np.all(np.abs(np.log(width / 2 / predicted)) < 1)


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_change_nothing(drawing, monkeypatch, kind):
    drawing()
    operator, true = posed("goes on")
    monkeypatch.setattr(module, "_blocks", lambda pairs, values: [pairs])
    whole = certify_by_draws(operator.problem, true, kind, 0.95, 600.0, key=as_key(0))
    monkeypatch.setattr(module, "_blocks", lambda pairs, values: np.array_split(pairs, 7))
    parts = certify_by_draws(operator.problem, true, kind, 0.95, 600.0, key=as_key(0))
    np.testing.assert_allclose(parts.upper, whole.upper, rtol=1e-12)


def test_pilots_that_saw_one_value_do_not_bet_everything(drawing):
    """A spread of 0 is guarded by half of the range, seen once."""
    drawing()
    operator, _ = posed("goes on")
    spread, _ = experiment(operator.problem, "guaranteed").evidence.spread(np.zeros((2, 99)), 4.0)
    np.testing.assert_allclose(spread, np.sqrt(4 / 100))


@pytest.mark.slow
def test_long_horizons_say_nothing(drawing):
    """At γ = 0.999 a bound of a backup counts a thousand times: the rewards alone know more."""
    drawing()
    operator, true = posed("goes on")
    near = operator.problem
    problem = Problem(near.grid, near.actions, near.kernel, near.reward, 0.999, name="far")
    found = certify_by_draws(problem, 100 * true, "guaranteed", CONFIDENCE, 300.0, key=as_key(0))
    assert found.is_vacuous
    assert found.error == found.known_before
    assert found.draws_needed > 100_000
    assert "far: 300 draws per pair are too few to say anything of use about Q*" in found.sentence
    assert f"it takes about {found.draws_needed:,} to make them useful" in found.sentence


def test_allotment_makes_the_answer_closer(drawing):
    """The same number of draws where they decide; over five seeds."""
    drawing()
    operator, true = posed("goes on")
    q = bent(true, None, 0.05)
    errors = [
        np.mean(
            [
                certify_by_draws(operator.problem, q, "guaranteed", 0.95, 1000.0, key=as_key(seed), rules=rules).error
                for seed in range(5)
            ]
        )
        for rules in (ALL_RULES, Rules(allots=False))
    ]
    assert errors[0] < errors[1]
