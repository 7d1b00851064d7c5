"""A density without a normaliser: two robots on a rail that repel each other, and what it costs to ignore that.

python examples/unnormalized.py      # within a minute, most of it compilation
"""

import jax.numpy as jnp

import hamq

NOISE, STRENGTH, REACH = 0.2, 3.0, 0.15


def drift(state, action):
    return state + 0.1 * action


def logdensity(next_state, state, action):  # up to a constant that depends on state and action and has no formula
    motion = -0.5 * jnp.sum(((next_state - drift(state, action)) / NOISE) ** 2)
    return motion - STRENGTH * jnp.exp(-0.5 * ((next_state[0] - next_state[1]) / REACH) ** 2)


def reward(state, action):  # both want to go where there is room for one
    return -((state[0] - 0.1) ** 2) - (state[1] + 0.1) ** 2


def make(kernel) -> hamq.Problem:
    grid = hamq.Grid(lower=[-1, -1], upper=[1, 1], points=[9, 9])
    pushes = [[a, b] for a in (-1, 0, 1) for b in (-1, 0, 1)]
    return hamq.Problem(grid, pushes, kernel, reward, discount=0.95, name="two robots")


def main() -> None:
    problem = make(hamq.UnnormalizedKernel(logdensity))
    exact = hamq.solve_exact(problem)  # by quadrature, which two dimensions still allow
    solution = hamq.solve(problem, completion=None, key=0, max_gradients=1_000_000)  # never integrates anything
    print(f"exact:   {exact.result}\nsampled: {solution.result}\n")
    ignorant = hamq.solve_exact(make(hamq.GaussianKernel(drift, [NOISE**2] * 2)))  # as if nobody repelled anybody
    for name, q in {"sampled": solution.q, "without repulsion": ignorant.q}.items():
        row = hamq.compare(q, exact)
        print(f"{name:18} error of Q {row.frobenius:6.1%}, policy loss {row.policy_loss:.4f}, {row.worst_loss:.3f} at worst")
    print(f"The best constant action loses {row.constant_action_loss:.4f}.")


if __name__ == "__main__":
    main()
