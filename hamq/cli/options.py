"""What can be said on the command line, as plain dataclasses; tests/cli/test_options.py holds them to the modules.

A field is an option: `num_samples` is `--num-samples`. Options of samplers and completions lose the prefix `sampler_` or
`completion_` on the way to the module: two modules may have a field of one name, the command line has one of each.
Nothing here imports JAX, so that `--help` is quick.
"""

import dataclasses
import math
from typing import Literal

from hamq.cli.gym_options import ContinuousGymOptions, GymOptions

Unidentified = Literal["keep", "zero", "error"]


@dataclasses.dataclass(frozen=True)
class SolveOptions:
    """Algorithm 1; see docs/solving.md."""

    seed: int = 0
    """Of all random numbers; the same seed gives the same bits."""
    sampler: Literal["hmc", "iid", "importance", "exhaustive"] = "hmc"
    """How next states are drawn; its options are listed below."""
    completion: Literal["anchors", "nuclear_norm", "soft_impute", "none"] = "anchors"
    """How the table is completed; its options are listed below."""
    literal: bool = False
    """The paper's settings to the letter, but for what else is given here."""
    iterations: int = 200
    """Stop after so many."""
    tolerance: float | None = None
    """Stop when Q is so close to the limit of the sampled iteration; the exit code is 1 if that was missed."""
    max_gradients: int | None = None
    """Budget of gradient evaluations, pilots and mode search included; decides the number of draws."""
    initial: str | None = None
    """The first table: a number, "uniform" on [0, 1] or "uniform:2" on [0, 2]; None: mean(r)/(1−γ)."""
    selection: Literal["per_state", "bernoulli", "anchors", "all"] | None = None
    """Which pairs are backed up; None: what suits the completion."""
    fraction: float | None = None
    """How many of them, with per_state and bernoulli; None: 0.2."""
    complete: Literal["expectation", "increment", "table"] | None = None
    """What is completed; None: what suits the completion."""
    draws: Literal["reuse", "fresh", "regenerate"] = "reuse"
    """Reuse the draws of the first iteration, make the same ones again each time (memory), or fresh ones."""
    coupled: bool = True
    """The actions of a state share their random numbers."""
    step_size: float = 1.0
    """α in Q + α·(completed − Q)."""
    step_decay: float | None = None
    """α falls as step_size/(1 + t/step_decay)."""
    schedule: Literal["constant", "lemma3"] = "constant"
    """lemma3 takes the number of draws from the paper's Lemma 3."""
    max_bytes: int | None = None
    """Memory that may be used; None: half of what is free."""
    devices: int | None = None
    """Devices of this process, or of every process, that share the states; None: 1. Changes no bit of the result."""


@dataclasses.dataclass(frozen=True)
class ProcessOptions:
    """Several processes, on one host or many; under srun and mpirun they find each other. See docs/scale.md."""

    coordinator: str | None = None
    """HOST:PORT of process 0, a free port; the same in all processes."""
    num_processes: int | None = None
    """How many there are; 1 keeps a task of srun or mpirun to itself."""
    process_id: int | None = None
    """Which of them this is, from 0; process 0 alone writes and prints."""


@dataclasses.dataclass(frozen=True)
class HMCOptions:
    """Hamiltonian Monte Carlo."""

    num_samples: int | None = None
    """Draws per pair; None: as many as the budget buys."""
    num_leapfrog: int | None = None
    """Leapfrog steps per draw; None: 5, or what a pilot finds best for a user's density."""
    sampler_step_size: float | None = None
    """Of a leapfrog step, in standard deviations; None: 0.6·d^(−1/4), adapted for user densities."""
    walls: Literal["logit", "reflect", "sigmoid"] = "logit"
    """What keeps the chain in the box."""
    sharpness: float = 80.0
    """κ of sigmoid walls."""
    num_warmup: int = 5
    """Draws that each chain throws away."""
    num_chains: int | None = None
    """Chains per pair, which share num_samples; None: 1, or 4 for a user's density."""
    calibrate: bool | None = None
    """Weight the draws by what is known of the density; None: yes with logit walls, unless the density jumps."""
    dispersed: bool = False
    """Start chains at random places around the modes, not at them."""


@dataclasses.dataclass(frozen=True)
class IIDOptions:
    """Independent draws."""

    num_samples: int = 100
    """Draws per pair."""
    method: Literal["product", "masses", "rejection"] | None = None
    """How; None: the best one that the kernel allows."""


@dataclasses.dataclass(frozen=True)
class ImportanceOptions:
    """Importance sampling."""

    num_samples: int = 100
    """Draws per pair."""


@dataclasses.dataclass(frozen=True)
class ExhaustiveOptions:
    """All next states, weighted by their masses; no options."""


@dataclasses.dataclass(frozen=True)
class AnchorsOptions:
    """A few whole columns and rows."""

    num_columns: int | None = None
    """Actions that are backed up in all states; None: what held-out entries say."""
    num_states: int | None = None
    """States that are backed up for all actions; None: 10 to 40."""


@dataclasses.dataclass(frozen=True)
class NuclearNormOptions:
    """The paper's completion: the least nuclear norm that meets the entries."""

    completion_tolerance: float = 1e-7
    """Relative duality gap."""
    completion_max_iterations: int = 5000
    """Of its own loop."""
    unidentified: Unidentified = "keep"
    """What becomes of states without any entry."""


@dataclasses.dataclass(frozen=True)
class SoftImputeOptions:
    """Soft-impute: does not meet noisy entries exactly."""

    penalty: float | None = None
    """λ, in the units of the table; None: by held-out entries."""
    completion_tolerance: float = 1e-5
    """Relative duality gap."""
    completion_max_iterations: int = 2000
    """Of its own loop."""
    unidentified: Unidentified = "keep"
    """What becomes of states without any entry."""


@dataclasses.dataclass(frozen=True)
class NoCompletionOptions:
    """Entries that are not backed up keep their values; no options."""


SAMPLERS = {
    "hmc": HMCOptions(),
    "iid": IIDOptions(),
    "importance": ImportanceOptions(),
    "exhaustive": ExhaustiveOptions(),
}
COMPLETIONS = {
    "anchors": AnchorsOptions(),
    "nuclear_norm": NuclearNormOptions(),
    "soft_impute": SoftImputeOptions(),
    "none": NoCompletionOptions(),
}


@dataclasses.dataclass(frozen=True)
class FolderOptions:
    """The run folder and what is printed."""

    out: str | None = None
    """Run folder to write; without it nothing is kept."""
    resume: bool = False
    """Continue the run in --out, with the same options (only --iterations and --tolerance may change)."""
    overwrite: bool = False
    """Replace the run in --out, once the new one has its first iteration."""
    checkpoint_every: int | None = None
    """Iterations between two checkpoints."""
    checkpoint_seconds: float = 60.0
    """Seconds between two checkpoints."""
    tensorboard: str | None = None
    """Folder for TensorBoard: the columns of the history as scalars, one step per iteration."""


@dataclasses.dataclass(frozen=True)
class RunOptions(FolderOptions):
    """The run folder and what is printed."""

    exact: bool = False
    """Solve exactly as well: progress and history then show the distance to Q*."""
    report: bool = False
    """Write report.html into the run folder as well."""
    json: bool = False
    """Print one JSON object on stdout."""


@dataclasses.dataclass(frozen=True)
class ExactOptions:
    """Value iteration with certified bounds."""

    tolerance: float = 1e-6
    """Certified bound of |q − Q*|; the exit code is 1 if it was missed."""
    max_sweeps: int = 10_000
    """Stop after so many."""
    max_bytes: int | None = None
    """Memory that may be used; None: half of what is free."""
    max_evaluations: int | None = None
    """Of the density, for kernels that are no product over the axes."""


@dataclasses.dataclass(frozen=True)
class ExactRunOptions:
    """The run folder and what is printed."""

    out: str | None = None
    """Run folder to write; without it nothing is kept."""
    overwrite: bool = False
    """Replace the run in --out."""
    report: bool = False
    """Write report.html into the run folder as well."""
    json: bool = False
    """Print one JSON object on stdout."""


@dataclasses.dataclass(frozen=True)
class PrintOptions:
    """What is printed."""

    json: bool = False
    """Print one JSON object on stdout."""


@dataclasses.dataclass(frozen=True)
class PlotOptions:
    """The picture and what is printed."""

    out: str | None = None
    """The picture to write (.png, .pdf or .svg), also as -o; None: plot.png in the first run folder."""
    axes: str = "0,1"
    """The two axes that are shown, from 0."""
    at: str | None = None
    """A full state (0.1,0,0,0) near which the other axes are held; None: the middle of the box."""
    json: bool = False
    """Print one JSON object on stdout."""


@dataclasses.dataclass(frozen=True)
class StudyOptions:
    """What is run, and where it goes."""

    quick: bool = False
    """Minutes instead of hours: fewer seeds and iterations, said on every picture."""
    seeds: int | None = None
    """Seeds of every group; None: 10, of networks 5 (quick: 2; the dear runs of the 6-D problem: 1)."""
    out: str | None = None
    """Folder of records and pictures; what it has is not run again. None: ./paper, or ./paper-quick."""
    processes: int | None = None
    """That work side by side; None: one per core, at most 4, and one on an accelerator."""
    page: str | None = None
    """A page whose parts between `<!-- made by `hamq paper`: ... -->` and `<!-- end -->` are renewed as well."""


@dataclasses.dataclass(frozen=True)
class OwnOptions:
    """Keyword arguments of the function that makes the problem."""

    set: tuple[str, ...] = ()
    """name=value; may be repeated. A problem of the zoo takes lists this way: --set periodic=[True,False]."""


@dataclasses.dataclass(frozen=True)
class PaperOptions:
    """One of the paper's problems."""

    preset: Literal["paper", "corrected"] = "paper"
    """Constants as printed, or with what is known to be wrong mended."""
    points: str = "5"
    """Grid points per axis: one number, or one for each axis (9,9,5,5)."""
    num_actions: int = 10
    """Spread evenly over the range of the action."""
    noise: float = 1.0
    """Factor of the standard deviations."""
    discount: float = 0.95
    """γ."""
    law: Literal["cell", "linear", "point"] = "cell"
    """How the next state meets the grid."""
    periodic: bool = False
    """Make circles of the angles whose box is a full turn."""


@dataclasses.dataclass(frozen=True)
class AgentsOptions:
    """Agents on a line."""

    num_agents: int = 2
    """The dimension of the state."""
    strength: float = 3.0
    """Of the repulsion; 0 means none."""
    points: str = "9"
    """Grid points per axis: one number, or one for each axis (9,9)."""
    per_agent: bool | None = None
    """An action for each agent, or a common one; None: each up to 3 agents."""
    discount: float = 0.95
    """γ."""
    law: Literal["cell", "linear", "point"] = "cell"
    """How the next state meets the grid."""


@dataclasses.dataclass(frozen=True)
class SpringChainOptions:
    """Masses on springs."""

    num_masses: int = 2
    """Half of the dimension of the state."""
    num_actuators: int = 1
    """Masses that are pushed, spread evenly."""
    points: str = "9"
    """Grid points per axis: one number, or one for each axis (9,9,5,5)."""
    num_actions: int = 9
    """Levels of each actuator."""
    discount: float = 0.9
    """γ."""
    law: Literal["cell", "linear", "point"] = "linear"
    """How the next state meets the grid."""
    noise: float = 1.0
    """Factor of the standard deviations."""


@dataclasses.dataclass(frozen=True)
class PendulumChainOptions:
    """Pendulums side by side."""

    num_pendulums: int = 2
    """Half of the dimension of the state."""
    num_actuators: int | None = None
    """Pendulums with a motor, spread evenly; None: every second one."""
    points: str = "11"
    """Grid points per axis: one number, or one for each axis (9,9,5,5)."""
    num_actions: int = 9
    """Levels of each motor."""
    discount: float = 0.95
    """γ."""
    law: Literal["cell", "linear", "point"] = "linear"
    """How the next state meets the grid."""
    noise: float = 1.0
    """Factor of the standard deviations."""


FIGURES = {
    "fig1": "6-D cart double pendulum: convergence, policies, error against samples and gradients",
    "fig2": "four tasks: convergence with HMC against IID, error against gradients",
    "fig3": "four tasks: policy heat maps, and what their differences cost",
    "fig4": "four tasks with tables, DQN and DDPG: error against samples",
    "low_rank": "singular values of Q* and of its advantages",
    "antithetic": "how the length of the trajectory makes HMC better or worse than IID",
    "rates": "how the error falls with samples and pairs, against Theorem 3",
}
"""What `hamq paper` can draw."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A problem of the zoo as `hamq list` shows it."""

    dimension: int
    num_actions: int
    options: PaperOptions | AgentsOptions | SpringChainOptions | PendulumChainOptions | GymOptions
    description: str

    @property
    def num_states(self) -> int:
        points = [int(n) for n in self.options.points.split(",")]
        return math.prod(points) if len(points) > 1 else points[0] ** self.dimension


ZOO = {
    "pendulum": Entry(2, 10, PaperOptions(points="25"), "Swing a pendulum up and hold it"),
    "double_integrator": Entry(2, 10, PaperOptions(points="25"), "Bring a mass to rest at 0"),
    "cartpole": Entry(4, 10, PaperOptions(), "Keep a pole upright on a cart"),
    "acrobot": Entry(4, 10, PaperOptions(), "Swing two links up by the torque between them"),
    "cart_double_pendulum": Entry(6, 10, PaperOptions(), "Balance two rods on a cart"),
    "repelling_agents": Entry(2, 9, AgentsOptions(), "Agents that keep apart: a density without a closed normaliser"),
    "spring_chain": Entry(4, 9, SpringChainOptions(), "Bring masses on springs to rest, in any dimension"),
    "pendulum_chain": Entry(4, 9, PendulumChainOptions(), "Hold coupled pendulums upright, half of them driven"),
    "gym_pendulum": Entry(2, 11, ContinuousGymOptions("25", discount=0.97), "Gymnasium's Pendulum-v1"),
    "gym_cartpole": Entry(4, 2, GymOptions(), "Gymnasium's CartPole-v1"),
    "gym_acrobot": Entry(4, 3, GymOptions("8,6,11,11", discount=0.99), "Gymnasium's Acrobot-v1"),
    "gym_inverted_pendulum": Entry(4, 11, ContinuousGymOptions(), "Gymnasium's InvertedPendulum-v5 (MuJoCo)"),
    "gym_inverted_double_pendulum": Entry(
        6, 11, ContinuousGymOptions("7,7,5,5,3,2", discount=0.95), "Gymnasium's InvertedDoublePendulum-v5 (MuJoCo)"
    ),
}
