"""solve → show → compare on problems of a few states."""

import json
import os
import re
import signal
import sys
import time

import numpy as np
import pytest

from hamq.cli.terminal import policy_map, sparkline
from hamq.learning import host, q_iteration
from hamq.learning.record import finite_or_stop
from hamq.runs import progress as progress_module
from hamq.runs.progress import Progress
from hamq.runs.reading import read_run
from tests.cli.posed import PENDULUM, RESTLESS, TINY, contents, history, table
from tests.cli.test_refusals import MINE

QUICK = ("--sampler", "exhaustive", "--completion", "none")


def test_round_trip(hamq, tmp_path):
    solved = hamq(*TINY, "--iterations", 300, "--exact", "--out", "run")
    assert solved.code == 0
    assert (
        re.search(r"pendulum: .* after 300 iterations", solved.out)
        and "Against the exact answer: relative error" in solved.out
    )
    assert re.search(r"iteration 1/300, distance to Q\* \d", solved.err)
    exact = hamq("exact", *PENDULUM, "--out", "best")
    assert exact.code == 0 and re.search(r"pendulum: certified to .*\nV\* lies between", exact.out)

    shown = hamq("show", "run").out
    for part in (
        "pendulum(preset=paper, points=3",
        "Exhaustive(tolerance=0.0001)",
        "distance",
        "▁",
        "resumed",
        "jax",
        "Greedy action",
    ):
        assert part in shown, part
    assert "certified" in hamq("show", "best").out and "resumed" not in hamq("show", "best").out

    compared = hamq("compare", "run", "best")
    assert compared.code == 0 and "solving" not in compared.err  # the exact run is among them
    for part in (
        r"\n run +\S+ +\S+ +\S+ +100% ",
        r"best +0 .* 100% ",
        "best constant action",
        "greedy on the random policy's Q",
        "Between the runs",
    ):
        assert re.search(part, compared.out), part
    alone = hamq("compare", "run", "--json")
    assert "solving pendulum exactly" in alone.err
    assert alone.json["runs"]["run"]["frobenius"] == pytest.approx(read_run(tmp_path / "run").history.distance[-1], rel=1e-3)


def test_json_is_one_object_without_nan(hamq):
    solved = hamq(*TINY, "--out", "run", "--json")
    assert len(solved.out.splitlines()) == 1
    found = json.loads(solved.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert (found["iterations"], found["distance"], found["out"], found["problem"]) == (5, None, "run", "pendulum")
    assert hamq("exact", *PENDULUM, "--json").json["converged"] is True
    shown = hamq("show", "run", "--json").json
    assert shown["can_resume"] and shown["finished"] and len(shown["history"]["change"]) == 5
    assert list(hamq("compare", "run", "--json").json["runs"]) == ["run"]


def test_every_option_reaches_solve(hamq):
    """The config of the run is what solve was called with."""
    words = "--sampler hmc --num-samples 6 --num-leapfrog 2 --sampler-step-size 0.3 --walls reflect --num-warmup 1"
    words += " --num-chains 2 --completion nuclear_norm --completion-tolerance 0.01 --completion-max-iterations 20"
    words += " --unidentified zero"
    words += (
        " --selection bernoulli --fraction 0.7 --complete table --draws fresh --no-coupled --step-size 0.5 --step-decay 9"
    )
    words += (
        " --initial uniform:2 --iterations 2 --seed 4 --noise 2 --law linear --set periodic=[True,False] --tolerance 1e9"
    )
    # In two iterations not every pair has had its turn: no tolerance is met, however loose.
    assert hamq("solve", *PENDULUM, *words.split(), "--out", "run").code == 1
    config = read_run("run").config
    hmc = {"kind": "HMC", "num_samples": 6, "num_leapfrog": 2, "step_size": 0.3, "walls": "reflect", "sharpness": 80.0}
    assert config["sampler"] == hmc | {"num_warmup": 1, "num_chains": 2, "calibrate": None, "dispersed": False}
    completion = {"kind": "NuclearNorm", "tolerance": 0.01, "max_iterations": 20, "unidentified": "zero"}
    assert config["completion"] == completion
    expected = {"selection": "bernoulli", "fraction": 0.7, "complete": "table", "draws": "fresh", "coupled": False}
    expected |= {"step_size": 0.5, "step_decay": 9.0, "initial": "uniform:2", "iterations": 2, "seed": 4, "tolerance": 1e9}
    assert {name: config[name] for name in expected} == expected
    options = {"points": 3, "num_actions": 3, "noise": 2.0, "law": "linear", "periodic": [True, False]}
    assert options.items() <= config["problem"]["options"].items()


def test_literal_is_the_paper_but_for_what_is_given(hamq):
    words = ("--literal", "--num-samples", 2, "--num-leapfrog", 3, "--iterations", 2, "--coupled")
    assert hamq("solve", *PENDULUM, *words, "--out", "run").code == 0
    config = read_run("run").config
    assert config["completion"] == {"kind": "NuclearNorm", "tolerance": 1e-7, "max_iterations": 5000, "unidentified": "zero"}
    given = (config["sampler"]["num_samples"], config["sampler"]["num_leapfrog"], config["iterations"], config["coupled"])
    assert given == (2, 3, 2, True)
    kept = (
        config["sampler"]["walls"],
        config["sampler"]["step_size"],
        config["draws"],
        config["selection"],
        config["initial"],
    )
    assert kept == ("sigmoid", 0.02, "fresh", "bernoulli", "uniform:1")


def test_draws_that_are_not_numbered_are_bought_by_the_budget(hamq, monkeypatch):
    seen = []
    monkeypatch.setattr(q_iteration, "solve", lambda problem, **arguments: seen.append(arguments) or 1 / 0)
    for words in ((), ("--num-leapfrog", 4), ("--num-samples", 7), ("--num-leapfrog", 4, "--max-gradients", 99)):
        with pytest.raises(ZeroDivisionError):
            hamq("solve", *PENDULUM, *words)
    assert [arguments["max_gradients"] for arguments in seen] == [None, 4_000_000, None, 99]
    assert [arguments["sampler"] and arguments["sampler"].num_samples for arguments in seen] == [None, 100, 7, 100]


@pytest.mark.parametrize("name", ["mine.py:make", "mine:make"])
def test_own_problem(hamq, tmp_path, monkeypatch, name):
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    solved = hamq(
        "solve", name, *QUICK, "--set", "points=7", "--set", "centre=0.5", "--iterations", 3, "--out", "run", "--json"
    )
    assert solved.code == 0 and solved.json["grid"]["points"] == [7]
    assert hamq("compare", "run", "--json").code == 0


def test_a_missed_tolerance_exits_with_1(hamq):
    assert hamq(*TINY, "--tolerance", 1e-9, "--json").code == 1
    assert hamq(*TINY, "--tolerance", 1e9, "--json").code == 0
    assert hamq("exact", *PENDULUM, "--max-sweeps", 1).code == 1


@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
def test_a_value_that_is_not_finite_exits_with_1(hamq, tmp_path, monkeypatch):
    stopped = hamq(*TINY, "--initial", 1e300, "--out", "run")
    assert stopped.code == 1 and re.search(r"hamq: iteration 1: Q is inf at state 0 .*, action 0", stopped.err)
    assert stopped.out == "" and list(tmp_path.iterdir()) == []

    def spoil(problem, q, iteration):
        finite_or_stop(problem, q if iteration < 3 else q * np.nan, iteration)

    monkeypatch.setattr(host, "finite_or_stop", spoil)
    stopped = hamq(*TINY, "--draws", "fresh", "--out", "run")  # on the host, where it can be spoilt
    assert stopped.code == 1 and "iteration 4: Q is nan" in stopped.err
    assert "Not finished: 3 iterations are saved" in hamq("show", "run").out  # the last good table


def test_warnings_are_plain_lines(hamq, tmp_path):
    (tmp_path / "mine.py").write_text(MINE.replace("[0.1])", "[100.0])"))
    warned = hamq("exact", "mine.py:make")
    assert warned.code == 0
    assert [line for line in warned.err.splitlines() if line.startswith("warning: ")]
    assert "HamqWarning" not in warned.err and ".py:" not in warned.err.replace("mine.py:make", "")


def test_overwrite_replaces(hamq, tmp_path):
    hamq(*TINY, "--out", "run")
    before = table(tmp_path / "run")
    assert hamq(*TINY, "--discount", 0.5, "--out", "run", "--overwrite").code == 0
    assert table(tmp_path / "run") != before
    assert hamq("exact", *PENDULUM, "--out", "run", "--overwrite").code == 0
    assert read_run("run").config["command"] == "exact"


def test_resume_equals_uninterrupted(hamq, tmp_path):
    hamq(*RESTLESS, "--iterations", 12, "--out", "whole")
    hamq(*RESTLESS, "--iterations", 5, "--out", "parts")
    resumed = hamq(*RESTLESS, "--iterations", 12, "--out", "parts", "--resume")
    assert resumed.code == 0 and "continued from iteration 5" in resumed.err and "iteration 6/12" in resumed.err
    assert table(tmp_path / "parts") == table(tmp_path / "whole")
    assert history(tmp_path / "parts") == history(tmp_path / "whole")
    other = hamq(*RESTLESS, "--seed", 4, "--iterations", 12, "--out", "other")
    assert other.code == 0 and table(tmp_path / "other") != table(tmp_path / "whole")


def test_a_finished_run_is_not_run_again(hamq, tmp_path):
    hamq(*TINY, "--out", "run")
    before = contents(tmp_path / "run")
    again = hamq(*TINY, "--out", "run", "--resume", "--json")
    assert again.code == 0 and "finished already" in again.err and again.json["iterations"] == 5
    assert contents(tmp_path / "run") == before


def interrupt(monkeypatch, at: dict[int, list[signal.Signals]]) -> None:
    """Signals to this process, as iterations are shown."""
    shown = Progress.iteration

    def iteration(self, iterate):
        shown(self, iterate)
        for number in at.get(iterate.iteration, []):
            os.kill(os.getpid(), number)

    monkeypatch.setattr(Progress, "iteration", iteration)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_and_resumed(hamq, tmp_path, monkeypatch, number):
    hamq(*RESTLESS, "--iterations", 8, "--out", "whole")
    with monkeypatch.context() as patch:
        interrupt(patch, {3: [number]})
        stopped = hamq(*RESTLESS, "--iterations", 8, "--out", "a run")
    assert stopped.code == 130 and stopped.out == ""
    assert re.search(
        r"interrupted: 3 iterations are saved; continue with\n  hamq solve pendulum .* --out 'a run' --resume$", stopped.err
    )
    assert "Not finished: 3 iterations are saved" in hamq("show", "a run").out
    assert "a run is not finished: it has 3 iterations" in hamq("compare", "a run").err
    assert hamq(*RESTLESS, "--iterations", 8, "--out", "a run", "--resume").code == 0
    assert table(tmp_path / "a run") == table(tmp_path / "whole")
    assert history(tmp_path / "a run") == history(tmp_path / "whole")


def test_a_second_interrupt_does_not_wait(hamq, tmp_path, monkeypatch):
    interrupt(monkeypatch, {3: [signal.SIGINT, signal.SIGINT]})
    stopped = hamq(*TINY, "--out", "run", "--checkpoint-every", 2)
    assert stopped.code == 130 and "2 iterations are saved" in stopped.err
    assert "nothing was saved, because no --out was given" in hamq(*TINY).err


def test_interrupted_before_the_first_iteration(hamq, tmp_path, monkeypatch):
    before = signal.getsignal(signal.SIGINT)  # a shell ignores the signal in what it runs in the background
    monkeypatch.setattr(q_iteration, "solve", lambda *_, **__: os.kill(os.getpid(), signal.SIGINT))
    stopped = hamq(*TINY, "--out", "run")
    assert stopped.code == 130 and "nothing was saved; run is what it was" in stopped.err
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGINT) is before


def test_plain_lines_come_at_once_and_then_once_a_second(hamq, monkeypatch):
    now = iter(range(10**6))
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: next(now) / 10)  # 0.1 s for every look at the clock
    lines = [line for line in hamq(*TINY, "--iterations", 50).err.splitlines() if "iteration" in line]
    assert lines[0].startswith("hamq: iteration 1/50, change ") and lines[-1].startswith("hamq: iteration 50/50, change ")
    assert 3 <= len(lines) <= 30
    assert re.search(r"change \d\.\d\de[+-]\d\d, [\d.,]+/s, \d+ s left$", lines[1])


def test_sparkline_and_policy_map():
    assert sparkline([1.0, 10.0, 100.0]) == "▁▅█"
    assert sparkline([0.0, 7.0]) == "▁█" and sparkline([2.0, 2.0]) == "▁▁" and len(sparkline(np.arange(1.0, 1000))) == 40
    q = np.eye(3)[[0, 1, 2, 2, 1, 0]]
    lines = [line.plain.split() for line in policy_map(q, [2, 3])][1:]
    assert lines == [["0", "1", "2"], ["2", "1", "0"]]
    assert policy_map(q, [6]) is None
    middle = policy_map(np.eye(3)[[0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]], [2, 2, 3])
    assert [line.plain.split() for line in middle][1:] == [["1", "1"], ["1", "1"]]


def test_a_line_comes_in_time_where_nobody_tells(capsys, monkeypatch):
    """The first after 1.5 s and then every 4 s at most, here a hundred times as fast; none after the end."""
    monkeypatch.setattr(progress_module, "SECONDS_OF_SILENCE", (0.015, 0.04))
    with Progress(beats=True) as progress:
        time.sleep(0.3)
        progress.draws("integrating the density", 1, 10)
        time.sleep(0.3)
    said = capsys.readouterr().err
    assert len(re.findall(r"preparing, \d+ s so far", said)) >= 2
    assert len(re.findall(r"integrating the density, \d+ s so far", said)) >= 2
    time.sleep(0.2)
    assert capsys.readouterr().err == ""


def test_what_is_told_needs_no_other_line(capsys, monkeypatch):
    monkeypatch.setattr(progress_module, "SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(progress_module, "SECONDS_OF_SILENCE", (30.0, 40.0))
    with Progress(beats=True) as progress:
        for done in range(1, 6):
            progress.draws("integrating the density", done, 5)
    assert "so far" not in capsys.readouterr().err
