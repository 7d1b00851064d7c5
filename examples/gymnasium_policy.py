"""A policy scored in an environment that nobody here wrote: Gymnasium's Pendulum-v1.

python examples/gymnasium_policy.py      # within a minute; needs the extra gym
"""

import numpy as np

import hamq

DECODERS = ("nearest", "interpolate", "lookahead")
"""How an action is read off a table between its grid points; see docs/environments.md."""


def spin(states: np.ndarray) -> np.ndarray:
    """What one would do without a model: push the way it turns."""
    return 2.0 * np.sign(states[:, 1])


def main() -> None:
    problem = hamq.problems.gym_pendulum()  # its equations, reward and time step, on a grid, with a little noise
    solution = hamq.solve(problem, key=0)  # draws by HMC, as if the density had no normaliser
    print(f"{solution.result}\n")
    print("Returns in Pendulum-v1, interquartile mean [95 % interval] of 20 episodes:")
    scores = {decoder: hamq.evaluate(solution, "Pendulum-v1", episodes=20, decoder=decoder) for decoder in DECODERS}
    scores["push the way it turns"] = hamq.evaluate(spin, "Pendulum-v1", episodes=20)
    for name, score in scores.items():
        low, high = score.interval or (score.mean, score.mean)
        print(f"  {name:22} {score.interquartile_mean:8.1f} [{low:.1f}, {high:.1f}]")


if __name__ == "__main__":
    main()
