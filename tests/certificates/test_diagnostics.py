"""Fresh chains looked at: V where the law has it, good chains passed, bad ones named, and what to do said."""

import dataclasses

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.interpolate import interpn

import hamq
from hamq.certificates import diagnostics
from hamq.certificates.chain_diagnosis import MIN_ESS, ChainDiagnosis, ChainNumbers
from hamq.certificates.chain_statistics import ChainStatistics
from hamq.certificates.diagnostics import diagnose
from hamq.problem import programs
from hamq.problem.tables import terminal_table
from hamq.sampling import jump_chain
from hamq.sampling.draws import make_info
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID
from hamq.solution import Cost
from tests.exact.posed import swing
from tests.sampling.posed import pose

SMALL = HMC(48, num_chains=4)


def table(problem) -> np.ndarray:
    """A Q whose V differs from state to state, and is not that of the first action."""
    q = np.random.default_rng(0).normal(size=(problem.num_states, problem.num_actions))
    return q + problem.grid.states()[:, :1]


def numbers(num: int, **given) -> ChainNumbers:
    """Those of good chains, but for the given ones."""
    good = {"rhat": 1.0, "bulk_ess": 900.0, "tail_ess": 800.0, "disagreement": 0.1, "acceptance": 0.95}
    good |= dict.fromkeys(("stuck", "divergent", "uncrossed"), 0.0)
    return ChainNumbers(**{name: np.broadcast_to(value, num).astype(float) for name, value in (good | given).items()})


def diagnosis(states, actions, num_draws=250, **given) -> ChainDiagnosis:
    by_pair = numbers(len(states), **given)
    return ChainDiagnosis(swing(), np.asarray(states), np.asarray(actions), by_pair, 4, num_draws, 1.05, Cost(1, 2, 3))


@pytest.fixture
def seen(monkeypatch):
    """What `diagnose` draws, and the values that it makes statistics of."""
    found = {"drawn": [], "values": []}
    draw_pairs, chain_statistics = diagnostics.draw_pairs, diagnostics.chain_statistics

    def drawing(*arguments, **named):
        found["drawn"].append(draw_pairs(*arguments, **named))
        return found["drawn"][-1]

    def listening(values):
        found["values"].append(values)
        return chain_statistics(values)

    monkeypatch.setattr(diagnostics, "draw_pairs", drawing)
    monkeypatch.setattr(diagnostics, "chain_statistics", listening)
    return found


@pytest.mark.parametrize("name", ["pendulum", "swing"])
def test_good_chains_pass(name):
    """With probability 0.999 (R̂), and at twice the limit of the ESS."""
    problem = hamq.problems.pendulum(points=9) if name == "pendulum" else swing("linear")
    found = diagnose(hamq.solve_exact(problem, tolerance=1e-2), problem, num_pairs=200)
    assert found.is_healthy and not found.is_flagged.any(), found.sentence
    assert found.by_pair.bulk_ess.min() > 2 * MIN_ESS and found.by_pair.disagreement.max() < 0.5
    assert (found.num_chains, found.num_draws) == (4, 1000)
    assert found.cost.samples == found.num_pairs * 4000
    assert found.cost.gradient_evaluations > 5 * found.cost.samples  # five steps a draw
    assert "the chains agree in" in found.sentence and "no chain is stuck" in found.sentence


def test_steps_that_are_too_long_are_seen():
    """Chains that accept nothing stay where they started, each at its own place."""
    problem = swing()
    found = diagnose(table(problem), problem, sampler=HMC(80, step_size=8.0, num_chains=4))
    assert np.mean(found.flags["stuck"]) > 0.9 and found.by_pair.acceptance.mean() < 0.1
    assert np.mean(found.flags["rhat"]) > 0.5 and np.isinf(found.by_pair.rhat).any()
    assert not found.is_healthy
    assert "with chains that never moved" in found.sentence
    assert found.sentence.endswith("use a smaller step_size (None adapts it) or walls='logit'.")


@pytest.mark.slow  # compiled twice
def test_modes_that_are_not_crossed_are_seen(monkeypatch):
    """Two modes far apart: jumps cross them; without jumps every chain keeps to its own, and chains disagree."""
    problem = pose("two-modes")
    q = np.repeat(problem.grid.states()[:, :1].astype(float), problem.num_actions, axis=1)
    crossed = diagnose(q, problem, sampler=HMC(244, num_chains=4), num_pairs=10)
    assert not crossed.flags["rhat"].any() and not crossed.flags["uncrossed"].any()
    # A jump to where the chain is, never accepted; other steps: nothing that was compiled with jumps is used.
    monkeypatch.setattr(jump_chain, "_whole", lambda lanes, state, noise, *_: (state.position, -np.inf, 0.0, True))
    programs.forget_all()  # they hold the jumps that are to be missing
    kept = diagnose(q, problem, sampler=HMC(240, num_leapfrog=4, num_chains=4), num_pairs=10)
    programs.forget_all()
    assert kept.flags["rhat"].sum() > 5 and kept.flags["uncrossed"].all()
    assert kept.by_pair.disagreement.max() > 1
    assert "with modes that were not crossed" in kept.sentence


def test_values_are_those_of_the_cells(seen):
    problem = swing()
    q = table(problem)
    found = diagnose(q, problem, sampler=SMALL, num_pairs=20)
    locations = seen["drawn"][0].draws.locations[:, 0]
    expected = np.stack(np.split(q.max(axis=1)[locations], 4, axis=1), axis=1)  # one chain after the other
    assert expected.shape == (20, 4, 12)
    np.testing.assert_array_equal(seen["values"][0], expected)
    info = seen["drawn"][0].info
    np.testing.assert_allclose(found.by_pair.acceptance, info.acceptance[:, 0])
    np.testing.assert_array_equal(found.by_pair.stuck, info.stuck_share[:, 0])


def test_values_between_the_nodes_are_interpolated(seen):
    problem = swing("linear")
    q = table(problem)
    diagnose(q, problem, sampler=SMALL, num_pairs=20)
    points = np.moveaxis(seen["drawn"][0].draws.locations[:, 0].astype(float), 1, 2)
    nodes = np.linspace(-np.pi, np.pi, 7), np.linspace(-2, 2, 5)
    expected = interpn(nodes, q.max(axis=1).reshape(7, 5), points, bounds_error=False, fill_value=None)
    np.testing.assert_allclose(seen["values"][0], expected.reshape(20, 4, 12), atol=1e-5)


def test_chains_are_independent_and_dispersed(seen):
    """Neither the actions of a state nor its chains share their noise; weights are even."""
    problem = swing("linear")
    diagnose(table(problem), problem, sampler=HMC(48, num_chains=4, calibrate=True))
    drawn = seen["drawn"][0]
    assert (drawn.sampler.calibrate, drawn.sampler.dispersed) == (False, True) and drawn.weights is None
    noise = drawn.draws.locations[:, 0, 0].reshape(35, 3, 4, 12)  # state, action, chain, draw
    noise = (noise - noise.mean(axis=3, keepdims=True)) / noise.std(axis=3, keepdims=True)
    for first, second in ((noise[:, 0], noise[:, 2]), (noise[:, :, 0], noise[:, :, 3])):
        assert np.abs(np.mean(first * second)) < 0.3  # coupled ones: above 0.9
    diagnose(table(problem), problem, sampler=HMC(48, num_chains=4, walls="reflect"), num_pairs=3)
    assert not seen["drawn"][1].sampler.dispersed


def test_blocks_change_nothing(monkeypatch):
    problem = swing()
    whole = diagnose(table(problem), problem, sampler=SMALL, num_pairs=30)
    monkeypatch.setattr(diagnostics, "BLOCK", 11)
    parts = diagnose(table(problem), problem, sampler=SMALL, num_pairs=30)
    np.testing.assert_array_equal(whole.by_pair, parts.by_pair)
    assert whole.cost == parts.cost


def test_pairs_and_keys(monkeypatch):
    problem = swing()
    q = table(problem)
    first, again, other = (diagnose(q, problem, sampler=SMALL, num_pairs=30, key=key) for key in (1, 1, 2))
    np.testing.assert_array_equal(first.by_pair, again.by_pair)
    assert not np.array_equal(first.by_pair.rhat, other.by_pair.rhat)
    assert len({*zip(first.states, first.actions, strict=True)}) == 30
    assert {*first.actions} == {0, 1, 2} and not np.array_equal(first.states, other.states)
    everything = diagnose(hamq.solve_exact(problem, tolerance=1.0), problem, sampler=SMALL)
    assert everything.num_pairs == 105 and "all 105 pairs" in everything.sentence
    monkeypatch.setattr(diagnostics, "MAX_PAIRS", 40)
    part = diagnose(q, problem, sampler=SMALL)
    assert part.num_pairs == 40 and "40 random pairs of 105" in part.sentence


def test_shares_are_of_all_trajectories():
    statistics = ChainStatistics(*np.ones((4, 1)))
    info = make_info(num_nonfinite=6, num_modes=2, num_crossings=1, acceptance=0.5)
    info = type(info)(*(np.asarray(of_pair)[None] for of_pair in info))
    found = diagnostics._numbers(HMC(40, num_chains=4, num_warmup=5), statistics, info)
    assert found.divergent[0] == 6 / 60 and found.uncrossed[0] == 0 and found.acceptance[0] == 0.5
    kept = diagnostics._numbers(SMALL, statistics, info._replace(num_crossings=np.zeros(1, np.int32)))
    assert kept.uncrossed[0] == 1


def test_states_have_the_worst_of_their_pairs():
    found = diagnosis([2, 2, 7], [0, 1, 1], rhat=[1.0, 1.3, 1.1], bulk_ess=[500, 450, 399], acceptance=[0.9, 0.7, 0.8])
    by_state = found.by_state
    assert (by_state.rhat[2], by_state.rhat[7]) == (1.3, 1.1)
    assert (by_state.bulk_ess[2], by_state.acceptance[2]) == (450, 0.7)
    assert all(np.isnan(of_states).sum() == 33 and len(of_states) == 35 for of_states in by_state)
    np.testing.assert_array_equal(found.flags["rhat"], [False, True, True])
    np.testing.assert_array_equal(found.flags["bulk_ess"], [False, False, True])
    np.testing.assert_array_equal(found.is_flagged, [False, True, True])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rhat": [1.0, 1.4]}, "1 with R̂ above 1.05 (worst at state 5 (-2.0944, -2), action 2 (1.5)); raise num_warmup"),
        ({"rhat": [1.0, np.inf], "stuck": [0, 0.5]}, "1 with chains that never moved, 1 with R̂ above 1.05"),
        (
            {"stuck": [0.25, 0.5], "divergent": [0.1, 0]},
            "(worst at state 4 (-3.14159, 2), action 0 (-1)); use a smaller step_size",
        ),
        ({"divergent": [0.1, 0]}, "1 with trajectories of no finite energy"),
        ({"uncrossed": [0.0, 1]}, "1 with modes that were not crossed"),
        ({"tail_ess": [10.0, 20]}, "2 of 2 random pairs of 105 are suspect: 2 with a tail ESS below 400"),
        ({"bulk_ess": [10.0, 800]}, "1 of 2 random pairs of 105 is suspect: 1 with a bulk ESS below 400"),
        ({"bulk_ess": [10.0, 20], "num_draws": 50}, "200 draws cannot be worth 400; raise num_samples"),
        ({"disagreement": [0.1, 0.2], "acceptance": [0.5, 0.6]}, "the chains agree in 2 random pairs of 105"),
    ],
)
def test_what_is_said(given, said):
    found = diagnosis([4, 5], [0, 2], **given)
    assert said in found.sentence and found.sentence.startswith("swing: ") and found.sentence.endswith(".")
    assert repr(found).startswith("ChainDiagnosis(4 chains of ") and found.sentence in repr(found)
    assert found.is_healthy == ("the chains agree" in found.sentence)


def test_trajectories_that_end_in_a_zero_of_the_density_are_no_alarm():
    found = dataclasses.replace(diagnosis([4, 5], [0, 2], divergent=[0.4, 0.1]), is_cut=True)
    assert found.is_healthy and "step_size" not in found.sentence
    assert "up to 40% of a pair's trajectories were rejected because they ended where the density is zero" in found.sentence
    stuck = dataclasses.replace(diagnosis([4, 5], [0, 2], divergent=[0.4, 0.1], stuck=[0.5, 0]), is_cut=True)
    assert "1 with chains that never moved" in stuck.sentence and stuck.sentence.endswith("which cross what chains cannot.")


def test_a_density_that_ends_inside_of_the_box_is_seen():
    kernel = hamq.UnnormalizedKernel(lambda next_state, state, action: jnp.where(next_state[0] > 0.13, 0.0, -jnp.inf))
    problem = hamq.Problem(
        hamq.Grid(lower=[-1], upper=[1], points=[5]), [0.0, 1.0], kernel, lambda state, action: state[0], discount=0.5
    )
    found = diagnose(np.arange(10.0).reshape(5, 2), problem)
    assert found.is_cut and found.by_pair.divergent.max() > 0 and found.is_healthy, found


@pytest.mark.usefixtures("as_user")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sampler": IID(10)}, "sampler must have chains, as HMC has, and IID has none to look at"),
        ({"sampler": HMC(100)}, "one chain has nothing to agree with; give it num_chains=4 or more"),
        ({"sampler": HMC(6, num_chains=2)}, "at least 4 draws each, got num_samples=6 for 2 chains; raise num_samples"),
        ({"num_pairs": 0}, "diagnose: num_pairs must be a whole number of at least 1, got 0"),
        ({"solution": np.zeros((35, 2))}, "the shape (35, 3) of swing, got (35, 2) of float64"),
        ({"solution": np.full((35, 3), np.nan)}, "diagnose: Q is nan at state 0"),
        ({"solution": swing()}, "diagnose: what is judged comes first: diagnose(solution), or diagnose(table, problem)."),
        ({"problem": None}, "diagnose: a ndarray does not know its problem; give diagnose(table, problem)."),
    ],
)
def test_refusals(given, message):
    arguments = {"solution": np.zeros((35, 3))} | given
    with pytest.raises(ValueError) as caught:
        diagnose(**({"problem": swing()} | arguments))
    assert message in str(caught.value)


def test_another_problem_is_refused():
    solution = hamq.solve_exact(swing(), tolerance=1.0)
    with pytest.raises(ValueError, match="are different problems"):
        diagnose(solution, swing(discount=0.8))
    found = diagnose(dataclasses.replace(solution, result="read"), swing(), sampler=SMALL, num_pairs=2)
    assert found.num_pairs == 2


def ends(state):
    return state[0] > 2


def test_ended_states_are_worth_nothing():
    """Whatever the table says of them."""
    problem, rng = swing(terminal=ends), np.random.default_rng(0)
    table = rng.normal(size=(35, 3))
    other = np.where(terminal_table(problem)[:, None], 100.0, table)
    first, second = (diagnose(q, problem, sampler=SMALL, num_pairs=10, key=1).by_pair for q in (table, other))
    np.testing.assert_array_equal(first.rhat, second.rhat)


class Asked(Exception):
    """Carries the key with which draws were asked for."""


def test_chains_share_no_key_with_a_solver(monkeypatch):
    """`solve` has its draws from one of five parts of its key: with the same seed, `diagnose` has none of them."""

    def ask(*_, key, **__):
        raise Asked(tuple(jr.key_data(key).tolist()))

    monkeypatch.setattr(diagnostics, "_in_blocks", ask)
    with pytest.raises(Asked) as asked:
        diagnose(np.zeros((swing().num_states, swing().num_actions)), swing(), sampler=SMALL, key=0)
    assert asked.value.args[0] not in {tuple(key) for key in jr.key_data(jr.split(jr.key(0), 5)).tolist()}
