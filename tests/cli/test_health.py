"""The health of the sampler on the command line: kept, shown, and the same bits after a run was resumed."""

import re

import numpy as np

from hamq.cli.commands.show import health_summary
from hamq.runs.reading import read_run
from tests.cli.posed import PENDULUM, TINY

HMC = ("solve", *PENDULUM, "--sampler", "hmc", "--num-samples", "6", "--num-leapfrog", "1", "--num-warmup", "0")
HMC = (*HMC, "--completion", "none")


def test_kept_shown_and_resumed(hamq):
    assert hamq(*HMC, "--iterations", 4, "--out", "whole").code == 0
    assert hamq(*HMC, "--iterations", 2, "--out", "parts").code == 0
    assert hamq(*HMC, "--iterations", 4, "--out", "parts", "--resume").code == 0
    whole, parts = read_run("whole"), read_run("parts")
    assert whole.health is not None and parts.health is not None and len(whole.history) == len(parts.history) == 4
    for name, values in whole.health.items():
        assert values.shape == (9,) and np.isfinite(values).all()
        assert parts.health[name].tobytes() == values.tobytes()
    shown = hamq("show", "whole")
    line = r"Sampler: acceptance (\S+) in the median state, (\S+) in the worst \(state (\d)\); (\S+) of the chains stuck"
    median, worst, state, stuck = re.search(line, " ".join(shown.out.split())).groups()
    acceptance = whole.health["acceptance"]
    assert (median, worst) == (f"{np.median(acceptance):.2f}", f"{acceptance.min():.2f}")
    assert (int(state), float(stuck)) == (acceptance.argmin(), 0.0)
    described = hamq("show", "whole", "--json").json["health"]
    assert described == health_summary(whole) and described["worst_effective"] == whole.health["effective"].min()


def test_the_expected_error_is_kept_and_shown(hamq):
    """Of a density without a normaliser, with few draws."""
    words = ("solve", "repelling_agents", "--points", "3", "--sampler", "importance", "--num-samples", "20")
    done = hamq(*words, "--completion", "none", "--iterations", "3", "--out", "run")
    assert done.code in (0, 1) and "the expected error of Q is" in " ".join((done.out + done.err).split())
    kept = read_run("run").expected_error
    assert kept is not None and kept > 0 and hamq("show", "run", "--json").json["expected_error"] == kept
    assert f"expected error of Q {kept:.1%} of the range of V." in " ".join(hamq("show", "run").out.split())
    assert hamq("report", "run", "--out", "page.html").code == 0
    with open("page.html", encoding="utf-8") as page:
        assert f"{kept:.1%} of the range of V, from what the draws are worth" in page.read()


def test_without_chains_and_without_draws(hamq):
    words = ("solve", *PENDULUM, "--sampler", "iid", "--num-samples", "5", "--completion", "none", "--iterations", "2")
    assert hamq(*words, "--out", "independent").code == 0
    shown = " ".join(hamq("show", "independent").out.split())
    assert "Sampler: 5 effective draws per pair, 5 in the worst state." in shown
    assert hamq("show", "independent", "--json").json["health"]["median_acceptance"] is None
    assert hamq(*TINY, "--out", "run").code == 0
    assert "Sampler" not in hamq("show", "run").out and hamq("show", "run", "--json").json["health"] is None
