"""Planted bugs of what makes draws right for any density: jumps, tables of cells, lengths, what draws are worth."""

from tests.mutants.mutant import Mutant

IDENTITIES = "tests/learning/test_identities.py"
CELL_TABLE = "tests/sampling/test_cell_table.py"
WORTH = "tests/learning/test_worth.py"

DENSITY_MUTANTS = [
    Mutant(
        "jumps-calibrated-all-the-same",
        "hamq/learning/identities.py",
        old="return dataclasses.replace(sampler, calibrate=False), *spent",
        new="return sampler, *spent",
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
        old="variates and obeys and has_stein(problem)",
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
]
