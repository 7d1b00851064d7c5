"""The four examples: one screen each, and each runs within a minute and prints what it is there for."""

import os
import re
import resource
import runpy
import subprocess
import sys

import pytest

import hamq
from tests.pages import ROOT

EXAMPLES = ROOT / "examples"
LINES, SECONDS = 45, 60
"""A screen, and a minute."""
SAYS = {
    "cartpole": r"default +0\.\d\d% .*\n(?s:.*)paper +\d\d\.\d\d% ",
    "unnormalized": r"sampled +error of Q .*\nwithout repulsion +error of Q ",
    "thousand_actions": r"of 1000 actions are tried and continued by polynomials(?s:.*)error of Q 0\.\d",
    "gymnasium_policy": r"lookahead",
}
"""What its output must have."""


@pytest.mark.parametrize("name", SAYS)
def test_example_fits_on_a_screen(name):
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LINES
    assert f"python examples/{name}.py" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", SAYS)
def test_example_runs(name, tmp_path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=5 * SECONDS)
    assert done.returncode == 0, done.stderr[-2000:]
    assert re.search(SAYS[name], done.stdout), done.stdout
    assert list(tmp_path.iterdir()) == []  # nothing is left behind
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent <= 2 * SECONDS, f"{spent:.0f} s of two cores, where a minute is promised"


@pytest.mark.slow
def test_the_demonstration_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    demo = runpy.run_path(str(EXAMPLES / "demo.py"))
    demo["demonstrate"]("cartpole --points 3 --num-actions 3", 2)
    assert {path.name for path in tmp_path.iterdir()} == {"exact", "default", "literal"}
    assert re.search(r"literal +\S+ +\S+", capsys.readouterr().out)


@pytest.mark.slow
def test_the_picture_of_the_readme_is_drawn(tmp_path, capsys):
    drawn = runpy.run_path(str(EXAMPLES / "policy_map.py"))
    drawn["main"](str(tmp_path / "map.png"), hamq.problems.pendulum(points=5, num_actions=3), 2)
    assert (tmp_path / "map.png").stat().st_size > 5000
    assert "literal: " in capsys.readouterr().out


def test_every_example_is_checked():
    others = {"demo", "policy_map"}  # `make demo`, and the picture of README: above
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SAYS) | others
