"""A thousand actions: the pendulum's torque in steps of 0.002, solved from a few columns of its table.

python examples/thousand_actions.py      # within a minute
"""

import numpy as np

import hamq


def main() -> None:
    problem = hamq.problems.pendulum(num_actions=1000)  # 625 states × 1000 torques
    num_pairs = problem.num_states * problem.num_actions
    solution = hamq.solve(problem, key=0)  # no more gradients than for 10 actions
    print(f"{solution.result}\n")

    exact = hamq.solve_exact(problem)
    row = hamq.compare(solution, exact)
    print(f"error of Q {row.frobenius:.2%}, of the advantages {row.advantage:.1%}; policy loss {row.policy_loss:.5f}")
    print(f"(the best of 25 constant torques loses {row.constant_action_loss:.3f})")
    spent = solution.history.gradient_evaluations[-1]
    print(f"{spent / num_pairs:.1f} gradients per entry of the table, where one draw costs 5\n")

    used, best = (len(np.unique(found.policy)) for found in (solution, exact))
    print(f"The greedy policy uses {used} different torques in {problem.num_states} states, the exact one {best}.")
    for num_actions in (2, 10):
        coarse = hamq.solve_exact(hamq.problems.pendulum(num_actions=num_actions))
        gain = float(np.mean(exact.value - coarse.value))
        print(f"Over {num_actions:2} torques a thousand gain {gain:.5f} of value on average.")
    print(f"rank of the advantages: {hamq.effective_rank(exact.q, centred=True)} of 1000")


if __name__ == "__main__":
    main()
