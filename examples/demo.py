"""What hamq does, in one screen: the exact answer of a problem, and how well each sampler's backup agrees with it."""

import time

import numpy as np
from rich.console import Console
from rich.table import Table

import hamq
from hamq.exact.bellman import make_operator
from hamq.problem.tables import reward_table

SAMPLERS = (hamq.Exhaustive(), hamq.IID(100), hamq.Importance(500), hamq.HMC(100))


def demonstrate(problem, console):
    console.print(f"\n[bold]{problem}[/bold]")
    start = time.perf_counter()
    exact = hamq.solve_exact(problem)
    console.print(f"Exact answer: {exact.result}, {time.perf_counter() - start:.1f} s.")
    best = int(np.argmax(exact.value))
    state = ", ".join(f"{v:.2f}" for v in problem.grid.states_at(np.asarray([best]))[0])
    console.print(f"Value from {exact.value.min():.2f} to {exact.value.max():.2f}, the best state is ({state}).")
    operator = make_operator(problem, law_error=1e-8)
    # What one Bellman backup of V* needs is E[V*(s')] for every state and action; exactly it is (Q* − r)/γ.
    rewards = reward_table(problem)
    expected = (exact.q - rewards) / problem.discount
    table = Table(title="E[V*(s')] of all pairs by each sampler")
    for column in (
        "sampler",
        "draws",
        "densities",
        "gradients",
        "rms error / spread of V*",
        "loss of its policy",
        "seconds",
    ):
        table.add_column(column, justify="left" if column == "sampler" else "right")
    for sampler in SAMPLERS:
        start = time.perf_counter()
        drawn = hamq.draw_each(problem, sampler, key=0)
        found = hamq.expected_values(problem, drawn.draws, exact.value)
        error = np.sqrt(np.mean((found - expected) ** 2)) / exact.value.std()
        greedy = np.argmax(rewards + problem.discount * found, axis=1)
        loss = np.mean(exact.value - operator.evaluate(greedy).value)
        pairs = problem.num_states * problem.num_actions
        counts = [c / pairs for c in drawn.cost]
        table.add_row(
            type(sampler).__name__,
            *(f"{c:,.0f}" for c in counts),
            f"{error:.2e}",
            f"{loss:.4f}",
            f"{time.perf_counter() - start:.1f}",
        )
    console.print(table)
    always = min(
        np.mean(exact.value - operator.evaluate(np.full(problem.num_states, a)).value) for a in range(problem.num_actions)
    )
    console.print(
        "Counts are per pair of a state and an action; seconds include compilation. The loss of a policy is the mean of "
        f"V* − V^π, evaluated exactly; for scale: the best constant action loses {always:.4f}.",
        style="dim",
    )


def main():
    console = Console(width=110)
    demonstrate(hamq.problems.cartpole(), console)
    console.print("\nAnd a density that has no closed normaliser: two agents on a line that keep their distance.")
    demonstrate(hamq.problems.repelling_agents(2), console)


if __name__ == "__main__":
    main()
