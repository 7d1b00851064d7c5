"""Planted bugs of the chain diagnostics."""

from tests.mutants.mutant import Mutant

STATISTICS = "tests/certificates/test_chain_statistics.py"
DIAGNOSE = "tests/certificates/test_diagnostics.py"

DIAGNOSTIC_MUTANTS = [
    Mutant(
        "zeros-of-a-density-are-an-alarm",
        "hamq/certificates/chain_diagnosis.py",
        old='"divergent": 1.0 if self.is_cut else 0.0,',
        new='"divergent": 0.0,',
        tests=(f"{DIAGNOSE}::test_trajectories_that_end_in_a_zero_of_the_density_are_no_alarm",),
    ),
    Mutant(
        "chains-not-split",
        "hamq/certificates/chain_statistics.py",
        old="np.concatenate([values[:, :, :half], values[:, :, -half:]], axis=1)",
        new="values",
        tests=(f"{STATISTICS}::test_chains_that_disagree_have_no_worth",),
    ),
    Mutant(
        "spread-not-looked-at",
        "hamq/certificates/chain_statistics.py",
        old="_rhat(_scores(np.abs(halves - middle)))",
        new="_rhat(_scores(halves - middle))",
        tests=(f"{STATISTICS}::test_chains_that_disagree_have_no_worth",),
    ),
    Mutant(
        "sums-not-monotone",
        "hamq/certificates/chain_statistics.py",
        old="np.minimum.accumulate(sums, axis=1)",
        new="sums",
        tests=(f"{STATISTICS}::test_numbers_are_those_of_arviz",),
    ),
    Mutant(
        "chains-mixed-up",
        "hamq/certificates/diagnostics.py",
        old="values.reshape(len(values), sampler.chains, -1)",
        new="values.reshape(len(values), -1, sampler.chains).swapaxes(1, 2)",
        tests=(f"{DIAGNOSE}::test_values_are_those_of_the_cells",),
    ),
    Mutant(
        "value-of-the-first-action",
        "hamq/certificates/diagnostics.py",
        old="solution).max(axis=1)",
        new="solution)[:, 0]",
        tests=(f"{DIAGNOSE}::test_values_are_those_of_the_cells",),
    ),
    Mutant(
        "actions-share-their-chains",
        "hamq/certificates/diagnostics.py",
        old="coupled=False",
        new="coupled=True",
        tests=(f"{DIAGNOSE}::test_chains_are_independent_and_dispersed",),
    ),
    Mutant(
        "best-pair-of-a-state-shown",
        "hamq/certificates/chain_diagnosis.py",
        old="pick = np.fmin if name in LOW_IS_BAD else np.fmax",
        new="pick = np.fmax if name in LOW_IS_BAD else np.fmin",
        tests=(f"{DIAGNOSE}::test_states_have_the_worst_of_their_pairs",),
    ),
]
