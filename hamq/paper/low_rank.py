"""Is Q* of low rank? Singular values of the table and of its advantages, on the paper's five tasks.

The paper takes the number of singular values that hold 99 % of the nuclear norm. The mean level of Q is one singular value
that outweighs all others, so the rule says 1 whatever the advantages, which decide the policy, look like.
"""

from typing import Any

import numpy as np

from hamq.certificates.comparison import advantages
from hamq.completion.rank import effective_rank
from hamq.paper.drawing import FONT, TASK_WORDS, Figure, canvas
from hamq.paper.tasks import TASKS, reference

MARKERS = {"pendulum": "o", "double_integrator": "s", "cartpole": "D", "acrobot": "^", "cart_double_pendulum": "v"}
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000")


def measure(seeds: int, quick: bool) -> dict[str, Any]:
    """Nothing here is random, and all of it is quick."""
    del seeds, quick
    found = {}
    for name in TASKS:
        q = reference(name).exact.q
        found[name] = {
            "rank": effective_rank(q),
            "advantage_rank": effective_rank(q, centred=True),
            "singular_values": _relative(q),
            "advantage_singular_values": _relative(advantages(q)),
        }
    return {"tasks": found}


def _relative(table: np.ndarray) -> list[float]:
    s = np.linalg.svd(table, compute_uv=False)
    return (s / s[0]).tolist()


def draw(record: dict[str, Any]) -> Figure:
    figure, ((left, right),) = canvas(1, 2, 3.0, "", sharey=True)
    for panel, column in ((left, "singular_values"), (right, "advantage_singular_values")):
        for (name, task), colour in zip(record["tasks"].items(), COLOURS, strict=True):
            s = np.asarray(task[column])
            style = {"color": colour, "marker": MARKERS[name], "markersize": 4, "linewidth": 1}
            panel.semilogy(np.arange(1, len(s) + 1), s, label=TASK_WORDS[name], **style)
        panel.set(xlabel="number of the singular value", ylim=(1e-6, 2))
    left.set_title("the table Q*", fontsize=FONT)
    right.set_title("its advantages, Q* less its mean over actions", fontsize=FONT)
    left.set_ylabel("singular value, relative to the largest")
    left.legend(fontsize=FONT, frameon=False)
    return figure


def caption(record: dict[str, Any]) -> str:
    ranks = ", ".join(
        f"{TASK_WORDS[name]} {task['rank']} and {task['advantage_rank']}" for name, task in record["tasks"].items()
    )
    return f"Number of singular values that hold 99 % of the nuclear norm, of Q* and of its advantages: {ranks}."
