"""The figures and claims of the paper, one declarative file each; no algorithm is here.

A figure is a module `figureN` of this folder and a line of `FIGURES`. The command line lists them: nothing heavy is
imported here.
"""

FIGURES = {
    "fig1": "6-D cart double pendulum: convergence, policies, error against samples and gradients",
    "fig2": "four tasks: convergence with HMC against IID, error against gradients",
    "fig3": "four tasks: policy heat maps, and what their differences cost",
    "fig4": "four tasks with tables, DQN and DDPG: error against samples",
}
STUDIES = {
    "low_rank": "singular values of Q* and of its advantages",
    "antithetic": "how the length of the trajectory makes HMC better or worse than IID",
    "rates": "how the error falls with samples and pairs, against Theorem 3",
}
"""Beside the paper's figures: one module, one record and one picture each."""
