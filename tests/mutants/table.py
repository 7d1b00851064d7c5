"""Planted bugs. Each must turn the tests named beside it red: `python tests/mutants/run.py` tries them all.

`old` occurs exactly once in `file`; quote as much of the line as that takes. A good mutant is a bug that
somebody could write: a wrong sign, a missing factor, a dropped accept step. `tests` are pytest paths or node
ids, as few and as fast as see the bug.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


INVARIANCE = "tests/sampling/test_invariance.py::test_gaussian_is_invariant"
JUMPS = "tests/sampling/test_invariance.py::test_two_modes_are_invariant_under_jumps"
WALLS = "tests/sampling/test_walls.py"
LEAPFROG = "tests/sampling/test_leapfrog.py"
AGREEMENT = "tests/sampling/test_agreement.py"
REFUSALS = "tests/sampling/test_refusals.py"
QUANTILES = "tests/sampling/test_truncated_normal.py::test_quantiles_equal_scipy"
DRAWS = "tests/learning/test_draws.py"

MUTANTS = [
    Mutant(
        "mean-shift-not-looked-at",
        "tests/stats.py",
        old="np.all(shift <= bound)",
        new="np.any(shift <= bound)",
        tests=("tests/test_stats.py",),
    ),
    Mutant(
        "mean-weak-test-allowed",
        "tests/stats.py",
        old="np.all(bound <= resolution)",
        new="np.all(resolution > 0)",
        tests=("tests/test_stats.py",),
    ),
    Mutant(
        "distribution-pooled-mass-forgotten",
        "tests/stats.py",
        old="visible = pooled + math.sqrt",
        new="visible = math.sqrt",
        tests=("tests/test_stats.py",),
    ),
    Mutant(
        "accept-step-dropped",
        "hamq/sampling/hmc.py",
        old="is_accepted = noise.log_uniform < gain",
        new="is_accepted = jnp.isfinite(gain)",
        tests=(INVARIANCE + "[logit-product-inside]",),
    ),
    Mutant(
        "kinetic-energy-forgotten",
        "hamq/sampling/hmc.py",
        old="gain = state.energy - energy + 0.5 * (jnp.sum(noise.momentum**2) - jnp.sum(momentum**2))",
        new="gain = state.energy - energy",
        tests=(INVARIANCE + "[logit-product-inside]",),
    ),
    Mutant(
        "end-momentum-in-wrong-units",
        "hamq/sampling/hmc.py",
        old="momentum = apply(inverse, w) / step",
        new="momentum = apply(inverse, w)",
        tests=(INVARIANCE + "[logit-correlated-inside]",),
    ),
    Mutant(
        "jump-always-accepted",
        "hamq/sampling/hmc.py",
        old="is_accepted = noise.log_uniform_jump < log_ratio",
        new="is_accepted = jnp.isfinite(log_ratio)",
        tests=(JUMPS + "[logit-0.3]",),
    ),
    Mutant(
        "jump-without-proposal-ratio",
        "hamq/sampling/hmc.py",
        old=" + log_proposal(potential, modes, state.position) - log_proposal(potential, modes, y)",
        new="",
        tests=(JUMPS + "[logit-0.3]",),
    ),
    Mutant(
        "coordinate-jump-without-proposal-ratio",
        "hamq/sampling/hmc.py",
        old="is_accepted = log_uniform < energy - new_energy + log_ratio",
        new="is_accepted = log_uniform < energy - new_energy",
        tests=("tests/sampling/test_invariance.py::test_many_modes_in_four_dimensions_are_invariant",),
    ),
    Mutant(
        "coordinate-jump-forgets-its-widening",
        "hamq/sampling/jumps.py",
        old="positions[k] + stds[k] * noise.normal)",
        new="positions[k] + stds[k] / MARGINAL_WIDENING * noise.normal)",
        tests=("tests/sampling/test_invariance.py::test_many_modes_in_four_dimensions_are_invariant",),
    ),
    Mutant(
        "point-law-not-refused",
        "hamq/sampling/hmc.py",
        old='if problem.law == "point":',
        new='if problem.law == "dots":',
        tests=(REFUSALS + "::test_point_masses_cannot_be_followed",),
    ),
    Mutant(
        "jacobian-forgotten",
        "hamq/sampling/walls.py",
        old="return -self.density.log(self.place(y)) - self.log_volume(y)",
        new="return -self.density.log(self.place(y))",
        tests=(INVARIANCE + "[logit-product-inside]",),
    ),
    Mutant(
        "wall-of-the-wrong-sign",
        "hamq/sampling/walls.py",
        old="return -self.density.log(y) + jnp.sum(",
        new="return -self.density.log(y) - jnp.sum(",
        tests=(WALLS + "::test_cutoff_decays_outside",),
    ),
    Mutant(
        "walls-push-the-same-way",
        "hamq/sampling/walls.py",
        old="push = jax.nn.sigmoid(above) - jax.nn.sigmoid(below)",
        new="push = jax.nn.sigmoid(above) + jax.nn.sigmoid(below)",
        tests=(WALLS + "::test_gradient_equals_finite_differences[sigmoid-product-box]",),
    ),
    Mutant(
        "sharp-wall-without-side",
        "hamq/sampling/walls.py",
        old="push = jnp.sign(from_centre) * jax.nn.sigmoid(depth)",
        new="push = jax.nn.sigmoid(depth)",
        tests=(WALLS + "::test_sharp_branch_equals_the_exact_push",),
    ),
    Mutant(
        "logit-gradient-without-half-the-slope",
        "hamq/sampling/walls.py",
        old="width * share * (1 - share) * force)",
        new="width * share * force)",
        tests=(WALLS + "::test_gradient_equals_finite_differences[logit-correlated-box]",),
    ),
    Mutant(
        "reflection-keeps-its-momentum",
        "hamq/sampling/walls.py",
        old="jnp.where(is_back, -w, w)",
        new="w",
        tests=(LEAPFROG + "::test_reversible[reflect-product]",),
    ),
    Mutant(
        "jumps-leave-the-box",
        "hamq/sampling/walls.py",
        old="return jnp.where(self.grid.contains(y), -self.density.log(y), jnp.inf)",
        new="return -self.density.log(y)",
        tests=(JUMPS + "[reflect-0.3]",),
    ),
    Mutant(
        "circle-has-walls",
        "hamq/sampling/walls.py",
        old="return self.where_circle(-force, 2 * share",
        new="return self.where_circle(force, 2 * share",
        tests=(WALLS + "::test_gradient_equals_finite_differences[logit-user-circle]",),
    ),
    Mutant(
        "first-kick-whole",
        "hamq/sampling/leapfrog.py",
        old="w = displacement - 0.5 * apply(kick, start_gradient)",
        new="w = displacement - apply(kick, start_gradient)",
        tests=(LEAPFROG + "::test_reversible[logit-product]",),
    ),
    Mutant(
        "last-kick-whole",
        "hamq/sampling/leapfrog.py",
        old="return y, w + 0.5 * apply(kick, g), g",
        new="return y, w + apply(kick, g), g",
        tests=(LEAPFROG + "::test_energy_error_is_of_order_two[sigmoid-correlated]",),
    ),
    Mutant(
        "stale-gradient",
        "hamq/sampling/leapfrog.py",
        old="return y, w - apply(kick, g), g",
        new="return y, w - apply(kick, start_gradient), g",
        tests=(LEAPFROG + "::test_reversible[logit-product]",),
    ),
    Mutant(
        "tile-laid-out-in-the-wrong-order",
        "hamq/sampling/leapfrog.py",
        old="elementwise(*(a.reshape(-1) for a in full))",
        new="elementwise(*(a.T.reshape(-1) for a in full))",
        tests=(LEAPFROG + "::test_elementwise_is_the_same_in_any_batch[logit]",),
    ),
    Mutant(
        "even-part-not-in-the-density",
        "hamq/sampling/jumps.py",
        old="return jnp.logaddexp(jax.nn.logsumexp(logs) + constant, even)",
        new="return jax.nn.logsumexp(logs) + constant",
        tests=(JUMPS + "[logit-0.3]",),
    ),
    Mutant(
        "widening-not-in-the-density",
        "hamq/sampling/jumps.py",
        old="return log_height - 0.5 * squares / WIDENING**2",
        new="return log_height - 0.5 * squares",
        tests=(AGREEMENT + "::test_weighted_draws_agree_with_both_laws[product]",),
    ),
    Mutant(
        "weights-not-normalised",
        "hamq/sampling/importance.py",
        old="log_weights = logs - logsumexp(logs)",
        new="log_weights = logs",
        tests=(AGREEMENT + "::test_weighted_draws_agree_with_both_laws[product]",),
    ),
    Mutant(
        "weights-without-the-proposal",
        "hamq/sampling/importance.py",
        old="-potential.energy(y) - log_proposal(potential, modes, y)",
        new="-potential.energy(y)",
        tests=(AGREEMENT + "::test_weighted_draws_agree_with_both_laws[product]",),
    ),
    Mutant(
        "mirrored-quantile-not-mirrored-back",
        "hamq/sampling/truncated_normal.py",
        old="u = jnp.where(is_mirrored, 1 - u, u)",
        new="u = jnp.where(is_mirrored, u, u)",
        tests=(QUANTILES,),
    ),
    Mutant(
        "tail-without-newton",
        "hamq/sampling/truncated_normal.py",
        old="NUM_NEWTON = 4",
        new="NUM_NEWTON = 0",
        tests=(QUANTILES,),
    ),
    Mutant(
        "rejected-points-kept",
        "hamq/sampling/iid.py",
        old="points = jnp.where(is_inside[:, None], points, new)",
        new="points = jnp.where(is_inside[:, None], new, points)",
        tests=(AGREEMENT + "::test_independent_draws_agree_with_both_laws[correlated-rejection]",),
    ),
    Mutant(
        "circle-not-wrapped",
        "hamq/sampling/iid.py",
        old="points = jax.vmap(grid.wrap, in_axes=1, out_axes=1)(points)",
        new="points = jnp.asarray(points)",
        tests=(DRAWS + "::test_coupled_actions_share_their_randomness",),
    ),
    Mutant(
        "coupling-upside-down",
        "hamq/learning/draws.py",
        old="        if coupled:\n",
        new="        if not coupled:\n",
        tests=(DRAWS + "::test_coupled_actions_share_their_randomness",),
    ),
    Mutant(
        "all-states-share-one-key",
        "hamq/learning/draws.py",
        old="state_key = jr.fold_in(key, index)",
        new="state_key = jr.fold_in(key, 0)",
        tests=(DRAWS + "::test_states_have_their_own_randomness",),
    ),
    Mutant(
        "padding-not-cut",
        "hamq/learning/draws.py",
        old="jnp.concatenate(leaves)[: len(indices)]",
        new="jnp.concatenate(leaves)",
        tests=(DRAWS + "::test_bits_do_not_depend_on_the_batch[iid]",),
    ),
    Mutant(
        "integer-too-small",
        "hamq/learning/draws.py",
        old="jnp.uint8 if num_states <= 2**8 else",
        new="jnp.uint8 if num_states <= 2**9 else",
        tests=(DRAWS + "::test_indices_above_255_survive",),
    ),
    Mutant(
        "pilot-not-counted",
        "hamq/learning/draws.py",
        old="_total(info.gradient_evaluations) + int(preparation.gradient_evaluations)",
        new="_total(info.gradient_evaluations)",
        tests=(DRAWS + "::test_pilot_is_counted_and_the_same_for_any_states",),
    ),
    Mutant(
        "failed-pair-passed-over",
        "hamq/learning/draws.py",
        old="    if len(failed):\n",
        new="    if len(failed) > 2:\n",
        tests=(REFUSALS + "::test_density_without_a_number[importance]",),
    ),
    Mutant(
        "log-weights-taken-for-weights",
        "hamq/learning/backup.py",
        old="jnp.exp(tile.log_weights) * values",
        new="tile.log_weights * values",
        tests=(DRAWS + "::test_exhaustive_expected_values_are_exact[point]",),
    ),
    Mutant(
        "wrapped-from-zero",
        "hamq/problem/grid.py",
        old="lower + (point - lower) % width",
        new="point % width",
        tests=("tests/problem/test_grid.py::test_wrap_moves_by_whole_turns",),
    ),
    Mutant(
        "floor-instead-of-nearest",
        "hamq/problem/grid.py",
        old="nearest = jnp.round((point - lower) / h)",
        new="nearest = jnp.floor((point - lower) / h)",
        tests=("tests/problem/test_grid.py::test_nearest_node_by_brute_force",),
    ),
    Mutant(
        "whole-cells-at-the-ends",
        "hamq/problem/grid.py",
        old="return np.concatenate([nodes[:1], middles, nodes[-1:]])",
        new="return np.concatenate([nodes[:1] - h / 2, middles, nodes[-1:] + h / 2])",
        tests=("tests/problem/test_grid.py::test_cells_tile_the_box",),
    ),
    Mutant(
        "interpolation-does-not-close-the-circle",
        "hamq/problem/grid.py",
        old="right = jnp.where(circle, (left + 1) % n, left + 1)",
        new="right = jnp.minimum(left + 1, n - 1)",
        tests=("tests/problem/test_grid.py::test_interpolation_closes_the_circle",),
    ),
    Mutant(
        "nearer-end-not-first",
        "hamq/problem/normal.py",
        old="near = jnp.where(a + b > 0, a, -b)  # mirrored",
        new="near = a  # mirrored",
        tests=("tests/problem/test_normal.py::test_far_outside_the_box",),
    ),
    Mutant(
        "circle-of-one-turn",
        "hamq/problem/normal.py",
        old="NUM_IMAGES = 13",
        new="NUM_IMAGES = 0",
        tests=("tests/problem/test_normal.py::test_wrapped_masses_against_quadrature",),
    ),
    Mutant(
        "hats-rolled-the-wrong-way",
        "hamq/problem/normal.py",
        old="jnp.roll(right, 1)",
        new="jnp.roll(right, -1)",
        tests=("tests/problem/test_normal.py::test_wrapped_masses_against_quadrature",),
    ),
    Mutant(
        "gradient-divided-by-the-deviation",
        "hamq/problem/kernel.py",
        old="return (self.mean - point) / self.std**2",
        new="return (self.mean - point) / self.std",
        tests=("tests/problem/test_kernel.py::test_gradient_against_finite_differences",),
    ),
    Mutant(
        "user-density-beyond-the-circle",
        "hamq/problem/kernel.py",
        old="self.logdensity(self.grid.wrap(point), self.state",
        new="self.logdensity(point, self.state",
        tests=(WALLS + "::test_circles_have_the_energy_of_the_wrapped_point",),
    ),
    Mutant(
        "cells-of-one-volume",
        "hamq/problem/cells.py",
        old="* volumes[:, None], largest, peak",
        new=", largest, peak",
        tests=("tests/problem/test_cells.py::test_unnormalised_rows_against_a_dense_sum[periodic0-cell]",),
    ),
    Mutant(
        "correlated-circle-of-one-turn",
        "hamq/problem/cells.py",
        old="if not isinstance(density, CorrelatedDensity) or not any(problem.grid.periodic):",
        new="if density is not None:",
        tests=("tests/problem/test_cells.py::test_correlated_rows_against_a_dense_sum[periodic1-cell]",),
    ),
    Mutant(
        "bounds-leave-out-terminal-states",
        "hamq/exact/fixed_point.py",
        "change = image - value\n    smallest",
        "change = (image - value)[image != 0]\n    smallest",
        ("tests/exact/test_fixed_point.py::test_bounds_hold_at_any_value_with_and_without_terminal_states",),
    ),
    Mutant(
        "bounds-without-the-slack",
        "hamq/exact/fixed_point.py",
        "float(change.min()) - slack, float(change.max()) + slack",
        "float(change.min()), float(change.max())",
        ("tests/exact/test_fixed_point.py::test_bounds_hold_when_the_image_is_off_by_the_slack",),
    ),
    Mutant(
        "bounds-discounted-once-too-often",
        "hamq/exact/fixed_point.py",
        "factor = discount / (1 - discount)",
        "factor = discount**2 / (1 - discount)",
        ("tests/exact/test_fixed_point.py::test_bounds_hold_at_any_value_with_and_without_terminal_states",),
    ),
    Mutant(
        "acceleration-that-never-gives-up",
        "hamq/exact/fixed_point.py",
        "is_short = best_width > self.goal",
        "is_short = False",
        ("tests/exact/test_fixed_point.py::test_an_extrapolation_that_does_not_pay_is_left_for_plain_sweeps",),
    ),
    Mutant(
        "quadrature-error-left-out-of-the-slack",
        "hamq/exact/bellman.py",
        " + discount * self.law.error * span",
        "",
        ("tests/exact/test_value_iteration.py::test_the_error_of_a_coarse_rule_enters_the_bounds",),
    ),
    Mutant(
        "terminal-states-keep-their-value",
        "hamq/exact/bellman.py",
        "value[operator.ended] = 0",
        "value[operator.ended] += 0",
        ("tests/exact/test_bellman.py::test_terminal_states_have_value_zero_under_any_policy",),
    ),
    Mutant(
        "weak-dependencies-overlooked",
        "hamq/exact/factored.py",
        "SAME = 16 * EPSILON",
        "SAME = 1e-9",
        ("tests/exact/test_factored.py::test_a_dependency_is_found_however_weak",),
    ),
    Mutant(
        "variances-taken-as-constant",
        "hamq/exact/factored.py",
        "max(mean.shape[i], std.shape[i]) > 1",
        "mean.shape[i] > 1",
        ("tests/exact/test_factored.py::test_factored_expectation_with_variances_that_depend_on_the_state",),
    ),
    Mutant(
        "policy-from-NaN",
        "hamq/exact/solution.py",
        "bad = np.isnan(self.q)",
        "bad = np.isinf(self.q)",
        ("tests/exact/test_solution.py::test_no_action_is_chosen_from_nan",),
    ),
    Mutant(
        "peaks-between-nodes-believed",
        "hamq/problem/cells.py",
        old="error = error if peak <= MAX_PEAK else max(error, peak)",
        new="error = max(error, 0 * peak)",
        tests=("tests/problem/test_cells.py::test_error_covers_densities_narrower_than_the_first_nodes_are_apart",),
    ),
]
