import dataclasses
import json

import pytest

from hamq.cli import main


@dataclasses.dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def hamq(capsys, monkeypatch, tmp_path):
    """Runs the command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> Outcome:
        code = main([str(word) for word in words])
        printed = capsys.readouterr()
        return Outcome(code, printed.out, printed.err)

    return run
