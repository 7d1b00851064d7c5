"""Planted bugs of the certificates, and of the independent draws that they are made from."""

from tests.mutants.mutant import Mutant

INTERVALS = "tests/certificates/test_intervals.py"
VARIATES = "tests/certificates/test_variates.py"
PROPOSAL = "tests/certificates/test_proposal.py"
BRACKET = "tests/certificates/test_bracket.py"
CERTIFY = "tests/certificates/test_certify.py"
EXPERIMENT = "tests/certificates/test_experiment.py"
INTEGRAND = "tests/certificates/test_integrand.py"
PARTIAL = "tests/certificates/test_partial.py"
CUT = "tests/sampling/test_truncated_correlated.py"
KEEP = f"{VARIATES}::test_variates_keep_the_expectation"

CERTIFICATE_MUTANTS = [
    Mutant(
        "risk-not-split-over-pairs",
        "hamq/certificates/sampled.py",
        old="level = (1 - confidence) / (2 * q.size + len(q))",
        new="level = 1 - confidence",
        tests=(f"{EXPERIMENT}::test_the_risk_is_split_over_all_statements",),
    ),
    Mutant(
        "lower-bound-on-the-wrong-side",
        "hamq/certificates/experiment.py",
        old="= sign * self._bound(values",
        new="= self._bound(values",
        tests=(f"{EXPERIMENT}::test_bounds_lie_on_their_sides_and_close_in",),
    ),
    Mutant(
        "shift-of-q-not-discounted",
        "hamq/certificates/sampled.py",
        old="upper, lower = verified.upper + discount * above, verified.lower - discount * below",
        new="upper, lower = verified.upper + above, verified.lower - below",
        tests=(f"{BRACKET}::test_a_constant_that_was_missed_costs_nothing",),
    ),
    Mutant(
        "miss-not-passed-on",
        "hamq/certificates/sampled.py",
        old="(max(b, 0.0) if has_ends else b) / (1 - discount)",
        new="max(b, 0.0) if has_ends else b",
        tests=(f"{BRACKET}::test_any_functions_give_a_bracket",),
    ),
    Mutant(
        "ended-states-help",
        "hamq/certificates/sampled.py",
        old="(max(b, 0.0) if has_ends else b)",
        new="b",
        tests=(f"{BRACKET}::test_ended_states_stop_what_helps",),
    ),
    Mutant(
        "policy-follows-the-best-action",
        "hamq/certificates/sampled.py",
        old="followed = verified.policy[np.arange(len(policy)), policy]",
        new="followed = verified.policy.max(axis=1)",
        tests=(f"{BRACKET}::test_a_constant_that_was_missed_costs_nothing",),
    ),
    Mutant(
        "pilots-verify-themselves",
        "hamq/certificates/experiment.py",
        old="VERIFY = 2**20",
        new="VERIFY = 0",
        tests=(f"{EXPERIMENT}::test_draws_that_verify_are_not_those_of_the_pilot",),
    ),
    Mutant(
        "far-boxes-not-rounded",
        "hamq/certificates/experiment.py",
        old="bound + rounding_of(self.problem) * 2 * half",
        new="bound + ROUNDING * 2 * half",
        tests=("tests/certificates/test_rounding.py::test_bounds_have_it",),
    ),
    Mutant(
        "noise-takes-no-part-in-rounding",
        "hamq/certificates/experiment.py",
        old="* (1 / h + 1 / std)))",
        new="* (1 / h)))",
        tests=("tests/certificates/test_rounding.py::test_narrow_noise_has_more",),
    ),
    Mutant(
        "bet-not-guarded",
        "hamq/certificates/experiment.py",
        old="np.sqrt((f.var(axis=1) * n + (span / 2) ** 2) / (n + 1))",
        new="f.std(axis=1)",
        tests=(f"{EXPERIMENT}::test_pilots_that_saw_one_value_do_not_bet_everything",),
    ),
    Mutant(
        "bounds-of-other-pairs",
        "hamq/certificates/experiment.py",
        old="found[j, block[own]] = sign",
        new="found[j, own] = sign",
        tests=(f"{EXPERIMENT}::test_bounds_lie_on_their_sides_and_close_in",),
    ),
    Mutant(
        "newton-stops-early",
        "hamq/certificates/intervals.py",
        old="MAX_NEWTON = 60",
        new="MAX_NEWTON = 2",
        tests=(f"{INTERVALS}::test_capital_at_the_bound_is_what_the_level_asks_for",),
    ),
    Mutant(
        "bet-against-the-wrong-level",
        "hamq/certificates/intervals.py",
        old="wealth, room = math.log(1 / level)",
        new="wealth, room = math.log(1 / level) / 2",
        tests=(f"{INTERVALS}::test_bound_of_a_constant_is_a_closed_form",),
    ),
    Mutant(
        "extremes-not-counted",
        "hamq/certificates/intervals.py",
        old="seen = np.concatenate([means, low[:, None], high[:, None]], axis=1)",
        new="seen = means",
        tests=(f"{INTERVALS}::test_chains_that_all_missed_a_value_are_covered_by_known_ends",),
    ),
    Mutant(
        "stein-sign-flipped",
        "hamq/certificates/variates.py",
        old="flat = wall * width * force - across",
        new="flat = wall * width * force + across",
        tests=(f"{KEEP}[correlated-cell]",),
    ),
    Mutant(
        "stein-derivative-of-the-coordinate-forgotten",
        "hamq/certificates/variates.py",
        old="(2 * wall[i] if i == j else 0)",
        new="0",
        tests=(f"{KEEP}[correlated-cell]",),
    ),
    Mutant(
        "stein-circle-as-a-line",
        "hamq/certificates/variates.py",
        old="sine * force[i] + turn * cosine",
        new="sine * force[i] - turn * cosine",
        tests=(f"{KEEP}[circle-two-modes-cell]",),
    ),
    Mutant(
        "conditional-on-its-own-coordinate",
        "hamq/certificates/variates.py",
        old=" - row[j] * (x[j] - density.mean[j])",
        new="",
        tests=(f"{KEEP}[correlated-cell]",),
    ),
    Mutant(
        "conditional-spread-of-the-marginal",
        "hamq/certificates/variates.py",
        old="others / row[j], 1 / jnp.sqrt(row[j])",
        new="others / row[j], density.cholesky[0, 0]",
        tests=(f"{VARIATES}::test_conditional_expectations_are_those_along_each_axis[correlated-cell]",),
    ),
    Mutant(
        "variates-added-not-taken-out",
        "hamq/certificates/integrand.py",
        old="found = -np.linalg.solve",
        new="found = np.linalg.solve",
        tests=(f"{INTEGRAND}::test_least_squares_take_out_what_is_known",),
    ),
    Mutant(
        "margin-of-the-policy-on-the-wrong-side",
        "hamq/certificates/proposal.py",
        old="corrected.solved(-margin, lambda table: table[states, policy], centre)",
        new="corrected.solved(margin, lambda table: table[states, policy], centre)",
        tests=(f"{PROPOSAL}::test_exact_pilots_propose_what_the_operator_confirms",),
    ),
    Mutant(
        "draws-go-where-nothing-is-decided",
        "hamq/certificates/proposal.py",
        old="np.minimum(gap + x,",
        new="np.minimum(gap.max() - gap + x,",
        tests=(f"{PROPOSAL}::test_draws_go_where_they_decide",),
    ),
    Mutant(
        "computed-bounds-swapped",
        "hamq/certificates/by_sums.py",
        old="lower=solved.table + solved.bounds.low",
        new="lower=solved.table + solved.bounds.high",
        tests=(f"{CERTIFY}::test_computed_bounds_are_true_and_close",),
    ),
    Mutant(
        "computed-policy-of-the-answer",
        "hamq/certificates/by_sums.py",
        old="operator.evaluate(q.argmax(axis=1)",
        new="operator.evaluate(solved.table.argmax(axis=1)",
        tests=(f"{CERTIFY}::test_computed_bounds_are_true_and_close",),
    ),
    Mutant(
        "masses-taken-for-independent-draws",
        "hamq/certificates/certify.py",
        old='return isinstance(problem.kernel, GaussianKernel) or problem.law == "point"',
        new="return True",
        tests=(f"{CERTIFY}::test_the_strongest_method_that_applies_is_taken",),
    ),
    Mutant(
        "quantile-takes-all-of-the-risk",
        "hamq/certificates/partial.py",
        old="confidence=1 - risk / 2",
        new="confidence=1 - risk",
        tests=(f"{PARTIAL}::test_risk_is_split_between_bounds_and_quantile",),
    ),
    Mutant(
        "bounds-take-all-of-the-risk",
        "hamq/certificates/partial.py",
        old="risk / 2 / (2 * len(looked_at))",
        new="risk / (2 * len(looked_at))",
        tests=(f"{PARTIAL}::test_risk_is_split_between_bounds_and_quantile",),
    ),
    Mutant(
        "pairs-seen-twice-count-once",
        "hamq/certificates/partial.py",
        old="np.repeat(residuals, times)",
        new="residuals",
        tests=(f"{PARTIAL}::test_risk_is_split_between_bounds_and_quantile",),
    ),
    Mutant(
        "rewards-alone-without-discount",
        "hamq/certificates/bracket.py",
        old="ahead = problem.discount / (1 - problem.discount)",
        new="ahead = problem.discount",
        tests=(f"{BRACKET}::test_rewards_alone_bound_what_is_found",),
    ),
    Mutant(
        "proposals-all-kept",
        "hamq/sampling/iid.py",
        old="is_kept | (jnp.log(u[:, d]) < log_kept)",
        new="is_kept | (log_kept < jnp.inf)",
        tests=(f"{CUT}::test_the_sampler_has_the_masses",),
    ),
    Mutant(
        "largest-mass-omitted",
        "hamq/sampling/truncated_correlated.py",
        old="given.log_mass(j, centre) - given.log_most[j]",
        new="given.log_mass(j, centre)",
        tests=(f"{CUT}::test_accepted_proposals_have_the_masses[corner]",),
    ),
    Mutant(
        "largest-mass-at-the-mean",
        "hamq/sampling/truncated_correlated.py",
        old="found.append(given.log_mass(j, jnp.clip(middle, low, high)))",
        new="found.append(given.log_mass(j, given.mean[j]))",
        tests=(f"{CUT}::test_accepted_proposals_have_the_masses",),
    ),
    Mutant(
        "order-not-undone",
        "hamq/sampling/truncated_correlated.py",
        old="jnp.zeros_like(u).at[given.order].set(jnp.stack(found))",
        new="jnp.stack(found)",
        tests=(f"{CUT}::test_accepted_proposals_have_the_masses[turned]",),
    ),
    Mutant(
        "dispersion-forgotten",
        "hamq/sampling/hmc.py",
        old="start = jnp.where(is_near, place, start)",
        new="start = jnp.where(is_near, start, start)",
        tests=("tests/sampling/test_dispersed.py::test_chains_start_apart",),
    ),
]
