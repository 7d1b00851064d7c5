"""Every Python block of README.md and docs/ runs as written, in order, as a user would run it, and so do the commands.

A block after `<!-- not run: reason -->` is left out; README.md has none. One after `<!-- run in make check: reason -->` is
long, or reads what commands wrote. A page that solves or draws is compiled for many seconds: it runs in `make check` as a
whole, and `make test` looks at the names and arguments in it. A block that begins with `# name.py` is also saved under that
name, for the commands.
"""

import ast
import contextlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path
from types import ModuleType

import jax
import pytest

from hamq.cli import main
from tests.pages import PAGES, ROOT, Block, fenced_blocks, missing_output

README = ROOT / "README.md"
COMPILES = re.compile(r"\b(?:solve\w*|certify|diagnose|draw_each|train_seeds)\(")


def python_blocks(text: str) -> list[Block]:
    return [block for block in fenced_blocks(text) if block.language == "python"]


@contextlib.contextmanager
def fresh_module(filename: str):
    """A function that executes blocks in one fresh module, with line numbers that point into the page."""
    module = ModuleType("page")
    sys.modules["page"] = module  # dataclasses and equinox look their module up
    try:
        yield lambda block: exec(compile("\n" * (block.line - 1) + block.code, filename, "exec"), module.__dict__)
    finally:
        del sys.modules["page"]


def run_blocks(blocks: list[Block], filename: str) -> None:
    with fresh_module(filename) as run:
        for block in blocks:
            if not block.mark:
                run(block)


def as_users_have_it():
    """JAX's own promotion rules, not the strict ones of the tests."""
    return jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard")


def page_to_run(page: Path):
    """A parameter: slow if what is run of this page compiles much."""
    blocks = python_blocks(page.read_text(encoding="utf-8"))
    is_slow = any(COMPILES.search(block.code) for block in blocks if not block.mark)
    return pytest.param(page, id=str(page.relative_to(ROOT)), marks=[pytest.mark.slow] if is_slow else [])


@pytest.mark.parametrize("page", [page_to_run(page) for page in PAGES])
def test_page_runs(page, tmp_path, monkeypatch):
    blocks = python_blocks(page.read_text(encoding="utf-8"))
    monkeypatch.chdir(tmp_path)  # what the page writes must not land in the repository
    ranks, types = as_users_have_it()
    with ranks, types:
        run_blocks(blocks, str(page))


def wrong_uses(code: str) -> list[str]:
    """What a block takes from hamq and is not there, and calls of it with arguments that it does not have."""
    wrong, imported = [], {"hamq": "hamq"}
    nodes = list(ast.walk(ast.parse(code)))
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hamq"):
            imported |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in nodes:
        called = node.func if isinstance(node, ast.Call) else node
        if not isinstance(called, ast.Name | ast.Attribute) or not re.fullmatch(r"[\w.]+", name := ast.unparse(called)):
            continue
        first, dot, rest = name.partition(".")
        if first not in imported:
            continue
        try:
            found = pkgutil.resolve_name(imported[first] + dot + rest)
            if isinstance(node, ast.Call) and all(word.arg for word in node.keywords):
                inspect.signature(found).bind(*node.args, **{word.arg: word.value for word in node.keywords if word.arg})
        except (AttributeError, ImportError, TypeError) as error:
            wrong.append(f"line {node.lineno}: {name}: {error}")
    return sorted(set(wrong))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_and_arguments_are_the_librarys(page):
    """Of every block, those that are run in `make check` or not at all included."""
    text = page.read_text(encoding="utf-8")
    assert [wrong for block in python_blocks(text) for wrong in wrong_uses(block.code)] == []


def test_wrong_names_and_arguments_are_found():
    code = "import hamq\nfrom hamq.deep.train import train_seeds as train\n"
    assert (
        wrong_uses(code + "problem = hamq.problems.pendulum(points=9)\nhamq.solve(problem, key=0, max_gradients=1)\n") == []
    )
    for line in ("hamq.slove(1)", "hamq.problems.pendulum(pionts=9)", "train(1, cfg=2)", "hamq.IID(1, 2, 3, 4, 5, 6, 7)"):
        assert len(wrong_uses(code + line)) == 1 and "line 3" in wrong_uses(code + line)[0], line
    assert len(wrong_uses("from hamq.deep.train import tarin\ntarin()\n")) == 1


LONG = [
    ROOT / "docs" / f"{name}.md"
    for name in ("choosing", "environments", "faq", "reading_a_report", "tutorial", "your_own_problem")
]
"""Pages with commands that are run, or with long blocks; the commands of all others are parsed by test_docs.py."""


@pytest.mark.slow
@pytest.mark.parametrize("page", LONG, ids=lambda page: page.stem)
def test_page_runs_with_its_commands(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks, wrong = fenced_blocks(page.read_text(encoding="utf-8")), []
    ranks, types = as_users_have_it()
    with ranks, types, fresh_module(str(page)) as run:
        for block in blocks:
            if block.file:
                Path(block.file).write_text(block.code, encoding="utf-8")
            if block.language == "python" and (block.file or block.mark == "run in make check"):
                run(block)
            elif block.language == "console" and block.mark != "not run":
                wrong += [problem for step in block.steps for problem in _wrong_with(*step, capsys)]
    assert wrong == []


def test_no_page_with_long_blocks_is_forgotten():
    long = [page for page in PAGES if any(b.mark == "run in make check" for b in fenced_blocks(page.read_text("utf-8")))]
    assert set(long) <= set(LONG)


def _wrong_with(command: str, shown: list[str], capsys) -> list[str]:
    name, *words = command.split()
    assert name == "hamq", f"{command}: only hamq can be run here"
    capsys.readouterr()
    code = main(words)
    printed = capsys.readouterr()
    if code:
        return [f"{command}: exit code {code}, {printed.err}"]
    return [f"{command} does not print {line!r}" for line in missing_output(shown, printed.out)]


def test_readme_has_code_and_skips_none():
    blocks = python_blocks(README.read_text(encoding="utf-8"))
    assert blocks
    assert [block.line for block in blocks if block.mark] == []


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
    lines_and_marks = [(block.line, block.mark) for block in python_blocks(PAGE)]
    assert lines_and_marks == [(3, ""), (11, "not run"), (15, "")]  # a skip without a reason is none


def test_blocks_share_one_namespace_and_report_their_line():
    run_blocks(python_blocks(PAGE + "```python\nassert (x, y) == (1, 2)\n```\n"), "page.md")
    with pytest.raises(ZeroDivisionError) as caught:
        run_blocks(python_blocks(PAGE + "```python\n1 / 0\n```\n"), "page.md")
    assert caught.traceback[-1].lineno + 1 == 18
    with pytest.raises(NameError):  # fresh for each page
        run_blocks([Block(1, "python", "x")], "page.md")


@pytest.mark.parametrize("text", ["```python\nx = 1\n", " ```python\nx = 1\n ```\n", "```py\nx = 1\n```\n"])
def test_malformed_block_is_an_error(text):
    with pytest.raises(ValueError, match="line 1"):
        python_blocks(text)
