"""Progress from Python: on a terminal and in a notebook by default, nowhere else; and what a user's function is told."""

import io
import re
import sys
import types

import pytest

import hamq
from hamq.runs import progress as module

PROBLEM = hamq.problems.double_integrator(points=4, num_actions=3)
QUICK = {"sampler": hamq.HMC(5), "completion": None, "iterations": 3}


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("progress", [None, False])
def test_nothing_is_shown_to_nobody(capsys, progress):
    hamq.solve(PROBLEM, **QUICK, progress=progress)
    hamq.solve_exact(PROBLEM, tolerance=1.0, progress=progress)
    assert capsys.readouterr() == ("", "")


def test_it_is_shown_where_it_is_asked_for(capsys):
    hamq.solve(PROBLEM, **QUICK, progress=True)
    told = capsys.readouterr()
    assert told.out == "" and re.search(r"hamq: iteration 3/3, change \d", told.err)


def test_a_terminal_shows_it_by_default(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert module.is_watched()
    hamq.solve(PROBLEM, **QUICK)
    assert "iteration" in sys.stderr.getvalue()
    monkeypatch.setattr(sys, "stderr", Terminal())
    hamq.solve(PROBLEM, **QUICK, progress=False)
    assert sys.stderr.getvalue() == ""


class ZMQInteractiveShell:
    """By the name of its class a notebook is known."""


def notebook(shell) -> tuple[types.SimpleNamespace, list[str]]:
    shown = []

    def update(made):
        shown[-1] = made

    def display(made, display_id):
        shown.append(made)
        return types.SimpleNamespace(update=update)

    display_module = types.SimpleNamespace(display=display, HTML=lambda text: text)
    return types.SimpleNamespace(get_ipython=lambda: shell, display=display_module), shown


def test_a_notebook_shows_one_line_that_changes_and_goes(monkeypatch, capsys):
    python, shown = notebook(ZMQInteractiveShell())
    monkeypatch.setitem(sys.modules, "IPython", python)
    seen = []
    hamq.solve(PROBLEM, **QUICK, callback=lambda iterate: seen.append(shown[0]))
    assert len(shown) == 1 and shown[0] == "" and "iteration 1/3, change" in seen[0]
    assert capsys.readouterr() == ("", "")


def test_ipython_on_its_own_is_no_notebook(monkeypatch):
    for shell in (None, object()):
        monkeypatch.setitem(sys.modules, "IPython", notebook(shell)[0])
        assert not module.is_watched()


def test_a_function_is_told(capsys):
    told = []
    hamq.solve(PROBLEM, **QUICK, progress=lambda *said: told.append(said))
    assert told and all(phase and 0 <= done <= total for phase, done, total in told)
    with pytest.raises(hamq.HamqError, match=r"progress must be True, False, None or a function of .*, got 'yes'"):
        hamq.solve(PROBLEM, **QUICK, progress="yes")


def test_bits_do_not_depend_on_it(capsys):
    silent, shown = (hamq.solve(PROBLEM, **QUICK, progress=progress) for progress in (False, True))
    assert silent.q.tobytes() == shown.q.tobytes()
