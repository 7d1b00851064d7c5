import dataclasses
import functools
import json

import pytest
from tyro import _docstrings

from hamq.cli import main
from hamq.runs import naming

# tyro reads the source of every class of options again for each command: as much as a short command takes.
_docstrings._ClassTokenization.make = staticmethod(functools.cache(_docstrings._ClassTokenization.make))


@dataclasses.dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


MADE = {}
"""Problems of the zoo that were made: programs are kept for as long as the functions that they were compiled from."""
make = naming.build


def made_once(problem: naming.Named):
    """`naming.build`, but that a problem of the zoo is the same object in all commands; those of files are made anew."""
    words = repr(problem)
    if words not in MADE and problem.name in naming.ZOO:
        MADE[words] = make(problem)
    return MADE[words] if words in MADE else make(problem)


@pytest.fixture
def hamq(capsys, monkeypatch, tmp_path):
    """Runs the command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(naming, "build", made_once)

    def run(*words: object) -> Outcome:
        code = main([str(word) for word in words])
        printed = capsys.readouterr()
        return Outcome(code, printed.out, printed.err)

    return run
