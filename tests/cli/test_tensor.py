"""solve-tensor → show → report on a chain of one mass."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import hamq as library
from hamq.control import policy_train
from hamq.report import tensor_page, writing
from hamq.runs.progress import Progress
from hamq.runs.reading import read_run
from hamq.runs.storage import Lock
from tests.cli.posed import contents, history
from tests.cli.test_refusals import assert_refused

ROOT = Path(__file__).parents[2]
SPRING = (
    *("solve-tensor", "spring_chain", "--num-masses", 1, "--points", 5, "--num-actions", 3),
    *("--sampler", "iid", "--num-samples", 4),
)
QUICK = (*SPRING, "--rank", 3, "--iterations", 2)
# Sweeps, frozen points and a larger rank: whatever a resumed run forgets changes its bits.
GROWING = (*SPRING, "--seed", 3, "--rank", 2, "--max-rank", 3, "--tolerance", 1e-6)


def result(folder: Path) -> bytes:
    return (folder / "result.npz").read_bytes()


@pytest.fixture
def small_page(monkeypatch):
    """Pages whose policy is a train of rank 3, however far off: each rank compiles programs of its own."""
    monkeypatch.setattr(policy_train, "RANKS", (3,))
    monkeypatch.setattr(tensor_page, "MAX_ERROR", 10.0)


@pytest.fixture
def no_animation(monkeypatch):
    """Rollouts are compiled for each problem; test_round_trip has them."""
    monkeypatch.setattr(writing, "animated", lambda *_: ([], []))


def test_round_trip(hamq, tmp_path, small_page):
    solved = hamq(*QUICK, "--out", "run", "--report")
    assert solved.code == 0 and re.search(r"spring_chain: residual .* of V in the sampled problem at rank 3", solved.out)
    assert re.search(r"iteration 1/2, residual [\d.]+%, rank 3, [\d,]+ backups, \d+ s", solved.err)
    assert "The page is run/report.html" in solved.out and "no animated rollout" not in solved.out + solved.err
    assert '"rollouts"' in (tmp_path / "run" / "report.html").read_text()

    shown = hamq("show", "run").out
    for part in ("solve-tensor in run", "law=linear", "Ranks 3 between the axes", "reads", "residual", "V from 0 = ", "jax"):
        assert part in shown, part
    found = hamq("show", "run", "--json").json
    assert found["can_resume"] and found["finished"] and found["residual"] > 0
    assert found["summary"]["ranks"] == [3] and found["summary"]["reads"] == found["history"]["reads"][-1]

    # On a grid that can be listed, one backup of V is a table like others.
    compared = hamq("compare", "run", "--json").json["runs"]["run"]
    assert compared["sup"] > 0 and 0 <= compared["policy_loss"] < compared["constant_action_loss"]
    certified = hamq("certify", "run").out
    bound = float(re.search(r"\|Q − Q\*\| ≤ ([\d.]+) in all pairs", certified).group(1))
    assert bound >= compared["sup"] and "Not saved: run holds a tensor train" in certified


def test_json_is_one_object(hamq):
    solved = hamq(*QUICK, "--json")
    found = json.loads(solved.out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert (found["iterations"], found["out"], found["report"], found["problem"]) == (2, None, None, "spring_chain")
    assert found["grid"]["periodic"] == [False, False] and len(found["ranks"]) == 1


def test_every_option_reaches_the_solver(hamq, monkeypatch):
    from hamq.tensor import solve as solve_tensor

    seen = []

    def another(problem, *, callback, **arguments):
        """The solution of a problem that compiles quickly."""
        seen.append((problem, arguments))
        spring = library.problems.spring_chain(1, points=5, num_actions=3)
        given = {name: arguments[name] for name in ("rank", "iterations", "tolerance")}
        return library.solve_tensor(spring, sampler=library.IID(4), callback=callback, **given)

    monkeypatch.setattr(solve_tensor, "solve_tensor", another)
    words = "--seed 4 --sampler hmc --num-samples 6 --num-leapfrog 2 --sampler-step-size 0.3 --rank 2 --max-rank 5"
    words += " --iterations 1 --tolerance 1e9 --order 1,0 --num-starts 0 --points 5 --strength 1 --per-agent False"
    assert hamq("solve-tensor", "repelling_agents", *words.split(), "--out", "run").code == 0
    ((problem, arguments),) = seen
    assert (problem.name, problem.grid.points, problem.law) == ("repelling_agents", (5, 5), "linear")
    given = {"rank": 2, "max_rank": 5, "iterations": 1, "tolerance": 1e9, "order": [1, 0], "num_starts": 0, "key": 4}
    assert {name: arguments[name] for name in given} == given
    assert arguments["sampler"] == library.HMC(6, 2, 0.3)
    config = read_run("run").config
    expected = {"command": "solve-tensor", "seed": 4, "rank": 2, "max_rank": 5, "iterations": 1, "tolerance": 1e9}
    assert (expected | {"order": [1, 0], "num_starts": 0}).items() <= config.items()
    hmc = {"kind": "HMC", "num_samples": 6, "num_leapfrog": 2, "step_size": 0.3}
    assert hmc.items() <= config["sampler"].items()
    assert config["problem"]["options"]["law"] == "linear"  # the zoo's own is "cell"


@pytest.mark.parametrize(
    ("words", "kind", "num_samples"),
    [
        (("spring_chain", "--num-masses", 1), "IID", 32),
        (("spring_chain", "--num-masses", 1, "--sampler", "iid"), "IID", 32),
        (("repelling_agents",), "Importance", 256),
        (("pendulum",), "Exhaustive", 0),
    ],
)
def test_the_config_says_what_draws(hamq, monkeypatch, words, kind, num_samples):
    from hamq.tensor import solve as solve_tensor

    seen = []
    monkeypatch.setattr(
        solve_tensor, "solve_tensor", lambda problem, **arguments: seen.append((problem, arguments)) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        hamq("solve-tensor", *words, "--points", 5)
    problem, arguments = seen[0]
    assert problem.law == "linear" and type(arguments["sampler"]).__name__ == kind
    assert arguments["sampler"].num_samples == num_samples


def test_a_missed_tolerance_exits_with_1_if_it_was_asked_for(hamq):
    quick = (*QUICK[:-1], 1)
    assert hamq(*quick, "--json").json["converged"] is False
    assert hamq(*quick).code == 0
    assert hamq(*quick, "--tolerance", 0.01).code == 1
    assert hamq(*quick, "--tolerance", 1e9).code == 0


def test_resume_equals_uninterrupted(hamq, tmp_path):
    hamq(*GROWING, "--iterations", 7, "--out", "whole")
    assert read_run("whole").history.rank.tolist()[-1] == 3 and len(read_run("whole").history) == 7
    for length in (1, 3, 6):  # a sweep, frozen points, the larger rank
        name = f"parts{length}"
        hamq(*GROWING, "--iterations", length, "--out", name)
        resumed = hamq(*GROWING, "--iterations", 7, "--out", name, "--resume")
        assert f"continued from iteration {length}" in resumed.err and f"iteration {length + 1}/7" in resumed.err
        assert result(tmp_path / name) == result(tmp_path / "whole")
        assert history(tmp_path / name) == history(tmp_path / "whole")
    hamq(*GROWING, "--seed", 4, "--iterations", 7, "--out", "other")
    assert result(tmp_path / "other") != result(tmp_path / "whole")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_and_resumed(hamq, tmp_path, monkeypatch, number):
    hamq(*GROWING, "--iterations", 4, "--out", "whole")
    shown = Progress.iteration

    def iteration(self, iterate):
        shown(self, iterate)
        if iterate.iteration == 2:
            os.kill(os.getpid(), number)

    with monkeypatch.context() as patch:
        patch.setattr(Progress, "iteration", iteration)
        stopped = hamq(*GROWING, "--iterations", 4, "--out", "a run")
    assert stopped.code == 130 and stopped.out == ""
    assert re.search(r"2 iterations are saved; continue with\n  hamq solve-tensor .* --out 'a run' --resume$", stopped.err)
    assert "Not finished: 2 iterations are saved" in hamq("show", "a run").out
    assert hamq("show", "a run", "--json").json["can_resume"]
    assert_refused(hamq("report", "a run"), r"a run is not finished: it has 2 iterations; continue it with --resume\.")
    assert hamq(*GROWING, "--iterations", 4, "--out", "a run", "--resume").code == 1  # the tolerance is missed
    assert result(tmp_path / "a run") == result(tmp_path / "whole")
    assert history(tmp_path / "a run") == history(tmp_path / "whole")


@pytest.mark.slow  # XLA compiles in a process of its own
def test_a_real_interrupt(tmp_path):
    """Ctrl-C in a process of its own, as a shell sends it."""
    cache = jax.config.jax_compilation_cache_dir
    environment = (
        os.environ | {"PYTHONPATH": str(ROOT)} | ({} if cache is None else {"JAX_COMPILATION_CACHE_DIR": str(cache)})
    )
    command = [sys.executable, "-m", "hamq", *map(str, GROWING), "--max-rank", "20", "--out", str(tmp_path / "run")]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        said = []
        for line in process.stderr:
            said.append(line)
            if "iteration 1/" in line:
                process.send_signal(signal.SIGINT)
        assert process.wait() == 130, "".join(said)
    assert said[0].startswith("hamq: solve-tensor spring_chain: starting")
    assert re.search(r"stopping after this iteration.*\d+ iterations are saved; continue with", "".join(said), re.DOTALL)
    assert len(read_run(tmp_path / "run").history) >= 1


def test_a_finished_run_is_not_run_again(hamq, tmp_path, small_page, no_animation):
    hamq(*QUICK, "--out", "run")
    before = contents(tmp_path / "run")
    again = hamq(*QUICK, "--out", "run", "--resume", "--json")
    assert again.code == 0 and "finished already" in again.err and again.json["residual"] == read_run("run").residual
    assert contents(tmp_path / "run") == before
    assert hamq(*QUICK, "--out", "run", "--resume", "--report").code == 0  # the page is made from the folder
    assert contents(tmp_path / "run").keys() == before.keys() | {"report.html"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), r"run already holds a run; continue it with --resume"),
        (("--resume", "--rank", 2), r"The config does not continue the run of .*: rank is 2 \(in the folder 3\)"),
        (("--resume", "--discount", 0.5), r"holds a run of the problem with hash"),
        (("--overwrite", "--iterations", 0), r"solve_tensor: iterations must be"),
    ],
)
def test_an_existing_run_is_left_alone(hamq, tmp_path, words, sentence):
    hamq(*QUICK, "--out", "run")
    before = contents(tmp_path / "run")
    assert_refused(hamq(*QUICK, "--out", "run", *words), sentence)
    lock = Lock(tmp_path / "run")
    assert_refused(hamq(*QUICK, "--out", "run", "--overwrite"), r"run is being written by process \d+ on ")
    lock.release()
    assert contents(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("solve-tensor", r"hamq solve-tensor needs a PROBLEM; hamq list shows those there are\."),
        ("solve_tensor pendulum", r"there is no command 'solve_tensor' among .*; did you mean solve-tensor\?"),
        ("solve-tensor pendulum --law cell", r"law='linear', and pendulum has law='cell'; build it with law='linear'\."),
        ("solve-tensor pendulum --literal", r"hamq solve-tensor has no option --literal"),
        ("solve-tensor pendulum --sampler idi", r"--sampler must be one of none, .*, got idi; did you mean iid\?"),
        ("solve-tensor pendulum --num-samples 3", r"--num-samples belongs to --sampler iid or .*, which this"),
        ("solve-tensor pendulum --sampler iid --num-samples 0", r"IID: num_samples must be"),
        ("solve-tensor pendulum --order 0,1,2", r"order must hold each of the axes 0 to 1 once, got \[0, 1, 2\]"),
        ("solve-tensor pendulum --order x", r"--order takes the numbers of the axes \(0,2,1,3\), got 'x'\."),
        ("solve-tensor pendulum --max-rank 3", r"max_rank = 3 is below rank = 8; raise it\."),
        ("solve-tensor pendulum --tolerance 0", r"solve_tensor: tolerance must be a number above 0"),
        ("solve-tensor pendulum --report", r"--report needs --out, the folder of the run\."),
        ("solve-tensor pendulum --resume", r"--resume needs --out, the folder of the run\."),
        ("solve-tensor pendulum --out others --report", r"others/report\.html is there already, and not a page of hamq"),
        ("solve-tensor repelling_agents --sampler exhaustive --out run", r"Exhaustive needs a normal law that is a product"),
        ("report", r"hamq report needs a RUN; give the --out folder of a run\."),
        ("report nowhere", r"nowhere is not a run folder"),
    ],
)  # fmt: skip
def test_refusals(hamq, tmp_path, words, sentence):
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "report.html").write_text("mine")
    assert_refused(hamq(*words.split()), sentence)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["others", "report.html"]


def test_report_never_replaces_what_is_not_ours(hamq, tmp_path, small_page, no_animation):
    hamq(*QUICK, "--out", "run")
    kept = contents(tmp_path / "run")
    (tmp_path / "note.html").write_text("<html>mine</html>")
    (tmp_path / "folder").mkdir()
    for path, sentence in (
        ("note.html", r"note\.html is there already, and not a page of hamq report; choose another name with -o\."),
        ("run/result.json", r"run/result\.json is there already, and not a page"),
        ("folder", r"folder is a folder; give the page a name, such as folder/report\.html\."),
        ("absent/page.html", r"there is no folder absent for the page"),
    ):
        assert_refused(hamq("report", "run", "-o", path), sentence)
    assert (tmp_path / "note.html").read_text() == "<html>mine</html>" and contents(tmp_path / "run") == kept
    for _ in range(2):  # the second time it is there, and ours
        made = hamq("report", "run", "-o", "page.html", "--json")
        assert made.code == 0 and made.json["page"] == "page.html" and made.json["layers"][0] == "Value"


MINE = """
import jax.numpy as jnp
import hamq

def make(points=5, goal=0.0):
    return hamq.Problem(
        grid=hamq.Grid([-1.0, -1.0], [1.0, 1.0], [points, points]),
        actions=jnp.linspace(-1.0, 1.0, 3),
        kernel=hamq.GaussianKernel(lambda s, a: 0.9 * s + 0.1 * a, [0.1, 0.1]),
        reward=lambda s, a: -jnp.sum((s - goal) ** 2),
        discount=0.9,
        law="linear",
        name="</script><b>{{data}}</b>",
    )
"""


def test_own_problem_and_its_page(hamq, tmp_path, small_page, no_animation):
    (tmp_path / "mine.py").write_text(MINE)
    words = ("solve-tensor", "mine.py:make", "--set", "points=4", "--rank", 3, "--iterations", 2, "--out", "run", "--report")
    assert hamq(*words).code == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "</script><b>" not in page and "&lt;/script&gt;&lt;b&gt;{{data}}" in page and "Greedy action" in page
    assert "mine.py:make(points=4)" in page and str(tmp_path) not in page

    (tmp_path / "mine.py").write_text(MINE.replace("goal=0.0", "goal=0.5"))
    changed = hamq("report", "run")
    assert changed.code == 0 and "no maps of the policy, because the problem cannot be made again" in changed.err
    (tmp_path / "mine.py").write_text("1 / 0")
    assert hamq("report", "run", "--json").json["layers"] == ["Value"]
    assert "ZeroDivisionError" in (tmp_path / "run" / "report.html").read_text()


def test_load_tensor_gives_the_solution_of_the_run(hamq):
    hamq(*QUICK, "--seed", 3, "--out", "run")
    problem = library.problems.spring_chain(1, points=5, num_actions=3)
    found = library.load_tensor("run", problem)
    solved = library.solve_tensor(problem, sampler=library.IID(4), rank=3, iterations=2, key=3)
    states = np.random.default_rng(0).uniform(problem.grid.lower, problem.grid.upper, (20, 2))
    for name in ("value", "q", "policy", "actions", "backup"):
        assert getattr(found, name)(states).tobytes() == getattr(solved, name)(states).tobytes(), name
    assert (found.result, found.converged, found.residual, found.ranks) == (
        solved.result,
        solved.converged,
        solved.residual,
        solved.ranks,
    )
    other = library.solve_tensor(problem, sampler=library.IID(4), rank=3, iterations=2, key=4)
    assert not np.array_equal(found.q(states), other.q(states))
