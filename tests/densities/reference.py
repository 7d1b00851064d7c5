"""What is true of a density of the bank: masses, Q*, values of policies, returns. Plain NumPy, kept for the session."""

import dataclasses
import functools

import numpy as np

from tests.densities.quadrature import draw, row, states
from tests.densities.record import Density

NUM_SEEDS, NUM_DEVIATIONS = 40, 4.0
"""Of the sampled iterations that say what a number of independent draws is worth."""


@dataclasses.dataclass(frozen=True, eq=False)
class Reference:
    """The finite problem of a density, solved.

    masses      `[S, A, S]`
    q           Q* `[S, A]`
    doubt       the largest distance of Q* to that of the rule with panels twice as long
    variation   the largest total-variation distance of a row to that of the same rule
    """

    density: Density
    masses: np.ndarray
    rewards: np.ndarray
    q: np.ndarray
    doubt: float
    variation: float

    @property
    def value(self) -> np.ndarray:
        return self.q.max(axis=1)

    @property
    def policy(self) -> np.ndarray:
        return self.q.argmax(axis=1)

    @property
    def span(self) -> float:
        """The range of V*: errors are told as parts of it."""
        return float(np.ptp(self.value))

    def distance(self, q: np.ndarray) -> float:
        """max |Q − Q*| as a part of the range of V*."""
        return float(np.abs(q - self.q).max()) / self.span

    def rms(self, q: np.ndarray) -> float:
        """Root of the mean of (Q − Q*)² as a part of the range of V*."""
        return float(np.sqrt(np.mean((q - self.q) ** 2))) / self.span

    def loss(self, policy: np.ndarray) -> float:
        """max (V* − V of the policy) as a part of the range of V*."""
        return float((self.value - policy_value(self, policy)).max()) / self.span


@functools.cache
def reference(density: Density) -> Reference:
    """The truth, computed once per session."""
    rewards = reward_table(density)
    masses, coarse = all_masses(density), all_masses(density, 0.5)
    q = q_star(masses, rewards, density.discount)
    doubt = float(np.abs(q - q_star(coarse, rewards, density.discount)).max())
    variation = float(0.5 * np.abs(masses - coarse).sum(axis=-1).max())
    return Reference(density, masses, rewards, q, doubt, variation)


def all_masses(density: Density, fineness: float = 1.0) -> np.ndarray:
    """`[S, A, S]`."""
    at = states(density)
    return np.asarray([[row(density, s, a, fineness=fineness) for a in density.actions] for s in at])


def reward_table(density: Density) -> np.ndarray:
    """r(s, a) at all nodes, `[S, A]`."""
    at = states(density).T
    return np.stack([np.broadcast_to(density.reward(np, at, a), at.shape[1:]) for a in density.actions], axis=1)


def q_star(masses: np.ndarray, rewards: np.ndarray, discount: float) -> np.ndarray:
    """The fixed point of r + γ P max Q, by iteration of policies: exact up to rounding."""
    policy = rewards.argmax(axis=1)
    while True:
        q = rewards + discount * masses @ _value(masses, rewards, discount, policy)
        # A tie must not send two equal policies round in circles.
        best = np.where(q.max(axis=1) > q[np.arange(len(q)), policy] + 1e-11, q.argmax(axis=1), policy)
        if np.array_equal(best, policy):
            return q
        policy = best


def policy_value(truth: Reference, policy: np.ndarray) -> np.ndarray:
    """V of a policy `[S]` of action numbers."""
    return _value(truth.masses, truth.rewards, truth.density.discount, policy)


def _value(masses, rewards, discount, policy) -> np.ndarray:
    every = np.arange(len(policy))
    return np.linalg.solve(np.eye(len(policy)) - discount * masses[every, policy], rewards[every, policy])


def expected_returns(truth: Reference, policy: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """(mean, variance) of what a policy is paid in so many steps from each node, `[S]`: a simulation without its noise."""
    every, discount = np.arange(len(policy)), truth.density.discount
    rewards, moves = truth.rewards[every, policy], truth.masses[every, policy]
    mean, square = np.zeros(len(policy)), np.zeros(len(policy))
    for _ in range(steps):
        square = rewards**2 + 2 * discount * rewards * (moves @ mean) + discount**2 * moves @ square
        mean = rewards + discount * moves @ mean
    return mean, np.maximum(square - mean**2, 0)


def simulated_returns(density: Density, policy, starts: np.ndarray, steps: int, seed: int = 0) -> np.ndarray:
    """Returns `[B]` of a policy, states `[B, d]` → action numbers, in the continuous law, by draws of its own."""
    generator, at, total = np.random.default_rng(seed), np.array(starts, float), np.zeros(len(starts))
    for t in range(steps):
        actions = np.asarray(density.actions)[policy(at)]
        total += density.discount**t * density.reward(np, at.T, actions)
        at = np.stack([draw(density, s, a, generator) for s, a in zip(at, actions, strict=True)])
    return total


@dataclasses.dataclass(frozen=True)
class Sampled:
    """What n independent draws per pair stay below, in the distance of Q, its rms, and the loss of its policy.

    Mean plus four standard deviations over the seeds: distance and loss are largest errors, and have long tails.
    """

    distance: float
    rms: float
    loss: float


@functools.cache
def sampled(density: Density, num_draws: int) -> Sampled:
    """Q-iteration with `num_draws` independent draws of every pair, all made by NumPy."""
    truth, found = reference(density), []
    for seed in range(NUM_SEEDS):
        counts = np.random.default_rng(seed).multinomial(num_draws, truth.masses)
        q = q_star(counts / num_draws, truth.rewards, density.discount)
        found.append((truth.distance(q), truth.rms(q), truth.loss(q.argmax(axis=1))))
    return Sampled(*(np.mean(found, axis=0) + NUM_DEVIATIONS * np.std(found, axis=0)).tolist())
