"""The maps in a real browser: every control leads to the slice that Python computes, in values and in pixels."""

import time

import numpy as np
import pytest

from hamq.certificates.certificate import rounded_up
from tests.browser import expected
from tests.browser.chromium import PHONE
from tests.browser.posed import HOSTILE

pytestmark = pytest.mark.slow
READY_WITHIN = 2.0


def shown_slices(opened):
    """state and panels as the page has them."""
    return opened.evaluate("() => [HamqPage.state(), HamqPage.values()]")


def check_values(opened, posed, name, smooth=True):
    """The first panel's values against the table; what was expected."""
    state, (panel, *_) = shown_slices(opened)
    table = expected.layer(posed.run, name)
    wanted = expected.slice_of(table, posed.grid, (state["x"], state["y"]), state["point"], panel["xs"], panel["ys"], smooth)
    found = np.reshape(panel["values"], wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * np.abs(table).max())
    return state, panel, wanted


def check_pixels(opened, posed, state, panel, wanted, low, high, stops=expected.VALUES, every=1, panel_number=0):
    """Colours of the canvas in the middles of the cells, `every` so many of them, against the colour map."""
    ends = [(posed.grid.lower[i], posed.grid.upper[i]) for i in (state["x"], state["y"])]
    xs, ys = (
        (np.asarray(panel[name])[every // 2 :: every] - low_) / (high_ - low_)
        for name, (low_, high_) in zip(("xs", "ys"), ends, strict=True)
    )
    places = [[x, y] for y in ys for x in xs]
    found = np.reshape(opened.pixels(places, panel_number), (len(ys), len(xs), 3))
    shades = expected.colours(wanted[every // 2 :: every, every // 2 :: every], low, high, stops)
    np.testing.assert_allclose(found, shades, atol=3 if every == 1 else 8)
    return found


def test_the_page_of_six_dimensions_is_ready_within_two_seconds(six, show):
    assert six.grid.num_states >= 5**6 and six.run.summary["num_actions"] == 10
    assert six.path.stat().st_size < 3_000_000
    seconds = []
    with show(six.path) as opened:
        for _ in range(3):  # the best of three: other programs may take the processor
            start = time.monotonic()
            opened.load()
            seconds.append(time.monotonic() - start)
        assert opened.evaluate("() => document.querySelectorAll('.panel:not([hidden]) canvas.map').length") == 1
        assert opened.page.locator("h1").text_content() == "cart_double_pendulum"
        assert opened.page.locator(".slider").count() == 6
    assert min(seconds) < READY_WITHIN, seconds


def test_every_slider_cuts_the_slice_that_python_computes(random_table, show):
    with show(random_table.path) as opened:
        opened.choose("layer", "Value")
        opened.page.uncheck("#contours")
        for number, axis in enumerate(random_table.axis_names[2:]):
            slider = opened.slider(axis)
            last = int(slider.get_attribute("max"))
            before = opened.evaluate("() => document.getElementById('map').toDataURL()")
            for position in (0, last // 3, last if number == 0 else last - 7):
                opened.set(slider, position)
                state, panel, wanted = check_values(opened, random_table, "Value")
                i = number + 2
                low, high = random_table.grid.lower[i], random_table.grid.upper[i]
                assert state["point"][i] == pytest.approx(low + (high - low) * position / last, abs=1e-9)
                check_pixels(opened, random_table, state, panel, wanted, wanted.min(), wanted.max(), every=20)
            assert opened.evaluate("() => document.getElementById('map').toDataURL()") != before, axis
        before = opened.evaluate("() => document.getElementById('map').toDataURL()")
        marker = opened.page.locator("#marker").bounding_box()
        for axis in random_table.axis_names[:2]:
            opened.set(opened.slider(axis), 3)
        moved = opened.page.locator("#marker").bounding_box()
        assert marker["x"] > moved["x"] + 50 and moved["y"] > marker["y"] + 50  # the shown axes move the ring, not the slice
        assert opened.evaluate("() => document.getElementById('map').toDataURL()") == before
        opened.page.click("#reset")
        opened.settle()
        state, *_ = check_values(opened, random_table, "Value")
        np.testing.assert_allclose(state["point"], (np.add(random_table.grid.lower, random_table.grid.upper)) / 2, atol=1e-9)


def test_any_two_axes_and_every_layer(random_table, show):
    rng = np.random.default_rng(0)
    names = random_table.axis_names
    with show(random_table.path) as opened:
        opened.page.uncheck("#smooth")
        opened.settle()
        for name in ("Greedy action", "Value", "Action gap"):
            opened.choose("layer", name)
            x, y = (int(i) for i in rng.permutation(6)[:2])
            opened.choose("x", names[x])
            opened.choose("y", names[y])
            for i, axis in enumerate(names):  # ten steps from node to node, and never half way
                opened.set(
                    opened.slider(axis), int(10 * rng.integers(1, random_table.grid.points[i] - 1) + rng.integers(-4, 5))
                )
            state, panel, wanted = check_values(opened, random_table, name, smooth=False)
            assert (state["x"], state["y"]) == (x, y) and len(panel["xs"]) == random_table.grid.points[
                x
            ] + random_table.grid.periodic[x]
            low, high = {"Greedy action": (-10, 10), "Action gap": (0, wanted.max())}.get(name, (wanted.min(), wanted.max()))
            stops = expected.DIVERGING if name == "Greedy action" else expected.VALUES
            check_pixels(opened, random_table, state, panel, wanted, low, high, stops)
            opened.page.click("#swap")
            opened.settle()
            assert [opened.evaluate("() => HamqPage.state()")[i] for i in "xy"] == [y, x]
            check_values(opened, random_table, name, smooth=False)
        opened.choose("x", names[2])
        opened.choose("y", names[2])  # the same axis twice: they change places
        state = opened.evaluate("() => HamqPage.state()")
        assert state["y"] == 2 and state["x"] != 2


def test_two_runs_stand_side_by_side_with_their_difference(pair, show, screenshots):
    early, exact = pair.runs["early"], pair.runs["exact"]
    with show(pair.path) as opened:
        for name in ("Value", "Greedy action"):
            opened.choose("layer", name)
            state, panels = shown_slices(opened)
            assert [panel["run"] for panel in panels] == ["early", "exact", "early − exact"]
            tables = [expected.layer(run, name) for run in (early, exact)]
            smooth = name == "Value"
            given = (pair.grid, (state["x"], state["y"]), state["point"], panels[0]["xs"], panels[0]["ys"], smooth)
            first, second = (expected.slice_of(table, *given) for table in tables)
            difference = first - second
            for panel, wanted in zip(panels, (first, second, difference), strict=True):
                found = np.reshape(panel["values"], wanted.shape)
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(first).max())
            assert np.abs(difference).max() > 0.1
        size = np.abs(difference).max()
        check_pixels(opened, pair, state, panels[2], difference, -size, size, expected.DIVERGING, panel_number=2)
        opened.choose("layer", "Error of the value")
        state, (error, *others) = shown_slices(opened)
        table = expected.layer(early, "Error of the value", exact)
        axes = (state["x"], state["y"])
        wanted = expected.slice_of(table, pair.grid, axes, state["point"], error["xs"], error["ys"], smooth=True)
        np.testing.assert_allclose(np.reshape(error["values"], wanted.shape), wanted, atol=1e-4 * np.abs(table).max())
        assert others == []  # the exact run has no error of its own
        opened.page.screenshot(path=screenshots / "error.png")
        opened.choose("layer", "Value")
        opened.page.screenshot(path=screenshots / "pair.png", full_page=True)
        opened.choose("other", "no other")
        assert len(shown_slices(opened)[1]) == 1


def test_health_of_every_state_and_a_band_over_seeds(seeds, show, screenshots):
    with show(seeds.path) as opened:
        opened.page.uncheck("#smooth")
        for name in expected.HEALTH:
            opened.choose("layer", name)
            _, _, wanted = check_values(opened, seeds, name, smooth=False)
            assert name == "Stuck chains" or np.ptp(wanted) > 0
        assert opened.page.locator("polygon.band").count() >= 1
        assert all(len(line.split()) > 20 for line in opened.page.locator("polygon.band").first.evaluate_all(POINTS_OF))
        opened.page.screenshot(path=screenshots / "report_seeds.png", full_page=True)


POINTS_OF = "(bands) => bands.map((band) => band.getAttribute('points'))"


def test_certified_bounds_have_a_card_and_their_maps(certified, show, screenshots):
    kept = certified.run.certificate
    with show(certified.path) as opened:
        card = opened.page.locator(".card", has=opened.page.locator("h2", has_text="Certificate"))
        assert card.locator(".lead").text_content() == kept.sentence
        assert card.locator("dd").first.text_content() == f"|Q − Q*| ≤ {rounded_up(kept.error)} in all pairs"
        opened.page.uncheck("#smooth")
        for name in ("Error bound", "Loss bound"):
            opened.choose("layer", name)
            state, panel, wanted = check_values(opened, certified, name, smooth=False)
            check_pixels(opened, certified, state, panel, wanted, 0, wanted.max())
            assert "0.95 confidence" in opened.page.locator("#about").text_content()
        opened.page.screenshot(path=screenshots / "certified.png", full_page=True)


def test_the_keyboard_moves_the_ring_and_the_pointer_reads(pair, show):
    with show(pair.path) as opened:
        opened.choose("layer", "Value")
        before = opened.evaluate("() => HamqPage.state()")["point"]
        opened.page.locator("#map").focus()
        for key in ("ArrowRight", "ArrowRight", "ArrowUp"):
            opened.page.keyboard.press(key)
        after = opened.evaluate("() => HamqPage.state()")["point"]
        assert after[0] > before[0] and after[1] > before[1]
        opened.page.locator("#map").click(position={"x": 120, "y": 60})
        state = opened.evaluate("() => HamqPage.state()")
        read = float(opened.page.locator("#value").text_content().replace("−", "-"))
        table, (x, y) = expected.layer(pair.run, "Value"), state["point"]
        assert read == pytest.approx(expected.slice_of(table, pair.grid, (0, 1), [x, y], [x], [y], True).item(), rel=1e-3)
        tabbed = []
        opened.page.locator("#theme").focus()
        for _ in range(6):
            opened.page.keyboard.press("Tab")
            tabbed.append(opened.evaluate("() => document.activeElement.id"))
        assert tabbed == ["layer", "run", "other", "x", "swap", "y"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_has_no_overflow_and_both_schemes_are_drawn(six, pair, hostile, show, screenshots, scheme):
    for posed in (six, pair, hostile):
        with show(posed.path, PHONE, color_scheme=scheme) as opened:
            width = opened.evaluate("() => document.documentElement.scrollWidth")
            assert width <= PHONE[0], posed.path.name
            boxes = opened.evaluate(
                "() => [...document.querySelectorAll('.card')].map((c) => c.getBoundingClientRect().right)"
            )
            assert max(boxes) <= PHONE[0]
            opened.page.screenshot(path=screenshots / f"phone_{posed.path.stem}_{scheme}.png", full_page=True)
            paper, ink = (brightness(opened, name) for name in ("background-color", "color"))
            assert (paper < 60 and ink > 180) if scheme == "dark" else (paper > 200 and ink < 80)
            opened.page.click("#theme")
            opened.settle()
            assert (brightness(opened, "background-color") < 60) == (scheme == "light")


def brightness(opened, name: str) -> float:
    colour = opened.evaluate("(name) => getComputedStyle(document.body).getPropertyValue(name)", name)
    return float(np.mean([float(part) for part in colour.partition("(")[2].rstrip(")").split(",")[:3]]))


def test_hostile_names_stay_text(hostile, show, screenshots):
    with show(hostile.path) as opened:
        assert opened.page.locator("h1").text_content() == HOSTILE
        assert opened.page.title().split() == HOSTILE.split()
        options = opened.page.locator("#x option").all_text_contents()
        assert options == [f"{HOSTILE}{i}" for i in range(3)]
        for name in opened.page.locator("#layer option").all_text_contents():
            opened.choose("layer", name)
        opened.page.click("#play")
        opened.page.wait_for_timeout(400)
        assert opened.evaluate("() => window.hurt") is None
        assert opened.evaluate("() => document.querySelectorAll('img, iframe, object, embed, link, a').length") == 0
        ids = opened.evaluate("() => [...document.scripts].map((script) => script.id)")
        assert len(ids) == len(set(ids)) and len(ids) <= 7
        opened.page.screenshot(path=screenshots / "hostile.png", full_page=True)


def test_nothing_is_asked_of_a_network_even_while_everything_is_used(six, show):
    """`opened` checks the requests at its end; here every control has been touched before."""
    with show(six.path) as opened:
        for name in ("layer", "x", "y", "speed"):
            for label in opened.page.locator(f"#{name} option").all_text_contents():
                opened.choose(name, label)
        for kind in ("input[type=checkbox]", "button"):
            for control in opened.page.locator(kind).all():
                if control.is_visible():  # some choices take others away
                    control.click()
                    opened.settle()
        opened.page.wait_for_timeout(300)
        assert opened.evaluate("() => performance.getEntriesByType('resource').length") == 0


def test_the_pictures_for_the_docs(six, show, screenshots):
    """`HAMQ_SCREENSHOTS=docs/images python -m pytest tests/browser -k pictures_for_the_docs` makes them again."""
    looks = {"report": ((1060, 700), "light"), "report_dark": (PHONE, "dark")}
    for name, (size, scheme) in looks.items():
        with show(six.path, size, color_scheme=scheme) as opened:
            opened.choose("layer", "Value")
            opened.choose("x", six.axis_names[2])
            opened.choose("y", six.axis_names[4])
            opened.set(opened.page.locator("#scrub"), 12)
            player = opened.page.locator("#animation").bounding_box()
            part = {"x": 0, "y": 0, "width": size[0], "height": player["y"] + player["height"] + 16}
            opened.page.screenshot(path=screenshots / f"{name}.png", full_page=True, clip=part)
        assert 10_000 < (screenshots / f"{name}.png").stat().st_size < 300_000
