"""Chromium, and pages of real runs, each made once."""

import math
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, sync_playwright

from hamq.cli import main
from hamq.problem import zoo
from hamq.report.run_page import Shown, write_run_page
from hamq.runs.folder import RunFolder
from hamq.runs.reading import read_run
from hamq.solution import History, Solution
from tests.browser.chromium import FLAGS, find_chromium, opened
from tests.browser.posed import HOSTILE, HOSTILE_PROBLEM, Posed
from tests.runs.posed_certificates import certificate

POINTS = (5, 5, 7, 5, 7, 5)
SIX = ("cart_double_pendulum", "--points", "5,5,7,5,7,5", "--periodic", "--law", "linear", "--noise", "0.05")
PENDULUM = ("pendulum", "--points", "15,11", "--num-actions", "7", "--law", "linear", "--noise", "0.05")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def show(browser) -> Callable:
    """show(path, size, …) → an open page, see `opened`."""
    return lambda *given, **options: opened(browser, *given, **options)


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory) -> Path:
    """HAMQ_SCREENSHOTS, or a folder of this test run."""
    folder = Path(os.environ.get("HAMQ_SCREENSHOTS") or tmp_path_factory.mktemp("screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def hamq(*words: object) -> None:
    assert main([str(word) for word in words]) == 0, words


@pytest.fixture(scope="session")
def six(tmp_path_factory) -> Posed:
    """The 6-D problem, on a grid that is finer in the angles than the paper's 5⁶ × 10."""
    folder = tmp_path_factory.mktemp("six")
    hamq("exact", *SIX, "--tolerance", "0.1", "--out", folder / "six")
    hamq("report", folder / "six", "-o", folder / "six.html")
    return Posed(folder / "six.html", {"six": read_run(folder / "six")})


@pytest.fixture(scope="session")
def random_table(tmp_path_factory, six) -> Posed:
    """The same problem with random action values: V of the cart itself does not depend on where the cart is."""
    folder = tmp_path_factory.mktemp("random")
    q = np.random.default_rng(0).normal(size=(math.prod(POINTS), 10))
    problem = zoo.cart_double_pendulum(points=POINTS, law="linear", periodic=True)
    solution = Solution(problem, q, History(residual=[1.0, 0.5]), "drawn at random", False)
    with RunFolder.create(folder / "random", six.run.config, six.run.manifest.problem) as run:
        run.finish(solution, six.run.summary)
    made = read_run(folder / "random")
    write_run_page(folder / "random.html", [Shown("random", made)])
    return Posed(folder / "random.html", {"random": made})


@pytest.fixture(scope="session")
def pair(tmp_path_factory) -> Posed:
    """A run that was stopped early beside the exact answer."""
    folder = tmp_path_factory.mktemp("pair")
    early = ("--sampler", "exhaustive", "--completion", "none", "--iterations", "3")
    hamq("solve", *PENDULUM, *early, "--out", folder / "early")
    hamq("exact", *PENDULUM, "--tolerance", "0.01", "--out", folder / "exact")
    hamq("report", folder / "early", folder / "exact", "-o", folder / "pair.html")
    return Posed(folder / "pair.html", {name: read_run(folder / name) for name in ("early", "exact")})


@pytest.fixture(scope="session")
def certified(tmp_path_factory, pair) -> Posed:
    """The run that was stopped early, with bounds at random distances."""
    folder = tmp_path_factory.mktemp("certified") / "early"
    shutil.copytree(pair.run.path, folder)
    problem = zoo.pendulum(points=(15, 11), num_actions=7, law="linear", noise=0.05)
    assert pair.run.q is not None
    with RunFolder.open(folder) as run:
        run.save_certificate(certificate(problem, pair.run.q), pair.run.q)
    made = read_run(folder)
    write_run_page(folder / "certified.html", [Shown("early", made)])
    return Posed(folder / "certified.html", {"early": made})


@pytest.fixture(scope="session")
def seeds(tmp_path_factory) -> Posed:
    """Two runs with Hamiltonian draws that differ in their seed alone, and so few draws that states differ in health."""
    folder = tmp_path_factory.mktemp("seeds")
    few = ("--points", "7,5", "--num-actions", "3", "--max-gradients", "20000", "--iterations", "30")
    for seed in (0, 1):
        hamq("solve", "pendulum", *few, "--seed", seed, "--out", folder / f"seed{seed}")
    hamq("report", folder / "seed0", folder / "seed1", "-o", folder / "seeds.html")
    return Posed(folder / "seeds.html", {f"seed{seed}": read_run(folder / f"seed{seed}") for seed in (0, 1)})


@pytest.fixture(scope="session")
def hostile(tmp_path_factory) -> Posed:
    """Every name that a user can choose is an attack; there are terminal states, and no scene."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "mine.py").write_text(HOSTILE_PROBLEM, encoding="utf-8")
    name = HOSTILE.replace("/", "")
    hamq("exact", f"{folder / 'mine.py'}:make", "--out", folder / name)
    hamq("report", folder / name, "-o", folder / "hostile.html")
    return Posed(folder / "hostile.html", {name: read_run(folder / name)})
