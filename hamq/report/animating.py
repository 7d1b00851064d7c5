"""The rollouts of a page: what the policies of its runs do in the models of their problems."""

from collections.abc import Callable, Sequence

from hamq.control.decoders import table_policy
from hamq.control.rollouts import Policy
from hamq.errors import HamqError
from hamq.problem.problem import Problem
from hamq.report.animation import Animation, make_animation
from hamq.report.run_page import Shown

MOST = 4
"""Runs whose rollouts are shown."""
STEPS, STEPS_OF_A_TRAIN = 200, 60
"""Of a rollout: the policy of a train backs up all its actions in every state that it comes to."""


def animated(shown: Sequence[Shown], tell: Callable[[str], None]) -> tuple[list[Animation], list[str]]:
    """One animation per problem, all from the same start with the same random numbers; and why runs have none."""
    made: list[Animation] = []
    notes = [f"rollouts are shown of the first {MOST} runs only"] if len(shown) > MOST else []
    of_problems: dict[str, list[Shown]] = {}
    for one in shown[:MOST]:
        of_problems.setdefault(one.run.manifest.problem, []).append(one)
    for group in of_problems.values():
        names = ", ".join(one.name for one in group)
        problem = next((one.problem for one in group if one.problem is not None), None)
        if problem is None:
            notes.append(f"no animated rollout of {names}: {group[0].why_not}")
            continue
        tell(f"{names}: following the policy in the model of {problem.name}")
        start = made[0].rollouts[0].states[0] if made else None
        try:
            policies = {one.name: _policy(one, problem) for one in group}
            made.append(make_animation(problem, policies, start, _steps(group)))
        except Exception as error:  # the user's own code runs here, and the page can do without it
            notes.append(f"no animated rollout of {names}: {str(error).rstrip('.')}")
    return made, notes


def _steps(group: Sequence[Shown]) -> int:
    return STEPS_OF_A_TRAIN if any(one.solution is not None for one in group) else STEPS


def _policy(one: Shown, problem: Problem) -> Policy:
    if one.run.q is not None:
        return table_policy(problem, one.run.q)
    if one.solution is None:
        raise HamqError(one.why_not)
    return one.solution.actions
