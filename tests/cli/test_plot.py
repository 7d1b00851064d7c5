"""`hamq plot`: which runs make which picture, and what is left alone."""

import matplotlib.image
import numpy as np
import pytest

import hamq as library
from tests.cli.posed import PENDULUM, TINY

LINEAR = ("pendulum", "--points", "3", "--num-actions", "3", "--law", "linear")


@pytest.fixture
def drawn(monkeypatch):
    """What the command asks to be drawn."""
    asked = []

    def plot(*solutions, **named):
        asked.append((solutions, named))
        return original(*solutions, **named)

    original = library.plot
    monkeypatch.setattr(library, "plot", plot)
    return asked


def test_runs_side_by_side(hamq, tmp_path, drawn):
    assert hamq(*TINY, "--out", "run").code == 0 and hamq("exact", *PENDULUM, "--out", "best").code == 0
    alone = hamq("plot", "run")
    assert alone.code == 0 and alone.out == "run/plot.png: run.\n"
    assert hamq("show", "run").code == 0  # the picture is no part of the run
    pixels = matplotlib.image.imread(tmp_path / "run" / "plot.png")
    assert pixels.shape[1] > 700 and np.ptp(pixels) == 1
    both = hamq("plot", "run", "best", "-o", "both.PDF", "--axes", "1,0", "--at=-0.5,0", "--json")
    assert both.json == {"runs": ["best", "run"], "picture": "both.PDF", "axes": [1, 0], "at": [-0.5, 0.0]}
    assert (tmp_path / "both.PDF").read_bytes().startswith(b"%PDF")
    (first, second), named = drawn[-1]
    assert first.error is not None and second.error is None  # the exact answer is the reference
    assert named == {"titles": ["best", "run"], "axes": (1, 0), "at": [-0.5, 0.0]}


@pytest.mark.slow
def test_a_train_beside_the_exact_answer(hamq, drawn):
    assert hamq("exact", *LINEAR, "--out", "best").code == 0
    words = ("--rank", "2", "--max-rank", "2", "--iterations", "2", "--sampler", "exhaustive", "--out", "train")
    assert hamq("solve-tensor", *LINEAR, *words).code == 0
    assert hamq("plot", "train", "best", "-o", "both.svg").out == "both.svg: best, train, against best.\n"
    assert [type(solution).__name__ for solution in drawn[-1][0]] == ["Solution", "TensorSolution"]


def test_what_is_not_ours_is_left_alone(hamq, tmp_path):
    assert hamq(*TINY, "--out", "run").code == 0
    (tmp_path / "mine.png").write_bytes(b"\x89PNG my own")
    refused = hamq("plot", "run", "-o", "mine.png")
    assert refused.code == 2 and "mine.png is there already, and not a picture of hamq plot" in refused.err
    assert (tmp_path / "mine.png").read_bytes() == b"\x89PNG my own"
    for name in ("a.png", "a.svg"):
        assert hamq("plot", "run", "-o", name).code == 0
        before = (tmp_path / name).read_bytes()
        assert hamq("plot", "run", "-o", name).code == 0  # ours, and of the same bytes
        assert (tmp_path / name).read_bytes() == before


REFUSALS = [
    (("-o", "map.jpg"), "a picture ends in one of .png, .pdf, .svg"),
    (("-o", "nowhere/map.png"), "there is no folder nowhere for the picture"),
    (("-o", "folder.png"), "folder.png is there already"),
    (("--axes", "0"), "--axes takes two axes, such as 0,1, got '0'"),
    (("--axes", "0,x"), "--axes takes whole numbers with commas between them, got '0,x'"),
    (("--axes", "0,2"), "axes must be two different ones of 0 to 1, got (0, 2)"),
    (("--at", "1,nan"), "--at takes finite numbers, got '1,nan'"),
    (("--at", "1"), "at must be a state of 2 coordinates"),
    (("--at", "-9,0"), "at must lie in the box, and on axis 0 it is -9"),
    (("other",), "other is of another problem than run"),
    (("missing",), "is not a run folder"),
]


def test_refusals(hamq, tmp_path):
    (tmp_path / "folder.png").mkdir()
    assert hamq(*TINY, "--out", "run").code == 0
    assert hamq("exact", "pendulum", "--points", "3", "--num-actions", "4", "--out", "other").code == 0
    for words, sentence in REFUSALS:
        refused = hamq("plot", "run", *words)
        assert refused.code == 2 and sentence in refused.err, words
        assert not (tmp_path / "run" / "plot.png").exists()
