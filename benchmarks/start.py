"""First answers: how long hamq takes to its first solution, and where that time goes.

Every case has a process of its own, with JAX's compilation cache on disk switched off. `first` runs from building the
problem to the solution, imports apart; `second` is the same call again. Seconds of tracing, lowering and XLA are those in
which the clock saw any of it; by function, what one function calls counts for both. The sizes are of one more process,
because XLA writes its programs down for them. The own densities hold one cube root, which nothing else does: so many
times the density stands in the optimised programs. `loop` solves one new problem after the other, and `shell` is
`hamq solve pendulum` with an empty cache on disk, and after that.

    python benchmarks/start.py
    python benchmarks/start.py --only own2 gauss
    python benchmarks/start.py --only own2 --against ../other/.venv/bin/python --turns 3
    python benchmarks/start.py --record             # then `python -m benchmarks.run --only` writes the page
"""

import argparse
import collections
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
STAGES = {
    "jaxpr_trace_duration": "tracing",
    "jaxpr_to_mlir_module_duration": "lowering",
    "backend_compile_duration": "xla",
}
NUM_WARM, NUM_LOOP, NUM_SETTLED, NUM_TOP = 7, 30, 3, 5
LOWER, UPPER, ACTIONS, DISCOUNT = -2.0, 2.0, (-1.0, 0.0, 1.0), 0.9
LOOP_GRADIENTS = 200_000
"""Half of them go into pilots."""
MARK = " cbrt("
"""How the density is known again in a program."""


def logdensity(xp, pull: float = 0.8) -> Callable:
    """The own density, a new function for every call, for NumPy or jax.numpy."""

    def function(next_state, state, action):
        u = next_state - pull * state - 0.3 * action
        return xp.sum(-2 * u**2 + 0.3 * xp.cos(3 * u) - 0.1 * xp.cbrt(1 + u**2), axis=-1)

    return function


def reward(xp) -> Callable:
    return lambda state, action: -xp.sum(state**2, axis=-1) - 0.1 * action**2


def own(points: list[int], pull: float = 0.8, **options):
    import jax.numpy as jnp

    import hamq

    grid = hamq.Grid([LOWER] * len(points), [UPPER] * len(points), points)
    kernel = hamq.UnnormalizedKernel(logdensity(jnp, pull))
    return hamq.Problem(grid, ACTIONS, kernel, reward(jnp), DISCOUNT, name="own", **options)


def gaussian():
    import jax.numpy as jnp

    import hamq

    kernel = hamq.GaussianKernel(lambda s, a: 0.9 * s + jnp.stack([0.1 * s[1], 0.3 * a]), [0.1, 0.2])
    grid = hamq.Grid([LOWER] * 2, [UPPER] * 2, [9, 9])
    return hamq.Problem(grid, ACTIONS, kernel, reward(jnp), DISCOUNT, name="gaussian")


def zoo(name: str, *arguments):
    import hamq

    return getattr(hamq.problems, name)(*arguments)


def by_hamq(problem, method: str = "solve", **options):
    import hamq

    return getattr(hamq, method)(problem, **options)


def chains():
    """81 chains of 100 steps of BlackJAX's HMC."""
    import blackjax
    import jax
    import jax.numpy as jnp

    kernel = blackjax.hmc(lambda x: -0.5 * jnp.sum(x**2 / jnp.asarray([0.1, 0.2])), 0.1, jnp.ones(2), 10)

    def chain(start, key):
        def step(state, step_key):
            state, _ = kernel.step(step_key, state)
            return state, state.position

        return jax.lax.scan(step, kernel.init(start), jax.random.split(key, 100))[1]

    starts, keys = jnp.zeros((81, 2)), jax.random.split(jax.random.key(0), 81)
    run = jax.jit(jax.vmap(chain))
    return lambda: jax.block_until_ready(run(starts, keys))


def by_numpy(points: list[int], fine: int = 8, tolerance: float = 1e-6):
    """Q of the own problem: `fine` midpoints from node to node, summed cell by cell, and value iteration."""
    import numpy as np

    def product(axes):
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(points))

    middles = [(np.arange((n - 1) * fine) + 0.5) / fine for n in points]  # in steps from node to node
    cells = np.ravel_multi_index(np.rint(product(middles)).astype(int).T, points)
    steps = (UPPER - LOWER) / (np.asarray(points) - 1)
    states, ends = LOWER + product([np.arange(n) for n in points]) * steps, LOWER + product(middles) * steps
    actions = np.asarray(ACTIONS)
    density = np.exp(logdensity(np)(ends, states[:, None, None], actions[:, None, None]))  # [S, A, fine points]
    order = np.argsort(cells, kind="stable")
    masses = np.add.reduceat(density[..., order], np.searchsorted(cells[order], np.arange(len(states))), axis=-1)
    masses /= masses.sum(axis=-1, keepdims=True)
    rewards = reward(np)(states[:, None], actions)
    q = rewards
    while True:
        old, q = q, rewards + DISCOUNT * masses @ q.max(axis=1)
        if DISCOUNT / (1 - DISCOUNT) * np.abs(q - old).max() <= tolerance:
            return q


class Case(NamedTuple):
    """`build` makes the problem and `answer` solves it; `modules` are imported before."""

    title: str
    build: Callable[[], Any]
    answer: Callable[[Any], Any] = by_hamq
    modules: tuple[str, ...] = ("jax", "hamq")


def by_tensor(problem):
    return by_hamq(problem, "solve_tensor")


CASES = {
    "own1": Case("own density, 17 × 3, one dimension", lambda: own([17])),
    "own2": Case("own density, 81 × 3, two dimensions", lambda: own([9, 9])),
    "own3": Case("own density, 343 × 3, three dimensions", lambda: own([7, 7, 7])),
    "gauss": Case("Gaussian kernel with own mean, 81 × 3", gaussian),
    "pendulum": Case("pendulum", lambda: zoo("pendulum")),
    "cart": Case("cart double pendulum", lambda: zoo("cart_double_pendulum")),
    "spring_tensor": Case("solve_tensor, chain of two springs", lambda: zoo("spring_chain", 2), by_tensor),
    "own_tensor": Case("solve_tensor, own density, two dimensions", lambda: own([9, 9], law="linear"), by_tensor),
    "blackjax": Case("BlackJAX's HMC, 81 chains", chains, lambda run: run(), ("jax", "blackjax")),
    "numpy1": Case("NumPy, own density, 17 × 3", lambda: [17], by_numpy, ("numpy",)),
    "numpy2": Case("NumPy, own density, 81 × 3", lambda: [9, 9], by_numpy, ("numpy",)),
    "loop": Case(f"{NUM_LOOP} own problems, 17 × 3", lambda: None),
    "shell": Case("hamq solve pendulum, from the shell", lambda: None),
}


class Events:
    """When JAX traced, lowered and compiled what."""

    def __init__(self):
        self.found = collections.defaultdict(list)  # stage -> (began, ended, function)

    def listen(self, event: str, seconds: float, **about) -> None:
        if stage := STAGES.get(event.split("/")[-1]):
            now = time.perf_counter()
            name = str(about.get("fun_name", "?")).removeprefix("jit(").removesuffix(")")
            self.found[stage].append((now - seconds, now, name))

    def account(self) -> dict:
        found = {"programs": len(self.found["xla"])}
        for stage in STAGES.values():
            functions = collections.Counter()
            for began, ended, name in self.found[stage]:
                functions[name] += ended - began
            top = {name: round(seconds, 3) for name, seconds in functions.most_common(NUM_TOP)}
            found |= {f"{stage}_s": round(covered([span[:2] for span in self.found[stage]]), 3), f"{stage}_by_function": top}
        return found


def covered(spans: list[tuple[float, float]]) -> float:
    """Seconds in any of the spans, those in several once."""
    total, until = 0.0, float("-inf")
    for began, ended in sorted(spans):
        total += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return total


def load_modules(case: Case) -> dict:
    began = time.perf_counter()
    modules = {name: __import__(name) for name in case.modules}
    found = {}
    if hamq := modules.get("hamq"):
        for name in ("Grid", "Problem", "UnnormalizedKernel", "problems", "solve", "solve_tensor"):
            getattr(hamq, name)  # imported when first used
        found["hamq"] = hamq.__file__
    return {"import_s": round(time.perf_counter() - began, 3)} | found


def first_answer(case: Case) -> dict:
    """In this process, which has done nothing yet."""
    found, events = load_modules(case), Events()
    if "jax" in case.modules:
        sys.modules["jax"].monitoring.register_event_duration_secs_listener(events.listen)
    began = time.perf_counter()
    problem = case.build()
    case.answer(problem)
    found["first_s"] = round(time.perf_counter() - began, 4)
    if "jax" in case.modules:
        found |= events.account()
    began = time.perf_counter()
    case.answer(problem)
    return found | {"second_s": round(time.perf_counter() - began, 4)}


def loop(case: Case) -> dict:
    """One own problem after the other, each with a density of its own."""
    found, seconds, memory = load_modules(case), [], []
    for number in range(NUM_LOOP):
        began = time.perf_counter()
        by_hamq(own([17], pull=0.8 - 0.01 * number), max_gradients=LOOP_GRADIENTS)
        seconds.append(time.perf_counter() - began)
        memory.append(resident_mb())
    about = {
        "first_s": round(seconds[0], 3),
        "second_s": round(seconds[1], 3),
        "median_s": round(statistics.median(seconds), 3),
    }
    return found | about | {"settled_mb": memory[NUM_SETTLED - 1], "last_mb": memory[-1]}


def resident_mb() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)


class Checkout(NamedTuple):
    """Whose hamq is measured, with which Python."""

    python: Path
    root: Path


def checkout_of(python: Path) -> Checkout:
    """The checkout that this Python's environment lies in."""
    root = next((folder for folder in python.parents if (folder / "hamq" / "__init__.py").exists()), None)
    if root is None:
        raise SystemExit(f"{python} lies in no checkout of hamq.")
    return Checkout(python, root)


def environment(root: Path, **more: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("HAMQ_CACHE", "JAX_COMPILATION_CACHE_DIR")}
    return kept | {"PYTHONPATH": str(root)} | more


def run_child(checkout: Checkout, name: str, **more: str) -> dict:
    python, root = checkout
    words = [str(python), "-P", str(Path(__file__).resolve()), "--child", name]
    env = environment(root, JAX_ENABLE_COMPILATION_CACHE="false", **more)
    done = subprocess.run(words, cwd=root, env=env, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    if (file := found.pop("hamq", None)) and Path(file).parents[1] != root:
        raise SystemExit(f"{python} imports {file}, not the hamq of {root}.")
    return found


def shell(checkout: Checkout) -> dict:
    def solve(number: int) -> float:
        words = [str(checkout.python), "-m", "hamq", "solve", "pendulum", "--out", f"{folder}/{number}"]
        began = time.perf_counter()
        env = environment(checkout.root, XDG_CACHE_HOME=folder)
        subprocess.run(words, cwd=checkout.root, env=env, capture_output=True, check=True)
        return round(time.perf_counter() - began, 3)

    with tempfile.TemporaryDirectory() as folder:
        cold, *warm = (solve(number) for number in range(1 + NUM_WARM))
    return {"first_s": cold, "second_s": statistics.median(warm), "fastest_s": min(warm), "slowest_s": max(warm)}


def measure(checkout: Checkout, name: str) -> dict:
    return shell(checkout) if name == "shell" else run_child(checkout, name)


def sizes(checkout: Checkout, name: str) -> dict:
    """What XLA makes of a case: its largest programs, and how often the density stands in all of them."""
    with tempfile.TemporaryDirectory() as folder:
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_dump_to={folder} --xla_dump_hlo_as_text"
        run_child(checkout, name, XLA_FLAGS=flags.strip())
        return read_dump(Path(folder))


def read_dump(folder: Path) -> dict:
    programs, densities = [], 0
    for path in sorted(folder.glob("*after_optimizations.txt")):
        number, name, *_ = path.name.split(".")
        text = path.read_text()
        num_bytes = sum(part.stat().st_size for part in folder.glob(f"{number}.*.o"))
        instructions = len(re.findall(r"^\s+(?:ROOT )?%?\S+ = ", text, re.MULTILINE))
        programs.append({"name": name.removeprefix("jit_"), "instructions": instructions, "bytes": num_bytes})
        densities += text.count(MARK)
    programs.sort(key=lambda program: -program["instructions"])
    total = sum(program["instructions"] for program in programs)
    return {"instructions": total, "densities": densities, "largest": programs[:NUM_TOP]}


def account(checkout: Checkout, names: list[str]) -> dict:
    from benchmarks.suite import show
    from benchmarks.suite.cells import cell

    found = {}
    for name in names:
        print(f"{name} ({time.strftime('%H:%M:%S')})", flush=True)
        try:
            row = {"title": CASES[name].title, **measure(checkout, name)}
            found[name] = row | (sizes(checkout, name) if row.get("programs") else {})
        except subprocess.CalledProcessError as failure:
            print(f"{name} failed: {failure}", flush=True)
    keys = ["import_s", "first_s", "second_s", "programs", "tracing_s", "lowering_s", "xla_s", "instructions", "densities"]
    head = ["case", *(key.removesuffix("_s") for key in keys)]
    show.table(
        "first answers, seconds", head, [[name, *(cell(row.get(key)) for key in keys)] for name, row in found.items()]
    )
    compiled = {name: row for name, row in found.items() if "largest" in row}
    rows = [
        [name, stage, ", ".join(f"{function} {seconds:.2g}" for function, seconds in row[f"{stage}_by_function"].items())]
        for name, row in compiled.items()
        for stage in STAGES.values()
    ]
    largest = [
        [name, program["name"], cell(program["instructions"]), cell(program["bytes"])]
        for name, row in compiled.items()
        for program in row["largest"][:3]
    ]
    if compiled:
        show.table("seconds by function", ["case", "stage", "functions"], rows)
        show.table("largest programs", ["case", "program", "instructions", "bytes of code"], largest)
    if row := found.get("loop"):
        settled, last, each = row["settled_mb"], row["last_mb"], row["median_s"]
        print(f"loop: {settled} MB after {NUM_SETTLED}, {last} MB after {NUM_LOOP}, {each:.2g} s each")
    if row := found.get("shell"):
        cold, warm, fastest, slowest = (row[key] for key in ("first_s", "second_s", "fastest_s", "slowest_s"))
        print(f"shell: cold {cold:.1f} s, warm {warm:.1f} s ({fastest:.1f} to {slowest:.1f}, {NUM_WARM} times)")
    return found


def against(ours: Checkout, theirs: Checkout, names: list[str], turns: int) -> None:
    from benchmarks.suite import show
    from benchmarks.suite.cells import cell, number

    rows = []
    for name in names:
        print(f"{name} ({time.strftime('%H:%M:%S')})", flush=True)
        try:
            found = [(measure(ours, name), measure(theirs, name)) for _ in range(turns)]
        except subprocess.CalledProcessError as failure:  # one that dies does not take the others' rows along
            print(f"{name} failed: {failure}", flush=True)
            continue

        def medians(key: str, found=found) -> list[float]:
            return [statistics.median(turn[side][key] for turn in found) for side in (0, 1)]

        row = [name]
        for key in ("first_s", "second_s"):
            mine, other = medians(key)
            row += [number(mine), number(other), number(statistics.median(b[key] / a[key] for a, b in found))]
        extra = next((key for key in ("programs", "last_mb") if key in found[0][0]), None)
        counts = " / ".join(cell(round(value)) for value in medians(extra)) if extra else ""
        rows.append([*row, f"{counts} MB" if extra == "last_mb" else counts])
    head = ["case", "first", "theirs", "ratio", "second", "theirs", "ratio", "programs"]
    show.table(f"{ours.root} against {theirs.root}", head, rows, "ratio: their seconds over ours")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(CASES), metavar="CASE", help=f"of {', '.join(CASES)}")
    parser.add_argument("--against", type=Path, metavar="PYTHON", help="of the environment in another checkout")
    parser.add_argument("--turns", type=int, default=1, help="of each case with --against; medians are shown")
    parser.add_argument("--record", action="store_true", help="write benchmarks/records/start.json")
    parser.add_argument("--child", choices=list(CASES), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        warnings.simplefilter("ignore")
        print(json.dumps((loop if options.child == "loop" else first_answer)(CASES[options.child])))
        return
    if options.record and (options.only or options.against):
        parser.error("--record measures all cases, and this checkout alone")
    ours, names = Checkout(Path(sys.executable), ROOT), options.only or list(CASES)
    if options.against:
        against(ours, checkout_of(options.against.absolute()), names, options.turns)
        return
    found = account(ours, names)
    if len(found) < len(names):
        raise SystemExit("Nothing is recorded where a case fails." if options.record else 1)
    if options.record:
        from benchmarks.suite.page import START
        from benchmarks.suite.record import machine, save, versions

        about = {"date": datetime.date.today().isoformat(), "versions": versions("blackjax"), "machine": machine()}
        save(START, about | {"cases": found})
        print(f"wrote {START}; `python -m benchmarks.run --only` writes the page")


if __name__ == "__main__":
    main()
