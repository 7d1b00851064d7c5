"""A few steps of DQN against the same arithmetic in NumPy: targets, gradient, Adam, when the target network is renewed."""

import functools

import jax
import jax.random as jr
import numpy as np
import pytest

from hamq.deep.plan import make_plan
from hamq.deep.targets import choose, draw_sets
from hamq.deep.train import make_train
from hamq.exact.bellman import make_operator
from hamq.problem.problem import action_values
from hamq.sampling.exhaustive import Exhaustive
from hamq.sampling.iid import IID
from tests.deep.posed import ends, pose, tiny

NAMES = ("W", "b", "V", "c")
PROBLEM = pose(terminal=ends)
pick = jax.jit(choose, static_argnums=(0, 1, 2, 3, 4))


@functools.cache
def exact_operator():
    return make_operator(PROBLEM)


def numbers_of(parameters):
    """Weights and biases of the hidden and of the last layer, in float64."""
    hidden, last = parameters.mlp.layers
    return {
        n: np.asarray(v, np.float64)
        for n, v in zip(NAMES, (hidden.weight, hidden.bias, last.weight, last.bias), strict=True)
    }


class ByHand:
    """A network with one hidden layer of tanh, its loss gradient and Adam."""

    def __init__(self, numbers, output, grid):
        self.numbers, self.output = numbers, output
        self.lower, self.width = np.asarray(grid.lower), np.asarray(grid.widths)
        self.first, self.second = ({n: np.zeros_like(v) for n, v in numbers.items()} for _ in range(2))

    def q(self, numbers, states):
        x = 2 * (states - self.lower) / self.width - 1
        hidden = np.tanh(x @ numbers["W"].T + numbers["b"])
        return self.output.offset + self.output.scale * (hidden @ numbers["V"].T + numbers["c"]), hidden, x

    def gradient(self, states, actions, targets):
        """Of mean ((Q(s, a) − y)/scale)²."""
        q, hidden, x = self.q(self.numbers, states)
        rows = np.arange(len(states))
        back = np.zeros_like(q)
        back[rows, actions] = 2 * (q[rows, actions] - targets) / self.output.scale / len(states)
        below = back @ self.numbers["V"] * (1 - hidden**2)
        return {"W": below.T @ x, "b": below.sum(axis=0), "V": back.T @ hidden, "c": back.sum(axis=0)}

    def adam(self, gradient, step, rate):
        for n, g in gradient.items():
            self.first[n] = 0.9 * self.first[n] + 0.1 * g
            self.second[n] = 0.999 * self.second[n] + 0.001 * g**2
            mean, square = self.first[n] / (1 - 0.9 ** (step + 1)), self.second[n] / (1 - 0.999 ** (step + 1))
            self.numbers[n] = self.numbers[n] - rate * mean / (np.sqrt(square) + 1e-8)


def trained_by_hand(config, sampler, key):
    problem = PROBLEM
    plan = make_plan(problem, config, sampler)
    init_key, draw_key, batch_key = jr.split(key, 3)
    network = ByHand(numbers_of(plan.learner.init(key=init_key)), plan.learner.output, problem.grid)
    operator, states = exact_operator(), problem.grid.states()
    ended = np.zeros(len(states), bool) if operator.ended is None else operator.ended
    actions = action_values(problem)
    draw = jax.jit(lambda key: draw_sets(plan.problem, plan.sampler, actions, plan.num_sets, key=key, snap=False)[0])
    sets = None if isinstance(sampler, Exhaustive) else draw(draw_key)
    for t in range(config.steps):
        if t % config.target_period == 0:
            target = dict(network.numbers)
        chosen = pick(len(states), 3, plan.num_sets, config.batch_size, False, key=jr.fold_in(batch_key, t))
        s, a, k = (np.asarray(i).ravel() for i in chosen)
        if sets is None:
            y = operator.backup(np.where(ended, 0, network.q(target, states)[0].max(axis=1)))[s, a]
        else:
            points = np.swapaxes(np.asarray(sets.locations[s, a, k], np.float64), 1, 2)
            value = network.q(target, points.reshape(-1, 2))[0].max(axis=1)
            value = np.where(ends(points.reshape(-1, 2).T), 0, value)
            expected = np.mean(value.reshape(len(s), -1), axis=1)
            y = operator.rewards[s, a] + problem.discount * np.where(ended[s], 0, expected)
        falls = 0.5 * (1 + np.cos(np.pi * t / config.steps)) if config.schedule == "cosine" else 1
        network.adam(network.gradient(states[s], a, y), t, 0.05 * falls)
    return network.numbers


def assert_steps_equal_numpy(config, sampler):
    done = numbers_of(jax.jit(make_train(PROBLEM, config, sampler))(jr.key(3)).parameters)
    expected = trained_by_hand(config, sampler, jr.key(3))
    for name in NAMES:
        np.testing.assert_allclose(done[name], expected[name], atol=2e-4)


@pytest.mark.parametrize(
    ("period", "output", "schedule"),
    [(1, "reward", "constant"), (2, "raw", "constant"), (100, "reward", "cosine")],
    ids=["renewed-always", "renewed-every-second-step", "never-renewed"],
)
def test_steps_equal_numpy(period, output, schedule):
    """Along a cosine the learning rate falls with every step."""
    assert_steps_equal_numpy(tiny(target_period=period, output=output, schedule=schedule, steps=5), Exhaustive())


def test_steps_on_points_equal_numpy():
    """snap=False: the target network is evaluated where the draws are, also behind the end."""
    assert_steps_equal_numpy(tiny(snap=False, target_period=2, steps=5), IID(4))
