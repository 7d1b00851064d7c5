"""Planted bugs of what high dimension needs: products of actions, chains, tensor trains."""

from tests.mutants.mutant import Mutant

TENSOR = [
    Mutant(
        "product-first-coordinate-fastest",
        "hamq/problem/actions.py",
        old="for of_one in reversed(self.levels):",
        new="for of_one in self.levels:",
        tests=("tests/problem/test_actions.py::test_the_order_is_that_of_itertools",),
    ),
    Mutant(
        "product-in-any-order-is-a-product",
        "hamq/problem/actions.py",
        old="return levels if np.array_equal(_listed(levels), actions) else None",
        new="return levels",
        tests=("tests/problem/test_actions.py::test_other_sets_have_no_levels",),
    ),
    Mutant(
        "actions-enumerated-unasked",
        "hamq/problem/problem.py",
        old="            self.actions.require_enumerable(what)",
        new="            pass",
        tests=("tests/problem/test_huge.py::test_what_would_enumerate_refuses",),
    ),
    Mutant(
        "hash-without-levels",
        "hamq/runs/problem_hash.py",
        old="return [_rounded(of_one) for of_one in problem.actions.levels]",
        new="return [_rounded(0.0) for of_one in problem.actions.levels]",
        tests=("tests/runs/test_problem_hash.py::test_every_level_of_a_product_is_in_the_hash",),
    ),
    Mutant(
        "springs-without-walls",
        "hamq/problem/zoo/chain.py",
        old="beyond = jnp.zeros(1, values.dtype)",
        new="beyond = values[:1]",
        tests=("tests/problem/test_chains.py::test_springs_are_linear",),
    ),
    Mutant(
        "spring-noise-not-shared",
        "hamq/problem/zoo/spring_chain.py",
        old="(np.eye(dimension) + shared) / 2",
        new="(np.eye(dimension) + np.eye(dimension) * shared) / 2",
        tests=("tests/problem/test_chains.py::test_noise_of_the_springs",),
    ),
    Mutant(
        "pendulum-springs-push-apart",
        "hamq/problem/zoo/pendulum_chain.py",
        old="+ pull[1:] - pull[:-1]",
        new="- pull[1:] + pull[:-1]",
        tests=("tests/problem/test_chains.py::test_power_is_that_of_motors_and_friction",),
    ),
]
