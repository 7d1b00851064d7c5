"""What the bank is put through, one function per capability; each compares the library with the reference.

Errors are parts of the range of V*. Draws are allowed what NumPy's own independent draws of the reference's masses do to
Q*, mean plus four standard deviations (`reference.sampled`). 2 % of the range are always allowed.
"""

from collections.abc import Callable

import jax
import numpy as np
from scipy.stats import chi2

import hamq
from hamq.control.decoders import make_policy
from hamq.envs.environment import ProblemEnv
from tests.densities.outcomes import Found, Outcome, judge
from tests.densities.quadrature import row, states
from tests.densities.record import Density
from tests.densities.reference import expected_returns, reference, sampled, simulated_returns
from tests.stats import _pool

TOLERANCE, RMS, LOSS = 0.02, 0.01, 0.01
"""Parts of the range of V* that are always allowed: of the distance of Q, of its rms, and of the loss of its policy."""
WORTH = {1: 4000, 2: 2000, 3: 300, 4: 300}
"""Independent draws per pair that the default budget of `solve` must be worth, by dimension."""
STANDARD_ERRORS = 4.4
"""Two-sided: a false alarm in 1e-5 of the means."""
FALSE_ALARM = 1e-6
"""Of one χ² test."""


def exact(density: Density, problem: hamq.Problem) -> Found:
    """Is Q* within what `solve_exact` states? Where it only estimates, 2 % of the range may be missing."""
    truth = reference(density)
    solution = hamq.solve_exact(problem, tolerance=1e-4, max_evaluations=_budget(density))
    assert solution.error is not None
    stated = (solution.error + 2 * truth.doubt) / truth.span + 1e-6
    allowed = max(stated, TOLERANCE) if "estimat" in solution.result else stated
    number = truth.distance(solution.q)
    if number <= allowed < np.inf and number > TOLERANCE:
        return Found(number, TOLERANCE, True, said=solution.result)  # far off, and says how far
    return Found(number, allowed, said=solution.result)


def _budget(density: Density) -> int | None:
    """Evaluations of the density: seconds where the default would take an hour."""
    return None if density.dimension < 3 else 5 * 10**8


def _solved(density: Density, problem: hamq.Problem, worth: int, **options) -> Found:
    """The largest ratio of distance, rms and loss to what is allowed of each, told as a distance."""
    truth, solution = reference(density), hamq.solve(problem, **options)
    draws = sampled(density, worth)
    allowed, allowed_rms, allowed_loss = max(TOLERANCE, draws.distance), max(RMS, draws.rms), max(LOSS, draws.loss)
    distance, rms, loss = truth.distance(solution.q), truth.rms(solution.q), truth.loss(solution.policy)
    excess = max(distance / allowed, rms / allowed_rms, loss / allowed_loss)
    said = f"distance {distance:.3g}, rms {rms:.3g}, loss {loss:.3g}; {solution.result}"
    return Found(excess * allowed, allowed, not solution.converged, said=said)


def solve(density: Density, problem: hamq.Problem) -> Found:
    return _solved(density, problem, WORTH[density.dimension])


def solve_hmc(density: Density, problem: hamq.Problem) -> Found:
    """400 draws of a chain must be worth 100."""
    return _solved(density, problem, 100, sampler=hamq.HMC(400))


def solve_importance(density: Density, problem: hamq.Problem) -> Found:
    """1,000 weighted draws must be worth 100, where the library begins to warn."""
    return _solved(density, problem, 100, sampler=hamq.Importance(1000))


def solve_iid(density: Density, problem: hamq.Problem) -> Found:
    return _solved(density, problem, 400, sampler=hamq.IID(400))


def solve_exhaustive(density: Density, problem: hamq.Problem) -> Found:
    """No draws, no noise."""
    return _solved(density, problem, 10**6, sampler=hamq.Exhaustive())


def _certified(density: Density, problem: hamq.Problem, **options) -> Found:
    """How far Q* is outside of the bracket of a table that is off by 5 % of the range of V*."""
    truth = reference(density)
    noise = np.random.default_rng(5).uniform(-0.05, 0.05, truth.q.shape)
    found = hamq.certify(truth.q + truth.span * noise, problem, **options)
    if isinstance(found, hamq.PartialCertificate) or found.is_vacuous:
        return Found(np.nan, 0.0, is_silent=True, said=found.sentence)
    outside = max(float((found.lower - truth.q).max()), float((truth.q - found.upper).max()), 0.0)
    return Found(outside / truth.span, 2 * truth.doubt / truth.span + 1e-6, said=found.sentence)


def certify(density: Density, problem: hamq.Problem) -> Found:
    return _certified(density, problem, max_evaluations=_budget(density))


def certify_chains(density: Density, problem: hamq.Problem) -> Found:
    return _certified(density, problem, method="asymptotic")


def diagnose(density: Density, problem: hamq.Problem) -> Found:
    """Are means of V* right where the diagnosis calls the chains healthy, worth 400 draws at least?"""
    truth = reference(density)
    found = hamq.diagnose(truth.q, problem)
    if not found.is_healthy:
        return Found(float(found.is_flagged.mean()), 0.0, True, said=found.sentence)
    sampler = hamq.HMC(4000, num_chains=4, calibrate=False, dispersed=True)
    drawn = hamq.draw_each(problem, sampler, key=11, coupled=False)
    means = hamq.expected_values(problem, drawn.draws, truth.value)
    exact = truth.masses @ truth.value
    # Rare events are not normal: what is below .3 % of the range in a mean is not counted.
    spread = np.maximum(np.sqrt(np.maximum(truth.masses @ truth.value**2 - exact**2, 0)), 0.01 * truth.span)
    return Found(float(np.abs((means - exact) / spread).max()) * np.sqrt(400), 6.0, said=found.sentence)


def _nearest(density: Density, at: np.ndarray) -> np.ndarray:
    """Numbers of the nodes nearest to states `[B, d]`, as the library has them."""
    indices = []
    for i, n in enumerate(density.points):
        steps = n if density.circles[i] else n - 1
        index = np.round((at[:, i] - density.lower[i]) / density.widths[i] * steps).astype(int)
        indices.append(index % n if density.circles[i] else np.clip(index, 0, n - 1))
    return np.ravel_multi_index(indices, density.points)


def rollouts(density: Density, problem: hamq.Problem) -> Found:
    """Mean return of the best policy against what NumPy says it is: sums over masses, or draws of the continuous law."""
    truth, is_cell = reference(density), density.law == "cell"
    count, steps = (1000, 25) if is_cell else (300, 12 if density.dimension < 3 else 6)
    at = states(density)
    which = np.random.default_rng(3).integers(len(at), size=count)
    values = np.asarray(problem.actions)
    found = hamq.rollouts(
        problem, {"best": lambda s: values[truth.policy[_nearest(density, np.asarray(s, float))]]}, starts=at[which],
        steps=steps, key=7,
    )  # fmt: skip
    if is_cell:
        mean, variance = (each[which] for each in expected_returns(truth, truth.policy, steps))
        noise = np.sqrt(variance.mean() / count)
    else:
        own = [
            simulated_returns(density, lambda s: truth.policy[_nearest(density, s)], at[which], steps, seed)
            for seed in range(2)
        ]
        # The variance of one return from its start is half that of the difference of two; their mean adds another half.
        mean, noise = np.mean(own, axis=0), np.sqrt(0.75 * np.var(own[0] - own[1]) / count)
    excess = found.returns["best"] - mean
    allowed = (STANDARD_ERRORS * noise + 2 * truth.doubt) / truth.span + 1e-3
    return Found(abs(float(excess.mean())) / truth.span, allowed, said=f"effective {found.effective['best']:.3g}")


def environment(density: Density, problem: hamq.Problem) -> Found:
    """One step from two pairs, 400 times each: χ² of the cells over its critical value, the larger one."""
    at, count, worst = states(density), 400, 0.0
    environment = ProblemEnv(problem)
    for seed, (s, a) in enumerate(((len(at) // 2 + 1, len(density.actions) - 1), (len(at) // 4, 0))):
        reached = []
        for i in range(count):
            environment.reset(seed=seed if i == 0 else None, options={"state": at[s]})
            reached.append(environment.step(a)[0])
        cells = _nearest(density, np.asarray(reached, float))
        counts = np.bincount(cells, minlength=len(at))
        worst = max(worst, _chi_square(counts, row(density, at[s], density.actions[a], law="cell")))
    return Found(worst, 1.0, said="χ² over its critical value")


def _chi_square(counts: np.ndarray, masses: np.ndarray) -> float:
    """Pearson's statistic, rare cells in one bucket, over its critical value at a false alarm of 1e-6."""
    if np.any(counts[masses == 0]):
        return np.inf
    pooled, shares, _ = _pool(counts.astype(float), masses, counts.sum())
    expected = shares * counts.sum()
    return float(np.sum((pooled - expected) ** 2 / expected) / chi2.isf(FALSE_ALARM, max(len(shares) - 1, 1)))


def lookahead(density: Density, problem: hamq.Problem) -> Found:
    """Loss of the decoder's actions at the nodes, from the exact table."""
    truth = reference(density)
    chosen = np.asarray(make_policy(truth.q, "lookahead", problem)(states(density)))
    values = np.asarray(problem.actions)
    gaps = np.abs(chosen[:, None] - values[None]).reshape(len(chosen), len(values), -1).sum(axis=2)
    return Found(truth.loss(gaps.argmin(axis=1)), max(LOSS, sampled(density, 256).loss))


def tensor(density: Density, problem: hamq.Problem) -> Found:
    """V of the train at the nodes."""
    truth, solution = reference(density), hamq.solve_tensor(problem)
    number = float(np.abs(solution.value(states(density)) - truth.value).max()) / truth.span
    allowed = max(TOLERANCE, sampled(density, 1000).distance)
    return Found(number, allowed, not solution.converged, said=solution.result)


CAPABILITIES: dict[str, Callable[[Density, hamq.Problem], Found]] = {
    function.__name__: function
    for function in (
        exact, solve, solve_hmc, solve_importance, solve_iid, solve_exhaustive, certify, certify_chains, diagnose, rollouts,
        environment, lookahead, tensor,
    )
}  # fmt: skip


def applies(density: Density, capability: str) -> bool:
    """Tensor trains want hats and two axes at least; samplers that need masses are for one and two axes."""
    if capability == "tensor":
        return density.law == "linear" and density.dimension > 1
    return density.dimension < 3 or capability not in ("solve_iid", "solve_exhaustive")


def put_through(density: Density, problem: hamq.Problem, capability: str) -> Outcome:
    """The outcome of one capability for one density."""
    return judge(density, capability, lambda: CAPABILITIES[capability](density, problem))


def forget_programs() -> None:
    """Frees what was compiled: a whole bank of it is gigabytes."""
    from hamq.problem import programs

    programs.forget_all()
    jax.clear_caches()
