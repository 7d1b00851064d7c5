"""The table fits the code as it is now, and the runner tells killed, alive and broken apart."""

import io

import pytest
from rich.console import Console

from tests.mutants.mutant import Mutant
from tests.mutants.run import ROOT, attempt, hunt, planted
from tests.mutants.table import MUTANTS


def test_names_are_unique():
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_fits(mutant):
    planted(ROOT, mutant)
    assert mutant.tests
    for test in mutant.tests:
        file, *functions = test.split("::")
        text = (ROOT / file).read_text(encoding="utf-8") if functions else ""
        assert (ROOT / file).exists()
        for function in functions:
            assert f"{function.split('[')[0]}(" in text, f"{file} has no {function}"


@pytest.fixture
def repository(tmp_path):
    """A package of one function and its tests."""
    (tmp_path / "hamq").mkdir()
    (tmp_path / "hamq/__init__.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_double.py").write_text(
        "from hamq import double\n\ndef test_zero():\n    assert double(0) == 0\n\n"
        "def test_one():\n    assert double(1) == 2\n"
    )
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = ''\n")
    return tmp_path


def mutant(new, *tests, old="2 * x"):
    return Mutant("example", "hamq/__init__.py", old, new, tests or ("tests/test_double.py",))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("example", "verdict"),
    [
        (mutant("3 * x"), "KILLED"),
        (mutant("x + x"), "ALIVE"),
        (mutant("3 * x", "tests/test_double.py::test_zero"), "ALIVE"),
        (mutant("3 * x", "tests/test_double.py::test_two"), "BROKEN"),
        (mutant("triple", old="double"), "BROKEN"),  # not importable: pytest cannot collect
        (mutant("2 *"), "BROKEN"),
        (mutant("3 * x", old="x"), "BROKEN"),  # twice in the file
        (mutant("3 * y", old="2 * y"), "BROKEN"),
    ],
)
def test_verdict(repository, example, verdict):
    assert attempt(repository, example).verdict == verdict


@pytest.mark.slow
def test_hunt_succeeds_only_if_all_are_killed(repository):
    console = Console(file=io.StringIO())
    assert hunt(repository, [mutant("3 * x"), mutant("5 * x")], 2, console)
    assert not hunt(repository, [mutant("3 * x"), mutant("x + x")], 2, console)
    assert "1 of 2 mutants killed" in console.file.getvalue()


@pytest.mark.slow
def test_hunt_asks_for_green_tests_first(repository):
    (repository / "hamq/__init__.py").write_text("def double(x):\n    return 1 + 2 * x\n")
    console = Console(file=io.StringIO())
    assert not hunt(repository, [mutant("3 * x")], 2, console)
    assert "must pass first" in console.file.getvalue()
