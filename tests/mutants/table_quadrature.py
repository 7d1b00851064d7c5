"""Planted bugs of the quadrature: needles, what stays closed, what a tolerance takes, and who is told."""

from tests.mutants.mutant import Mutant

NEEDLES = "tests/problem/test_needles.py"
PACING = "tests/problem/test_pacing.py"
QUADRATURE = "tests/problem/test_quadrature.py"
EXACT = "tests/exact/test_value_iteration.py"
OWN = "tests/exact/test_own_densities.py"

QUADRATURE_MUTANTS = [
    Mutant(
        "long-waits-in-silence",
        "hamq/problem/pacing.py",
        old="if self.progress is not None or left < LONG:",
        new="if True:",
        tests=("tests/problem/test_pacing.py::test_a_long_wait_is_said_after_the_first_pairs_where_nobody_listens",),
    ),
    Mutant(
        "needles-not-looked-for",
        "hamq/problem/needles.py",
        old="    if problem.kernel.has_one_mode:\n",
        new="    if problem is not None:\n",
        tests=(f"{NEEDLES}::test_needles_are_found_in_every_pair",),
    ),
    Mutant(
        "needles-announced-by-anything",
        "hamq/problem/needles.py",
        old="return float(np.clip(once[both] - twice[both], -10, 10).mean()) > least",
        new="return True",
        tests=(f"{NEEDLES}::test_needles_are_found_in_every_pair",),
    ),
    Mutant(
        "every-peak-a-needle",
        "hamq/problem/needles.py",
        old="return float(np.clip(once[both] - twice[both], -10, 10).mean()) > least",
        new="return False",
        tests=(f"{NEEDLES}::test_what_has_no_needles_is_not_divided",),
    ),
    Mutant(
        "needles-of-no-mass-count",
        "hamq/problem/needles.py",
        old="np.flatnonzero(shares > LEAST_SHARE)",
        new="np.flatnonzero(shares > 0)",
        tests=(f"{NEEDLES}::test_what_has_no_needles_is_not_divided",),
    ),
    Mutant(
        "needles-too-narrow-passed-over",
        "hamq/problem/needles.py",
        old="    if found.divisions <= allowed:\n        return found.divisions\n",
        new="    if found.divisions:\n        return min(found.divisions, allowed)\n",
        tests=(
            f"{NEEDLES}::test_what_cannot_be_found_is_said_with_a_remedy_that_works",
            f"{NEEDLES}::test_evaluations_that_do_not_pay_for_needles_are_said",
        ),
    ),
    Mutant(
        "needles-of-draws-forgotten",
        "hamq/problem/point_draws.py",
        old="    divisions = divisions_for(integrand, max_evaluations)\n",
        new="    divisions = 1\n",
        tests=(f"{NEEDLES}::test_draws_see_needles_too",),
    ),
    Mutant(
        "errors-of-closed-boxes-forgotten",
        "hamq/problem/quadrature.py",
        old="of_pairs = np.bincount(parts.pair, errors, num) + closed_errors",
        new="of_pairs = np.bincount(parts.pair, errors, num)",
        tests=(f"{QUADRATURE}::test_jumps_anywhere_are_seen", f"{OWN}::test_exact_is_what_plain_sums_give"),
    ),
    Mutant(
        "opened-boxes-counted-twice",
        "hamq/problem/parts.py",
        old="self.masses[at] = self.errors[at] = self.peaks[at] = 0",
        new="self.errors[at] = self.peaks[at] = 0",
        tests=(f"{QUADRATURE}::test_jumps_anywhere_are_seen",),
    ),
    Mutant(
        "weights-of-points-that-were-not-moved",
        "hamq/problem/rules.py",
        old="np.linalg.solve(np.polynomial.legendre.legvander(nodes, num - 1).T, integrals)",
        new="np.linalg.solve(np.polynomial.legendre.legvander(np.round(nodes, 8), num - 1).T, integrals)",
        tests=(f"{QUADRATURE}::test_rules_are_exact_for_polynomials",),
    ),
    Mutant(
        "glance-believed",
        "hamq/exact/bellman.py",
        old='while solved.reason == "slack" and operator.is_estimated and not is_fixed:',
        new="while False:",
        tests=(f"{EXACT}::test_a_glance_that_is_wrong_costs_time_alone",),
    ),
    Mutant(
        "hopeless-tolerances-paid-for",
        "hamq/problem/pacing.py",
        old="> HOPELESS * self.allowed",
        new="> 1e300 * self.allowed",
        tests=(f"{PACING}::test_a_tolerance_out_of_reach_is_given_up_early_and_said",),
    ),
    Mutant(
        "pairs-short-of-their-error-left",
        "hamq/problem/pacing.py",
        old="return is_short & (self.most > PILOT_EVALUATIONS)",
        new="return np.zeros(len(is_short), bool)",
        tests=(f"{PACING}::test_pairs_that_need_more_than_the_first_try_get_it",),
    ),
    Mutant(
        "needed-as-if-all-were-smooth",
        "hamq/problem/summits.py",
        old="(1 / np.maximum(power, LEAST_POWER))",
        new="(1 / np.maximum(power, 4))",
        tests=(f"{PACING}::test_what_is_needed_follows_from_how_errors_fell",),
    ),
    Mutant(
        "mute-while-a-block-is-refined",
        "hamq/problem/pacing.py",
        old="        self._tell(min(self.done + settled, self.total - 1))",
        new="        del settled",
        tests=(f"{PACING}::test_progress_is_told_while_pairs_are_refined",),
    ),
    Mutant(
        "mute-where-nobody-tells",
        "hamq/runs/progress.py",
        old="            if now - max(spoke, self._line_at) >= SECONDS_OF_SILENCE[1]:",
        new="            if now < began:",
        tests=("tests/cli/test_commands.py::test_a_line_comes_in_time_where_nobody_tells",),
    ),
    Mutant(
        "summits-not-climbed",
        "hamq/problem/quadrature.py",
        old="            elif not self._climb(max_evaluations) and not self._look_across(max_evaluations):",
        new="            elif not self._look_across(max_evaluations):",
        tests=("tests/problem/test_summits.py::test_two_needles_keep_their_masses",),
    ),
    Mutant(
        "climbs-that-fall",
        "hamq/problem/summits.py",
        old="        rises = found > height",
        new="        rises = found < height",
        tests=("tests/problem/test_summits.py::test_climbs_end_at_the_nearest_of_two_narrow_peaks",),
    ),
]
