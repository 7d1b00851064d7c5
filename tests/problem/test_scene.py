"""Scenes: where the machines' parts are drawn, that arrows point where actions push, and that equal problems share one."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from hamq.problem import zoo
from hamq.problem.scene import TONES, Box, Disc, Line, Scene
from hamq.problem.zoo import scenes
from hamq.types import UserFunction

MAKERS = {
    "pendulum": lambda: scenes.pendulum_scene(),
    "cart": lambda: scenes.cart_scene(0, (1,), (1.0,), 10.0, 2.4),
    "cart with two poles": lambda: scenes.cart_scene(0, (1, 2), (0.5, 0.6), 10.0, 2.4, is_relative=True),
    "acrobot": lambda: scenes.acrobot_scene((0, 1), goal=1.0),
    "slider": lambda: scenes.slider_scene(0, 3.0, 1.0),
    "springs": lambda: scenes.springs_scene((0, 1, 2), (0,), 2.0, 2.0),
    "pendulums": lambda: scenes.pendulums_scene((0, 1, 2), (1,), 3.0),
    "agents": lambda: scenes.agents_scene((0, 1, 2), (-0.5, 0.0, 0.5)),
    "plane": lambda: scenes.plane_scene((-2.0, -2.0, -2.0), (2.0, 2.0, 2.0)),
}


def parts(scene, state, action=0.0, tone=None, kind=None):
    shapes = scene.shapes(np.asarray(state, np.float32), np.asarray(action, np.float32))
    return [s for s in shapes if (tone is None or s.tone == tone) and (kind is None or isinstance(s, kind))]


@pytest.mark.parametrize("name", MAKERS)
def test_makers_give_finite_shapes_and_always_the_same_scene(name):
    scene = MAKERS[name]()
    assert isinstance(scene, Scene) and MAKERS[name]() is scene
    for action in (-2.0, 0.0, 1.0):
        for shape in parts(scene, [0.3, -1.2, 0.8], action):
            assert shape.tone in TONES
            numbers = np.concatenate([np.ravel(field) for field in shape[:-1]])
            assert numbers.dtype == np.float64 and np.all(np.isfinite(numbers))
    if name != "plane":
        assert not parts(scene, [0.3, -1.2, 0.8], 0.0, "force")  # no action, no arrow
        assert parts(scene, [0.3, -1.2, 0.8], -1.5, "force")


@pytest.mark.parametrize(
    "name", ["pendulum", "cartpole", "acrobot", "cart_double_pendulum", "repelling_agents", "spring_chain", "pendulum_chain"]
)
def test_problems_that_are_built_alike_share_one_scene(name):
    first, second = getattr(zoo, name)(), getattr(zoo, name)()
    assert first.scene is second.scene and first.scene is not None
    assert len(set(first.axis_names)) == first.grid.dimension


def test_a_pendulum_is_upright_at_zero_and_leans_to_the_right():
    (bob,) = parts(scenes.pendulum_scene(1, 2.0), [9.0, 0.4], 0.0, "accent", Disc)
    np.testing.assert_allclose(bob.centre, (2 * math.sin(0.4), 2 * math.cos(0.4)), rtol=1e-6)
    (bob,) = parts(scenes.pendulum_scene(0, is_clockwise=False), [0.4], 0.0, "accent", Disc)
    np.testing.assert_allclose(bob.centre, (-math.sin(0.4), math.cos(0.4)), rtol=1e-6)


def test_an_acrobot_hangs_at_zero():
    """Height of the tip −cos θ₁ − cos(θ₁ + θ₂), as Gymnasium's Acrobot-v1 has it."""
    *_, tip = parts(scenes.acrobot_scene((0, 1)), [0.7, -1.9], 0.0, "accent", Disc)
    np.testing.assert_allclose(tip.centre, (math.sin(0.7) + math.sin(-1.2), -math.cos(0.7) - math.cos(-1.2)), rtol=1e-5)
    goal = parts(scenes.acrobot_scene((0, 1), goal=1.0), [0.0, 0.0], 0.0, "ground", Line)
    assert [(line.start[1], line.end[1]) for line in goal] == [(1.0, 1.0)]


@pytest.mark.parametrize(("is_relative", "second"), [(False, -0.3), (True, 0.2)])
def test_poles_stand_on_the_cart_and_on_each_other(is_relative, second):
    """Angles 0.5 and −0.3: absolute, or the second from the first. The rail is no longer than the poles allow."""
    scene = scenes.cart_scene(2, (0, 1), (0.6, 0.4), 10.0, 4.8, is_relative)
    first_pole, second_pole = parts(scene, [0.5, -0.3, -2.4], 0.0, "accent", Line)
    (cart,) = parts(scene, [0.5, -0.3, -2.4], 0.0, "body", Box)
    assert cart.centre[0] == pytest.approx(-0.6)  # half of the way, on a rail of ±1.2
    assert first_pole.start[0] == pytest.approx(-0.6) and first_pole.end == second_pole.start
    along = np.subtract(first_pole.end, first_pole.start)
    np.testing.assert_allclose(along, (0.6 * math.sin(0.5), 0.6 * math.cos(0.5)), rtol=1e-6)
    along = np.subtract(second_pole.end, second_pole.start)
    np.testing.assert_allclose(along, (0.4 * math.sin(second), 0.4 * math.cos(second)), rtol=1e-5)


def test_masses_do_not_pass_each_other_and_springs_reach_the_walls():
    scene = scenes.springs_scene((0, 1), (1,), 2.0, 2.0)
    masses = [box for box in parts(scene, [2.0, -2.0], 0.0, kind=Box) if box.tone != "ground"]
    assert [box.tone for box in masses] == ["body", "accent"]
    assert masses[1].centre[0] - masses[0].centre[0] >= masses[0].width - 1e-9
    wire = [line for line in parts(scene, [0.0, 0.0], 0.0, "ground", Line) if line.width == 0.03 and line.start[1] > -0.2]
    walls = [box for box in parts(scene, [0.0, 0.0], 0.0, "ground", Box)]
    assert wire[0].start[0] == pytest.approx(walls[0].centre[0] + walls[0].width / 2)
    assert wire[-1].end[0] == pytest.approx(walls[1].centre[0] - walls[1].width / 2)


def head(scene, state, action):
    """(where the arrow begins, where it ends): its lines but for the two of its head."""
    *shaft, _, _ = parts(scene, state, action, "force", Line)
    return np.asarray(shaft[0].start), np.asarray(shaft[-1].end)


def pushed(mean: UserFunction, state, action):
    """What an action changes of the next mean."""
    return np.asarray(mean(jnp.asarray(state), jnp.asarray(action)) - mean(jnp.asarray(state), jnp.asarray(0.0)))


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize(
    ("name", "state", "axis"),
    [
        ("pendulum", [0.4, 0.0], 1),
        ("double_integrator", [1.0, 0.0], 1),
        ("cartpole", [0.1, 0.0, -1.0, 0.0], 3),
        ("cart_double_pendulum", [0.5, 0.0, 0.1, 0.0, -0.2, 0.0], 1),
        ("acrobot", [0.0, 0.0, 0.0, 0.0], 3),
    ],
)
def test_arrows_point_where_the_action_pushes(name, state, axis, sign):
    """To the right, at angles near upright or for links that hang, wherever the velocity grows."""
    problem = getattr(zoo, name)()
    action = sign * float(problem.actions[-1])
    start, end = head(problem.scene, state, action)
    assert np.sign(end[0] - start[0]) == np.sign(pushed(problem.kernel.mean, state, action)[axis]) == sign


def test_arrows_grow_with_the_action():
    scene = scenes.slider_scene(0, 3.0, 2.0)
    lengths = [np.diff(head(scene, [0.0], action), axis=0)[0, 0] for action in (0.5, 1.0, 2.0)]
    np.testing.assert_allclose(np.asarray(lengths) / lengths[0], [1, 2, 4], rtol=1e-6)


def test_agents_share_one_action_or_have_their_own():
    scene = MAKERS["agents"]()
    common = parts(scene, [-0.4, 0.0, 0.4], 0.5, "force", Line)
    own = parts(scene, [-0.4, 0.0, 0.4], [0.5, 0.0, 0.5], "force", Line)
    assert len(common) == 9 and len(own) == 6
    targets = [disc.centre[0] for disc in parts(scene, [0.0, 0.0, 0.0], 0.0, "accent", Disc)]
    assert targets == [-0.5, 0.0, 0.5]


def test_a_view_and_shapes_must_be_such(as_user):
    for view in [(0, 0, 0, 1), (0, 1, 1, 0), (0, 1, 0), (0, math.nan, 0, 1)]:
        with pytest.raises(ValueError, match=r"view must be \(left, right, bottom, top\)"):
            Scene(view, lambda state, action: [])
    with pytest.raises(ValueError, match=r"shapes must be a function of \(state, action\), got 3"):
        Scene((0, 1, 0, 1), 3)
