"""Names and contents of run folders from anybody: text on the terminal, whatever they are."""

import io
import json
import zipfile

import numpy as np
import pytest

from faults.hostile import ATTACKS, _forged, require_inert, require_plain_csv
from hamq.cli.messages import inert, make_console, make_table, print_json, say, tell
from hamq.errors import RunError
from hamq.runs.encoding import decode_arrays
from hamq.runs.folder import RunFolder
from hamq.runs.reading import read_run
from tests.cli.posed import TINY
from tests.runs.posed import CONFIG, HASH, forge, written


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_whatever_is_printed_is_inert(capsys, attack):
    say(attack)
    tell(attack)
    print_json({attack: attack})
    console = make_console()
    console.print(attack)
    table = make_table((attack,), (attack,), attack)
    table.add_row(attack)
    console.print(table)
    printed = capsys.readouterr()
    require_inert(printed.out + printed.err, attack)
    (line,) = [line for line in printed.out.splitlines() if line.startswith("{")]
    assert json.loads(line) == {attack: attack}


def test_what_steers_is_written_out():
    assert inert("a\x1b[2J\nπ ≤ 1\u202e\U000e0001") == "a\\u001b[2J\nπ ≤ 1\\u202e\\udb40\\udc01"


def test_commands_are_inert_to_what_a_folder_says(tmp_path, capsys, monkeypatch):
    from hamq.cli import main

    monkeypatch.chdir(tmp_path)
    assert main([*TINY, "--out", "run"]) == 0
    require_plain_csv(tmp_path / "run" / "history.csv")
    forged = _forged(tmp_path / "run", ATTACKS["terminal"])
    capsys.readouterr()
    for words in (["show", str(forged)], ["show", str(forged), "--json"], ["solve", *TINY[1:], "--out", str(forged)]):
        main(words)
        printed = capsys.readouterr()
        require_inert(printed.out + printed.err, str(words))
        assert "owned" in printed.out or words[0] == "solve"


def test_links_are_not_written_through(tmp_path, capsys, monkeypatch):
    from hamq.cli import main

    monkeypatch.chdir(tmp_path)
    assert main([*TINY, "--out", "run"]) == 0
    for command, name in (("report", "report.html"), ("plot", "plot.png")):
        (tmp_path / "run" / name).symlink_to(tmp_path / "outside")
        assert main([command, "run"]) == 2
        assert "is a link, and would be written through" in capsys.readouterr().err
    assert not (tmp_path / "outside").exists()


def test_compressed_and_lying_arrays_are_refused():
    buffer = io.BytesIO()
    np.savez_compressed(buffer, q=np.zeros(10**6))
    with pytest.raises(ValueError, match="its arrays are compressed"):
        decode_arrays(buffer.getvalue())
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("q.npy", header.getvalue())
    with pytest.raises(
        ValueError, match=r"an array of shape \(1000000000000,\) and dtype float64 does not have its \d+ bytes"
    ):
        decode_arrays(buffer.getvalue())


@pytest.mark.parametrize("content", [b"[]", b"3", b'"x"'])
def test_a_config_is_an_object(tmp_path, content):
    forge(written(tmp_path / "run"), "config.json", content)
    with pytest.raises(RunError, match=r"config\.json of .* is damaged: it holds a (list|int|str), not a JSON object"):
        read_run(tmp_path / "run")


def test_half_a_result_is_refused(tmp_path, solution):
    with RunFolder.create(tmp_path / "run", CONFIG, HASH) as run:
        run.finish(solution, {})
    forge(tmp_path / "run", "result.json", b'{"result": 3, "converged": true}')
    with pytest.raises(RunError, match=r"result\.json of .* is damaged: its result is not a str"):
        read_run(tmp_path / "run")
