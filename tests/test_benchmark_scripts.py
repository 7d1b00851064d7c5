"""Every script of benchmarks/ runs in its smallest form, and says what it is there to say."""

import json
import os
import re
import shutil
import subprocess
import sys

import jax
import pytest

from tests.pages import ROOT

SMALLEST = "--smallest"
SPRINGS = ("springs", "--size", "1", "--rollouts", "4", "--steps", "2", "--tolerance", "0.2", "--out", "trust.json")
TENSOR = ("--sizes", "1", "--seeds", "1", "--rollouts", "4", "--cold", "--tolerance", "0.2", "--max-rank", "3")
SCRIPTS = {
    "certificates coverage": (
        ("coverage", "--seeds", "1", "--out", "certificates.json", SMALLEST),
        '"method": "asymptotic"',
    ),
    "certificates jumps": (
        ("jumps", "--seeds", "1", "--problems", "uniform", "--out", "certificates.json"),
        '"density": "uniform"',
    ),
    "certificates width": (
        ("width", "--seeds", "1", "--out", "certificates.json", SMALLEST),
        '"method": "guaranteed plain"',
    ),
    "certificates zoo": (("zoo", "--problems", "pendulum", "--out", "certificates.json", SMALLEST), '"loss_bound"'),
    "completion": ((SMALLEST,), "SoftImpute, 625 × 10"),
    "diagnostics": (("--out", "diagnostics.json", "--page", "diagnostics.md", SMALLEST), "the chains agree in|suspect"),
    "efficiency": (("--problems", "mixture", SMALLEST), "mixture"),
    "end_to_end": ((SMALLEST,), "the relative error of the defaults is at most"),
    "environments": (("--tasks", "Pendulum-v1", "--seeds", "1", SMALLEST), r"\| Pendulum-v1 \|"),
    "exact": ((SMALLEST,), "15,625 × 10 and 9⁶ × 10, .* are certified to"),
    "gpu": (("--out", "gpu.json", SMALLEST), "log_weights with the same bits in batches of another size: 100 %"),
    "large": (("--points", "3", "--iterations", "2", "--out", "large.json"), '"states": 729'),
    "optimism": (("--points", "5", "--levels", "2", "--seeds", "1"), "before, .* after"),
    "own_densities": ((SMALLEST,), "plain NumPy"),
    "run": (("--only", "--page", "page.md"), "wrote page.md"),
    "samplers": ((SMALLEST,), "NumPyro"),
    "sampling": ((SMALLEST,), "Million leapfrog gradients per second"),
    "scaling": ((SMALLEST,), "fitted exponents"),
    "solving": (("--problems", "pendulum", "--points", "5", "--variants", "default", "full", "--seeds", "1"), "default"),
    "tensor": (
        ("dense", "chain", "laws", "scaling", "memory", *TENSOR, "--out", "tensor.json", SMALLEST),
        "chain 1, seed 0:",
    ),
    "tensor agents": (
        ("agents", "samplers", *TENSOR, "--sizes", "2", "--draws", "16", "--out", "tensor.json", SMALLEST),
        "agents 2, seed 0:",
    ),
    "trust": (SPRINGS, "mean returns"),
    "unnormalized": (
        ("--agents", "2", "--strengths", "3", "--samples", "20", "--replicates", "2", SMALLEST),
        "Repelling agents, 20 draws",
    ),
}
"""By script: its words, and what it must print."""
APART = {"devices": ((SMALLEST,), "Q has the same bits on one and two devices")}
"""Which needs XLA's flags before JAX starts."""
ELSEWHERE = {"bank", "start", "jumps", "bank_page"}
"""The first two have tests of their own, the others are no scripts."""


def test_every_script_is_run():
    named = {name.split()[0] for name in (SCRIPTS | APART)} | ELSEWHERE
    assert {path.stem for path in (ROOT / "benchmarks").glob("*.py")} == named


def process(words: list[str], folder) -> subprocess.CompletedProcess:
    cache = jax.config.jax_compilation_cache_dir
    given = {"PYTHONPATH": str(ROOT), "HAMQ_CACHE": "off"} | (
        {} if cache is None else {"JAX_COMPILATION_CACHE_DIR": str(cache)}
    )
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, env=os.environ | given, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """(what went wrong or "", what was printed) by script; one process for all of them."""
    folder = tmp_path_factory.mktemp("scripts")
    shutil.copy(ROOT / "docs" / "diagnostics.md", folder)
    commands = [[f"benchmarks.{name.split()[0]}", *words] for name, (words, _) in SCRIPTS.items()]
    done = process(["tests.scripts", str(folder), json.dumps(commands)], folder)
    assert done.returncode == 0, done.stderr[-3000:]
    wrong = json.loads(done.stdout.splitlines()[-1])
    printed = [(folder / f"{number}.txt").read_text(encoding="utf-8") for number in range(len(commands))]
    return dict(zip(SCRIPTS, zip(wrong, printed, strict=True), strict=True))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SCRIPTS)
def test_it_runs(outcomes, name):
    wrong, printed = outcomes[name]
    assert not wrong, wrong
    assert re.search(SCRIPTS[name][1], printed), printed[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("name", APART)
def test_it_runs_in_a_process_of_its_own(name, tmp_path):
    words, said = APART[name]
    done = process([f"benchmarks.{name}", *words], tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(said, done.stdout), done.stdout[-3000:]
