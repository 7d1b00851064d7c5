"""The pages: no dead link, no misspelt command, no message that the library does not say, no public name left out."""

import ast
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import hamq
from hamq.cli.parsing import command_names, parse
from tests.pages import (
    CODE,
    PAGES,
    ROOT,
    Block,
    anchors,
    commands,
    dead_links,
    fenced_blocks,
    missing_output,
    prose,
    read_differently,
)

DOCS = ROOT / "docs"
OTHERS = [ROOT / name for name in ("CONTRIBUTING.md", "VISION.md", "CHANGELOG.md")]
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def test_every_page_is_in_the_navigation():
    def pages(entries):
        for entry in entries:
            for target in entry.values():
                yield from pages(target) if isinstance(target, list) else [target]

    listed = list(pages(yaml.safe_load(text_of(ROOT / "mkdocs.yml"))["nav"]))
    assert sorted(listed) == sorted(page.name for page in DOCS.glob("*.md"))


@every_page
def test_no_dead_links(page):
    assert dead_links(page, text_of(page)) == []


def test_no_dead_links_elsewhere():
    assert {page.name: dead for page in OTHERS if page.exists() and (dead := dead_links(page, text_of(page)))} == {}


@every_page
def test_files_that_are_named_exist(page):
    named = re.findall(r"`(?:python )?((?:benchmarks|docs|examples|hamq|tests)/[\w/-]+\.\w+)", prose(text_of(page)))
    assert [name for name in named if not (ROOT / name).exists()] == []


@every_page
def test_commands_are_understood(page):
    for command, *words in commands(text_of(page)):
        assert command in command_names(), f"hamq {command}"
        if words and "--help" not in words:  # a command alone is a mention of it
            parse(command, words)


@every_page
def test_page_reads_the_same_everywhere(page):
    assert read_differently(text_of(page)) == []


def test_the_reference_has_every_public_name():
    listed = re.findall(r"^::: hamq\.(\S+)$", text_of(DOCS / "api.md"), re.MULTILINE)
    assert len(listed) == len(set(listed))
    zoo = {f"problems.{name}" for name in vars(hamq.problems) if _is_public(getattr(hamq.problems, name))}
    extras = {f"{name}.{one}" for name in ("deep", "envs") for one in getattr(hamq, name).__all__ if one != "IDS"}
    assert (set(hamq.__all__) - {"problems", "deep", "envs"}) | zoo | extras <= set(listed)
    for name in listed:
        assert pkgutil.resolve_name(f"hamq.{name}") is not None


def _is_public(found) -> bool:
    return callable(found) and found.__module__.startswith("hamq.problem.zoo")


def templates(root: Path) -> list[re.Pattern]:
    """All sentences of the library, as patterns: what an f-string fills in is anything."""
    found = []
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            texts = [part.value if isinstance(part, ast.Constant) else None for part in parts]
            if sum(len(text) for text in texts if isinstance(text, str)) >= 20:
                found.append(re.compile("".join(".+?" if text is None else re.escape(str(text)) for text in texts)))
    return found


def unknown_messages(text: str, known: list[re.Pattern]) -> list[str]:
    """Lines of ```text blocks that are none of the known sentences."""
    lines = [line for block in fenced_blocks(text) if block.language == "text" for line in block.code.splitlines()]
    return [line for line in lines if not any(pattern.search(line) for pattern in known)]


def test_messages_are_the_librarys_own():
    text = text_of(DOCS / "faq.md")
    assert sum(block.language == "text" for block in fenced_blocks(text)) >= 15
    assert unknown_messages(text, templates(ROOT / "hamq")) == []


def test_a_message_that_was_changed_is_seen(tmp_path):
    (tmp_path / "library.py").write_text('raise ValueError(f"points must be at least {2}, got {n}; use more.")\n')
    page = "```text\npoints must be at least 2, got 1; use more.\npoints must be 2 or more, got 1; use more.\n```\n"
    assert unknown_messages(page, templates(tmp_path)) == ["points must be 2 or more, got 1; use more."]


def test_links_and_anchors_are_followed(tmp_path):
    (tmp_path / "there.md").write_text("# A title: `code`, and more\n```sh\n# no heading\n```\n")
    page = tmp_path / "page.md"
    text = (
        "# Here\n[a](there.md) [b](there.md#a-title-code-and-more) [c](#here) [d](https://example.org/x)\n"
        "[e](gone.md) [f](there.md#no-heading) [g](#gone) ![h](gone.png) `[i](code.md)`\n"
    )
    page.write_text(text)
    assert dead_links(page, text) == ["gone.md", "there.md#no-heading", "#gone", "gone.png"]
    assert anchors("## Σ and σ\n## Plain\n") == {"plain"}  # the first has another anchor on each side


def test_commands_are_found():
    text = "```console\n$ hamq list   # all\nhamq: words\n```\nUse `hamq show run`, not `hamq show RUN` or `hamq.show`.\n"
    assert commands(text) == [["list"], ["show", "run"]]
    assert Block(1, "console", "$ hamq list\n\nname 3\n…\n$ hamq show x\n").steps == [
        ("hamq list", ["name 3"]),
        ("hamq show x", []),
    ]


def test_shown_output_may_differ_in_numbers_only():
    printed = "settled to 1e-05 after 20 iterations.\nSaved in run.\n"
    assert missing_output(["settled to  0.3 after 7 iterations."], printed) == []
    assert missing_output(["Saved in run.", "settled to 0.3 after 7 iterations."], printed) == [
        "settled to # after # iterations."
    ]
    assert missing_output(["…after 7 iterations.", "Saved in run."], printed) == []
    assert missing_output(["settled after 7 iterations."], printed) == ["settled after # iterations."]


def test_what_readers_see_differently_is_found():
    assert read_differently("text\n- item\n\n- item\n  more\n\n  lost\n\n    kept\n") == [2, 7]


def test_code_in_tables_keeps_its_bars():
    """A bar inside code ends a cell of a table on GitHub and in mkdocs."""
    for page in PAGES:
        rows = [line for line in prose(text_of(page)).splitlines() if line.startswith("|")]
        assert [code for row in rows for code in CODE.findall(row) if re.search(r"(?<!\\)\|", code)] == []


@pytest.mark.slow
def test_site_builds_strictly_and_needs_no_network(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    assert built.returncode == 0, built.stderr[-2000:]
    pages = {page.stem: page.read_text(encoding="utf-8") for page in tmp_path.glob("*.html")}
    assert set(pages) == {page.stem for page in DOCS.glob("*.md")} | {"404"}
    for name, html in pages.items():
        fetched = re.findall(r'<(?:script|img|iframe)[^>]*\bsrc="(https?:[^"]*)|<link[^>]*\bhref="(https?:[^"]*)', html)
        assert fetched == [], name
        assert "arithmatex" not in html and "merror" not in html, f"{name} has a formula that is still TeX"
    assert pages["mathematics"].count('display="block"') >= 12
    modules = {"problems", "deep", "envs"}  # their names are on the page, not they themselves
    assert {name for name in hamq.__all__ if f'id="hamq.{name}"' not in pages["api"]} <= modules
