"""The animated rollout in a real browser: what plays, steps and is drawn is the rollout that Python made."""

import base64
import json
import re

import numpy as np
import pytest

pytestmark = pytest.mark.slow


def animations(posed) -> list[dict]:
    """From the page's file, without its script."""
    text = posed.path.read_text(encoding="utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])[
        "animations"
    ]


def rows(rollout, name) -> np.ndarray:
    return np.frombuffer(base64.b64decode(rollout[name]), "<f4").reshape(rollout["length"], -1)


def step(opened) -> int:
    return int(opened.page.locator("#scrub").input_value())


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def readings(opened, stage=0) -> list[float]:
    """Action, reward and return as they are written."""
    return [number(text) for text in opened.page.locator(".stage").nth(stage).locator("dd").all_text_contents()]


def ring(opened) -> list[float]:
    """Where the ring is: shares across and up of the first map's frame."""
    return opened.evaluate(
        """() => {
          const [map, marker] = [document.getElementById("map"), document.getElementById("marker")];
          const frame = Drawing.frameOf(map);
          return [(parseFloat(marker.style.left) - frame.left) / frame.width,
                  1 - (parseFloat(marker.style.top) - frame.top) / frame.height];
        }"""
    )


def picture(opened, stage=0) -> str:
    return opened.evaluate("(i) => document.querySelectorAll('canvas.scene')[i].toDataURL()", stage)


def check_step(opened, posed, t, rollout=0):
    """Readings, sliders, ring and curves of one step."""
    (animation,), grid = animations(posed), posed.grid
    data = animation["rollouts"][rollout]
    assert step(opened) == t and opened.page.locator("#step").text_content() == f"t = {t}"
    at = min(t, data["length"] - 1)
    action, reward, total = (rows(data, name)[at][0] for name in ("actions", "rewards", "returns"))
    shortest = 1e-3 * np.abs(rows(data, "rewards")).max()  # numbers are written as short as their scale allows
    np.testing.assert_allclose(readings(opened, rollout), [action, reward, total], rtol=1e-3, atol=shortest)
    state, point = rows(data, "states")[at], opened.evaluate("() => HamqPage.state()")
    np.testing.assert_allclose(point["point"], state, atol=1e-6)
    shares = [(state[i] - grid.lower[i]) / (grid.upper[i] - grid.lower[i]) for i in (point["x"], point["y"])]
    np.testing.assert_allclose(ring(opened), shares, atol=1e-3)
    for i, name in enumerate(posed.axis_names):
        slider = opened.slider(name)
        last = int(slider.get_attribute("max"))
        share = (state[i] - grid.lower[i]) / (grid.upper[i] - grid.lower[i])
        assert abs(int(slider.input_value()) - share * last) <= 0.5 + 1e-6, name


def test_nothing_plays_unless_asked(six, show):
    for motion in ("no-preference", "reduce"):
        with show(six.path, reduced_motion=motion) as opened:
            before = opened.evaluate("() => HamqPage.state()")["point"]
            opened.page.wait_for_timeout(500)
            assert step(opened) == 0 and opened.page.locator("#play").get_attribute("aria-label") == "Play"
            assert opened.evaluate("() => HamqPage.state()")["point"] == before


def test_play_moves_the_picture_and_the_ring_and_pause_stops_them(six, show):
    with show(six.path) as opened:
        opened.choose("layer", "Value")
        opened.choose("x", six.axis_names[2])
        start, shown = picture(opened), opened.evaluate("() => document.getElementById('map').toDataURL()")
        opened.choose("speed", "20 steps/s")
        opened.page.click("#play")
        opened.page.wait_for_function("() => Number(document.getElementById('scrub').value) >= 5")
        assert opened.page.locator("#play").get_attribute("aria-label") == "Pause"
        opened.page.click("#play")
        stopped = step(opened)
        check_step(opened, six, stopped)
        drawn = picture(opened)
        assert drawn != start and opened.evaluate("() => document.getElementById('map').toDataURL()") != shown
        opened.page.wait_for_timeout(400)
        assert step(opened) == stopped and picture(opened) == drawn
        opened.page.click("#restart")
        assert picture(opened) == start
        check_step(opened, six, 0)


def test_scrub_step_and_keys(six, show):
    with show(six.path) as opened:
        (animation,) = animations(six)
        last = animation["rollouts"][0]["length"] - 1
        assert last == 199
        opened.set(opened.page.locator("#scrub"), 57)
        check_step(opened, six, 57)
        opened.page.click("#on")
        opened.page.click("#on")
        opened.page.click("#back")
        check_step(opened, six, 58)
        opened.page.locator("canvas.scene").focus()
        for key, t in (
            ("ArrowRight", 59),
            ("ArrowLeft", 58),
            ("ArrowLeft", 57),
            ("Home", 0),
            ("ArrowLeft", 0),
            ("End", last),
        ):
            opened.page.keyboard.press(key)
            assert step(opened) == t, key
        opened.page.locator("#loop").uncheck()
        opened.page.locator("canvas.scene").focus()
        opened.page.keyboard.press("Space")  # from the end it starts again
        opened.page.wait_for_function("() => [2, 3, 4, 5].includes(Number(document.getElementById('scrub').value))")
        opened.page.keyboard.press("Space")
        stopped = step(opened)
        opened.page.wait_for_timeout(300)
        assert step(opened) == stopped < 20 and opened.evaluate("() => scrollY") == 0
        chart = opened.page.locator(".chart").first.bounding_box()
        opened.page.mouse.click(chart["x"] + chart["width"] / 2, chart["y"] + 5)
        assert abs(step(opened) - last / 2) <= 1


@pytest.mark.parametrize("loops", [True, False])
def test_the_end_is_the_beginning_or_the_end(pair, show, loops):
    with show(pair.path) as opened:
        opened.choose("speed", "40 steps/s")
        opened.page.locator("#loop").set_checked(loops)
        opened.set(opened.page.locator("#scrub"), 190)
        opened.page.click("#play")
        if loops:
            opened.page.wait_for_function("() => Number(document.getElementById('scrub').value) < 100")
            assert opened.page.locator("#play").get_attribute("aria-label") == "Pause"
        else:
            opened.page.wait_for_function("() => document.getElementById('play').ariaLabel === 'Play'")
            assert step(opened) == 199


def test_the_maps_follow_only_if_they_shall(six, show):
    with show(six.path) as opened:
        opened.page.uncheck("#follow")
        before = opened.evaluate("() => HamqPage.state()")["point"]
        opened.set(opened.page.locator("#scrub"), 40)
        assert opened.evaluate("() => HamqPage.state()")["point"] == before
        opened.page.check("#follow")
        check_step(opened, six, 40)


def test_two_policies_start_alike_and_go_their_ways(pair, show):
    (animation,) = animations(pair)
    first, second = animation["rollouts"]
    assert [first["name"], second["name"]] == ["early", "exact"]
    np.testing.assert_array_equal(rows(first, "states")[0], rows(second, "states")[0])
    apart = np.abs(rows(first, "states") - rows(second, "states")).max(axis=1)
    t = int(np.argmax(apart))
    assert apart[t] > 0.1
    with show(pair.path) as opened:
        assert opened.page.locator(".stage").count() == 2
        assert opened.page.locator(".stage figcaption").all_text_contents() == ["early", "exact"]
        opened.set(opened.page.locator("#scrub"), t)
        check_step(opened, pair, t, 0)
        assert picture(opened, 0) != picture(opened, 1)
        opened.choose("whose", "exact")
        check_step(opened, pair, t, 1)


def frame(animation, rollout, t) -> list[tuple[int, int, list[float]]]:
    """(kind, tone, lengths) of the shapes of one step."""
    numbers = iter(np.frombuffer(base64.b64decode(rollout["frames"]), "<i2").tolist())
    for _ in range(t + 1):
        shapes = []
        for _ in range(next(numbers)):
            kind, tone = divmod(next(numbers), 4)
            shapes.append((kind, tone, [animation["unit"] * next(numbers) for _ in range((5, 3, 4)[kind])]))
    return shapes


@pytest.mark.parametrize(("scheme", "accent", "paper"), [("light", "1f6f8b", "f5f5f2"), ("dark", "6cc0d9", "14161a")])
def test_the_picture_is_that_of_the_scene(pair, show, screenshots, scheme, accent, paper):
    """The bob of the pendulum is where the angle says, in the colour of the scheme, and nothing is opposite to it."""
    (animation,) = animations(pair)
    rollout = animation["rollouts"][1]
    left, right, bottom, top = animation["view"]
    with show(pair.path, color_scheme=scheme) as opened:
        for t in (0, 25, 120):
            opened.set(opened.page.locator("#scrub"), t)
            angle = rows(rollout, "states")[t][0]
            bob = np.array([np.sin(angle), np.cos(angle)])
            (disc,) = [lengths for kind, tone, lengths in frame(animation, rollout, t) if (kind, tone) == (1, 1)]
            np.testing.assert_allclose(np.array(disc[:2]) / np.linalg.norm(disc[:2]), bob, atol=2e-3)
            centre = np.array([left + right, bottom + top]) / 2
            places = [np.array(disc[:2]), centre - (np.array(disc[:2]) - centre)]
            found = opened.evaluate(
                """([stage, view, places]) => {
                  const canvas = document.querySelectorAll("canvas.scene")[stage];
                  const [left, right, bottom, top] = view;
                  const scale = Math.min(canvas.width / (right - left), canvas.height / (top - bottom));
                  return places.map(([x, y]) => Array.from(canvas.getContext("2d").getImageData(
                    canvas.width / 2 + scale * (x - (left + right) / 2),
                    canvas.height / 2 - scale * (y - (bottom + top) / 2), 1, 1).data));
                }""",
                [1, animation["view"], [place.tolist() for place in places]],
            )
            assert found[0] == [*bytes.fromhex(accent), 255], t
            assert found[1][3] == 0, t  # nothing is drawn there: the paper shines through
        background = opened.evaluate("() => getComputedStyle(document.querySelector('canvas.scene')).backgroundColor")
        assert [int(part) for part in re.findall(r"\d+", background)[:3]] == list(bytes.fromhex(paper))
        opened.page.locator("#animation").screenshot(path=screenshots / f"player_{scheme}.png")


def test_a_rollout_that_ends_says_so_and_without_a_scene_there_are_curves(hostile, show):
    (animation,) = animations(hostile)
    (rollout,) = animation["rollouts"]
    assert animation["view"] is None and rollout["frames"] is None
    with show(hostile.path) as opened:
        assert not opened.page.locator("canvas.scene").is_visible()
        assert opened.page.locator(".series").count() == 4
        opened.set(opened.page.locator("#scrub"), rollout["length"] - 1)
        assert opened.page.locator(".ended").is_visible() == rollout["hasEnded"]
        check_step(opened, hostile, rollout["length"] - 1)
        inked = opened.evaluate(
            """() => [...document.querySelectorAll(".chart canvas")].map((c) =>
              c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some((byte) => byte > 0))"""
        )
        assert inked == [True] * 4
