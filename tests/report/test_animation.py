"""Animations: what is played is what happened, and what is drawn is what the scene says."""

import base64
import dataclasses
import json
import math

import numpy as np
import pytest

import hamq
from hamq.problem import zoo
from hamq.problem.scene import TONES, Box, Disc, Line, Scene
from hamq.report.animation import UNITS, make_animation
from tests.control.test_traces import damped
from tests.control.test_traces import posed as without_a_scene


def shapes(state, action):
    push = [Line((0.0, 0.0), (float(action), 0.0), 0.1, "force")] if action > 0 else []
    return [Box((float(state[0]), 0.5), 0.4, 0.2), Disc((float(state[1]), -1.0), 0.25, "accent"), *push]


SCENE = Scene((-2.0, 2.0, -1.0, 1.0), shapes)


def posed(scene: Scene | None = SCENE, **given) -> hamq.Problem:
    return without_a_scene(scene=scene, **given)


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
