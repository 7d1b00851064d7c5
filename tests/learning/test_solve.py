"""Algorithm 1 against the exact answer, and what is promised around it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hamq.certificates.comparison import compare
from hamq.completion.anchoring import PILOT_ITERATIONS, _rough_value
from hamq.completion.anchors import Anchors
from hamq.completion.keep import Keep
from hamq.completion.nuclear_norm import NuclearNorm
from hamq.completion.planning import Sampled
from hamq.completion.selection import all_pairs
from hamq.completion.soft_impute import SoftImpute
from hamq.exact.value_iteration import solve_exact
from hamq.learning.backup import stock_of
from hamq.learning.draws import draw_pairs
from hamq.learning.literal import literal_provenance, paper_literal
from hamq.learning.passes import Passes
from hamq.learning.preparation import lemma3_samples
from hamq.learning.q_iteration import solve
from hamq.problem import zoo
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem
from hamq.problem.tables import reward_table, terminal_table
from hamq.sampling.exhaustive import Exhaustive
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID
from hamq.types import NonFiniteError

TRACES = []
NUM_DRAWS = lemma3_samples(0.9, 90, 2)
"""One number for all tests of the car: they share what is compiled."""


def mean(state, action):
    TRACES.append(1)
    return state + 0.3 * action


def reward(state, action):
    return -jnp.sum(state**2) - 0.01 * action**2


def pose(**changes):
    """A car on a line: 15 positions, 6 pushes; small, with an expectation of low rank."""
    given = {
        "grid": Grid(lower=[-1], upper=[1], points=[15]),
        "actions": np.linspace(-1, 1, 6),
        "kernel": GaussianKernel(mean, covariance=[0.04]),
        "reward": reward,
        "discount": 0.9,
        "name": "car",
    }
    return Problem(**(given | changes))


@pytest.fixture(scope="module")
def problem():
    return pose()


@pytest.fixture(scope="module")
def exact(problem):
    return solve_exact(problem)


@pytest.fixture(scope="module")
def pendulum():
    return zoo.pendulum(points=9)


@pytest.fixture(scope="module")
def exact_pendulum(pendulum):
    return solve_exact(pendulum)


def test_all_pairs_and_no_noise_give_the_exact_answer(problem, exact):
    """|Q_t − Q*| ≤ γᵗ|Q_0 − Q*| plus float32's rounding of the expectations, over 1 − γ."""
    solution = solve(problem, Exhaustive(), None, iterations=150, exact=exact)
    size = np.abs(exact.q).max()
    np.testing.assert_allclose(solution.q, exact.q, atol=size * (0.9**150 + 20 * np.finfo(np.float32).eps / 0.1))
    assert solution.converged and solution.history.distance[-1] < 1e-5
    assert len(solution.history) == 150


def test_first_iterations_contract(problem):
    change = solve(problem, Exhaustive(), None, iterations=30, initial=5.0).history.change
    assert change[0] > 0.1 and np.all(change[1:] <= 0.9 * (1 + 1e-4) * change[:-1])


def test_anchors_find_the_rank_and_the_answer(problem, exact):
    solution = solve(problem, Exhaustive(), Anchors(num_columns=3, num_states=8), iterations=150, exact=exact)
    assert solution.history.distance[-1] < 0.01
    assert solution.history.rank[-1] == 3
    assert "3 columns" in solution.result


def test_a_table_that_is_not_low_rank_is_backed_up_in_full():
    """Every action leads elsewhere: no few columns say where the others lead."""
    shifts = jnp.asarray(np.random.default_rng(0).permutation(np.linspace(-1, 1, 8)), jnp.float32)

    def mean(state, action):
        return jnp.sin(40 * shifts[action.astype(int)].astype(state.dtype) * (1.5 + state))

    problem = pose(
        kernel=GaussianKernel(mean, covariance=[0.0025]),
        actions=np.arange(8.0),
        reward=lambda state, action: jnp.cos(9 * jnp.sum(state)) + 0 * action,
        expected=("aliasing", "noise", "outside"),
    )
    exact = solve_exact(problem)
    solution = solve(problem, Exhaustive(), iterations=120, exact=exact)
    assert "not low-rank" in solution.result and "every entry is backed up" in solution.result
    assert solution.history.distance[-1] < 1e-4


def test_defaults_reach_the_answer_within_their_budget(pendulum, exact_pendulum):
    """The default solver on a problem of the paper, coarse: 5 % of Q* and a policy that loses 2 % of the span."""
    problem, exact = pendulum, exact_pendulum
    solution = solve(problem, exact=exact, key=1, max_gradients=400_000)
    assert solution.history.distance[-1] < 0.05
    assert solution.history.gradient_evaluations[-1] <= 400_000
    assert solution.converged and "columns" in solution.result
    other = solve(problem, exact=exact, key=2, max_gradients=400_000)
    again = solve(problem, exact=exact, key=jax.random.key(1), max_gradients=400_000)
    np.testing.assert_array_equal(solution.q, again.q)
    assert np.mean(solution.q != other.q) > 0.9


def test_the_paper_to_the_letter_does_not_settle(pendulum, exact_pendulum):
    """Empty rows are 0, and so is V in a share 0.8¹⁰ of the states: Q hovers about the solution with γ(1 − 0.8¹⁰)."""
    reused = Passes(draws="reuse", coupled=False)
    settings = paper_literal(pendulum) | {"sampler": Exhaustive(), "iterations": 120, "passes": reused}
    tables = []
    solution = solve(pendulum, **settings, callback=lambda iterate: tables.append(iterate.q))
    empty = 0.8**10
    assert not solution.converged and "still changes by" in solution.result
    late = solution.history.change[40:]
    assert late.min() > 0.5 * np.abs(solution.q).max()  # a row is emptied, another filled, for ever
    assert np.mean(solution.history.unidentified) == pytest.approx(81 * empty, rel=0.25)
    shorter = Problem(pendulum.grid, pendulum.actions, pendulum.kernel, pendulum.reward, 0.95 * (1 - empty))
    shrunk = solve_exact(shorter)
    values = np.mean([table.max(axis=1) for table in tables[60:]], axis=0) / (1 - empty)
    assert abs(values.mean() - shrunk.value.mean()) < 0.25 * abs(exact_pendulum.value.mean() - shrunk.value.mean())


@pytest.mark.parametrize("completion", [NuclearNorm(fraction=0.5), SoftImpute(fraction=0.5)])
def test_scattered_entries_are_completed(problem, exact, completion):
    """Half of the entries, exact expectations: completing the increment settles near the answer."""
    solution = solve(problem, Exhaustive(), completion, iterations=80, exact=exact)
    assert solution.history.distance[-1] < 0.05
    assert solution.history.unidentified.max() == 0


def test_unselected_entries_keep_their_value(problem):
    first = np.full((15, 6), 7.0)
    solution = solve(problem, Exhaustive(), Keep("bernoulli", 0.3), iterations=1, initial=first)
    kept = np.mean(solution.q == 7.0)
    assert 0.5 < kept < 0.9  # 0.7 of 90 entries ± 4 standard deviations


def test_fresh_draws_with_averaging_beat_fresh_draws_without(problem, exact):
    options = {"completion": None, "iterations": 60, "exact": exact, "initial": exact.q, "key": 3}
    ways = Passes(draws="fresh"), Passes(draws="fresh", step_decay=10.0)
    found = (solve(problem, IID(NUM_DRAWS), passes=passes, **options) for passes in ways)
    plain, averaged = (each.history.distance[-20:].mean() for each in found)
    assert averaged < 0.7 * plain


def test_any_fraction_is_compiled_once():
    problem = pose()
    options = {"sampler": IID(NUM_DRAWS), "passes": Passes(draws="fresh"), "iterations": 2}
    solve(problem, completion=Keep("bernoulli", 0.9), **options)
    before = len(TRACES)
    solve(problem, completion=Keep("bernoulli", 0.4), **options)
    solve(problem, completion=Keep("bernoulli", 0.2), **options, key=5)
    traced = len(TRACES) - before
    # The checks before a run evaluate the user's mean (they are no part of the loop), the same number of times each.
    assert traced <= 2 * 2, f"traced {traced} times"


def test_terminal_states_are_worth_nothing():
    problem = pose(terminal=lambda state: state[0] > 0.9)
    exact = solve_exact(problem)
    solution = solve(problem, Exhaustive(), None, iterations=120, exact=exact)
    assert np.all(solution.q[-1] == 0) and solution.history.distance[-1] < 1e-4
    anchored = solve(problem, Exhaustive(), Anchors(num_columns=3, num_states=10), iterations=120, exact=exact)
    assert np.all(anchored.q[-1] == 0) and anchored.history.distance[-1] < 0.05


def test_tolerance_stops(problem, exact):
    solution = solve(problem, Exhaustive(), None, tolerance=1e-3, iterations=500)
    assert solution.converged and len(solution.history) < 120
    assert np.abs(solution.q - exact.q).max() <= 1e-3
    short = solve(problem, Exhaustive(), None, tolerance=1e-3, iterations=5)
    assert not short.converged and "where the 0.001 asked for would do" in short.result


@pytest.mark.parametrize(
    "options",
    [
        {"completion": None},
        {"completion": NuclearNorm(fraction=0.5, selection="bernoulli"), "passes": Passes(draws="fresh")},
        {"completion": Anchors(num_columns=2, num_states=4)},
    ],
)
def test_resumed_equals_uninterrupted(problem, options):
    saved = []
    options = options | {"sampler": IID(NUM_DRAWS), "key": 4}
    whole = solve(problem, iterations=9, **options, callback=lambda iterate: saved.append(iterate.checkpoint()))
    resumed = solve(problem, iterations=9, **options, resume=saved[3])
    np.testing.assert_array_equal(whole.q, resumed.q)
    for name in whole.history.columns:
        if name != "seconds":
            np.testing.assert_array_equal(whole.history[name], resumed.history[name], err_msg=name)
    assert np.all(np.diff(resumed.history.seconds) >= 0)


def test_a_run_that_had_settled_is_not_iterated_again(problem):
    saved, options = [], {"sampler": Exhaustive(), "completion": None, "tolerance": 1e-2, "iterations": 300}
    whole = solve(problem, **options, callback=lambda iterate: saved.append(iterate.checkpoint()))
    resumed = solve(problem, **options, resume=saved[-1])
    assert whole.converged and resumed.converged and len(resumed.history) == len(whole.history)
    np.testing.assert_array_equal(whole.q, resumed.q)


def test_callback_sees_every_iteration(problem):
    seen = []
    solve(problem, Exhaustive(), None, iterations=4, callback=seen.append)
    assert [iterate.iteration for iterate in seen] == [1, 2, 3, 4]
    assert len(seen[-1].history()) == 4 and seen[0].iterations == 4


def test_what_is_not_finite_stops_with_state_and_action(problem):
    with pytest.raises(NonFiniteError, match=r"iteration 1: Q is -?inf at state 0 \(-1\), action 0 \(-1\) \(90 such"):
        solve(problem, Exhaustive(), None, iterations=3, initial=1e300)


def test_lemma_3():
    """(1+ξ)/(1−ξ)·(2/γ²)·log(2|Ω|T/δ) at γ = 0.95, |Ω| = 1250, T = 200, δ = 0.05."""
    assert lemma3_samples(0.95, 1250, 200) == int(np.ceil(2 / 0.95**2 * np.log(2 * 1250 * 200 / 0.05)))
    assert lemma3_samples(0.95, 1250, 200, correlation=0.5) == pytest.approx(3 * lemma3_samples(0.95, 1250, 200), abs=3)


def test_lemma_3_sets_the_number_of_draws(problem):
    solution = solve(problem, IID(1), None, passes=Passes(schedule="lemma3"), iterations=2)
    assert NUM_DRAWS > 20 and solution.history.samples[-1] == 90 * NUM_DRAWS


def test_the_literal_settings_have_sources():
    small, large = (literal_provenance(p) for p in (zoo.pendulum(points=5), zoo.cart_double_pendulum()))
    assert (small["num_samples"].value, large["num_samples"].value) == (100, 200)
    assert (small["initial"].value, large["initial"].value) == (1.0, 2.0)
    assert small["sharpness"].value == 80 and small["sharpness"].source == "authors' code"
    assert {sourced.source for sourced in small.values()} <= {"paper", "authors' code", "peer", "assumed"}
    literal = paper_literal(zoo.pendulum(points=5))
    assert literal["sampler"].num_leapfrog == 100 and literal["completion"].unidentified == "zero"


REFUSED = {
    "iterations must be a whole number of at least 1, got 0": {"iterations": 0},
    "tolerance must be None or a number above 0, got nan": {"tolerance": float("nan")},
    "max_gradients must be None or a number above 0, got 0": {"max_gradients": 0},
    "max_gradients counts gradients of the density, and IID needs none": {"max_gradients": 10, "sampler": IID(5)},
    "does not buy one draw for each of 90 backups": {"max_gradients": 9_000, "sampler": HMC(9), "completion": None},
    "schedule='lemma3' says how many draws to make, and Exhaustive makes none": {"passes": Passes(schedule="lemma3")},
    r"passes must be hamq\.Passes\(\.\.\.\) or None, got 'fresh'": {"passes": "fresh"},
    "sampler must be HMC, IID, Importance or Exhaustive": {"sampler": "hmc"},
    "completion must be Anchors, NuclearNorm, SoftImpute or None, got 'anchors'": {"completion": "anchors"},
    "initial must be a number or a table of shape": {"initial": np.zeros((3, 3))},
    "initial must be finite": {"initial": np.nan},
    "initial must be a table, a number, 'uniform'": {"initial": "random"},
    "num_columns = 9 is more than the 6 actions": {"completion": Anchors(num_columns=9)},
    "num_states = 99 is more than the 15 states": {"completion": Anchors(num_states=99)},
    "bytes for .* draws and the tables": {"passes": Passes(max_bytes=100), "sampler": IID(50), "completion": None},
    "bytes for 1.50e.10 draws and the tables": {
        "passes": Passes(max_bytes=10**9),
        "sampler": IID(10**9),
    },  # before the pilot
    "bytes for 3.00e.09 draws and the tables": {
        "passes": Passes(max_bytes=10**9, draws="fresh"),
        "sampler": IID(10**9),
        "completion": NuclearNorm(),
    },
    "key must be a JAX key": {"key": "zero"},
}


@pytest.mark.parametrize("message", REFUSED)
def test_refusals(as_user, problem, message):
    with pytest.raises(ValueError, match=message):
        solve(problem, **({"sampler": Exhaustive(), "iterations": 2} | REFUSED[message]))


PARTS_REFUSED = {
    "Keep: fraction must lie above 0 and be at most 1, got 0": lambda: Keep(fraction=0),
    "NuclearNorm: fraction must lie above 0 and be at most 1, got 1.5": lambda: NuclearNorm(fraction=1.5),
    "SoftImpute: fraction = 0.5 has no meaning with selection='all'": lambda: SoftImpute(fraction=0.5, selection="all"),
    "Keep: selection must be one of .*, got 'per_stat'; did you mean 'per_state'?": lambda: Keep("per_stat"),
    "Anchors: completes must be one of expectation, increment, table, got 'tables'": lambda: Anchors(completes="tables"),
    "Passes: step_size must lie above 0 and be at most 1, got 0": lambda: Passes(step_size=0),
    "Passes: step_decay must be None or a number above 0, got -1": lambda: Passes(step_decay=-1),
    "Passes: max_bytes must be None or a number above 0, got -5": lambda: Passes(max_bytes=-5),
    "Passes: draws must be one of reuse, fresh, regenerate, got 'once'": lambda: Passes(draws="once"),
    "Passes: schedule must be one of constant, lemma3, got 'x'": lambda: Passes(schedule="x"),
    "Passes: coupled must be True or False, got 1": lambda: Passes(coupled=1),
}


@pytest.mark.parametrize("message", PARTS_REFUSED)
def test_refusals_of_completions_and_passes(as_user, message):
    with pytest.raises(ValueError, match=message):
        PARTS_REFUSED[message]()


def test_the_exact_solution_must_be_of_this_problem(problem):
    other = solve_exact(pose(actions=np.linspace(-1, 1, 3)))
    with pytest.raises(ValueError, match="exact must be a solution of this problem, got one of Problem"):
        solve(problem, Exhaustive(), None, exact=other)


@pytest.mark.parametrize(
    "options",
    [
        {"passes": Passes(step_size=0.05)},
        {"passes": Passes(step_decay=1.0)},
        {"completion": Keep("bernoulli", 0.3)},
        {"completion": Keep("per_state", 0.2), "passes": Passes(step_size=0.5)},
    ],
)
def test_a_tolerance_holds_for_small_steps_and_few_pairs(problem, exact, options):
    """Without noise the limit is Q*: whoever says that it is within 0.1 must be."""
    solution = solve(problem, Exhaustive(), **({"completion": None} | options), tolerance=0.1, iterations=1500)
    if solution.converged:
        assert np.abs(solution.q - exact.q).max() <= 0.1
    assert solution.converged or "step_decay=1.0" in repr(options)


@pytest.mark.parametrize("completion", [Anchors(num_columns=2, num_states=5), NuclearNorm()])
def test_what_is_not_finite_stops_before_it_is_completed(problem, completion):
    with pytest.raises(NonFiniteError, match="iteration 1: Q is inf at state"):
        solve(problem, Exhaustive(), completion, iterations=50, initial=1e300)


def test_no_pair_at_all_is_refused(problem):
    with pytest.raises(ValueError, match="no pair was selected in iteration 1; raise fraction = 1e-05"):
        solve(problem, Exhaustive(), Keep("bernoulli", 1e-5))


def test_a_completion_that_stops_early_is_mentioned(problem):
    completion = NuclearNorm(max_iterations=1, selection="bernoulli", fraction=0.5, completes="table")
    solution = solve(problem, Exhaustive(), completion, iterations=3)
    assert "the completion stopped early in 3 of 3 iterations" in solution.result
    assert solution.history.incomplete.tolist() == [1, 1, 1]


def test_empty_rows_are_counted_without_a_completion(problem):
    solution = solve(problem, Exhaustive(), Keep("bernoulli", 0.1), iterations=3)
    assert solution.history.unidentified.min() > 0


def test_many_columns_get_enough_states():
    """More columns than the usual number of anchor states: they are as many as it takes, or a sentence says why not."""
    problem = pose(actions=np.linspace(-1, 1, 40), grid=Grid(lower=[-1], upper=[1], points=[61]))
    solution = solve(problem, Exhaustive(), Anchors(num_columns=12), iterations=60, exact=solve_exact(problem))
    assert solution.history.distance[-1] < 0.02
    with pytest.raises(ValueError, match="num_columns = 20 needs as many states, and there are 15"):
        solve(pose(actions=np.linspace(-1, 1, 40)), Exhaustive(), Anchors(num_columns=20))


def test_a_pilot_that_is_too_dear_is_refused_before_it_is_drawn(problem):
    with pytest.raises(ValueError, match="max_gradients = 10 does not buy the pilot that chooses the anchors of car"):
        solve(problem, max_gradients=10)


def test_chains_divide_what_a_budget_buys(problem):
    solution = solve(problem, HMC(9, num_chains=3), None, max_gradients=30_000, iterations=2)
    assert 0 < solution.history.gradient_evaluations[-1] <= 30_000


def test_what_a_callback_keeps_does_not_grow(problem):
    seen = []
    solve(problem, Exhaustive(), None, iterations=4, callback=seen.append)
    assert [len(iterate.history()) for iterate in seen] == [1, 2, 3, 4]
    assert [len(iterate.checkpoint()["rows/change"]) for iterate in seen] == [1, 2, 3, 4]


def test_another_problem_of_the_same_size_is_refused():
    first, second = zoo.pendulum(points=5), zoo.double_integrator(points=5)
    exact = solve_exact(second, tolerance=1e-2)
    with pytest.raises(ValueError, match="exact must be a solution of this problem, got one of Problem\\('double_integ"):
        solve(first, Exhaustive(), None, exact=exact)
    with pytest.raises(ValueError, match="are different problems"):
        compare(solve_exact(first, tolerance=1e-2), exact)


def test_more_refusals(as_user, problem):
    for message, options in {
        "problem must be a hamq.Problem": {"problem": "pendulum"},
        "resume has no table 'q'": {"resume": {}},
        "key must be a seed of 64 bits": {"key": 10**20},
    }.items():
        with pytest.raises(ValueError, match=message):
            solve(**({"problem": problem, "sampler": Exhaustive(), "completion": None} | options))


def test_a_changing_number_of_pairs_compiles_nothing(problem, caplog):
    """The paper's coins, fresh draws: after a first run other numbers of pairs find everything compiled."""
    options = {"sampler": IID(NUM_DRAWS), "completion": Keep("bernoulli", 0.5), "passes": Passes(draws="fresh")}
    solve(problem, **options, iterations=6, key=0)
    with jax.log_compiles(), caplog.at_level("WARNING"):
        solve(problem, **options, iterations=8, key=1)
    lines = [record.getMessage() for record in caplog.records]
    # Tables of the user's functions are in float64, and made once per run.
    compiled = [line for line in lines if line.startswith("Compiling") and "float64" not in line]
    assert compiled == [], "\n".join(line[:150] for line in compiled)


def test_the_pilot_knows_where_problems_end():
    """With exact expectations of all actions the pilot's V is value iteration, terminal states included."""
    problem = pose(terminal=lambda state: state[0] > 0.5)
    everything, exact = all_pairs(problem), solve_exact(problem)
    drawn = draw_pairs(problem, Exhaustive(), *everything, key=jax.random.key(0))
    actions = np.arange(problem.num_actions)
    sampled = Sampled(lambda value: stock_of(drawn).expected(problem, value), drawn)
    value = _rough_value(problem, reward_table(problem), terminal_table(problem), actions, actions, sampled, sampled)
    np.testing.assert_allclose(value, exact.value, atol=2 * 0.9**PILOT_ITERATIONS * np.abs(exact.value).max())
