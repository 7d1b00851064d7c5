"""Records that were never run: small, finite, and different for every group and seed."""

import dataclasses
import zlib

import numpy as np

from hamq.paper.records import Group, Map, Record

CONSTANT_LOSS = 0.75
SCALE = {"constant_action_loss": CONSTANT_LOSS, "random_policy_loss": 0.01}
BUDGETS = {"hmc-14M": 14e6, "hmc-7M": 7e6, "hmc-1M": 1e6, "hmc-400k": 4e5}
AXES = {"pendulum": ("angle", "angular velocity"), "double_integrator": ("position", "velocity")}


def records_of(groups, num_seeds=3, **kinds) -> dict[Group, list[Record]]:
    return {group: [record(group, seed, **kinds) for seed in range(num_seeds)] for group in groups}


def record(group: Group, seed: int, points=(5, 4), num=12) -> Record:
    task, variant, method = group
    rng = np.random.default_rng([zlib.crc32("/".join(group).encode()), seed])
    is_deep, is_ours = "dqn" in method or "ddpg" in method, variant == "ours"
    per = 625.0 if "exhaustive" in method else 1.0 if "one" in method else 100.0
    time = np.unique(np.geomspace(1, 400, num).round())
    floor = {"literal": 0.2, "corrected": 0.05, "ours": 0.004}[variant] * rng.uniform(0.8, 1.2)
    frobenius = floor + rng.uniform(0.8, 1) * 0.97**time
    steps = np.full_like(time, 400) if is_ours and not is_deep else time
    samples, gradients = steps * per * 1250, steps * per * 1250 * 100 * ("hmc" in method)
    if budget := BUDGETS.get(method, 4e6 if is_ours and method == "hmc" else None):
        samples, gradients = np.full_like(time, budget / 10), np.full_like(time, budget)
        frobenius += 10 / budget**0.5
    loss = 0.3 * frobenius
    curve = {
        "step" if is_deep else "iteration": time.tolist(),
        "frobenius": frobenius.tolist(),
        "advantage": (2 * frobenius).tolist(),
        "policy_loss": [None if i % 2 == 0 else float(value) for i, value in enumerate(loss)],
        "samples": samples.tolist(),
        "gradient_evaluations": gradients.tolist(),
    }
    ends = {
        "frobenius": frobenius[-1],
        "advantage": 2 * frobenius[-1],
        "policy_loss": loss[-1],
        "sup": 1.0,
        "agreement": 0.5,
    }
    cost = {"samples": samples[-1], "density_evaluations": 2 * samples[-1], "gradient_evaluations": gradients[-1]}
    names = ("text", "caption") if task == "cart_double_pendulum" else ("plane",)
    return Record(
        task=task,
        variant=variant,
        method=method,
        seed=seed,
        settings={"law_of_reference": "point" if variant == "literal" else "cell"},
        curve=curve,
        final={name: float(value) for name, value in ends.items()} | SCALE,
        cost={name: int(value) for name, value in cost.items()},
        seconds=1.0,
        maps={name: policy_map(task, rng, points, noise=floor) for name in names} if seed == 0 and not is_deep else {},
    )


def policy_map(task: str, rng: np.random.Generator, points: tuple[int, int], noise: float) -> Map:
    """Bang-bang towards the middle, with some cells that act at random and pay for it."""
    x, y = np.linspace(-3, 3, points[0]), np.linspace(-2, 2, points[1])
    best = -np.sign(x[:, None] + y[None, :]) + 0.0
    is_wrong = rng.random(points) < 0.1 + noise
    axes = AXES.get(task, ("angle 1", "angular velocity 1"))
    return Map(
        axes=axes,
        x=x.tolist(),
        y=y.tolist(),
        hold="" if task in AXES else "position 0, velocity 0",
        actions=np.where(is_wrong, rng.choice([-0.5, 0.25, 0.75], points), best).tolist(),
        given_up=np.where(is_wrong, rng.uniform(0, 0.3, points), 0).tolist(),
    )


def diverged(run: Record) -> Record:
    """As a record is read whose numbers were not finite."""
    frobenius = [*run.curve["frobenius"][:-3], None, None, None]
    return dataclasses.replace(
        run, curve=run.curve | {"frobenius": frobenius}, final=run.final | {"frobenius": float("nan")}
    )
