"""The record of the campaign: one entry per part, with seeds, counts and seconds."""

import json
import os
import platform
import time
from pathlib import Path

from hamq.runs.manifest import package_versions

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "benchmarks" / "records" / "faults.json"


def about(is_quick: bool) -> dict:
    """When, where and with what a part was carried out."""
    machine = {"system": platform.system(), "cores": os.cpu_count()}
    return {"date": time.strftime("%Y-%m-%d"), "is_quick": is_quick, "machine": machine, "versions": package_versions()}


def load(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"parts": {}}


def save(path: Path, record: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
