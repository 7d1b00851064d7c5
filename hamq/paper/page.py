"""Pictures, captions, tables and claims of a folder of records, on one page; nothing is measured here."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hamq.paper import tables
from hamq.paper.drawing import Picture
from hamq.paper.evidence import Evidence
from hamq.paper.plan import FIGURES, STUDIES
from hamq.paper.records import RecordError, read_all, read_json

PAGE = "results.md"
STUDY_KEYS = {"low_rank": "tasks", "antithetic": "efficiency_at_paper", "rates": "summary"}
"""What a study's record must hold."""
DOTS = 150
"""Per inch of a PNG."""


def read_evidence(records: Path) -> Evidence:
    """All records; one that is damaged is named."""
    studies = {}
    for name, key in STUDY_KEYS.items():
        path = records / f"{name}.json"
        if path.exists():
            studies[name] = read_json(path)
            if not isinstance(studies[name], dict) or not studies[name].get(key):
                raise RecordError(f"{path} has no {key!r}; remove it, and it is measured again.")
    return Evidence(read_all(records), studies)


def draw(evidence: Evidence, names: Sequence[str], folder: Path, note: str) -> dict[str, list[Picture]]:
    """Saves the pictures of these figures and studies as PNG and SVG; studies say themselves what is quick about them."""
    drawn: dict[str, list[Picture]] = {}
    for name in names:
        if name in FIGURES:
            drawn[name] = FIGURES[name].pictures(evidence.records, note)
        elif name in evidence.studies:
            study: Any = STUDIES[name]
            picture = Picture(name, study.draw(evidence.studies[name]), study.caption(evidence.studies[name]))
            drawn[name] = [picture]
        for picture in drawn.get(name, ()):
            picture.figure.savefig(folder / f"{picture.name}.png", dpi=DOTS)
            picture.figure.set_layout_engine("none")  # it is laid out by now, and that takes as long as drawing
            picture.figure.savefig(folder / f"{picture.name}.svg", metadata={"Date": None})
    return drawn


def sections(evidence: Evidence, drawn: dict[str, list[Picture]], note: str, pictures: str = "") -> dict[str, str]:
    """The generated parts by name; `pictures` is the folder of the pictures as seen from the page."""
    found = {
        "claims": tables.claims(evidence),
        "savings": tables.savings(evidence),
        "networks": tables.networks(evidence),
        "provenance": tables.sources(),
    }
    for name, parts in drawn.items():
        shown = [f"![{part.name}]({pictures}{part.name}.png)\n\n{part.caption}" for part in parts]
        if name in FIGURES:
            shown.append(tables.errors(evidence, FIGURES[name].GROUPS))
        found[name] = "\n\n".join(shown)
    if note:
        found = {name: f"*{note}*\n\n{text}" for name, text in found.items()}
    return found


TITLES = {
    "claims": "Claims of the paper",
    "savings": "What the same answer costs",
    "networks": "DQN and DDPG with the faster preset: error, and loss over the best constant action's, mean (worst)",
    "provenance": "Where the numbers come from",
    **{name: module.TITLE for name, module in FIGURES.items()},
    **{name: name.replace("_", " ").capitalize() for name in STUDIES},
}


def write_page(folder: Path, parts: dict[str, str]) -> Path:
    text = "\n\n".join(f"## {TITLES[name]}\n\n{part}" for name, part in parts.items())
    path = folder / PAGE
    path.write_text(f"# Hamiltonian Q-Learning, figure by figure\n\n{text}\n")
    return path


def begin(name: str) -> str:
    return f"<!-- made by `hamq paper`: {name} -->"


END = "<!-- end -->"


def renew(page: Path, parts: dict[str, str]) -> list[str]:
    """Puts the generated parts between their marks on a page written by hand; returns the names of those replaced."""
    text, replaced = page.read_text(), []
    for name, part in parts.items():
        head, mark, rest = text.partition(begin(name))
        if mark:
            _, end, tail = rest.partition(END)
            if not end:
                raise RecordError(f"{page} has no {END} after {mark}; put it back.")
            text = f"{head}{mark}\n\n{part}\n\n{end}{tail}"
            replaced.append(name)
    page.write_text(text)
    return replaced
