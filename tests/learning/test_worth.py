"""What the draws of a solve are worth, in numbers and in a sentence."""

import numpy as np
import pytest

from hamq.completion.selection import all_pairs
from hamq.learning.backup import make_stock
from hamq.learning.draws import PairDraws
from hamq.learning.expected_error import Errors
from hamq.learning.health import Diagnosis, chains_disagree
from hamq.learning.worth import worth
from hamq.problem import zoo
from hamq.sampling.exhaustive import Exhaustive
from hamq.sampling.hmc import HMC
from hamq.sampling.importance import Importance


def judged(sampler, locations, weight_share=1.0, stuck=0.0, errors=None):
    problem = zoo.pendulum(points=6, num_actions=2)
    shape = locations.shape[:2]
    diagnosis = Diagnosis(*(np.broadcast_to(np.float32(v), shape) for v in (0.9, stuck, weight_share)))
    stock = make_stock(PairDraws(locations.astype(np.uint8), None))
    value = np.arange(problem.num_states, dtype=float)
    return worth(problem, sampler, (all_pairs(problem),), (stock,), (diagnosis,), value, errors)


SHAPE = (36, 2, 400)


def independent():
    return np.random.default_rng(0).integers(0, 36, SHAPE)


def test_independent_draws_are_worth_their_number():
    found = judged(HMC(400, num_chains=4), independent())
    assert found is not None and found.num_pairs == 72
    assert (found.num_few, found.num_disagreeing, found.is_poor) == (0, 0, False)
    assert 250 < found.median < 550 and found.least > 100
    assert found.sentence.startswith("draws of a pair are worth") and "fewer" not in found.sentence


def test_chains_that_disagree_are_seen():
    """Each chain of 8 pairs stays in its quarter of the grid."""
    locations = independent()
    quarters = np.repeat(np.arange(4), 100) * 9
    locations[:4] = quarters + locations[:4] % 9
    found = judged(HMC(400, num_chains=4), locations)
    assert found is not None and found.num_disagreeing == 8 and found.num_poor == 8 and found.is_poor
    assert "chains disagree in 8 of 72 pairs; use more draws and num_warmup" in found.sentence


def test_chains_a_little_apart_are_poor_too():
    """Each is worth more than 30 draws, and they do not agree."""
    locations = np.random.default_rng(0).integers(0, 36, (36, 2, 1600))
    locations[:4] = locations[:4] // 2 + np.repeat([0, 1, 3, 4], 400)
    found = judged(HMC(1600, num_chains=4), locations)
    assert found is not None and (found.num_few, found.num_disagreeing, found.num_poor) == (0, 8, 8)


def test_stuck_chains_are_worth_one_draw():
    locations = independent()
    locations[0] = 5
    stuck = np.zeros((36, 1))
    stuck[0] = 1.0
    found = judged(HMC(400, num_chains=4), locations, stuck=stuck)
    assert found is not None and found.num_few == 2 and found.least == pytest.approx(1, abs=0.1)
    assert "2 of 72 pairs have fewer than 30" in found.sentence


def test_weights_count():
    found = judged(Importance(400), independent(), weight_share=0.02)
    assert found is not None and found.median == pytest.approx(8, rel=1e-3) and found.num_few == 72
    assert found.sentence.endswith("use more draws (max_gradients, or num_samples)")
    assert judged(Exhaustive(), independent()) is None


def test_few_draws_do_not_know_how_far_off_they_are():
    errors = Errors(total=0.02, draws=0.02, rare=0.03)
    enough, few = (judged(Importance(400), independent(), share, errors=errors) for share in (0.9, 0.02))
    assert enough is not None and few is not None
    assert enough.sentence.endswith("the expected error of Q is 2.0% of the range of V (3.0% in one solve of twenty)")
    assert "the expected error of Q is at least 2.0% of the range of V; use more draws" in few.sentence


def test_slow_chains_do_not_disagree_by_chance():
    """4 chains of 100 draws of correlation 0.9, 2,000 times: none of them is called apart; shifted ones are."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2000, 4, 100))
    for i in range(1, 100):
        x[:, :, i] = 0.9 * x[:, :, i - 1] + np.sqrt(1 - 0.81) * x[:, :, i]
    assert chains_disagree(x.reshape(2000, -1), 4).mean() < 0.01
    x[:, 0] += 8
    assert chains_disagree(x.reshape(2000, -1), 4).mean() > 0.95
    assert not chains_disagree(x.reshape(2000, -1), 1).any()
    assert not chains_disagree(np.full((3, 400), 0.1), 4).any()
