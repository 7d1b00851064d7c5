"""The options are those of the modules: names, defaults, choices."""

import dataclasses
import inspect
from typing import get_args

import pytest

from hamq.cli import place, problems, session
from hamq.cli.commands import exact as exact_command
from hamq.cli.commands import solve as options
from hamq.cli.commands import solve_tensor as tensor_options
from hamq.completion.anchors import Anchors
from hamq.completion.completion import Part, Unidentified
from hamq.completion.nuclear_norm import NuclearNorm
from hamq.completion.selection import Selection
from hamq.completion.soft_impute import SoftImpute
from hamq.exact.value_iteration import solve_exact
from hamq.learning.passes import Keeping, Passes, Schedule
from hamq.learning.q_iteration import solve
from hamq.problem import zoo
from hamq.problem.problem import LAWS, Problem
from hamq.problem.zoo.provenance import PRESETS
from hamq.runs import naming
from hamq.sampling.exhaustive import Exhaustive
from hamq.sampling.hmc import HMC, WALLS
from hamq.sampling.iid import IID
from hamq.sampling.importance import Importance
from hamq.tensor.expectation import TRAJECTORY_STEP
from hamq.tensor.solve import solve_tensor

NOT_OPTIONS = {"problem", "exact", "callback", "progress", "resume", "key"}
"""Arguments of `solve` that the command line makes itself; `--seed` is the key."""
MODULES = {
    "hmc": HMC,
    "iid": IID,
    "importance": Importance,
    "exhaustive": Exhaustive,
    "anchors": Anchors,
    "nuclear_norm": NuclearNorm,
    "soft_impute": SoftImpute,
}
SELECTS = {"selection", "fraction", "completes"}
"""Fields of completions that are options of `hamq solve` itself, whatever the completion."""
NOT_GIVEN = {"hmc": {"varies", "judged"}, "iid": {"tolerance"}, "exhaustive": {"tolerance"}}
NOT_GIVEN |= {name: SELECTS for name in ("anchors", "nuclear_norm", "soft_impute")}
"""Fields that are filled in, or that nobody has to set from the shell."""


def defaults(function) -> dict:
    return {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}


def values(group) -> dict:
    return {field.name: getattr(group, field.name) for field in dataclasses.fields(group)}


def choices(group, name) -> tuple:
    annotation = next(field.type for field in dataclasses.fields(group) if field.name == name)
    parts = get_args(annotation)
    return get_args(parts[0]) if type(None) in parts else parts


def test_solve():
    expected = {name: default for name, default in defaults(solve).items() if name not in NOT_OPTIONS}
    assert expected.pop("passes") is None
    expected |= values(Passes())
    found = values(options.SolveOptions())
    assert found.keys() - expected.keys() == {"seed", "literal", "selection", "fraction", "complete"}
    assert expected.keys() <= found.keys()
    assert expected.pop("completion") == options.make(found["completion"], {})
    assert expected.pop("sampler") is None and found["sampler"] == "hmc"
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("group", "name", "expected"),
    [
        (options.SolveOptions, "complete", Part),
        (options.SolveOptions, "draws", Keeping),
        (options.SolveOptions, "schedule", Schedule),
        (options.NuclearNormOptions, "unidentified", Unidentified),
        (options.SoftImputeOptions, "unidentified", Unidentified),
    ],
)
def test_choices(group, name, expected):
    assert choices(group(), name) == get_args(expected)


def test_choices_of_selections():
    assert set(choices(options.SolveOptions(), "selection")) == {*get_args(Selection), "anchors"}


def test_choices_of_walls_laws_and_presets():
    assert choices(options.HMCOptions(), "walls") == WALLS
    assert {choices(entry.options, "law") for entry in problems.ZOO.values()} == {LAWS}
    assert choices(options.SolveOptions(), "sampler") == tuple(options.SAMPLERS)
    assert choices(options.SolveOptions(), "completion") == tuple(options.COMPLETIONS)
    for presets in PRESETS.values():
        assert choices(problems.PaperOptions(), "preset") == tuple(presets)


@pytest.mark.parametrize("name", [*options.SAMPLERS, "anchors", "nuclear_norm", "soft_impute"])
def test_samplers_and_completions(name):
    role, group = (
        ("sampler", options.SAMPLERS[name]) if name in options.SAMPLERS else ("completion", options.COMPLETIONS[name])
    )
    found = {field.removeprefix(f"{role}_"): value for field, value in values(group).items()}
    hidden = NOT_GIVEN.get(name, set())
    fields = {field.name: field.default for field in dataclasses.fields(MODULES[name]) if field.name not in hidden}
    assert found.keys() == fields.keys()
    for field, default in fields.items():
        if default is not dataclasses.MISSING:  # the number of draws has no default in the library
            assert found[field] == default, field


def test_solve_tensor():
    expected = {name: default for name, default in defaults(solve_tensor).items() if name not in NOT_OPTIONS}
    found = values(tensor_options.TensorOptions())
    assert found.keys() - expected.keys() == {"seed"}
    assert expected.pop("sampler") is None and found["sampler"] == "none"
    assert {name: found[name] for name in expected} == expected
    assert choices(tensor_options.TensorOptions(), "sampler") == tuple(tensor_options.TENSOR_SAMPLERS)


@pytest.mark.parametrize("name", ["exhaustive", "iid", "hmc", "importance"])
def test_samplers_of_trains(name):
    found = {field.removeprefix("sampler_"): value for field, value in values(tensor_options.TENSOR_SAMPLERS[name]).items()}
    fields = {field.name: field.default for field in dataclasses.fields(MODULES[name])}
    assert found.keys() <= fields.keys()
    assert all(value == fields[field] for field, value in found.items() if field != "num_samples")


def test_the_step_of_trajectories_is_the_librarys():
    text = inspect.getsource(tensor_options.TensorHMCOptions)
    assert f"None: {TRAJECTORY_STEP}." in text


def test_exact():
    assert values(exact_command.ExactOptions()) == {
        k: v for k, v in defaults(solve_exact).items() if k not in ("problem", "progress", "initial")
    }


def test_the_zoo_is_complete():
    returning = {name for name, value in vars(zoo).items() if inspect.isfunction(value) and value is not zoo.provenance}
    assert set(problems.ZOO) == returning


@pytest.mark.parametrize("name", problems.ZOO)
def test_the_zoo(name):
    entry, function = problems.ZOO[name], getattr(zoo, name)
    points = tuple(int(number) for number in entry.options.points.split(","))
    points = points if len(points) > 1 else points[0]
    assert values(entry.options) | {"points": points} == defaults(function)
    problem = naming.build(naming.Named(name, {}))
    assert isinstance(problem, Problem) and problem.name == name
    assert (problem.num_states, problem.grid.dimension, problem.num_actions) == (
        entry.num_states,
        entry.dimension,
        entry.num_actions,
    )


def test_no_option_means_two_things():
    """Within what one command line can have."""
    for problem in problems.ZOO.values():
        for sampler in options.SAMPLERS.values():
            for completion in options.COMPLETIONS.values():
                groups = (options.SolveOptions(), options.RunOptions(), place.ProcessOptions(), problems.OwnOptions())
                names = [name for group in (*groups, problem.options, sampler, completion) for name in values(group)]
                assert len(names) == len(set(names))
        for sampler in tensor_options.TENSOR_SAMPLERS.values():
            groups = (tensor_options.TensorOptions(), session.FolderOptions(), problems.OwnOptions())
            names = [name for group in (*groups, problem.options, sampler) for name in values(group)]
            assert len(names) == len(set(names))


def test_the_zoo_of_the_shell_is_that_of_runs():
    assert set(problems.ZOO) == naming.ZOO
