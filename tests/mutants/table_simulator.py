"""Planted bugs of next states that are drawn from densities without a normaliser."""

from tests.mutants.mutant import Mutant

NEXT_STATE = "tests/control/test_next_state.py"
LAW = f"{NEXT_STATE}::test_one_step_has_the_law"
NOISY = "tests/envs/test_noisy.py"

SIMULATOR = [
    Mutant(
        "points-part-by-its-size",
        "hamq/problem/quadrature.py",
        old="masses = measured.factors * np.maximum(self.parts.masses.sum(axis=1), 0)",
        new="masses = np.maximum(self.parts.masses.sum(axis=1), 0)",
        tests=(f"{LAW}[gumbel-linear]",),
    ),
    Mutant(
        "points-anywhere-in-a-part",
        "hamq/problem/point_draws.py",
        old="rest = jnp.exp(logs - jnp.where(jnp.isfinite(largest), largest, 0)).reshape(shape)",
        new="rest = jnp.ones_like(logs).reshape(shape)",
        tests=(f"{LAW}[gumbel-linear]",),
    ),
    Mutant(
        "points-of-the-first-part",
        "hamq/problem/point_draws.py",
        old='np.clip(np.searchsorted(reached, goal, "right"), first, last - 1)',
        new="first",
        tests=(f"{LAW}[forbidden-linear]",),
    ),
    Mutant(
        "points-where-they-cannot-be",
        "hamq/problem/point_draws.py",
        old="jnp.where(jnp.isfinite(log_at(place)), place, middle)\n",
        new="place\n",
        tests=(f"{LAW}[forbidden-linear]",),
    ),
    Mutant(
        "points-of-another-pair",
        "hamq/problem/point_draws.py",
        old="rest = rest[own if axis == 0 else np.arange(len(own)), chosen[:, axis]]",
        new="rest = rest[np.arange(len(own)), chosen[:, axis]]",
        tests=(f"{NEXT_STATE}::test_rows_are_kept_for_their_own_pair",),
    ),
    Mutant(
        "nodes-by-one-uniform-for-all-axes",
        "hamq/problem/point_draws.py",
        old="goal = uniforms[:, axis] * reached[:, -1]",
        new="goal = uniforms[:, 0] * reached[:, -1]",
        tests=(f"{LAW}[gumbel-cell]",),
    ),
    Mutant(
        "nodes-of-a-row-that-was-kept-for-another",
        "hamq/control/next_state.py",
        old="pairs = np.concatenate([states, actions.reshape(len(states), -1)], axis=1)",
        new="pairs = states",
        tests=(f"{NEXT_STATE}::test_rows_are_kept_for_their_own_pair",),
    ),
    Mutant(
        "ended-states-are-asked",
        "hamq/control/next_state.py",
        old="found, going = np.array(states, np.float32), np.flatnonzero(~is_over)",
        new="found, going = np.array(states, np.float32), np.arange(len(is_over))",
        tests=(f"{NEXT_STATE}::test_what_has_ended_is_not_asked",),
    ),
    Mutant(
        "rollouts-share-one-luck",
        "hamq/control/next_state.py",
        old="np.asarray(actions, np.float64), rows[which]",
        new="np.asarray(actions, np.float64), rows[which * 0]",
        tests=(f"{NEXT_STATE}::test_pairs_that_are_alike_share_their_luck",),
    ),
    Mutant(
        "nan-is-worth-something",
        "hamq/control/next_state.py",
        old="self._means.append(mean if np.isfinite(mean) else 0.0)",
        new="self._means.append(mean)",
        tests=(f"{NEXT_STATE}::test_what_draws_are_worth_is_said",),
    ),
    Mutant(
        "nan-error-is-no-error",
        "hamq/control/next_state.py",
        old="np.sum(~(taken.error <= FAR))",
        new="np.sum(taken.error > FAR)",
        tests=(f"{NEXT_STATE}::test_what_draws_are_worth_is_said",),
    ),
    Mutant(
        "chains-always-short",
        "hamq/control/chain_draws.py",
        old="if shares[-1][0] <= FEW_SHARE:",
        new="if shares[-1][0] <= 1:",
        tests=(f"{NEXT_STATE}::test_chains_are_as_long_as_they_must_be",),
    ),
    Mutant(
        "chains-first-draw",
        "hamq/control/next_state.py",
        old="made.points[:, :, -1]",
        new="made.points.mean(axis=2)",
        tests=(f"{NEXT_STATE}::test_chains_follow_a_curved_density_in_four_dimensions",),
    ),
    Mutant(
        "lookahead-undiscounted",
        "hamq/control/decoders.py",
        old="+ self.problem.discount * expected\n        if np",
        new="+ expected\n        if np",
        tests=(f"{NOISY}::test_lookahead_is_within_a_hundredth_of_the_range[gumbel-linear]",),
    ),
    Mutant(
        "lookahead-compares-nan",
        "hamq/control/decoders.py",
        old="if np.any(np.isnan(found)):",
        new="if np.all(np.isnan(found)):",
        tests=(f"{NOISY}::test_what_is_no_number_is_refused_by_lookahead",),
    ),
    Mutant(
        "lookahead-actions-mixed-up",
        "hamq/control/expected_values.py",
        old="np.repeat(states, many, axis=0)",
        new="np.tile(states, (many, 1))",
        tests=(f"{NOISY}::test_lookahead_is_within_a_hundredth_of_the_range[gumbel-linear]",),
    ),
]
