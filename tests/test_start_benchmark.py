"""The account of first answers without its measurements: its arithmetic, its record, its section of the page."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

import hamq
from benchmarks import start
from benchmarks.suite.page import START, START_COLUMNS, start_section
from tests.pages import ROOT

TOLERANCE = 0.02
"""Of the range of Q: what midpoint sums may miss on a grid of a few points."""


def recorded() -> dict:
    return json.loads(START.read_text(encoding="utf-8"))


def section(text: str) -> str:
    found = re.search(r"## First answers\n.*?(?=\n## )", text, re.DOTALL)
    assert found is not None
    return found[0]


def test_the_page_says_what_the_record_says():
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert section(text) == start_section(recorded()), "write it again: python -m benchmarks.run --only"


def test_the_table_of_the_page_is_short():
    rows = [line.strip("| ").split(" | ") for line in start_section(recorded()).splitlines() if line.startswith("| ")]
    in_words = {"blackjax", "numpy1", "numpy2", "loop", "shell"}
    assert len(rows) == 2 + len(set(start.CASES) - in_words)
    assert {len(row) for row in rows} == {len(START_COLUMNS)}
    assert max(len(cell.split()) for row in rows for cell in row) <= 12


def test_a_page_without_record():
    assert "has no start.json" in start_section(None)


def test_the_record_is_whole():
    record = recorded()
    assert list(record["cases"]) == list(start.CASES)
    assert {"date", "versions", "machine"} < set(record)
    for name, row in record["cases"].items():
        assert row["first_s"] > 0 and row["second_s"] > 0
        assert row["title"] == start.CASES[name].title
        if "programs" in row:
            assert row["programs"] > 0 and 0 < row["xla_s"] < row["first_s"]
            assert row["largest"][0]["instructions"] > 0 and row["largest"][0]["bytes"] > 0
            assert (row["densities"] > 0) == name.startswith("own")
    assert record["cases"]["loop"]["settled_mb"] > 0 and record["cases"]["loop"]["last_mb"] > 0


@pytest.mark.parametrize("points", [[5], [4, 3]])
def test_numpy_agrees_with_the_exact_answer(points):
    exact = hamq.solve_exact(start.own(points)).q
    assert np.abs(start.by_numpy(points) - exact).max() <= TOLERANCE * np.ptp(exact)


def test_seconds_that_overlap_count_once():
    assert start.covered([(3.0, 4.0), (0.0, 2.0), (0.5, 1.0), (1.5, 2.5)]) == 3.5
    assert start.covered([]) == 0.0


def test_events_are_counted_by_stage_and_function():
    events = start.Events()
    for name in ("jit(draw)", "jit(draw)", "jit(look)"):
        events.listen("/jax/core/compile/backend_compile_duration", 0.5, fun_name=name)
    events.listen("/jax/core/compile/jaxpr_trace_duration", 0.25, fun_name="draw")
    events.listen("/jax/another", 9.0)
    found = events.account()
    assert found["programs"] == 3
    assert found["xla_by_function"] == {"draw": 1.0, "look": 0.5}
    assert found["tracing_by_function"] == {"draw": 0.25}
    assert found["lowering_s"] == 0.0


def test_sizes_are_read_from_what_xla_writes(tmp_path):
    program = "HloModule jit_a, is_scheduled=true\n\nENTRY main {\n  %x = f32[] cbrt(%p)\n  ROOT %y = f32[] add(%x, %x)\n}\n"
    (tmp_path / "module_0001.jit_a.cpu_after_optimizations.txt").write_text(program)
    (tmp_path / "module_0001.jit_a.obj-file.x.o").write_bytes(b"12345")
    (tmp_path / "module_0002.jit_b.cpu_after_optimizations.txt").write_text("HloModule jit_b\n")
    largest = [{"name": "a", "instructions": 2, "bytes": 5}, {"name": "b", "instructions": 0, "bytes": 0}]
    assert start.read_dump(tmp_path) == {"instructions": 2, "densities": 1, "largest": largest}


def test_another_python_must_lie_in_a_checkout(tmp_path):
    (tmp_path / "hamq").mkdir()
    (tmp_path / "hamq" / "__init__.py").touch()
    python = tmp_path / ".venv" / "bin" / "python"
    assert start.checkout_of(python).root == tmp_path
    with pytest.raises(SystemExit, match="no checkout"):
        start.checkout_of(tmp_path.parent / "python")


def test_the_script_runs():
    words = [sys.executable, str(ROOT / "benchmarks" / "start.py"), "--only", "numpy1"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.search(r"│ numpy1 +│ +[\d.e-]+ +│ +[\d.e-]+ +│", done.stdout)
