"""The paper's cartpole: exactly, by the default solver, and by the paper to the letter, compared.

python examples/cartpole.py      # within a minute
"""

import hamq

LITERAL_ITERATIONS = 10
"""Of the paper's 200; it does not settle, and the others bring it hardly nearer."""


def main() -> None:
    problem = hamq.problems.cartpole()  # 5 points per coordinate: 625 states × 10 forces
    exact = hamq.solve_exact(problem)
    print(f"exact:   {exact.result}; V* between {exact.value.min():.3f} and {exact.value.max():.3f}")

    solution = hamq.solve(problem, key=0)  # HMC draws, made once, shared by the actions of a state; columns and rows
    print(f"default: {solution.result}")

    paper = hamq.paper_literal(problem)
    paper["iterations"] = LITERAL_ITERATIONS
    literal = hamq.solve(problem, key=0, **paper)
    print(f"paper:   {literal.result}\n")

    print(f"{'':8} {'error of Q':>10} {'of advantages':>14} {'best action':>12} {'policy loss':>12} {'gradients':>12}")
    for name, found in {"default": solution, "paper": literal}.items():
        row, cost = hamq.compare(found, exact), found.history.gradient_evaluations[-1]
        numbers = f"{row.frobenius:10.2%} {row.advantage:14.2f} {row.agreement:12.0%} {row.policy_loss:12.4f} {cost:12,}"
        print(f"{name:8} {numbers}")
    print(f"\nFor scale: the best constant force loses {row.constant_action_loss:.3f} on average over the states.")
    print(f"States that the paper's completion set to 0, per iteration: {literal.history.unidentified.tolist()}")


if __name__ == "__main__":
    main()
