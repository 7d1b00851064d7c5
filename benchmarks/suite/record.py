"""The record of the suite: one JSON file, one entry per part, written as soon as a part is measured.

    {"parts": {"exact": {"date", "is_full", "seconds", "versions", "machine",
                         "comparisons": [{"name", "peer", "measure", "ours", "theirs", "wall", "cpu", "repeats", "note"}],
                         "tables": [{"title", "head", "rows", "note"}], "claims": [{"text", "holds"}], "notes": [str],
                         "studies": {…}}}}

`wall` and `cpu` are [lower quartile, median, upper quartile] of the ratio theirs/ours; `studies` is what the scaling
picture shows. Parts keep their own date, versions and machine, because `--only` measures some of them again.
"""

import datetime
import json
import os
import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import hamq

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "benchmarks" / "records" / "suite.json"
GPU = ROOT / "benchmarks" / "records" / "gpu.json"
PACKAGES = ("jax", "jaxlib", "numpy", "scipy")


def versions(*peers: str) -> dict[str, str]:
    found = {"hamq": hamq.__version__, "python": platform.python_version()}
    for name in (*PACKAGES, *peers):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict:
    import jax

    return {"cpu": cpu_model(), "cores": os.cpu_count(), "device": jax.devices()[0].device_kind}


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def table(title: str, head: list[str], rows: list[list], note: str = "") -> dict:
    """Cells are words, numbers (shown with three digits) or None."""
    return {"title": title, "head": head, "rows": rows, "note": note}


def claim(text: str, holds: bool) -> dict:
    return {"text": text, "holds": bool(holds)}


def load(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"parts": {}}


def save(path: Path, record: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.with_suffix(".new")  # an interruption leaves the old record
    whole.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    whole.replace(path)


def comparisons(record: dict) -> list[dict]:
    """All comparisons, each with the name of its part."""
    return [{"part": name, **one} for name, part in record["parts"].items() for one in part["comparisons"]]


def ratio(comparison: dict) -> list[float]:
    """[lower quartile, median, upper quartile] of the ratio that counts."""
    return comparison[comparison["measure"]]


def finish(found: dict, is_full: bool, seconds: float) -> dict:
    """What a part measured, with everything that a reader of the record needs beside it."""
    empty = {"comparisons": [], "tables": [], "claims": [], "notes": [], "versions": versions()}
    about = {"date": datetime.date.today().isoformat(), "is_full": is_full, "seconds": seconds, "machine": machine()}
    return about | empty | found


Measure = Callable[[bool], dict]
"""A part: measure(is_full) gives comparisons, tables, claims, notes and versions; all of them may be left out."""
