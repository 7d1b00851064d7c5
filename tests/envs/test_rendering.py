"""Frames: areas and places of the shapes, soft edges, order, the whole view, and pictures of every problem."""

import gymnasium
import numpy as np
import pytest

import hamq.envs
from hamq.envs import ProblemEnv, ProblemVectorEnv
from hamq.envs.registration import zoo_functions
from hamq.envs.rendering import BACKGROUND, COLOURS, draw, scene_of
from hamq.problem.grid import Grid
from hamq.problem.kernels.gaussian import GaussianKernel
from hamq.problem.problem import Problem
from hamq.problem.scene import Box, Disc, Line, Scene

VIEW = (-1.0, 1.0, -1.0, 1.0)


def cover(frame, tone="body"):
    """The share of each pixel that a single shape of this tone covers."""
    colour, ground = np.asarray(COLOURS[tone], float), np.asarray(BACKGROUND, float)
    return (frame - ground) @ (colour - ground) / np.sum((colour - ground) ** 2)


def frame_of(*shapes, view=VIEW, size=(200, 200)):
    return draw(Scene(view, lambda state, action: list(shapes)), np.zeros(1), 0.0, size)


def middle(share, scale, width, height):
    """The centre of what is covered, in the units of the view."""
    rows, columns = np.indices(share.shape)
    x = np.sum(share * (columns + 0.5)) / share.sum() - width / 2
    y = height / 2 - np.sum(share * (rows + 0.5)) / share.sum()
    return np.asarray([x, y]) / scale


@pytest.mark.parametrize(
    ("shape", "area", "centre"),
    [
        (Disc((0.31, -0.42), 0.3), np.pi * 0.3**2, (0.31, -0.42)),
        (Box((-0.313, 0.2), 0.507, 0.203), 0.507 * 0.203, (-0.313, 0.2)),
        (Line((-0.5, -0.5), (0.3, 0.1), 0.1), 1.0 * 0.1 + np.pi * 0.05**2, (-0.1, -0.2)),  # round ends
        (Line((0.2, 0.3), (0.2, 0.3), 0.2), np.pi * 0.1**2, (0.2, 0.3)),  # a dot
    ],
)
def test_shapes_cover_their_area_at_their_place(shape, area, centre):
    share = cover(frame_of(shape))
    assert share.min() > -0.01 and share.max() < 1.01
    assert np.sum(share) / 100**2 == pytest.approx(area, rel=0.01)
    np.testing.assert_allclose(middle(share, 100, 200, 200), centre, atol=0.004)
    assert np.sum((share > 0.05) & (share < 0.95)) > 20  # soft edges


def test_later_shapes_lie_on_top():
    frame = frame_of(Disc((0.0, 0.0), 0.5), Box((0.0, 0.0), 0.4, 0.4, "force"))
    assert tuple(frame[100, 100]) == COLOURS["force"]
    assert tuple(frame[100, 100 + 40]) == COLOURS["body"]
    assert tuple(frame[2, 2]) == BACKGROUND


def test_the_whole_view_is_shown_and_one_unit_is_as_long_across_as_up():
    """A view of 4 × 2 in 200 × 300 pixels: 50 pixels a unit, in the middle."""
    share = cover(frame_of(Disc((2.0, 1.0), 0.5), view=(0.0, 4.0, 0.0, 2.0), size=(200, 300)))
    assert share.shape == (300, 200)
    assert np.sum(share) / 50**2 == pytest.approx(np.pi * 0.25, rel=0.01)
    np.testing.assert_allclose(middle(share, 50, 200, 300), [0, 0], atol=0.01)


def test_what_lies_outside_is_cut():
    share = cover(frame_of(Disc((1.0, 0.0), 0.5), Line((5.0, 5.0), (9.0, 7.0), 0.1)))
    assert np.sum(share) / 100**2 == pytest.approx(np.pi * 0.25 / 2, rel=0.02)


def pose(dimension) -> Problem:
    grid = Grid([-2.0] * dimension, [1.0] * dimension, 3)
    kernel = GaussianKernel(lambda state, action: 0.5 * state, [0.3] * dimension)
    return Problem(grid, [0.0, 1.0], kernel, lambda state, action: state[0], 0.9, law="linear", expected=("outside",))


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_without_a_scene_the_state_is_a_dot_and_bars(dimension):
    scene = scene_of(pose(dimension))
    state = np.full(dimension, -0.5)  # the middle of the box
    for axis in range(dimension):
        low, high = state.copy(), state.copy()
        low[axis], high[axis] = -2.0, 1.0
        first, second = (draw(scene, each, 0.0).astype(int) for each in (low, high))
        tone = "accent" if axis < 2 else "body"
        a, b = (np.all(np.abs(each - COLOURS[tone]) < 30, axis=2) for each in (first, second))
        (y0, x0), (y1, x1) = (np.argwhere(each).mean(axis=0) if each.any() else (0, 0) for each in (a, b))
        if axis == 0:
            assert x1 - x0 > 100 and abs(y1 - y0) < 1
        elif axis == 1:
            assert y0 - y1 > 100 and abs(x1 - x0) < 1
        else:
            assert b.sum() > a.sum() + 500  # the bar has grown


@pytest.mark.parametrize("name", sorted(zoo_functions()))
def test_every_problem_has_a_picture_that_moves(name):
    problem = zoo_functions()[name]()
    assert problem.scene is not None and not any(axis.startswith("s") and axis[1:].isdigit() for axis in problem.axis_names)
    low, high = np.asarray(problem.grid.lower), np.asarray(problem.grid.upper)
    actions = np.asarray(problem.actions)
    state, other = low + 0.45 * (high - low), low + 0.7 * (high - low)
    still = draw(problem.scene, state, actions[0])
    assert still.shape == (400, 400, 3) and still.dtype == np.uint8
    seen = {tone for tone in COLOURS if np.any(np.all(still == COLOURS[tone], axis=2))}
    assert seen == set(COLOURS)  # all four tones, the force included
    assert np.mean(np.any(still != draw(problem.scene, other, actions[0]), axis=2)) > 0.005
    assert np.any(still != draw(problem.scene, state, actions[-1]))  # the action is seen
    with np.errstate(all="raise"):
        for corner in (low, high):
            draw(problem.scene, corner, actions[-1])


@pytest.mark.parametrize("name", ["pendulum", "double_integrator", "cartpole", "acrobot", "cart_double_pendulum"])
def test_the_mirrored_state_is_the_mirrored_picture(name):
    problem = zoo_functions()[name]()
    state = 0.37 * np.asarray(problem.grid.upper) * np.linspace(1, 0.6, problem.grid.dimension)
    action = 0.8 * float(problem.actions[-1])
    frame, mirrored = (draw(problem.scene, sign * state, sign * action).astype(int) for sign in (1, -1))
    assert np.abs(frame - mirrored[:, ::-1]).max() <= 1
    assert np.abs(frame - mirrored).max() > 100


def test_environments_render_their_state_and_their_last_action():
    scene = Scene(VIEW, lambda state, action: [Disc((float(state[0]), float(action)), 0.2, "accent")])
    problem = pose(2)
    problem = Problem(
        problem.grid, [-0.5, 0.5], problem.kernel, problem.reward, 0.9, law="linear", expected=("outside",), scene=scene
    )
    environment = ProblemEnv(problem, render_mode="rgb_array", render_size=(120, 100))
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"reset\(\) before render"):
        environment.render()
    environment.reset(seed=0, options={"state": [0.3, 0.0]})
    np.testing.assert_array_equal(environment.render(), draw(scene, [0.3, 0.0], 0.0, (120, 100)))
    state, *_ = environment.step(1)
    frame = environment.render()
    assert frame is not None and frame.shape == (100, 120, 3)
    np.testing.assert_array_equal(frame, draw(scene, state, 0.5, (120, 100)))
    assert ProblemEnv(problem).render() is None
    batch = ProblemVectorEnv(problem, 2, render_mode="rgb_array")
    states, _ = batch.reset(seed=1)
    frames = batch.render()
    assert frames is not None and len(frames) == 2
    np.testing.assert_array_equal(frames[1], draw(scene, states[1], 0.0))


def test_ids_are_those_of_the_pictures():
    assert len(hamq.envs.IDS) == len(zoo_functions())
