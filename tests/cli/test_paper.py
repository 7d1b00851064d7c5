"""`hamq paper`: what it lists, refuses, makes, and does not make again."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hamq.cli.commands.paper import FIGURES
from hamq.paper import page, plan
from hamq.paper.plan import Scale

TINY = Scale(2, 2, 1, 2, 1, 50, 50, True)
RECORDS = Path(__file__).parents[2] / "docs" / "paper" / "records"


def test_list(hamq):
    listed = hamq("paper", "list")
    assert listed.code == 0 and all(name in listed.out for name in FIGURES)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "hamq paper needs a FIGURE; hamq paper list shows"),
        (("fig9",), r"there is no figure 'fig9' among fig1, .*; did you mean fig\d\?"),
        (("fig2", "--seeds", "0"), "--seeds must be at least 1, got 0"),
        (("fig2", "--seed", "3"), r"no option --seed; did you mean --seeds\?"),
    ],
)
def test_refusals(hamq, words, said):
    refused = hamq("paper", *words)
    assert refused.code == 2 and re.search(said, refused.err)


def test_studies_are_made_once(hamq, tmp_path, monkeypatch):
    made = hamq("paper", "low_rank", "--quick", "--out", "study")
    assert made.code == 0 and "1 of 1 runs are to be made" in made.err and "run 1/1: low_rank" in made.err
    folder = tmp_path / "study"
    assert {"low_rank.png", "low_rank.svg", "results.md", "records"} == {path.name for path in folder.iterdir()}
    assert "does not hold" in made.out or "holds" in made.out
    again = hamq("paper", "low_rank", "--quick", "--out", "study")
    assert again.code == 0 and "all 1 runs have their records" in again.err
    assert not list(folder.rglob("*.lock"))
    other = hamq("paper", "low_rank", "--out", "study")
    assert other.code == 2 and "another scale" in other.err and "--out" in other.err


def test_pictures_from_the_records_of_the_repository(hamq, tmp_path, monkeypatch):
    """Records are enough: nothing is run again, and a page with marks gets its parts."""
    monkeypatch.setattr(plan.FIGURES["fig3"], "VARIANTS", ("ours",))  # one picture of three that are drawn alike
    monkeypatch.setattr(page, "DOTS", 50)
    shutil.copytree(RECORDS, tmp_path / "copy" / "records")
    (tmp_path / "page.md").write_text("<!-- made by `hamq paper`: fig3 -->\n<!-- end -->\n")
    drawn = hamq("paper", "fig3", "--out", "copy", "--page", "page.md")
    assert drawn.code == 0 and "runs have their records" in drawn.err
    assert "![fig3-ours](copy/fig3-ours.png)" in (tmp_path / "page.md").read_text()
    assert (tmp_path / "copy" / "fig3-ours.svg").exists()


def test_damaged_records_are_named(hamq, tmp_path):
    folder = tmp_path / "study" / "records"
    (folder / "pendulum").mkdir(parents=True)
    (folder / "pendulum" / "ours-hmc-0.json").write_text("{")
    (folder / "low_rank.json").write_text('{"tasks": {"pendulum": {}}}')
    refused = hamq("paper", "low_rank", "--quick", "--out", "study")
    assert refused.code == 2 and "ours-hmc-0.json cannot be read" in refused.err and "measured again" in refused.err


KINDS = (
    ("literal", "hmc"),
    ("corrected", "exhaustive"),
    ("corrected", "hmc"),
    ("corrected", "dqn-hmc"),
    ("ours", "hmc-1M"),
    ("ours", "ddpg-exhaustive"),
)


@pytest.mark.slow
def test_every_kind_of_run_is_made(hamq, tmp_path, monkeypatch):
    """One group of each kind at the smallest scale, in this process: others would not see what is patched."""
    monkeypatch.setattr(plan, "QUICK", TINY)
    groups = [group for group in plan.FIGURES["fig4"].GROUPS if group.task == "pendulum" and group[1:] in KINDS]
    assert len(groups) == len(KINDS)
    monkeypatch.setattr(plan.FIGURES["fig4"], "GROUPS", tuple(groups))
    made = hamq("paper", "fig4", "--quick", "--out", "study", "--processes", 1)
    assert made.code == 0, made.err
    names = {path.name for path in (tmp_path / "study" / "records" / "pendulum").iterdir()}
    assert names == {f"{g.variant}-{g.method}-{seed}.json" for g in groups for seed in range(2)}
    drawn = {path.name for path in (tmp_path / "study").iterdir()}
    assert {f"fig4-{variant}.png" for variant in ("literal", "corrected", "ours")} <= drawn
    assert "min left" in made.err and "run 1/10: pendulum" in made.err


@pytest.mark.slow
def test_processes_share_the_work(hamq, tmp_path):
    """Two processes, one plan: every record once, nothing locked at the end."""
    shutil.copytree(RECORDS, tmp_path / "copy" / "records")
    for seed in range(10):
        (tmp_path / "copy" / "records" / "pendulum" / f"corrected-exhaustive-{seed}.json").unlink()
    made = hamq("paper", "fig3", "--out", "copy", "--processes", 2)
    assert made.code == 0 and "10 of" in made.err and "by 2 processes" in made.err
    found = list((tmp_path / "copy" / "records" / "pendulum").glob("corrected-exhaustive-*.json"))
    assert len(found) == 10 and not list((tmp_path / "copy").rglob("*.lock"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--out", "afile"), r"--out: afile/records cannot be made .*; choose another folder"),
        (("--page", "nothere.md"), "--page: there is no file nothere.md"),
        (("--processes", "0"), "--processes must be at least 1, got 0"),
    ],
)
def test_what_cannot_work_is_said_first(hamq, tmp_path, words, said):
    (tmp_path / "afile").write_text("")
    refused = hamq("paper", "low_rank", "--quick", *words)
    assert refused.code == 2 and re.search(said, refused.err) and "run 1/1" not in refused.err


def test_missing_extras_are_named(tmp_path):
    """In a process of its own, where matplotlib cannot be imported."""
    code = "import sys; sys.modules['matplotlib'] = None; from hamq.cli import main; sys.exit(main(['paper', 'low_rank']))"
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    refused = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert refused.returncode == 2 and "pip install 'hamq[plot]'" in refused.stderr and "Traceback" not in refused.stderr


@pytest.mark.parametrize(("name", "text"), [("low_rank", '{"a": 1}'), ("rates", "[]"), ("scale", "[1]")])
def test_damaged_studies_are_named(hamq, tmp_path, name, text):
    folder = tmp_path / "study" / "records"
    folder.mkdir(parents=True)
    (folder / f"{name}.json").write_text(text)
    refused = hamq("paper", "low_rank", "--quick", "--out", "study")
    assert refused.code == 2 and f"{name}.json" in refused.err
