"""`certify`: computed certificates, which method is taken, and every refusal. Draws are in test_sampled.py."""

import types

import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.certificates import certify as module
from hamq.certificates.certificate import Certificate
from hamq.certificates.certify import certify
from hamq.certificates.evidence import evidence_of
from hamq.exact.value_iteration import solve_exact
from hamq.problem import zoo
from hamq.problem.grid import Grid
from hamq.problem.kernels.unnormalized import UnnormalizedKernel
from hamq.problem.problem import Problem
from tests.certificates.test_proposal import ENDS, bent, posed
from tests.runs.posed_certificates import certificate, partial
from tests.sampling.posed import pose


def losses(operator, q, true):
    return true.max(axis=1) - operator.evaluate(q.argmax(axis=1), tolerance=1e-9).value


@pytest.mark.parametrize("size", [1e-3, 0.3, 20.0])
@pytest.mark.parametrize("ends", ENDS)
def test_computed_bounds_are_true_and_close(ends, size):
    operator, true = posed(ends)
    q, exact = bent(true, operator.ended, size), solve_exact(operator.problem, tolerance=1e-9)
    found = certify(q, operator.problem)
    assert (found.method, found.confidence, found.draws, found.cost.samples) == ("exact", 1.0, 0.0, 0)
    assert np.all((found.lower <= exact.lower + 1e-12) & (exact.upper <= found.upper + 1e-12))
    error, loss = np.abs(q - true).max(), losses(operator, q, true)
    assert error <= found.error + 1e-12
    assert found.error <= 1.2 * error
    assert np.all(loss <= found.policy_loss + 1e-8)
    assert np.all(found.policy_loss <= loss + 0.3 * error)
    if operator.ended is not None:
        assert not found.upper[operator.ended].any()
        assert not found.policy_loss[operator.ended].any()
    assert "computed, with no draw" in found.sentence


@pytest.mark.parametrize("ends", ENDS)
def test_the_answer_itself_has_no_error(ends):
    operator, _ = posed(ends)
    exact = solve_exact(operator.problem, tolerance=1e-9)
    found = certify(exact, operator.problem)
    assert found.error < 1e-6 * np.ptp(exact.q)
    assert found.worst_loss < 1e-6 * np.ptp(exact.q)
    assert np.all((found.lower <= exact.upper) & (exact.lower <= found.upper))


def test_densities_without_a_constant_are_computed_by_quadrature():
    def logdensity(next_state, state, action):
        return -jnp.sum((next_state - 0.5 * state - 0.3 * action) ** 2) + jnp.sin(2 * next_state[0])

    grid, kernel = Grid([-1.0], [1.0], 5), UnnormalizedKernel(logdensity)
    problem = Problem(grid, [-1.0, 1.0], kernel, lambda state, action: state[0] * action, 0.9, name="mine")
    exact = solve_exact(problem, tolerance=1e-7)
    q = exact.q + 0.1 * np.random.default_rng(0).normal(size=exact.q.shape)
    found = certify(q, problem)
    assert found.method == "exact"
    assert found.cost.density_evaluations > 0
    assert np.all((found.lower <= exact.upper) & (exact.lower <= found.upper))
    error = np.abs(q - exact.q).max()
    assert 0.999 * error <= found.error <= 1.2 * error


@pytest.fixture
def sampled(monkeypatch):
    """What would be drawn, without a draw: (kind, draws per pair or number of pairs)."""
    asked = []

    def by_draws(problem, q, kind, confidence, num_draws, **_):
        asked.append((kind, num_draws))
        return certificate(problem, q)

    def of_part(problem, q, kind, confidence, num_pairs, **_):
        asked.append((kind, num_pairs))
        return partial(problem)

    monkeypatch.setattr(module, "certify_by_draws", by_draws)
    monkeypatch.setattr(module, "certify_part", of_part)
    return asked


def zeros(problem):
    return np.zeros((problem.num_states, problem.num_actions))


def test_the_strongest_method_that_applies_is_taken(sampled):
    product, correlated, user = (pose(name) for name in ("product", "correlated", "two-modes"))
    assert certify(zeros(product), product, max_evaluations=1).method == "exact"
    few = 40_000  # below what the masses of 84 pairs take
    certify(zeros(correlated), correlated, max_evaluations=few)
    assert sampled == [("guaranteed", few / 84)]
    with pytest.raises(ValueError, match="density evaluations"):
        certify(zeros(correlated), correlated, max_evaluations=few, method="exact")
    large = pose("two-modes", "cell", (30, 30))
    certify(zeros(large), large, max_evaluations=5_000_000)
    assert sampled[1][0] == "asymptotic"
    with pytest.raises(ValueError, match="density evaluations"):
        certify(zeros(large), large, max_evaluations=5_000_000, method="exact")
    many = 10_000_000
    certify(zeros(user), user, method="asymptotic", max_evaluations=many)
    kind, draws = sampled[2]
    assert kind == "asymptotic"
    left = many - evidence_of("asymptotic").evaluations_to_prepare(user)
    assert draws == pytest.approx(left / 84 / evidence_of("asymptotic").evaluations_per_draw(user))
    certify(zeros(product), product, method="guaranteed")
    assert sampled[3] == ("guaranteed", 1000)


@pytest.mark.parametrize("kind", ["guaranteed", "asymptotic"])
def test_small_budgets_say_what_is_missing(sampled, kind):
    """72 pairs with 1,000 draws each for 95 %: what the sentence asks for is enough."""
    problem = pose("correlated", "cell", (30, 30))
    with pytest.raises(ValueError, match=r"max_evaluations = 100 buys .* takes 72; give at least [\d,]+\.$") as refused:
        certify(zeros(problem), problem, method=kind, max_evaluations=100)
    needed = int(str(refused.value).rsplit(" ", 1)[1].rstrip(".").replace(",", ""))
    assert needed == pytest.approx(72_000 * evidence_of(kind).evaluations_per_draw(problem), rel=1e-3)
    certify(zeros(problem), problem, method=kind, max_evaluations=needed)
    assert sampled == [(kind, 72)]


def test_solutions_and_runs_are_taken():
    operator, true = posed("goes on")
    problem = operator.problem
    exact = solve_exact(problem, tolerance=1e-6)
    for given in (exact, types.SimpleNamespace(q=true.astype(np.float32)), true.tolist()):
        assert certify(given, problem).error < 1e-4
    assert certify(exact).error == certify(exact.q, problem).error


def test_trains_of_small_grids_are_taken():
    """Judged by one backup of V, as their actions are; the exact answer lies within what is certified."""
    problem = zoo.double_integrator(points=7, law="linear", discount=0.8)
    train, exact = hamq.solve_tensor(problem, iterations=20), solve_exact(problem, tolerance=1e-6)
    table = train.q_at(problem.grid.states())
    found, compared = certify(train), hamq.compare(train, exact)
    assert found.error == certify(table, problem).error
    assert compared == hamq.compare(table, exact)
    assert compared.sup <= found.error and compared.frobenius < 0.01
    assert np.all(found.lower <= exact.upper) and np.all(exact.lower <= found.upper)


def test_what_is_judged_comes_first(as_user):
    operator, true = posed("goes on")
    with pytest.raises(ValueError, match=r"certify: what is judged comes first: certify\(solution\), or certify\(table, p"):
        certify(operator.problem, true)
    with pytest.raises(ValueError, match=r"certify: a ndarray does not know its problem; give certify\(table, problem\)"):
        certify(true)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "kind"), [("correlated", "guaranteed"), ("correlated", "asymptotic"), ("two-modes", "asymptotic")]
)
def test_the_budget_is_kept(kernel, kind):
    """Also where the table is so wrong that the pilot looks twice: random numbers."""
    problem = pose(kernel)
    q = np.random.default_rng(0).normal(size=(problem.num_states, problem.num_actions))
    for num_draws in (600, 1000):
        budget = int(np.ceil(q.size * num_draws * evidence_of(kind).evaluations_per_draw(problem)))
        budget += evidence_of(kind).evaluations_to_prepare(problem)
        found = certify(q, problem, method=kind, max_evaluations=budget)
        spent = found.cost.density_evaluations + found.cost.gradient_evaluations
        assert isinstance(found, Certificate)
        assert 0.8 * budget < (found.cost.samples if kind == "guaranteed" else spent) <= budget


def test_a_quadrature_guarantees_nothing():
    """Masses of a density of one's own are computed from nodes that were tried in some states only."""
    problem = pose("two-modes")
    with pytest.raises(ValueError, match=r"needs independent draws, .* quadrature .* use 'asymptotic', or None"):
        certify(np.zeros((problem.num_states, problem.num_actions)), problem, method="guaranteed")


def test_tables_that_do_not_fit_are_refused():
    operator, true = posed("goes on")
    problem = operator.problem
    with pytest.raises(ValueError, match=r"real numbers and have the shape \(20, 3\) of .*, got \(3, 20\)"):
        certify(true.T, problem)
    with pytest.raises(ValueError, match=r"must hold real numbers .* complex128"):
        certify(true.astype(complex), problem)
    with pytest.raises(ValueError, match="are different problems; give the problem that was solved"):
        certify(solve_exact(problem, tolerance=1e-3), pose("product"))
    with pytest.raises(ValueError, match="this SimpleNamespace has no table of Q; finish the run"):
        certify(types.SimpleNamespace(q=None), problem)
    for bad in (np.nan, np.inf):
        table = true.copy()
        table[7, 2] = bad
        with pytest.raises(ValueError, match=rf"Q is {bad} at state 7 \(.*\), action 2 \(1\); every entry must be finite"):
            certify(table, problem)


@pytest.mark.parametrize("confidence", [0, 1, 0.0, 1.0, -0.5, 95, True, float("nan"), "0.95", None])
def test_confidence_is_between_0_and_1(as_user, confidence):
    operator, true = posed("goes on")
    with pytest.raises(ValueError, match=r"confidence must be between 0 and 1, got .*; 0.95 is usual"):
        certify(true, operator.problem, confidence=confidence)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "bootstrap"}, "method must be one of exact, guaranteed, asymptotic or None"),
        ({"max_evaluations": 0}, "max_evaluations must be a whole number of at least 1, got 0"),
        ({"max_evaluations": 1.5}, "max_evaluations must be a whole number of at least 1, got 1.5"),
        ({"max_evaluations": True}, "max_evaluations must be a whole number of at least 1, got True"),
        ({"key": "seed"}, "key must be a JAX key"),
    ],
)
def test_settings_that_make_no_sense(as_user, options, message):
    operator, true = posed("goes on")
    method = {} if "method" in options else {"method": "guaranteed"}
    with pytest.raises(ValueError, match=message):
        certify(true, operator.problem, **method, **options)
