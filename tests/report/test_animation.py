"""Animations: what is played is what happened, and what is drawn is what the scene says."""

import base64
import dataclasses
import json
import math

import jax.numpy as jnp
import numpy as np
import pytest

import hamq
from hamq.control.rollouts import rollouts
from hamq.problem import zoo
from hamq.problem.actions import ProductActions
from hamq.problem.scene import TONES, Box, Disc, Line, Scene
from hamq.report.animation import UNITS, make_animation
from hamq.types import Law


def shapes(state, action):
    push = [Line((0.0, 0.0), (float(action), 0.0), 0.1, "force")] if action > 0 else []
    return [Box((float(state[0]), 0.5), 0.4, 0.2), Disc((float(state[1]), -1.0), 0.25, "accent"), *push]


SCENE = Scene((-2.0, 2.0, -1.0, 1.0), shapes)


def mean(state, action):
    return state + 0.1 * jnp.stack([state[1], action])


def reward(state, action):
    return -(state[0] ** 2) - action**2 / 10


def posed(law: Law = "linear", scene: Scene | None = SCENE, terminal=None, covariance=1e-10) -> hamq.Problem:
    """A slider with almost no noise: x' = x + v/10, v' = v + a/10, paid −x² − a²/10."""
    return hamq.Problem(
        grid=hamq.Grid([-1.0, -1.0], [1.0, 1.0], [5, 9]),
        actions=jnp.array([-1.0, 0.0, 1.0]),
        kernel=hamq.GaussianKernel(mean, covariance=[covariance, covariance]),
        reward=reward,
        discount=0.9,
        terminal=terminal,
        law=law,
        expected=("noise",),
        scene=scene,
    )


def damped(states):
    return np.where(states[:, 0] + states[:, 1] > 0.2, -1.0, 1.0)


def test_a_rollout_is_what_the_equations_give():
    (rollout,) = make_animation(posed(), {"damped": damped}, start=[0.5, -0.25], steps=30).rollouts
    x, v, total = 0.5, -0.25, 0.0
    for t in range(30):
        action = -1.0 if x + v > 0.2 else 1.0
        reward = -(x**2) - action**2 / 10
        total += 0.9**t * reward
        np.testing.assert_allclose(rollout.states[t], [x, v], atol=1e-3)
        assert rollout.actions[t].tolist() == [action]
        np.testing.assert_allclose([rollout.rewards[t], rollout.returns[t]], [reward, total], atol=5e-3)
        x, v = x + 0.1 * v, v + 0.1 * action
    assert (rollout.name, rollout.has_ended, len(rollout.states)) == ("damped", False, 30)


def test_the_return_is_that_of_rollouts_and_the_randomness_is_shared():
    problem = posed(covariance=0.01)
    policies = {"damped": damped, "again": damped, "zero": lambda states: np.zeros(len(states))}
    start = np.array([0.5, -0.25], np.float32)
    first, again, zero = make_animation(problem, policies, start, steps=20, key=3).rollouts
    found = rollouts(problem, policies, starts=start[None, :], steps=20, key=3)
    for rollout in (first, zero):
        assert rollout.returns[-1] == pytest.approx(found.returns[rollout.name][0], rel=1e-5)
        np.testing.assert_array_equal(rollout.states, found.states[rollout.name][:-1, 0])
    np.testing.assert_array_equal(first.states, again.states)
    assert np.abs(first.states - zero.states).max() > 0.1
    (other,) = make_animation(problem, {"damped": damped}, start, steps=20, key=4).rollouts
    np.testing.assert_array_equal(other.states[0], first.states[0])
    assert np.all(other.states[1] != first.states[1])


def test_a_rollout_stops_where_it_ends():
    problem = posed(terminal=lambda s: s[0] > 0.6)
    push = {"push": lambda states: np.ones(len(states))}
    (rollout,) = make_animation(problem, push, start=[0.5, 0.5], steps=40).rollouts
    assert rollout.has_ended and rollout.states[-2, 0] <= 0.6 < rollout.states[-1, 0]
    assert rollout.rewards[-1] == 0 and np.all(rollout.rewards[:-1] < 0)
    assert rollout.frames is not None
    assert len(rollout.states) == len(rollout.actions) == len(rollout.returns) == len(rollout.frames) == 3


def test_random_starts_are_nodes_of_the_cell_law_and_not_terminal():
    problem = posed("cell", terminal=lambda s: s[0] > -0.4, covariance=0.01)
    starts = [make_animation(problem, {"d": damped}, steps=1, key=key).rollouts[0].states[0] for key in range(3)]
    for start in starts:
        assert start[0] == -0.5 and np.isclose(start[1] * 4, round(start[1] * 4))
    assert len({start[1] for start in starts}) > 1
    (rollout,) = make_animation(problem, {"d": damped}, start=[-0.6, 0.3], steps=1).rollouts
    assert rollout.states[0].tolist() == [-0.5, 0.25]


def read_frames(text: str, unit: float) -> list[list[tuple]]:
    numbers = iter(np.frombuffer(base64.b64decode(text), "<i2").tolist())
    frames = []
    for count in numbers:
        frame = []
        for _ in range(count):
            kind, tone = divmod(next(numbers), len(TONES))
            lengths = [unit * next(numbers) for _ in range((5, 3, 4)[kind])]
            frame.append(((Line, Disc, Box)[kind], TONES[tone], lengths))
        frames.append(frame)
    return frames


def test_the_page_gets_the_shapes_of_the_scene():
    animation = make_animation(posed(), {"damped": damped}, start=[0.5, -0.25], steps=12)
    data = json.loads(json.dumps(animation.data(), allow_nan=False))
    (rollout,) = data["rollouts"]
    assert (data["view"], data["unit"]) == ([-2, 2, -1, 1], 4 / UNITS)
    assert (rollout["name"], rollout["length"], rollout["hasEnded"]) == ("damped", 12, False)
    states = np.frombuffer(base64.b64decode(rollout["states"]), "<f4").reshape(12, 2)
    actions = np.frombuffer(base64.b64decode(rollout["actions"]), "<f4")
    assert set(actions) == {-1.0, 1.0}
    frames = read_frames(rollout["frames"], data["unit"])
    assert len(frames) == 12
    for state, action, frame in zip(states, actions, frames, strict=True):
        expected = [(Box, "body", [state[0], 0.5, 0.4, 0.2]), (Disc, "accent", [state[1], -1, 0.25])]
        expected += [(Line, "force", [0, 0, 1, 0, 0.1])] if action > 0 else []
        assert [shape[:2] for shape in frame] == [shape[:2] for shape in expected]
        for found, wanted in zip(frame, expected, strict=True):
            np.testing.assert_allclose(found[2], wanted[2], atol=data["unit"] / 2 + 1e-6)


def test_what_is_far_outside_stays_there():
    far = Scene((-1.0, 1.0, -1.0, 1.0), lambda state, action: [Disc((1e9, -1e9), 0.1)])
    animation = make_animation(posed(scene=far), {"damped": damped}, steps=1)
    ((shape,),) = read_frames(animation.data()["rollouts"][0]["frames"], animation.data()["unit"])
    assert shape[2][0] > 5 and shape[2][1] < -5


def test_without_a_scene_there_are_curves_only():
    animation = make_animation(posed(scene=None), {"damped": damped}, steps=3)
    data = animation.data()
    assert data["view"] is None and data["rollouts"][0]["frames"] is None
    assert len(base64.b64decode(data["rollouts"][0]["states"])) == 4 * 3 * 2


def test_two_actuators():
    problem = hamq.Problem(
        grid=hamq.Grid([-1.0, -1.0], [1.0, 1.0], [5, 9]),
        actions=ProductActions([[-0.5, 0.0, 0.5], [-0.5, 0.0, 0.5]]),
        kernel=hamq.GaussianKernel(lambda s, a: s + 0.1 * a, covariance=[0.01, 0.01]),
        reward=lambda s, a: -jnp.sum(s**2),
        discount=0.9,
        law="linear",
        expected=("aliasing", "noise", "outside"),
    )
    push = {"push": lambda states: np.tile(np.array([1.0, -1.0]) * 0.5, (len(states), 1))}
    (rollout,) = make_animation(problem, push, steps=2).rollouts
    np.testing.assert_array_equal(rollout.actions, [[0.5, -0.5]] * 2)


def drawing(*drawn) -> hamq.Problem:
    return posed(scene=dataclasses.replace(SCENE, shapes=lambda state, action: drawn))


@pytest.mark.parametrize(
    ("problem", "given", "message"),
    [
        (posed(), {"start": [0.0]}, "start must be one state of 2 coordinates"),
        (posed(), {"start": [[0.0, 0.0]] * 2}, "start must be one state of 2 coordinates"),
        (posed(), {"start": [0.0, math.nan]}, "start must be finite"),
        (posed(), {"steps": 0}, "steps must be"),
        (drawing("a line"), {}, r"the scene draws 'a line' at the state \[.*\]; shapes are Line, Disc and Box"),
        (drawing(Disc((0.0, math.nan), 1.0)), {}, "with finite numbers"),
        (drawing(Disc((0.0, 0.0), 1.0, "red")), {}, "one of the tones body, accent"),  # pyright: ignore
    ],
)
def test_refusals(problem, given, message):
    with pytest.raises(ValueError, match=message):
        make_animation(problem, {"damped": damped}, **given)


def test_problems_without_a_continuous_model_are_refused():
    with pytest.raises(ValueError, match="law='point'"):
        make_animation(zoo.pendulum(points=5, law="point"), {"zero": lambda states: np.zeros(len(states))})
