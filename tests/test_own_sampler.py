"""A sampler that is defined here, one class: everything works with it, and nothing asks for its type."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.deep.config import DeepConfig
from hamq.deep.train import train_seeds
from hamq.report import writing
from hamq.sampling.draws import Draws, even_weights, make_info
from hamq.sampling.exhaustive import Exhaustive
from hamq.sampling.hmc import HMC
from hamq.sampling.iid import IID


class Antithetic(hamq.AbstractSampler):
    """Draws of a normal law in pairs mean ± σz; those outside of the box have the weight 0."""

    num_samples: int = eqx.field(static=True)

    def prepare(self, problem, *, key):
        return self, make_info()

    def draw(self, target, *, key):
        normal, grid = target.density.normal, target.problem.grid
        half = jax.random.normal(key, (grid.dimension, self.num_samples // 2))
        points = normal.mean[:, None] + normal.factor[:, None] * jnp.concatenate([half, -half], axis=1)
        points = jax.vmap(grid.wrap, in_axes=1, out_axes=1)(points)
        is_inside = jax.vmap(grid.contains, in_axes=1)(points)
        logs = jnp.where(is_inside, even_weights(self.num_samples), -jnp.inf)
        is_valid = jnp.any(is_inside)
        share = jnp.mean(is_inside, dtype=points.dtype)
        return Draws(points, logs - jnp.log(share)), make_info(has_failed=~is_valid, weight_share=share)


class Chain(Antithetic):
    """The same, as two chains whose draws cost gradients."""

    @property
    def has_chains(self):
        return True

    @property
    def chains(self):
        return 2

    def gradients_per_draw(self, problem):
        return 3

    def draw(self, target, *, key):
        draws, info = super().draw(target, key=key)
        return draws, info._replace(gradient_evaluations=jnp.asarray(3 * self.num_samples + 5, jnp.int32))


@pytest.fixture(scope="module")
def problem():
    return hamq.problems.gym_pendulum(points=[7, 6], num_actions=5, noise=(25.0, 20.0), discount=0.9)


@pytest.fixture(scope="module")
def exact(problem):
    return hamq.solve_exact(problem, tolerance=1e-3)


@pytest.fixture(scope="module")
def solved(problem, exact):
    return hamq.solve(problem, sampler=Antithetic(400), completion=None, exact=exact, key=0)


def test_solve_and_certify(solved, exact):
    span = np.ptp(exact.q)
    assert np.sqrt(np.mean((solved.q - exact.q) ** 2)) <= 0.02 * span
    assert "of the sampled problem" in solved.result and solved.health.effective.max() <= 400
    certificate = hamq.certify(solved)
    true = np.abs(solved.q - exact.q).max()
    assert true - 1e-3 <= certificate.error <= 1.5 * true + 1e-2


def test_evaluate_save_load_and_report(solved, problem, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "animated", lambda *_: ([], []))
    found = hamq.evaluate(solved, "Pendulum-v1", episodes=2)
    assert found.returns.shape == (2,) and np.all(found.returns < 0)
    solved.save(tmp_path / "run")
    loaded = hamq.load(tmp_path / "run", problem)
    np.testing.assert_array_equal(loaded.q, solved.q)
    assert loaded.result == solved.result
    assert hamq.report([solved, tmp_path / "run"], tmp_path / "page.html").path.exists()


def test_a_folder_is_continued_with_the_same_sampler(problem, tmp_path):
    given = {"completion": None, "out": tmp_path / "run"}
    first = hamq.solve(problem, sampler=Antithetic(20), iterations=3, **given)
    with pytest.raises(hamq.HamqError, match=r"sampler\.num_samples is 40"):
        hamq.solve(problem, sampler=Antithetic(40), iterations=5, resume=True, **given)
    more = hamq.solve(problem, sampler=Antithetic(20), iterations=5, resume=True, **given)
    assert len(first.history) == 3 and len(more.history) == 5
    np.testing.assert_array_equal(more.q, hamq.solve(problem, Antithetic(20), None, iterations=5).q)


def test_a_train_of_its_draws(problem, exact):
    train_of = hamq.solve_tensor(problem, sampler=Antithetic(64), rank=4, max_rank=5, iterations=12)
    values = train_of.value_at(problem.grid.states())
    assert np.sqrt(np.mean((values - exact.value) ** 2)) <= 0.1 * np.ptp(exact.value)


@pytest.mark.slow
def test_a_network_of_its_draws():
    coarse = hamq.problems.gym_pendulum(points=5, num_actions=3, noise=(25.0, 20.0), law="cell")
    (found,) = train_seeds(coarse, DeepConfig(steps=20, num_records=2, num_sets=2), Antithetic(16), seeds=[0])
    assert np.all(np.isfinite(found.q)) and found.cost.samples_drawn == 25 * 3 * 2 * 16


def test_what_it_says_is_asked_for(problem):
    with pytest.raises(hamq.HamqError, match=r"max_gradients counts gradients .* Antithetic needs none"):
        hamq.solve(problem, Antithetic(20), max_gradients=1000)
    spent = hamq.solve(problem, Chain(20), None, max_gradients=60_000, iterations=2).history.gradient_evaluations[-1]
    assert 0.8 * 60_000 <= spent <= 60_000
    assert hamq.solve(problem, Chain(20), None, iterations=2).health.acceptance.min() == 1
    with pytest.raises(hamq.HamqError, match="sampler must have chains, as HMC has, and Antithetic has none"):
        hamq.diagnose(hamq.solve(problem, Antithetic(20), None, iterations=2), sampler=Antithetic(20))


@pytest.mark.parametrize(
    ("sampler", "named"),
    [
        (HMC(16, walls="reflect", num_chains=4), "HMC has walls='reflect', num_chains=4"),
        (HMC(16, num_warmup=9), "HMC has num_warmup=9"),
        (IID(16, "rejection"), "IID has method='rejection'"),
        (Exhaustive(1e-6), "Exhaustive has tolerance=1e-06"),
    ],
)
def test_settings_that_no_train_honours_are_refused(problem, sampler, named):
    with pytest.raises(hamq.HamqError, match=f"solve_tensor: {named}, which draws that all states share do not honour"):
        hamq.solve_tensor(problem, sampler=sampler)
