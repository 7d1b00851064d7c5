"""Planted bugs of what makes draws right for any density: jumps, tables of cells, lengths, what draws are worth."""

from tests.mutants.mutant import Mutant

IDENTITIES = "tests/learning/test_identities.py"
CELL_TABLE = "tests/sampling/test_cell_table.py"
WORTH = "tests/learning/test_worth.py"
ERROR = "tests/learning/test_expected_error.py"
DEFINED = "tests/learning/test_defined.py"
BUDGET = "tests/learning/test_pilot_budget.py"

DENSITY_MUTANTS = [
    Mutant(
        "tips-of-cusps-are-parabolas",
        "hamq/sampling/modes.py",
        old="is_tip = jnp.diagonal(scaled) < SHARPEST_FALL",
        new="is_tip = jnp.diagonal(scaled) < -jnp.inf",
        tests=("tests/densities/test_strangers.py::test_a_cusp_in_a_plane_is_drawn_widely",),
    ),
    Mutant(
        "no-room-for-rounding-in-a-shift",
        "hamq/problem/small_matrix.py",
        old="ROUNDING = 1e-5",
        new="ROUNDING = 0.0",
        tests=("tests/problem/test_small_matrix.py::test_raised_takes_any_finite_matrix",),
    ),
    Mutant(
        "few-draws-claim-to-know-their-error",
        "hamq/learning/worth.py",
        old='least = "at least " if self.has_poor_pairs else ""',
        new='least = ""',
        tests=(f"{WORTH}::test_few_draws_do_not_know_how_far_off_they_are",),
    ),
    Mutant(
        "jumps-calibrated-all-the-same",
        "hamq/learning/identities.py",
        old="return Tuned(dataclasses.replace(sampler, calibrate=False), *spent)",
        new="return Tuned(sampler, *spent)",
        tests=(f"{IDENTITIES}::test_weights_are_even_where_the_density_jumps",),
    ),
    Mutant(
        "jumps-not-halved",
        "hamq/learning/continuity.py",
        old="NUM_HALVINGS = 12",
        new="NUM_HALVINGS = 1",
        tests=(f"{IDENTITIES}::test_jumps_are_seen_and_nothing_else",),
    ),
    Mutant(
        "jumps-of-one-axis",
        "hamq/learning/continuity.py",
        old="for axis in range(grid.dimension):",
        new="for axis in range(1):",
        tests=(f"{IDENTITIES}::test_a_jump_across_one_axis_of_three",),
    ),
    Mutant(
        "certificate-with-identities-across-jumps",
        "hamq/certificates/fresh.py",
        old="variates and sampler.obeys_identities and has_stein(problem)",
        new="variates and has_stein(problem)",
        tests=("tests/certificates/test_cut_densities.py::test_identities_are_not_used_across_jumps",),
    ),
    Mutant(
        "table-proposals-not-corrected",
        "hamq/sampling/jumps.py",
        old="log_even = log_even + log_height_at(modes.table, _share(box, y))",
        new="log_even = log_even + 0.0",
        tests=(f"{IDENTITIES}::test_draws_of_laws_with_jumps_agree_with_quadrature",),
    ),
    Mutant(
        "table-without-an-even-part",
        "hamq/sampling/cell_table.py",
        old="mixed = (1 - EVEN_SHARE) * mixed + EVEN_SHARE * volumes",
        new="mixed = mixed + 1e-9 * volumes",
        tests=(f"{CELL_TABLE}::test_heights_are_a_density",),
    ),
    Mutant(
        "chains-that-stay-look-best",
        "hamq/learning/pilot.py",
        old="return np.maximum(between, unseen)",
        new="return between",
        tests=("tests/learning/test_pilot.py::test_chains_that_stay_are_the_worst",),
    ),
    Mutant(
        "disagreement-not-counted",
        "hamq/learning/worth.py",
        old="num_poor=int((is_few | disagrees).sum())",
        new="num_poor=int(is_few.sum())",
        tests=(f"{WORTH}::test_chains_a_little_apart_are_poor_too",),
    ),
    Mutant(
        "error-of-one-step-only",
        "hamq/learning/expected_error.py",
        old="delta = excess + discount * later",
        new="delta = excess",
        tests=(f"{ERROR}::test_one_action_is_linear[cell]",),
    ),
    Mutant(
        "parts-not-scaled",
        "hamq/learning/expected_error.py",
        old="own = even if run.sampler.calibrates else w",
        new="own = 4 * even if run.sampler.calibrates else 4 * w",
        tests=(f"{ERROR}::test_parts_of_independent_draws_have_the_variance_of_their_mean",),
    ),
    Mutant(
        "chains-not-compared-as-a-whole",
        "hamq/learning/expected_error.py",
        old="return math.sqrt(max(1.0, ours / theirs)) if theirs > 0 else 1.0",
        new="return 1.0",
        tests=(f"{ERROR}::test_chains_that_disagree_count_with_what_they_disagree_by",),
    ),
    Mutant(
        "completion-expected-to-miss-nothing",
        "hamq/completion/cross.py",
        old="missing = observed.values[place] - table[place]",
        new="missing = 0 * table[place]",
        tests=(f"{ERROR}::test_what_a_completion_misses_is_expected_elsewhere_too",),
    ),
    Mutant(
        "calibration-believed-whatever-it-fits",
        "hamq/learning/expected_error.py",
        old="if fitted >= 0.5:",
        new="if fitted >= 50:",
        tests=(f"{ERROR}::test_calibration_leaves_what_its_correction_does_not_explain",),
    ),
    Mutant(
        "error-not-warned-of",
        "hamq/learning/worth.py",
        old="or self.is_far",
        new="or False",
        tests=(f"{ERROR}::test_too_few_independent_draws_are_not_converged",),
    ),
    Mutant(
        "expected-error-not-recorded",
        "hamq/runs/summary.py",
        old='"expected_error": solution.expected_error}',
        new='"expected_error": None}',
        tests=("tests/cli/test_health.py::test_the_expected_error_is_kept_and_shown",),
    ),
    Mutant(
        "weights-warned-of-twice",
        "hamq/learning/draws.py",
        old="    if of_weights:\n",
        new="    if True:\n",
        tests=(f"{ERROR}::test_poor_weights_are_not_converged",),
    ),
    Mutant(
        "nan-in-tables-and-looks-let-through",
        "hamq/learning/chunks.py",
        old="logs[lane] == np.inf)\n            require_density(",
        new="logs[lane] == np.inf)\n            (lambda *_: None)(",
        tests=(f"{DEFINED}::test_what_is_no_density_is_refused_with_its_place",),
    ),
    Mutant(
        "corners-not-looked-at",
        "hamq/learning/defined.py",
        old="edge = np.clip(np.concatenate([corners, ",
        new="edge = np.clip(np.concatenate([0.5 + 0 * corners, ",
        tests=(f"{DEFINED}::test_what_is_no_density_is_refused_with_its_place[corner-importance]",),
    ),
    Mutant(
        "poles-on-walls-refused",
        "hamq/learning/defined.py",
        old="INSET = 1e-3",
        new="INSET = 0.0",
        tests=(f"{DEFINED}::test_zeros_and_poles_on_the_wall_are_no_reason_to_refuse",),
    ),
    Mutant(
        "importance-does-not-look",
        "hamq/learning/draws.py",
        old="sampler.evaluates_density and",
        new="sampler.has_chains and",
        tests=(f"{DEFINED}::test_what_is_no_density_is_refused_with_its_place",),
    ),
    Mutant(
        "pilots-spend-what-they-like",
        "hamq/learning/pilot.py",
        old="num = int(min(most, share * self.pilots // of_one))",
        new="num = most",
        tests=(f"{BUDGET}::test_pilots_keep_to_what_they_may_spend",),
    ),
    Mutant(
        "budget-named-without-the-search-for-modes",
        "hamq/learning/budget.py",
        old="needed = 2 * num_pairs * (search_gradients(problem.grid.dimension) + of_pair)",
        new="needed = num_pairs * sampler.chains",
        tests=(f"{BUDGET}::test_the_budget_that_a_refusal_names_is_enough",),
    ),
]
