"""The system's Chromium, and one page in it that is watched: what it asks for and what goes wrong."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DESKTOP, PHONE = (1440, 900), (390, 844)


def find_chromium() -> str:
    """Its path, from HAMQ_CHROMIUM or the PATH. A missing browser is a failure: a page that nobody opened is not tested."""
    wanted = os.environ.get("HAMQ_CHROMIUM")
    found = [path for name in ([wanted] if wanted else NAMES) if (path := shutil.which(name))]
    if not found:
        given = f"HAMQ_CHROMIUM={wanted} is no program" if wanted else f"none of {', '.join(NAMES)} is in the PATH"
        pytest.fail(
            f"the browser tests need Chromium, and {given}; install it (Debian: apt-get install -y chromium), or set "
            "HAMQ_CHROMIUM to the path of one.",
            pytrace=False,
        )
    return found[0]


class Opened:
    """A page, every address that it asked for, and every error that it had."""

    def __init__(self, page: Page, path: Path):
        self.page, self.path = page, path
        self.requests: list[str] = []
        self.errors: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)

    def load(self) -> None:
        self.page.goto(self.path.as_uri())
        self.page.wait_for_selector("html[data-ready=true]")

    def evaluate(self, script: str, given: Any = None) -> Any:
        return self.page.evaluate(script, given)

    def settle(self) -> None:
        """After the frame in which what was asked for is drawn."""
        self.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))")

    def slider(self, axis: str):
        """The slider of an axis, by the name that the page shows."""
        for row in self.page.locator(".slider").all():
            if row.locator(".name").text_content() == axis:
                return row.locator("input")
        raise AssertionError(f"no slider {axis!r}")

    def set(self, slider, value: int) -> None:
        """What a hand does: the value, then the event."""
        slider.evaluate("(input, value) => { input.value = value; input.dispatchEvent(new Event('input')); }", value)
        self.settle()

    def choose(self, name: str, label: str) -> None:
        self.page.select_option(f"#{name}", label=label)
        self.settle()

    def pixels(self, places: list[list[float]], panel: int = 0) -> list[list[int]]:
        """Colours of a map at shares [across, up] of its frame."""
        return self.evaluate(
            """([panel, places]) => {
              const canvas = document.querySelectorAll(".panel canvas.map")[panel];
              const [frame, ratio] = [Drawing.frameOf(canvas), devicePixelRatio];
              return places.map(([across, up]) => {
                const x = frame.left + across * frame.width, y = frame.top + (1 - up) * frame.height;
                const { data } = canvas.getContext("2d").getImageData(Math.floor(x * ratio), Math.floor(y * ratio), 1, 1);
                return Array.from(data.slice(0, 3));
              });
            }""",
            [panel, places],
        )


@contextmanager
def opened(browser: Browser, path: Path, size: tuple[int, int] = DESKTOP, **options: Any) -> Iterator[Opened]:
    """The page, ready; at the end it must have asked for nothing but itself, and had no error."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
    try:
        shown = Opened(context.new_page(), path)
        shown.page.set_default_timeout(10_000)
        shown.load()
        yield shown
        assert set(shown.requests) == {path.as_uri()}
        assert shown.errors == []
    finally:
        context.close()
