"""The picture of README: pendulum's exact policy, the default solver's, and that of the paper to the letter.

python examples/policy_map.py docs/images/pendulum.png      # about two minutes
"""

import sys

import hamq

LITERAL_ITERATIONS = 25
"""Of 200; the literal algorithm does not settle, and looks the same ever after."""


def main(path: str, problem: hamq.Problem, iterations: int = LITERAL_ITERATIONS) -> None:
    exact = hamq.solve_exact(problem)
    solution = hamq.solve(problem, key=0)
    literal = hamq.solve(problem, key=0, **(hamq.paper_literal(problem) | {"iterations": iterations}))
    figure = hamq.plot(exact, solution, literal, titles=["exact", "hamq.solve", "the paper to the letter"])
    figure.savefig(path, dpi=110)
    for name, found in {"hamq.solve": solution, "literal": literal}.items():
        print(f"{name}: {hamq.compare(found, exact)}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "pendulum.png", hamq.problems.pendulum())
