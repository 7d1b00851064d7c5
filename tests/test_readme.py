"""Every Python block of README.md and docs/ runs as written, in order, as a user would run it.

A block after `<!-- not run: reason -->` is left out; README.md has none.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import jax
import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
NOT_RUN = re.compile(r"<!--\s*not run:\s*\S.*-->")
FENCE = re.compile(r"\s*(`{3,}|~{3,})\s*(\w*)")


@dataclass(frozen=True)
class Block:
    line: int  # of the first line of code, from 1
    code: str
    is_run: bool


def python_blocks(text: str) -> list[Block]:
    """The ```python blocks of a page; one that is indented or not closed is an error."""
    blocks, before, lines = [], "", enumerate(text.splitlines(), start=1)
    for number, line in lines:
        if fence := FENCE.match(line):
            code = []
            for _, inner in lines:
                if inner.strip() == fence[1]:
                    break
                code.append(inner)
            else:
                raise ValueError(f"the block that opens on line {number} is not closed")
            if fence[2] in ("python", "py", "python3"):
                if line != "```python":
                    raise ValueError(f"line {number}: write ```python at the start of the line, not {line!r}")
                blocks.append(Block(number + 1, "\n".join(code) + "\n", not NOT_RUN.fullmatch(before)))
        if line.strip():
            before = line.strip()
    return blocks


def run_blocks(blocks: list[Block], filename: str) -> None:
    """Executes the blocks in one fresh module, with line numbers that point into the page."""
    module = ModuleType("page")
    sys.modules["page"] = module  # dataclasses and equinox look their module up
    try:
        for block in blocks:
            if block.is_run:
                exec(compile("\n" * (block.line - 1) + block.code, filename, "exec"), module.__dict__)
    finally:
        del sys.modules["page"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_runs(page, tmp_path, monkeypatch):
    blocks = python_blocks(page.read_text(encoding="utf-8"))
    monkeypatch.chdir(tmp_path)  # what the page writes must not land in the repository
    # Users have JAX's own promotion rules, not the strict ones of the tests.
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        run_blocks(blocks, str(page))


def test_readme_has_code_and_skips_none():
    blocks = python_blocks(README.read_text(encoding="utf-8"))
    assert blocks
    assert [block.line for block in blocks if not block.is_run] == []


PAGE = """# Title
```python
x = 1
```
```bash
x = 2
```
<!-- not run: takes an hour -->

```python
x = 3
```
<!-- not run: -->
```python
y = x + 1
```
"""


def test_extraction():
    lines_and_runs = [(block.line, block.is_run) for block in python_blocks(PAGE)]
    assert lines_and_runs == [(3, True), (11, False), (15, True)]  # a skip without a reason is none


def test_blocks_share_one_namespace_and_report_their_line():
    run_blocks(python_blocks(PAGE + "```python\nassert (x, y) == (1, 2)\n```\n"), "page.md")
    with pytest.raises(ZeroDivisionError) as caught:
        run_blocks(python_blocks(PAGE + "```python\n1 / 0\n```\n"), "page.md")
    assert caught.traceback[-1].lineno + 1 == 18
    with pytest.raises(NameError):  # fresh for each page
        run_blocks([Block(1, "x", True)], "page.md")


@pytest.mark.parametrize("text", ["```python\nx = 1\n", " ```python\nx = 1\n ```\n", "```py\nx = 1\n```\n"])
def test_malformed_block_is_an_error(text):
    with pytest.raises(ValueError, match="line 1"):
        python_blocks(text)
