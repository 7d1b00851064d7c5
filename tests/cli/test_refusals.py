"""Bad input: exit code 2, one sentence, nothing computed, nothing changed on the disk."""

import re

import pytest

from hamq.runs.storage import Lock
from tests.cli.posed import PENDULUM, TINY, contents

MINE = """
import jax.numpy as jnp
import hamq

def make(points=5, discount=0.9, centre=0.0):
    return hamq.Problem(
        grid=hamq.Grid([-1.0], [1.0], [points]),
        actions=jnp.linspace(-1.0, 1.0, 3),
        kernel=hamq.GaussianKernel(lambda s, a: s + 0.1 * a, [0.1]),
        reward=lambda s, a: -jnp.sum((s - centre) ** 2),
        discount=discount,
        name="mine",
    )

def divide():
    return 1 / 0

def five():
    return 5

def needs(points):
    return make(points)
"""

COMMAND_LINE = [
    ("slove pendulum", r"there is no command 'slove' among list, solve, .*; did you mean solve\?"),
    ("solve", r"hamq solve needs a PROBLEM; hamq list shows those there are\."),
    ("compare", r"hamq compare needs a RUN; give the --out folder of a run\."),
    ("solve pendulum cartpole", r"hamq solve takes PROBLEM and options; 'cartpole' is too much\."),
    ("list pendulum", r"hamq list takes no words and options; 'pendulum' is too much\."),
    ("solve cartpol", r"there is no problem 'cartpol' among pendulum, .*; did you mean cartpole\?"),
    ("solve pendulum --sampelr iid", r"hamq solve has no option --sampelr; did you mean --sampler\?"),
    ("solve pendulum --no-cuopled", r"hamq solve has no option --no-cuopled; did you mean --no-coupled\?"),
    ("solve pendulum --qqq 3", r"hamq solve has no option --qqq\."),
    ("show run --qqq", r"hamq show has no option --qqq\."),
    ("solve pendulum --sampler hcm", r"--sampler must be one of hmc, iid, .*, got hcm; did you mean hmc\?"),
    ("solve pendulum --preset papre", r"--preset must be one of paper, corrected, got papre; did you mean paper\?"),
    ("solve pendulum --selection None --walls=lgoit", r"--walls must be one of .*, got lgoit; did you mean logit\?"),
    ("solve pendulum --sampler iid --num-leapfrog 3", r"--num-leapfrog belongs to --sampler hmc, which this hamq solve has"),
    ("solve pendulum --strength 3", r"--strength belongs to repelling_agents, which this hamq solve has not\."),
    ("solve cartpole --num-masses 3", r"--num-masses belongs to spring_chain, which this hamq solve has not\."),
    ("solve spring_chain --num-actuators None", r"--num-actuators takes a whole number, got 'None'\."),
    ("solve mine.py:make --points 3", r"--points belongs to .*; give your own arguments as --set points=VALUE\."),
    ("solve pendulum --out", r"--out needs a value; see hamq solve --help\."),
    ("solve pendulum --seed --out x", r"--seed needs a value"),
    ("solve pendulum --seed 1.5", r"--seed takes a whole number, got '1\.5'\."),
    ("solve pendulum --discount=high", r"--discount takes a number, got 'high'\."),
    ("solve pendulum --calibrate perhaps", r"--calibrate must be one of True, False, got perhaps\."),
]  # fmt: skip
BEFORE_COMPUTING = [
    ("--points 3.5", r"--points takes a whole number, or one for each axis \(9,9,5,5\), got '3\.5'\."),
    ("--points 3,3,3", r"3"),
    ("--points 1", r"point"),
    ("--num-actions 0", r"pendulum: num_actions must be a whole number of at least 1, got 0"),
    ("--discount 1", r"discount must be in \[0, 1\)"),
    ("--noise nan", r"pendulum: noise must be a finite number above 0, got nan"),
    ("--set periodic=[True]", r"pendulum: periodic has 1 entries for 2 axes"),
    ("--set pionts=3", r"--set pionts: pendulum has no argument 'pionts'; did you mean points\?"),
    ("--set 3", r"--set takes name=value, got '3'\."),
    ("--iterations 0", r"solve: iterations must be a whole number of at least 1, got 0\."),
    ("--tolerance -1", r"solve: tolerance must be None or a number above 0, got -1\.0\."),
    ("--fraction 0.5", r"solve: fraction = 0\.5 has no meaning with selection='anchors'"),
    ("--selection all", r"solve: selection='all' does not go with completion=Anchors"),
    ("--step-size 0", r"Passes: step_size must lie above 0"),
    ("--num-samples 0", r"HMC: num_samples must be"),
    ("--sampler-step-size 0", r"HMC: step_size must be"),
    ("--num-chains 3 --num-samples 10", r"HMC: num_samples = 10 does not divide into num_chains = 3"),
    ("--sampler iid --max-gradients 100", r"solve: max_gradients counts gradients of the density, and IID needs none"),
    ("--num-columns 0", r"Anchors: num_columns must be None or a whole number of at least 1, got 0"),
    ("--completion soft_impute --penalty 0", r"SoftImpute: penalty must be positive"),
    ("--literal --completion-tolerance 2", r"NuclearNorm: tolerance must lie between 0 and 1"),
    ("--resume", r"--resume needs --out, the folder of the run\."),
    ("--overwrite", r"--overwrite needs --out, the folder of the run\."),
    ("--checkpoint-every 3", r"--checkpoint-every needs --out, the folder of the run\."),
    ("--out run --resume --overwrite", r"--resume continues the run in --out and --overwrite replaces it; give one"),
    ("--out run --checkpoint-every 0", r"--checkpoint-every must be at least 1, got 0\."),
    ("--out run --checkpoint-seconds 0", r"--checkpoint-seconds must be above 0, got 0\.0\."),
    ("--out others --resume", r"others is not a run folder: it has no manifest\.json"),
    ("--out file", r"file is a file; choose another name for the run folder\."),
    ("--out others", r"others is not empty and not a run folder: it holds 'note'; choose another folder\."),
    ("--out others --overwrite", r"others is not empty and not a run folder: it holds 'note'; choose another folder\."),
]  # fmt: skip
WHILE_PREPARING = [
    ("--law point --num-samples 5", r"HMC draws from the continuous density and cannot follow the point masses"),
    ("--sampler exhaustive --num-columns 50", r"Anchors: num_columns = 50 is more than the 3 actions there are\."),
    ("--sampler exhaustive --completion none --initial unifrom", r"solve: initial must be a table, a number, 'uniform' or"),
]


def assert_refused(outcome, sentence):
    *before, last = outcome.err.splitlines()
    assert outcome.code == 2
    assert re.search(sentence, last), last
    assert last.startswith("hamq: ") and "Traceback" not in outcome.err
    assert not any("iteration" in line for line in before)
    assert outcome.out == ""


@pytest.mark.parametrize(("words", "sentence"), COMMAND_LINE)
def test_command_line(hamq, words, sentence):
    outcome = hamq(*words.split())
    assert_refused(outcome, sentence)
    assert len(outcome.err.splitlines()) == 1


def test_a_grid_that_nobody_can_enumerate(hamq):
    refused = hamq("solve", "spring_chain", "--num-masses", 50)
    assert_refused(refused, r"solve must enumerate the grid's 2\.656e\+95 states, more than .*; use fewer points per axis")
    assert "spring_chain: 2.66e+95 states × 9 actions" in refused.err


@pytest.mark.parametrize(("words", "sentence"), BEFORE_COMPUTING)
def test_options_that_make_no_sense(hamq, tmp_path, words, sentence):
    (tmp_path / "file").touch()
    (tmp_path / "others").mkdir()
    (tmp_path / "others" / "note").touch()
    given = words.split()
    outcome = hamq("solve", "pendulum", *(() if "--points" in given else ("--points", 3)), *given)
    assert_refused(outcome, sentence)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "note", "others"]


@pytest.mark.parametrize(("words", "sentence"), WHILE_PREPARING)
def test_what_only_solve_can_see_leaves_no_folder(hamq, tmp_path, words, sentence):
    assert_refused(hamq("solve", *PENDULUM, *words.split(), "--out", "run"), sentence)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "run").mkdir()
    assert_refused(hamq("solve", *PENDULUM, *words.split(), "--out", "run"), sentence)
    assert list((tmp_path / "run").iterdir()) == []  # an empty folder of the user's stays


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), r"run already holds a run; continue it with --resume, replace it with --overwrite"),
        (("--overwrite", "--initial", "unifrom"), r"solve: initial must be"),
        (("--overwrite", "--iterations", "0"), r"iterations must be"),
        (("--resume", "--iterations", "0"), r"iterations must be"),
        (("--resume", "--seed", "1"), r"The config does not continue the run of .*: seed is 1 \(in the folder 0\)"),
        (("--resume", "--discount", "0.5"), r"holds a run of the problem with hash"),
        (("--resume", "--overwrite"), r"give one of them"),
    ],
)
def test_an_existing_run_is_left_alone(hamq, tmp_path, words, sentence):
    assert hamq(*TINY, "--out", "run").code == 0
    before = contents(tmp_path / "run")
    assert_refused(hamq(*TINY, "--out", "run", *words), sentence)
    assert contents(tmp_path / "run") == before


@pytest.mark.parametrize("words", [("--overwrite",), ("--resume",)])
def test_a_run_that_is_being_written_is_left_alone(hamq, tmp_path, words):
    assert hamq(*TINY, "--out", "run").code == 0
    before = contents(tmp_path / "run")
    lock = Lock(tmp_path / "run")
    assert_refused(hamq(*TINY, "--out", "run", *words), r"run is being written by process \d+ on ")
    lock.release()
    assert contents(tmp_path / "run") == before


def test_iterations_that_set_the_number_of_draws_cannot_change(hamq):
    words = ("solve", *PENDULUM, "--sampler", "iid", "--schedule", "lemma3", "--completion", "none", "--out", "run")
    assert hamq(*words, "--iterations", 2).code == 0
    assert_refused(hamq(*words, "--iterations", 3, "--resume"), r"iterations is 3 \(in the folder 2\)")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("absent.py:make", r"there is no file .*absent\.py; give your problem as file\.py:function\."),
        ("mine.py:mkae", r"mine\.py has no function 'mkae'; did you mean make\?"),
        ("mine.py:divide", r"mine\.py, line 16: ZeroDivisionError: division by zero$"),
        ("mine.py:five", r"mine\.py:five must return a hamq\.Problem, and returned int\."),
        ("mine.py:needs", r"mine\.py:needs needs the argument 'points'; give it as --set points=VALUE\."),
        ("mine.py:make --set dicsount=0.5", r"--set dicsount: .* has no argument 'dicsount'; did you mean discount\?"),
        ("mine.py:make --set discount=2.0", r"mine\.py, line 6: HamqError: Problem: discount must be in \[0, 1\)"),
        ("broken.py:make", r"broken\.py.*: SyntaxError"),
        ("absent_module:make", r"absent_module: ModuleNotFoundError: No module named 'absent_module'"),
    ],
)
def test_own_problems(hamq, tmp_path, words, sentence):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "broken.py").write_text("def make(:\n")
    assert_refused(hamq("exact", *words.split()), sentence)


def test_runs_that_cannot_be_compared_or_shown(hamq, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    quick = ("--sampler", "exhaustive", "--completion", "none", "--iterations", 2)
    hamq(*TINY, "--out", "run")
    hamq("solve", "mine.py:make", *quick, "--out", "mine")
    assert_refused(hamq("show", "nowhere"), r"nowhere is not a run folder")
    assert_refused(hamq("compare", "run", "mine"), r"mine is of another problem than run; compare runs of one problem\.")
    (tmp_path / "mine.py").write_text(MINE.replace("centre=0.0", "centre=0.5"))
    assert_refused(hamq("compare", "mine"), r"mine\.py:make is no longer the problem that mine solved; solve it again\.")
    (tmp_path / "run" / "result.npz").write_bytes(b"x")
    assert_refused(hamq("show", "run"), r"result\.npz of .* is damaged")


def test_an_exact_answer_is_resumed(hamq, tmp_path):
    """A job scheduler that starts the command again, with --resume from the first time on."""
    words = ("exact", *PENDULUM, "--out", "answer", "--resume")
    assert hamq(*words).code == 0
    kept = contents(tmp_path / "answer")
    again = hamq(*words)
    assert again.code == 0 and "answer is finished already" in again.err and "V* lies between" in again.out
    assert contents(tmp_path / "answer") == kept
    better = hamq(*words, "--tolerance", 1e-9, "--json").json
    assert better["error"] <= 1e-9 and contents(tmp_path / "answer") != kept
    assert_refused(hamq("exact", *PENDULUM, "--resume"), "--resume needs --out")
    assert_refused(hamq(*words, "--overwrite"), "give one of them")


def test_a_bug_keeps_its_traceback(hamq, monkeypatch):
    """A ValueError that NumPy raises is not the user's fault."""
    import numpy as np

    from hamq.exact import value_iteration

    monkeypatch.setattr(value_iteration, "solve_exact", lambda *_, **__: np.zeros(3).reshape(2, 2))
    with pytest.raises(ValueError, match="cannot reshape"):
        hamq("exact", *PENDULUM)
