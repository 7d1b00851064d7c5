"""`hamq solve`: Algorithm 1 on one problem, into a run folder.

A field of a dataclass is an option: `num_samples` is `--num-samples`; tests/cli/test_options.py holds them to the modules.
Options of samplers and completions lose the prefix `sampler_` or `completion_` on the way to the module: two modules may
have a field of one name, the command line has one of each.
"""

import dataclasses
import functools
import json
import os
import warnings
from typing import Any, Literal, NamedTuple

import hamq
from hamq.cli.commands.report import page_beside, require_place
from hamq.cli.messages import print_json, say, tell
from hamq.cli.parsing import Choices, Command, Request
from hamq.cli.place import ProcessOptions, place_of
from hamq.cli.session import (
    FAILED,
    FolderOptions,
    Interruption,
    announce,
    build,
    carry_out,
    found_before,
    open_recording,
    require_sense,
    tell_place,
)
from hamq.errors import NonFiniteError

Unidentified = Literal["keep", "zero", "error"]
DEFAULT_SAMPLES = 100
"""Replaced by what the budget buys."""


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


@dataclasses.dataclass(frozen=True)
class RunOptions(FolderOptions):
    """The run folder and what is printed."""

    exact: bool = False
    """Solve exactly as well: progress and history then show the distance to Q*."""


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
COMMAND = Command(
    "PROBLEM",
    "solve a problem by Hamiltonian Q-Learning",
    1,
    {"solve": SolveOptions(), "output": RunOptions(), "processes": ProcessOptions()},
    {"sampler": Choices(SAMPLERS, "hmc"), "completion": Choices(COMPLETIONS, "anchors", literal="nuclear_norm")},
    is_long=lambda words: True,
)


class Task(NamedTuple):
    """What is to be solved, the same in all processes."""

    request: Request
    problem: "hamq.Problem"
    arguments: dict[str, Any]
    config: Any
    devices: Any

    @property
    def output(self) -> RunOptions:
        return self.request.options["output"]

    @property
    def same(self) -> str:
        """What a process compares with process 0."""
        from hamq.runs.encoding import plain
        from hamq.runs.problem_hash import problem_hash

        return json.dumps([plain(self.config.encode(), "config"), problem_hash(self.problem)], sort_keys=True)

    def code(self, converged: bool) -> int:
        return FAILED if self.arguments["tolerance"] is not None and not converged else 0


def run(request: Request) -> int:
    from hamq.cli.processes import joined
    from hamq.runs.config import new_config

    place = place_of(request.options["processes"], os.environ)
    with joined(place, request.options["solve"].devices) as devices:
        hamq.use_compilation_cache()
        output = request.options["output"]
        require_sense(output)
        named, problem = build(request)
        arguments = solve_arguments(request, problem)
        config = dataclasses.replace(new_config("solve", named, arguments, exact=output.exact), output=output.kept)
        task = Task(request, problem, arguments, config, devices)
        return _lead(task) if place.index == 0 else _follow(task)


def _lead(task: Task) -> int:
    """The solve as process 0, or a lone one, has it: with run folder, progress and results."""
    from hamq.cli.processes import Order, give
    from hamq.learning.devices import is_any
    from hamq.learning.q_iteration import solve
    from hamq.runs.solving import finish

    output, problem, same = task.output, task.problem, "" if task.devices.is_alone else task.same
    try:
        if output.report:
            require_place(output.out)
        opened = open_recording(output, task.config, problem)
    except Exception as error:
        give(task.devices, Order(same, refused=str(error)))
        raise
    with opened as recording:
        if recording.is_done and (before := recording.before) is not None:
            give(task.devices, Order(same, is_done=True, converged=bool(before.converged)))
            say(f"{output.out} is finished already")
            exact = _exact(problem) if output.exact and output.report else None
            page = page_beside(output.out, problem, exact) if output.report else None
            return _print(task, found_before(before), page)
        give(task.devices, Order(same, recording.start))
        announce(problem, recording, "drawing next states")
        exact = _exact(problem) if output.exact else None
        given = {"problem": problem, **task.arguments, "exact": exact}
        solution = carry_out(task.request, recording, solve, given, functools.partial(is_any, task.devices))
        if solution is None:
            return FAILED
        summary = finish(recording, solution, exact)
    page = page_beside(output.out, problem, exact) if output.report else None
    head = {"problem": task.config.problem.name, "result": solution.result, "converged": solution.converged}
    return _print(task, head | summary, page)


def _follow(task: Task) -> int:
    """The same solve as the other processes have it: silent, and without a disk."""
    from hamq.cli.processes import receive
    from hamq.learning.devices import is_any
    from hamq.learning.q_iteration import solve

    order = receive(task.devices, task.same)
    if order.is_done:
        return task.code(order.converged)
    with warnings.catch_warnings(), Interruption(tell=lambda sentence: None) as interruption:
        warnings.simplefilter("ignore")  # process 0 says them

        def callback(iterate: Any) -> None:
            interruption.is_patient = True
            if is_any(task.devices, interruption.is_asked):
                raise KeyboardInterrupt

        exact = hamq.solve_exact(task.problem, progress=False) if task.output.exact else None
        try:
            solution = solve(task.problem, **task.arguments, exact=exact, resume=order.start, callback=callback)
        except NonFiniteError:
            return FAILED
    return task.code(solution.converged)


def _exact(problem: "hamq.Problem") -> "hamq.Solution":
    say("solving exactly, to compare with")
    return hamq.solve_exact(problem, progress=False)


def _print(task: Task, summary: dict[str, Any], page: str | None) -> int:
    output = task.output
    if output.json:
        print_json({"comparison": None} | summary | {"out": output.out, "report": page})
    else:
        tell(f"{summary['problem']}: {summary['result']}.")
        tell(f"{summary['iterations']} iterations in {summary['seconds']:.1f} s, {summary['samples']:,} draws.")
        if summary.get("comparison") is not None:
            tell(f"Against the exact answer: {hamq.Comparison(**summary['comparison'])}.")
        tell_place(output.out, page)
    return task.code(summary["converged"])


def make(name: str, fields: dict[str, Any]) -> Any:
    """The sampler or completion of this name."""
    makers = {
        "hmc": hamq.HMC,
        "iid": hamq.IID,
        "importance": hamq.Importance,
        "exhaustive": hamq.Exhaustive,
        "anchors": hamq.Anchors,
        "nuclear_norm": hamq.NuclearNorm,
        "soft_impute": hamq.SoftImpute,
        "none": lambda: None,
    }
    return makers[name](**fields)


def solve_arguments(request: Request, problem: "hamq.Problem") -> dict[str, Any]:
    """What `solve` is called with; HamqError if it would refuse."""
    from hamq.learning.budget import default_budget
    from hamq.learning.settings import resolve
    from hamq.runs.flat import assembled, flat

    asked = dataclasses.asdict(request.options["solve"])
    is_literal = asked.pop("literal")
    arguments = asked | {"sampler": None, "completion": make(asked["completion"], {})}
    if is_literal:
        arguments |= flat(hamq.paper_literal(problem))
        arguments |= {name: value for name, value in request.given_in("solve").items() if name in asked}
    arguments["sampler"] = _module(request, "sampler", arguments["sampler"], is_literal)
    arguments["completion"] = _module(request, "completion", arguments["completion"], is_literal)
    arguments["initial"] = _initial(arguments["initial"])
    if _counts_on_budget(request, arguments):
        arguments["max_gradients"] = default_budget(problem)
    arguments["key"] = arguments.pop("seed")
    arguments = assembled(arguments)
    resolve(problem, **{name: value for name, value in arguments.items() if name not in ("key", "initial")})  # refuse early
    return arguments


def _module(request: Request, role: str, chosen: Any, is_literal: bool) -> Any:
    """The sampler or completion: the chosen one with the options that were given."""
    given = without_prefix(role, request.given_in(role))
    if is_literal and role not in request.given:
        return dataclasses.replace(chosen, **given)
    options = request.options[role]
    if isinstance(options, HMCOptions) and not given and role not in request.given:
        return None  # the library's own choice
    fields = without_prefix(role, dataclasses.asdict(options))
    if fields.get("num_samples", 0) is None:
        fields["num_samples"] = DEFAULT_SAMPLES * (fields.get("num_chains") or 1)
    return make(getattr(request.options["solve"], role), fields)


def _counts_on_budget(request: Request, arguments: dict[str, Any]) -> bool:
    """HMC with options, but no number of draws: then the budget, which is also the default of no sampler, gives it."""
    is_open = getattr(request.options["sampler"], "num_samples", 0) is None and arguments["sampler"] is not None
    is_literal = request.options["solve"].literal and "sampler" not in request.given
    return is_open and not is_literal and arguments["max_gradients"] is None and arguments["schedule"] == "constant"


def without_prefix(role: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(f"{role}_"): value for name, value in fields.items()}


def _initial(text: str | None) -> float | str | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text  # "uniform"
