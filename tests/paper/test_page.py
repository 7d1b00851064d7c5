"""The page: pictures on disk, parts between marks, and docs/paper.md, which must be what its records say."""

import re
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from hamq.paper import page, tables
from hamq.paper.evidence import Evidence
from hamq.paper.plan import FIGURES, STUDIES
from hamq.paper.records import RecordError
from tests.paper.posed import records_of

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def evidence():
    return page.read_evidence(DOCS / "paper" / "records")


def part(text: str, name: str) -> str:
    return text.partition(page.begin(name))[2].partition(page.END)[0].strip()


def test_the_tables_of_the_docs_are_those_of_the_records(evidence):
    """Nothing on that page is typed: verdicts, savings, sources and captions' tables come from the records again."""
    text = (DOCS / "paper.md").read_text()
    assert part(text, "claims") == tables.claims(evidence)
    assert part(text, "savings") == tables.savings(evidence)
    assert part(text, "provenance") == tables.sources()
    assert part((DOCS / "deep.md").read_text(), "networks") == tables.networks(evidence)
    for name, figure in FIGURES.items():
        assert part(text, name).endswith(tables.errors(evidence, figure.GROUPS)), name
    for name, study in STUDIES.items():
        assert part(text, name).endswith(study.caption(evidence.studies[name])), name


def test_the_pictures_of_the_docs_are_there():
    text = (DOCS / "paper.md").read_text()
    shown = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert len(shown) >= 16
    for path in shown:
        assert (DOCS / path).stat().st_size > 5_000, path


def test_the_full_study_has_its_seeds(evidence):
    for name, figure in FIGURES.items():
        for group in figure.GROUPS:
            wanted = 5 if group.method.startswith(("dqn", "ddpg")) else 10
            assert [run.seed for run in evidence.runs(*group)] == list(range(wanted)), (name, group)
    for group, runs in evidence.records.items():
        assert all({"jax", "device"} <= run.versions.keys() for run in runs), group


def test_ours_is_as_good_for_a_hundredth_of_the_gradients(evidence):
    """On every task: error and loss of both others at a hundredth, and in the end a third of corrected's loss."""
    for line in tables.savings(evidence).splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert float(cells[5].removeprefix("1/").replace(",", "")) >= 100, line
        assert float(cells[6].rpartition("= ")[2].replace(",", "")) >= 3, line


def test_networks_learn_with_the_faster_preset(evidence):
    """Interquartile means over five seeds; of the 60 runs one ends with an error above 0.1 (DDPG with IID)."""
    missed = []
    for task in ("pendulum", "double_integrator"):
        for method in ("dqn-exhaustive", "dqn-hmc", "dqn-iid", "ddpg-exhaustive", "ddpg-hmc", "ddpg-iid"):
            group = (task, "ours", method)
            constant = evidence.estimate(*group, "constant_action_loss").value
            assert evidence.estimate(*group, "frobenius").value < 0.1
            assert evidence.estimate(*group, "policy_loss").value < constant / 3
            for run in evidence.runs(*group):
                if run.final["frobenius"] >= 0.1 or run.final["policy_loss"] >= constant / 3:
                    missed.append(run.name)
    assert missed == ["double_integrator/ours-ddpg-iid-2"]


def test_pictures_and_page_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "DOTS", 50)
    records = records_of(FIGURES["fig2"].GROUPS, 2)
    evidence = Evidence(records, {})
    drawn = page.draw(evidence, ["fig2", "rates"], tmp_path, "quick run")
    assert list(drawn) == ["fig2"]  # the study was not run
    for picture in drawn["fig2"]:
        assert (tmp_path / f"{picture.name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (tmp_path / f"{picture.name}.svg").read_text()
    parts = page.sections(evidence, drawn, "quick run")
    assert all(text.startswith("*quick run*") for text in parts.values())
    text = page.write_page(tmp_path, parts).read_text()
    assert "![fig2](fig2.png)" in text and drawn["fig2"][0].caption in text and "## Claims of the paper" in text


def test_marks(tmp_path):
    at = tmp_path / "page.md"
    at.write_text(f"before\n{page.begin('claims')}\nold\n{page.END}\nafter\n")
    assert page.renew(at, {"claims": "new", "fig1": "unseen"}) == ["claims"]
    assert at.read_text() == f"before\n{page.begin('claims')}\n\nnew\n\n{page.END}\nafter\n"
    assert page.renew(at, {"claims": "newer"}) == ["claims"] and "newer" in at.read_text()
    at.write_text(f"{page.begin('claims')} and no end")
    with pytest.raises(RecordError, match="put it back"):
        page.renew(at, {"claims": "new"})


@pytest.mark.parametrize("name", STUDIES)
def test_quick_studies_say_so_once(tmp_path, monkeypatch, evidence, name):
    """`antithetic` and `rates` have a note of their own, which nothing else may cover; `low_rank` is never quick."""
    monkeypatch.setattr(Figure, "savefig", lambda *_, **__: None)  # the words are there before
    study = evidence.studies[name] | {"quick": True}
    (picture,) = page.draw(Evidence({}, {name: study}), [name], tmp_path, "quick run: 2 seeds")[name]
    notes = [text.get_text() for text in picture.figure.texts if "quick" in text.get_text()]
    assert len(notes) == (0 if name == "low_rank" else 1)
