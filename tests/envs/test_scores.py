"""The scores that docs/environments.md shows are those of the record, and they are what was asked for."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEAST = {
    "Pendulum-v1": -150.0,
    "CartPole-v1": 500.0,
    "Acrobot-v1": -90.0,
    "InvertedPendulum-v5": 1000.0,
    "InvertedDoublePendulum-v5": 9100.0,
}
"""Mean returns over 100 episodes."""


@pytest.fixture(scope="module")
def rows():
    return json.loads((ROOT / "benchmarks" / "records" / "environments.json").read_text(encoding="utf-8"))["rows"]


def test_every_task_reaches_its_score_with_every_seed(rows):
    for task, least in LEAST.items():
        learned = [row for row in rows if row["task"] == task and row["decoder"] == "lookahead"]
        assert len(learned) == 3 and all(row["sampler"] == "HMC(10)" for row in learned)
        assert min(row["mean"] for row in learned) >= least, task
        assert all(len(row["returns"]) == 100 for row in learned)


def test_the_page_shows_the_record(rows):
    shown = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8").splitlines()
    for row in (row for row in rows if row["key"] == 0):
        mean = f"{row['mean']:.1f}".replace("-", "−")
        way = "LQR" if row["sampler"] == "LQR" else row["decoder"]
        assert sum(f"| {row['task']} |" in line and f"| {way} | {mean} |" in line for line in shown) == 1, (row["task"], way)
