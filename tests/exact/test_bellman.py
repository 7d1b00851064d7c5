import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hamq.exact import bellman
from hamq.exact.bellman import evaluate_policy, make_operator
from hamq.problem import cells
from tests.exact.posed import ends, maze, model, spiky, swing


@pytest.fixture(scope="module", params=["product", "dense", "terminal"])
def operator(request):
    problem = {"product": maze(), "dense": spiky(), "terminal": swing(terminal=ends)}[request.param]
    return make_operator(problem)


@given(seed=st.integers(0, 2**32 - 1), shift=st.floats(-1e3, 1e3))
@settings(max_examples=30)
def test_backup_contracts_by_the_discount_and_shifts_with_a_constant(operator, seed, shift):
    rng = np.random.default_rng(seed)
    size, discount = operator.problem.num_states, operator.problem.discount
    first, second = rng.normal(size=size) * 10.0 ** rng.integers(-3, 4, size), rng.normal(size=size)
    distance = np.abs(operator.backup(first).max(axis=1) - operator.backup(second).max(axis=1)).max()
    assert distance <= discount * np.abs(first - second).max() * (1 + 1e-12)
    if operator.ended is None:
        moved = operator.backup(first + shift)
        rounding = 1e-12 * (np.abs(first).max() + abs(shift))
        np.testing.assert_allclose(moved, operator.backup(first) + discount * shift, rtol=1e-12, atol=rounding)


def test_backup_is_the_dense_sum_within_its_slack(operator):
    value = np.random.default_rng(0).normal(size=operator.problem.num_states) + 1e6
    if operator.ended is not None:
        value[operator.ended] = 0
    expected = model(operator.problem).backup(value)
    assert np.abs(operator.backup(value) - expected).max() <= operator.slack(value) + 1e-9
    assert operator.slack(value) < 1e-2


def test_slack_grows_with_the_error_of_the_law_times_the_variation_of_the_value():
    operator = make_operator(spiky())
    value = np.asarray([0.0, 1.0, 2.0, 3.0, 5.0])
    assert operator.slack(value) >= 0.9 * operator.law.error * 5.0 > 0
    assert operator.slack(value + 1e3) < operator.slack(value) + 1e-9


@pytest.mark.parametrize("name", ["maze", "terminal", "circle"])
def test_value_of_a_policy_equals_the_linear_solve(name):
    pose = {"maze": maze, "terminal": lambda: swing(terminal=ends), "circle": lambda: swing(periodic=True)}
    problem = pose[name]()
    rng = np.random.default_rng(1)
    exact = model(problem)
    actions = rng.integers(0, problem.num_actions, problem.num_states)
    probabilities = rng.dirichlet(np.ones(problem.num_actions), problem.num_states)
    for policy in (actions, probabilities):
        found = evaluate_policy(problem, policy, tolerance=1e-9)
        assert found.converged and found.error <= 1e-9
        np.testing.assert_allclose(found.value, exact.policy_value(policy), atol=1.01e-9)


def test_value_of_a_policy_under_a_density_without_constant():
    problem = spiky()
    exact = model(problem)
    policy = np.asarray([0, 1, 0, 1, 1])
    found = evaluate_policy(problem, policy, tolerance=1e-7)
    assert found.converged
    np.testing.assert_allclose(found.value, exact.policy_value(policy), atol=1e-7)


def test_many_policies_on_one_operator(monkeypatch):
    problem = maze()
    operator = make_operator(problem)
    monkeypatch.setattr(bellman, "make_operator", lambda *_: pytest.fail("built again"))
    exact = model(problem)
    for action in range(problem.num_actions):
        policy = np.full(problem.num_states, action)
        np.testing.assert_allclose(operator.evaluate(policy, 1e-8).value, exact.policy_value(policy), atol=1.01e-8)
    assert evaluate_policy(problem, policy, operator=operator).converged


def test_terminal_states_have_value_zero_under_any_policy():
    problem = swing(terminal=ends)
    operator = make_operator(problem)
    assert operator.ended.any() and not operator.ended.all()
    found = operator.evaluate(np.full((35, 3), 1 / 3))
    assert np.all(found.value[operator.ended] == 0) and np.all(found.value[~operator.ended] != 0)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (np.zeros(34, int), r"shape \(35,\) and integer, or probabilities of shape \(35, 3\); got shape \(34,\)"),
        (np.zeros(35), r"got shape \(35,\) and dtype float64"),
        (np.full(35, 3), r"policy takes action 3 in state 0; actions are 0 to 2"),
        (np.full(35, -1), r"policy takes action -1 in state 0"),
        (np.full((35, 3), 0.3), r"probabilities \[0.3, 0.3, 0.3\] in state 0; they must be at least 0 and sum to 1"),
        (np.full((35, 3), np.nan), r"probabilities \[nan, nan, nan\] in state 0"),
        (np.tile([1.5, -0.5, 0.0], (35, 1)), r"probabilities \[1.5, -0.5, 0.0\] in state 0"),
    ],
)
def test_a_policy_that_is_none_is_refused(policy, message):
    with pytest.raises(ValueError, match=message):
        evaluate_policy(swing(), policy)


def test_a_policy_may_be_a_jax_array():
    assert evaluate_policy(swing(), jnp.zeros(35, jnp.int32)).converged


def test_rows_that_do_not_fit_are_refused_with_the_number(monkeypatch):
    monkeypatch.setattr(cells, "all_rows", lambda *_: pytest.fail("computed before it was refused"))
    with pytest.raises(ValueError, match=r"solving spiky exactly needs 4.00e\+02 bytes .* and 3.00e\+02 are allowed"):
        make_operator(spiky(), max_bytes=300)
    with pytest.raises(ValueError, match=r"at least 1.25e\+03 density evaluations, and 1.00e\+02 are allowed"):
        make_operator(spiky(), max_evaluations=100)
