"""Pages of documentation read as a test needs them: blocks of code, commands, links and anchors."""

import itertools
import re
import shlex
import unicodedata
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"\s*(`{3,}|~{3,})\s*(\w*)")
MARK = re.compile(r"<!--\s*(not run|run in make check):\s*\S.*-->")
LINK = re.compile(r"\]\(([^()\s]+)\)")
CODE = re.compile(r"`[^`\n]+`")
HEADING = re.compile(r"#{1,6} +(.*)")
PLACEHOLDER = re.compile(r"\b[A-Z]{2,}\b|…|\.\.\.")
"""In a command: what a reader is to replace."""


@dataclass(frozen=True)
class Block:
    """Code between fences. `mark`: "not run", "run in make check", or "" where nothing is said before it."""

    line: int  # of the first line of code, from 1
    language: str
    code: str
    mark: str = ""

    @property
    def file(self) -> str | None:
        """The name in a first line `# name.py`: the reader is to save this block."""
        found = re.match(r"# (\w+\.py)\n", self.code) if self.language == "python" else None
        return found and found[1]

    @property
    def steps(self) -> list[tuple[str, list[str]]]:
        """The commands of a console block, and what is shown of their output."""
        steps: list[tuple[str, list[str]]] = []
        for line in self.code.splitlines():
            if line.startswith("$ "):
                steps.append((line[2:], []))
            elif steps and line.strip() not in ("", "…"):
                steps[-1][1].append(line)
        return steps


def fenced_blocks(text: str) -> list[Block]:
    """All blocks of a page; one that is not closed, or Python that is indented, is an error."""
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
            if fence[2] in ("python", "py", "python3") and line != "```python":
                raise ValueError(f"line {number}: write ```python at the start of the line, not {line!r}")
            mark = MARK.fullmatch(before)
            blocks.append(Block(number + 1, fence[2], "\n".join(code) + "\n", mark[1] if mark else ""))
        if line.strip():
            before = line.strip()
    return blocks


def prose(text: str) -> str:
    """The page without its fenced blocks and comments; lines keep their numbers."""
    lines, is_code, kept = text.splitlines(), False, []
    for line in lines:
        is_fence = bool(FENCE.match(line))
        kept.append("" if is_code or is_fence else re.sub(r"<!--.*?-->", "", line))
        is_code ^= is_fence
    return "\n".join(kept)


def commands(text: str) -> list[list[str]]:
    """Every `hamq …` of a page, as words: lines of blocks that are not Python, and code within the text."""
    lines = [line for block in fenced_blocks(text) if block.language != "python" for line in block.code.splitlines()]
    lines = [line.removeprefix("$ ") for line in lines]
    lines += [code.strip("`") for code in CODE.findall(prose(text)) if not PLACEHOLDER.search(code)]
    return [shlex.split(line, comments=True)[1:] for line in lines if re.match(r"hamq [a-z]", line)]


def anchors(text: str) -> set[str]:
    """The anchors of the headings, where GitHub and mkdocs agree on them."""
    headings = [found[1] for line in prose(text).splitlines() if (found := HEADING.match(line))]
    slugs = {(github_slug(heading), mkdocs_slug(heading)) for heading in headings}
    return {github for github, mkdocs in slugs if github == mkdocs}


def github_slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def mkdocs_slug(heading: str) -> str:
    """As Python-Markdown's toc has it."""
    ascii_only = unicodedata.normalize("NFKD", heading.replace("`", "")).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_only).strip().lower())


def dead_links(page: Path, text: str) -> list[str]:
    """The relative links and pictures of a page that lead nowhere, anchors included."""
    dead = []
    for link in LINK.findall(CODE.sub("", prose(text))):
        if re.match(r"https?://|mailto:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            dead.append(link)
    return dead


def read_differently(text: str) -> list[int]:
    """Numbers of lines that GitHub and Python-Markdown read differently: lists without a blank line, shallow indents."""
    lines = prose(text).splitlines()
    found = []
    for number, (before, line) in enumerate(itertools.pairwise(lines), start=2):
        is_item = bool(re.match(r"\s*([-*]|\d+\.) ", line))
        goes_on = not before.strip() or re.match(r"\s*([-*]|\d+\.) |\s+\S", before)
        is_shallow = not before.strip() and re.match(r" {1,3}\S", line)
        if (is_item and not goes_on) or is_shallow or (is_item and re.match(r" {1,3}\S", line)):
            found.append(number)
    return found


NUMBER = re.compile(r"[-−]?\d[\d,.]*(?:e[-+]?\d+)?%?")


def without_numbers(line: str) -> str:
    """The words of a line of output, which stay; numbers and spaces may change."""
    return " ".join(NUMBER.sub("#", line).split())


def missing_output(shown: list[str], printed: str) -> list[str]:
    """The lines that a page shows and the command did not print, in order; numbers may differ, and what … stands for."""
    rest = [without_numbers(line) for line in printed.splitlines()]
    missing = []
    for line in map(without_numbers, shown):
        matching = [i for i, other in enumerate(rest) if other == line or (line[0] == "…" and other.endswith(line[1:]))]
        if matching:
            del rest[: matching[0] + 1]
        else:
            missing.append(line)
    return missing
