"""Independent coordinates through samplers, `solve`, simulator, decoders and certificates."""

import jax.random as jr
import numpy as np
import pytest

import hamq
from hamq.control.decoders import make_policy
from hamq.control.next_state import make_model, step
from hamq.learning import choosing
from hamq.runs.problem_hash import problem_hash
from tests.problem.axes import pose, reference
from tests.stats import assert_distribution, assert_mean_equals

SMALL = (4, 3, 4, 5)
STATE, ACTION = [0.5, 2.0, 0.7, -1.0], 1.0


@pytest.fixture(scope="module")
def small():
    problem = pose(points=SMALL)
    return problem, hamq.solve_exact(problem, tolerance=1e-5)


def marginals(nodes, points):
    """Counts of the nodes of each axis."""
    each = np.unravel_index(nodes, points)
    return [np.bincount(of_axis, minlength=n) for of_axis, n in zip(each, points, strict=True)]


@pytest.mark.parametrize("law", ["cell", "linear"])
def test_independent_draws_have_the_law(law):
    """χ² of every axis and of the box; false alarm 1e-6 each."""
    problem = pose(points=SMALL, law=law)
    state = problem.grid.states()[77]
    drawn = hamq.draw_each(problem, hamq.IID(3000), np.asarray([77]), key=3)
    found = np.asarray(drawn.draws.locations)[0, 2]
    if law == "linear":
        coordinates = np.rint((found.T - problem.grid.lower) / problem.grid.spacing).astype(int)
        found = np.ravel_multi_index(tuple(coordinates.T), problem.grid.points)
    nodes = found.astype(int)
    each = [reference(axis, state, 1.0, n, law) for axis, n in enumerate(SMALL)]
    for counts, masses in zip(marginals(nodes, SMALL), each, strict=True):
        assert_distribution(counts, masses, resolution=0.1)
    joint = np.einsum("i,j,k,l->ijkl", *each).ravel()
    likely = joint > 1e-3
    counts = np.bincount(nodes, minlength=len(joint))
    assert_distribution(
        np.append(counts[likely], counts[~likely].sum()), np.append(joint[likely], joint[~likely].sum()), resolution=0.2
    )


def test_draws_by_axis_only_where_coordinates_are_independent():
    problem = pose(points=SMALL)
    sampler, _ = hamq.IID(5).prepare(problem, key=jr.key(0))
    assert sampler.method == "product" and sampler.needs_rows(problem) and sampler.num_uniforms(problem) == 20
    sampler, _ = hamq.IID(5, "masses").prepare(problem, key=jr.key(0))
    assert not sampler.picks_by_axis(problem) and sampler.num_uniforms(problem) == 5


@pytest.mark.parametrize("sampler", [None, hamq.Exhaustive(1e-5), hamq.IID(400)])
def test_solve(small, sampler):
    problem, exact = small
    solution = hamq.solve(problem, sampler=sampler, completion=None, key=0)
    away, span = np.abs(solution.q - exact.q), np.ptp(exact.q)
    if sampler is None:
        assert "masses of all 720 pairs to 0.001" in solution.result
    assert np.sqrt(np.mean(away**2)) <= (0.01 if isinstance(sampler, hamq.IID) else 3e-4) * span


def test_independent_draws_where_masses_do_not_fit(small, monkeypatch):
    problem, exact = small
    monkeypatch.setattr(choosing, "ROOM", 1.0)
    # 400 bytes per pair hold its draws, and not its 240 masses.
    monkeypatch.setattr(choosing.cells, "available_bytes", lambda: 720 * 400)
    solution = hamq.solve(problem, key=0)
    assert "400 independent draws from the masses of the axes of all 720 pairs" in solution.result
    assert np.sqrt(np.mean((solution.q - exact.q) ** 2)) <= 0.01 * np.ptp(exact.q)


@pytest.mark.parametrize("law", ["cell", "linear"])
def test_one_step_of_the_simulator_has_the_law(law):
    problem, num = pose(points=SMALL, law=law), 3000
    model = make_model(problem)
    moved = step(model, np.tile(np.float32(STATE), (num, 1)), np.full(num, ACTION, np.float32), key=jr.key(1))
    assert model.method == "masses"  # type: ignore[union-attr]
    assert np.all(moved.error < 6e-3)
    found, fine = np.asarray(moved.states, np.float64), (300, 300, 300, 300)
    for axis, n in enumerate(SMALL if law == "cell" else fine):
        masses = reference(axis, np.asarray(np.float32(STATE), np.float64), ACTION, n, "cell")
        grid = pose(points=SMALL if law == "cell" else fine).grid
        nodes = np.rint((found[:, axis] - grid.lower[axis]) / grid.spacing[axis]).astype(int)
        nodes = nodes % n if grid.periodic[axis] else np.clip(nodes, 0, n - 1)
        counts = np.bincount(nodes, minlength=n)
        if law == "linear":  # twelve classes of about equal mass
            which = np.minimum((np.cumsum(masses) * 12).astype(int), 11)
            counts, masses = np.bincount(which, counts, 12).astype(int), np.bincount(which, masses, 12)
            counts, masses = counts[masses > 0], masses[masses > 0]
        assert_distribution(counts, masses, resolution=0.12)
    if law == "linear":  # no coordinate knows of another
        centred = (found - found.mean(axis=0)) / found.std(axis=0)
        products = np.stack([centred[:, i] * centred[:, j] for i in range(4) for j in range(i)], axis=1)
        assert_mean_equals(products, np.zeros(6), resolution=0.12)


def test_rollouts_return_what_the_policy_is_worth(small):
    problem, exact = small
    start = 130
    starts = np.tile(problem.grid.states()[start], (400, 1))
    found = hamq.rollouts(problem, {"greedy": make_policy(exact, "nearest")}, starts=starts, steps=60, key=5)
    assert_mean_equals(found.returns["greedy"], np.asarray(exact.value[start]), resolution=2.0)


def test_lookahead_takes_the_best_action(small):
    problem, exact = small
    nodes = np.random.default_rng(0).integers(problem.num_states, size=25)
    policy = make_policy(exact, "lookahead")
    chosen = np.asarray(policy(problem.grid.states()[nodes]))
    best = np.take_along_axis(exact.q[nodes], np.searchsorted(problem.actions, chosen - 1e-6)[:, None], axis=1)[:, 0]
    assert np.all(best >= exact.q[nodes].max(axis=1) - 5e-3 * np.ptp(exact.q))


def test_certificates(small):
    problem, exact = small
    q = exact.q + 0.1 * np.random.default_rng(0).uniform(-1, 1, exact.q.shape)
    certificate = hamq.certify(q, problem)
    assert certificate.method == "exact" and "an estimate of the quadrature's error included" in certificate.sentence
    true = np.abs(q - exact.q).max()
    assert true - 1e-3 <= certificate.error <= 1.2 * true
    with pytest.raises(ValueError, match=r"method='guaranteed' needs independent draws.*use 'asymptotic', or None"):
        hamq.certify(q, problem, method="guaranteed")


@pytest.mark.slow
def test_chains_refuse_jumps_in_four_dimensions(small):
    _, exact = small
    with pytest.raises(ValueError, match=r"in 4 dimensions no chain is known to cross .* method='exact'"):
        hamq.certify(exact, method="asymptotic")


def test_what_needs_a_mean_refuses(small):
    for make in (hamq.lqr_policy, hamq.mpc_policy):
        with pytest.raises(ValueError, match="needs the mean of the next state, and axes has none; use a GaussianKernel"):
            make(small[0])
    with pytest.raises(ValueError, match=r"Exhaustive needs a normal law .* and axes has none; .* HMC or Importance"):
        hamq.solve_tensor(pose(points=SMALL, law="linear"), sampler=hamq.Exhaustive())


def test_the_hash_knows_the_functions():
    same, other = problem_hash(pose(points=SMALL)), problem_hash(pose(points=SMALL, law="linear"))
    assert same == problem_hash(pose(points=SMALL)) != other
    kernel = pose(points=SMALL).kernel
    moved = hamq.AxesKernel([*kernel.functions[:3], lambda x, s, a: 1.0001 * kernel.functions[3](x, s, a)])
    assert problem_hash(pose(points=SMALL, kernel=moved)) != same
