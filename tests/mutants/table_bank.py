"""Planted bugs of the bank of densities: a judge that looks away, references that are wrong."""

from tests.mutants.mutant import Mutant

OUTCOMES = "tests/densities/test_outcomes.py"
REFERENCE = "tests/densities/test_reference.py"

BANK_MUTANTS = [
    Mutant(
        "bank-takes-nan-for-right",
        "tests/densities/outcomes.py",
        old="if found.number <= found.allowed:",
        new="if not found.number > found.allowed:",
        tests=(f"{OUTCOMES}::test_verdicts",),
    ),
    Mutant(
        "bank-takes-every-error-for-a-refusal",
        "tests/densities/outcomes.py",
        old="is_refusal = isinstance(error, ValueError) and not",
        new="is_refusal = not",
        tests=(f"{OUTCOMES}::test_verdicts",),
    ),
    Mutant(
        "bank-forgives-benign-densities",
        "tests/densities/outcomes.py",
        old='if "benign" in density.traits and kind != "right":',
        new='if "benign" in density.traits and kind == "refused":',
        tests=(f"{OUTCOMES}::test_what_is_benign_must_be_right",),
    ),
    Mutant(
        "bank-counts-no-draws-outside",
        "tests/densities/capabilities.py",
        old="if np.any(counts[masses == 0]):",
        new="if False:",
        tests=(f"{OUTCOMES}::test_counts_where_there_is_no_mass_are_refuted",),
    ),
    Mutant(
        "reference-does-not-cut-at-jumps",
        "tests/densities/quadrature.py",
        old="cuts = np.unique(np.concatenate([edges, jumps, [low, high]]))",
        new="cuts = np.unique(np.concatenate([edges, [low, high]]))",
        tests=(f"{REFERENCE}::test_masses_of_cells_are_those_of_distribution_functions",),
    ),
    Mutant(
        "reference-with-whole-cells-at-the-ends",
        "tests/densities/quadrature.py",
        old="if circle else (at[0], at[-1])",
        new="",
        tests=(f"{REFERENCE}::test_masses_of_cells_are_those_of_distribution_functions",),
    ),
    Mutant(
        "reference-forgets-the-covariance-of-returns",
        "tests/densities/reference.py",
        old="rewards**2 + 2 * discount * rewards * (moves @ mean) + discount**2",
        new="rewards**2 + discount**2",
        tests=(f"{REFERENCE}::test_returns_have_the_mean_and_variance_of_a_simulation",),
    ),
]
