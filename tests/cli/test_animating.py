"""hamq report adds rollouts where the problem can be made again, and says why where it cannot."""

import base64
import json
import re

import numpy as np
import pytest

MINE = """
import jax.numpy as jnp
import hamq

def make(noise=0.05):
    return hamq.Problem(
        grid=hamq.Grid([-1.0, -1.0], [1.0, 1.0], [4, 5]),
        actions=jnp.array([-1.0, 1.0]),
        kernel=hamq.GaussianKernel(mean=lambda s, a: 0.9 * s + 0.2 * a, covariance=[noise, noise]),
        reward=lambda s, a: -jnp.sum(s**2),
        discount=0.8,
        law="linear",
        scene=hamq.Scene((-1.0, 1.0, -1.0, 1.0), lambda state, action: 1 / 0) if noise > 0.5 else None,
    )
"""


def animations(path) -> list[dict]:
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])["animations"]


def states(rollout) -> np.ndarray:
    return np.frombuffer(base64.b64decode(rollout["states"]), "<f4").reshape(rollout["length"], -1)


@pytest.mark.slow
def test_rollouts_of_runs(hamq, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    assert hamq("exact", "mine.py:make", "--out", "a").code == 0
    early = ("--sampler", "exhaustive", "--completion", "none", "--iterations", 1)
    assert hamq("solve", "mine.py:make", *early, "--out", "b").code == 0
    assert hamq("exact", "mine.py:make", "--set", "noise=0.1", "--out", "other").code == 0
    made = hamq("report", "a", "b", "other", "-o", "page.html")
    assert made.code == 0 and "no animated rollout" not in made.out
    of_a_and_b, of_other = animations(tmp_path / "page.html")  # one for each problem
    assert [rollout["name"] for rollout in of_a_and_b["rollouts"]] == ["a", "b"]
    starts = [states(rollout)[0] for rollout in (*of_a_and_b["rollouts"], *of_other["rollouts"])]
    np.testing.assert_array_equal(starts, np.tile(starts[0], (3, 1)))

    assert hamq("exact", "mine.py:make", "--set", "noise=0.6", "--out", "broken").code == 0
    made = hamq("report", "broken", "--json")  # its scene divides by zero
    assert made.json["notes"] == ["no animated rollout of broken: division by zero"]
    assert animations(tmp_path / "broken" / "report.html") == []

    (tmp_path / "mine.py").unlink()
    made = hamq("report", "a")
    assert made.code == 0
    assert re.search(r"no animated rollout of a: the problem cannot be made again: there is no file .*mine\.py", made.out)
    assert animations(tmp_path / "a" / "report.html") == []
