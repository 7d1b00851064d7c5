"""Episodes with their seeds, their returns and what is said of them; state and action maps of known environments."""

import dataclasses
import math

import gymnasium
import numpy as np
import pytest

import hamq
from hamq.control.statistics import bootstrap_interval, interquartile_mean
from hamq.envs import evaluation
from hamq.envs.evaluation import evaluate
from hamq.envs.known import KNOWN
from hamq.problem import zoo
from hamq.solution import History

MAPS = {"state_map": lambda observations: observations, "action_map": lambda actions: actions.astype(np.int64)}


class Counter(gymnasium.Env):
    """Starts at seed modulo 5, takes an action for each step, ends after 3 + start steps and pays start + action."""

    observation_space = gymnasium.spaces.Box(-100.0, 100.0, (1,))
    action_space = gymnasium.spaces.Discrete(3)
    is_endless = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        assert seed is not None
        self.start, self.steps = float(seed % 5), 0
        return np.full(1, self.start, np.float32), {}

    def step(self, action):
        self.steps += 1
        is_over = not self.is_endless and self.steps >= 3 + self.start
        return np.full(1, self.start, np.float32), self.start + float(action), is_over, False, {}


gymnasium.register("hamq-tests/Counter-v0", Counter)


def always(action):
    return lambda states: np.full(len(states), float(action))


def test_episode_i_has_seed_plus_i():
    found = evaluate(always(2), "hamq-tests/Counter-v0", episodes=7, seed=3, **MAPS)
    starts = np.arange(3, 10) % 5
    assert np.array_equal(found.lengths, 3 + starts)
    assert np.array_equal(found.returns, (3 + starts) * (starts + 2.0))
    assert (found.env, found.seed, found.decoder) == ("hamq-tests/Counter-v0", 3, None)


def test_side_by_side_is_one_after_the_other(monkeypatch):
    monkeypatch.setattr(evaluation, "SIDE_BY_SIDE", 3)
    heard = []
    blocks = evaluate(always(1), "hamq-tests/Counter-v0", episodes=8, progress=lambda *told: heard.append(told), **MAPS)
    alone = evaluate(always(1), Counter(), episodes=8, **MAPS)
    assert np.array_equal(blocks.returns, alone.returns) and np.array_equal(blocks.lengths, alone.lengths)
    done = [count for _, count, _ in heard]
    assert done == sorted(done) and done[-1] == 8 and {total for *_, total in heard} == {8}
    assert alone.env == "Counter"


def test_statistics_and_the_sentence():
    found = evaluate(always(2), "hamq-tests/Counter-v0", episodes=20, **MAPS)
    assert found.mean == found.returns.mean()
    assert found.interquartile_mean == interquartile_mean(found.returns)
    assert found.interval == bootstrap_interval(found.returns)
    low, high = found.interval
    assert low < found.interquartile_mean < high
    said = repr(found)
    assert "hamq-tests/Counter-v0" in said and "over 20 episodes (seeds 0 to 19)" in said and "95 % bootstrap" in said
    assert found.summary()["returns"] == found.returns.tolist() and found.summary()["interval"] == [low, high]
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.seed = 1


def test_one_episode_has_no_interval():
    found = evaluate(always(0), "hamq-tests/Counter-v0", episodes=1, **MAPS)
    assert found.interval is None and found.summary()["interval"] is None and "(one episode, seed 0)" in repr(found)


def test_against_a_loop_by_hand():
    """Pendulum-v1 under a proportional torque, written out once more."""

    def torque(states):
        return np.clip(-2 * np.sin(states[:, 0]) - 0.5 * states[:, 1], -2, 2)

    found = evaluate(torque, "Pendulum-v1", episodes=3, seed=11)
    for i in range(3):
        env, total = gymnasium.make("Pendulum-v1"), 0.0
        (cos, sin, velocity), _ = env.reset(seed=11 + i)
        for _ in range(200):
            states = np.asarray([[math.atan2(sin, cos), velocity]], np.float32)
            (cos, sin, velocity), reward, _, _, _ = env.step(np.asarray(torque(states), np.float32))
            total += float(reward)
        assert found.lengths[i] == 200 and found.returns[i] == pytest.approx(total, abs=1e-3)


@pytest.mark.parametrize("name", ["Pendulum-v1", "CartPole-v1", "Acrobot-v1"])
def test_the_state_map_finds_the_state(name):
    env = gymnasium.make(name)
    observations, states = [], []
    for seed in range(20):
        observation, _ = env.reset(seed=seed)
        for _ in range(seed % 4):
            observation, *_ = env.step(env.action_space.sample())
        observations.append(observation)
        states.append(env.unwrapped.state)
    off = KNOWN[name].state_map(np.stack(observations)) - np.asarray(states, np.float64)
    circles = getattr(zoo, KNOWN[name].problem)().grid.periodic
    np.testing.assert_allclose(np.where(circles, (off + math.pi) % (2 * math.pi) - math.pi, off), 0, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "expected"), [("Pendulum-v1", [[-2], [0], [2]]), ("CartPole-v1", [0, 1]), ("Acrobot-v1", [0, 1, 2])]
)
def test_the_action_map_gives_actions(name, expected):
    problem, space = getattr(zoo, KNOWN[name].problem)(), gymnasium.make(name).action_space
    actions = problem.actions[[0, 5, 10]] if name == "Pendulum-v1" else problem.actions
    found = KNOWN[name].action_map(actions)
    assert all(space.contains(action) for action in found)
    np.testing.assert_allclose(found, expected)


def table(problem, seed=0):
    q = np.random.default_rng(seed).normal(size=(problem.num_states, problem.num_actions))
    return hamq.Solution(problem, q, History(), "made up", True)


def test_a_solution_in_an_environment_of_hamq():
    """Observations are states and actions are counted; the decoder is kept and said."""
    solution = table(zoo.pendulum(points=5))
    found = evaluate(solution, "hamq/Pendulum-v0", episodes=2, decoder="nearest", max_steps=5)
    assert found.lengths.tolist() == [5, 5] and found.decoder == "nearest" and "decoder nearest" in repr(found)


def test_nobody_knows_the_maps():
    with pytest.raises(
        ValueError, match=r"observations of hamq-tests/Counter-v0 become states .* a state_map= and an action"
    ):
        evaluate(always(1), "hamq-tests/Counter-v0", episodes=1, state_map=MAPS["state_map"])


def test_a_policy_of_other_axes():
    with pytest.raises(ValueError, match=r"states of CartPole-v1 are \(position.* has 2 axes; solve gym_cartpole"):
        evaluate(table(zoo.gym_pendulum(points=3)), "CartPole-v1", episodes=1)
    with pytest.warns(hamq.HamqWarning, match=r"the axes of gym_cartpole, and cartpole calls its axes"):
        evaluate(table(zoo.cartpole(points=3)), "CartPole-v1", episodes=1, decoder="nearest")


def test_an_episode_without_end(monkeypatch):
    monkeypatch.setattr(Counter, "is_endless", True)
    monkeypatch.setattr(evaluation, "MAX_STEPS", 50)
    with pytest.raises(ValueError, match=r"has not ended by step 50 of episode 0 \(seed 0\); give max_steps="):
        evaluate(always(1), "hamq-tests/Counter-v0", episodes=2, **MAPS)
    assert evaluate(always(1), "hamq-tests/Counter-v0", episodes=2, max_steps=9, **MAPS).lengths.tolist() == [9, 9]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"episodes": 0}, "evaluate: episodes must be"),
        ({"seed": -1}, "evaluate: seed must be a whole number of at least 0, got -1"),
        ({"max_steps": 0}, "evaluate: max_steps must be"),
        ({"decoder": "best"}, "decoder must be one of nearest, interpolate, lookahead, got 'best'"),
        ({"env": "Pendulum-v17"}, "Gymnasium has no environment 'Pendulum-v17'"),
        ({"env": 3}, "env must be an id such as 'Pendulum-v1' or a gymnasium.Env"),
        ({"policy": 3}, "policy must be a Solution, a TensorSolution or a function of states, got 3"),
        ({"actions": [0.0, 1.0]}, "actions= belongs to the decoder of a Solution"),
        ({"policy": lambda states: np.full(len(states), math.nan)}, "takes one action of"),
        ({"policy": lambda states: np.zeros(1 + len(states))}, "gave 3, such as"),
        ({"policy": always(7)}, "takes one action of"),
        ({"policy": lambda states: np.where(states[:, 0] > 0, 7.0, 0.0)}, "such as .*7"),
        (
            {"state_map": lambda observations: observations[0]},
            r"state_map must give states of the shape \[2, d\], got \[1\]",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_refusals(given, message):
    arguments = {"policy": always(1), "env": "hamq-tests/Counter-v0", "episodes": 2, **MAPS} | given
    with pytest.raises(ValueError, match=message):
        evaluate(**arguments)


def test_observations_that_are_no_arrays():
    env = Counter()
    env.observation_space = gymnasium.spaces.Dict({"x": Counter.observation_space})
    with pytest.raises(ValueError, match=r"wrap it in gymnasium\.wrappers\.FlattenObservation"):
        evaluate(always(1), env, episodes=1, **MAPS)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("Pendulum-v1", -160.0), ("CartPole-v1", 500.0), ("Acrobot-v1", -90.0)])
def test_policies_learned_with_hmc(name, least):
    """The models' own defaults and ten draws per pair; all seeds are fixed, so that the scores are too."""
    problem = getattr(zoo, KNOWN[name].problem)()
    solution = hamq.solve(problem, sampler=hamq.HMC(10))
    assert evaluate(solution, name, episodes=30).mean >= least
