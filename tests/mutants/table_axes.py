"""Planted bugs of independent coordinates, and of what kernels say of themselves."""

from tests.mutants.mutant import Mutant

MASSES = "tests/problem/test_axes.py::test_masses_of_an_axis_against_numpy"
EXACT = "tests/exact/test_axis_masses.py"
DEPENDENCE = "tests/exact/test_dependence.py"
LEARNING = "tests/learning/test_axes.py"
OWN = "tests/test_own_kernel.py"
OWN_COMPLETION = "tests/test_own_completion.py"
OWN_SAMPLER = "tests/test_own_sampler.py"

AXES = [
    Mutant(
        "axes-beyond-the-circle",
        "hamq/problem/kernels/axes.py",
        old="coordinate = lower + (coordinate - lower) % width",
        new="coordinate = lower + jnp.clip(coordinate - lower, 0, width)",
        tests=(f"{MASSES}[3-cell]",),
    ),
    Mutant(
        "axes-of-another-number",
        "hamq/problem/kernels/axes.py",
        old="if len(self.logdensities) != grid.dimension:",
        new="if len(self.logdensities) > grid.dimension:",
        tests=("tests/problem/test_axes.py::test_functions_that_do_not_fit_are_refused",),
    ),
    Mutant(
        "axes-share-the-program-of-the-first",
        "hamq/problem/integrand.py",
        old="return self.problem.constants if self.axis is None else (self.problem.constants, self.axis)",
        new="return self.problem.constants",
        tests=(f"{OWN}::test_a_product_sums_axis_by_axis",),
    ),
    Mutant(
        "dependence-of-where-forgotten",
        "hamq/exact/axis_masses.py",
        old="joined = functools.reduce(np.bitwise_or, np.broadcast_arrays(*given))",
        new="joined = np.broadcast_arrays(*given)[-1]",
        tests=(f"{DEPENDENCE}::test_coordinates_are_found",),
    ),
    Mutant(
        "dependence-within-a-sort",
        "hamq/exact/axis_masses.py",
        old='*("square", "stop_gradient",',
        new='*("square", "sort", "stop_gradient",',
        tests=(f"{DEPENDENCE}::test_values_never_change_with_what_is_left_out",),
    ),
    Mutant(
        "dependence-of-constants-of-a-loop",
        "hamq/exact/axis_masses.py",
        old="return [np.full(shape, _joined(given), np.int64) for shape in shapes]",
        new="return [np.full(shape, _joined(given[-1:]), np.int64) for shape in shapes]",
        tests=(f"{DEPENDENCE}::test_coordinates_are_found",),
    ),
    Mutant(
        "axis-rows-of-the-first-action",
        "hamq/exact/axis_masses.py",
        old="np.float64)[at.get(d, first)]",
        new="np.float64)[first]",
        tests=(f"{EXACT}::test_exact_against_numpy[cell]",),
    ),
    Mutant(
        "axis-errors-do-not-add-up",
        "hamq/exact/axis_masses.py",
        old="        error += worst\n",
        new="        error = 0 * worst\n",
        tests=(f"{EXACT}::test_the_error_of_the_axes_is_in_the_bound",),
    ),
    Mutant(
        "axis-error-left-out-of-the-bound",
        "hamq/exact/factored.py",
        old="self.error = self.quadrature_error + grid.dimension * ROUNDING",
        new="self.error = grid.dimension * ROUNDING",
        tests=(f"{EXACT}::test_the_error_of_the_axes_is_in_the_bound",),
    ),
    Mutant(
        "quadrature-of-axes-called-proven",
        "hamq/problem/cells.py",
        old='return not (problem.has_closed_masses or problem.law == "point")',
        new='return not (problem.is_product or problem.law == "point")',
        tests=(f"{EXACT}::test_exact_against_numpy[cell]",),
    ),
    Mutant(
        "axes-drawn-with-one-uniform",
        "hamq/sampling/iid.py",
        old="parts = zip(masses, np.split(uniforms, len(masses), axis=1), strict=True)",
        new="parts = zip(masses, [uniforms[:, : self.num_samples]] * len(masses), strict=True)",
        tests=(f"{LEARNING}::test_independent_draws_have_the_law[cell]",),
    ),
    Mutant(
        "simulated-axes-share-their-luck",
        "hamq/control/next_state.py",
        old="own = np.split(uniforms, d, axis=1)",
        new="own = [uniforms[:, : num_uniforms(1)]] * d",
        tests=(f"{LEARNING}::test_one_step_of_the_simulator_has_the_law[linear]",),
    ),
    Mutant(
        "programs-shared-by-a-class",
        "hamq/problem/kernels/kernel.py",
        old="        return (self,)\n",
        new="        return (type(self),)\n",
        tests=(f"{OWN}::test_programs_belong_to_one_kernel",),
    ),
    Mutant(
        "anything-is-a-density",
        "hamq/problem/kernels/kernel.py",
        old="if not isinstance(density, AbstractDensity):",
        new="if density is None:",
        tests=(f"{OWN}::test_what_is_no_density_is_refused",),
    ),
    Mutant(
        "settings-that-trains-ignore",
        "hamq/sampling/draws.py",
        old="if (value := getattr(sampler, f.name)) != f.default)",
        new="if (value := getattr(sampler, f.name)) is None)",
        tests=(f"{OWN_SAMPLER}::test_settings_that_no_train_honours_are_refused",),
    ),
    Mutant(
        "budget-of-a-sampler-without-gradients",
        "hamq/learning/settings.py",
        old="not (sampler is None or sampler.gradients_per_draw(problem))",
        new="False",
        tests=(f"{OWN_SAMPLER}::test_what_it_says_is_asked_for",),
    ),
    Mutant(
        "own-draws-without-their-weights",
        "hamq/tensor/expectation.py",
        old="Cloud(draws.points[jnp.asarray(self.order)], jnp.exp(draws.log_weights))",
        new="Cloud(draws.points[jnp.asarray(self.order)], jnp.exp(0 * draws.log_weights))",
        tests=(f"{OWN_SAMPLER}::test_a_train_of_its_draws",),
    ),
    Mutant(
        "own-completion-never-plans",
        "hamq/learning/preparation.py",
        old="plan = settings.completion.plan(pilot)",
        new="plan = settings.completion.plan(pilot)._replace(completion=settings.completion)",
        tests=(f"{OWN_COMPLETION}::test_a_completion_that_plans",),
    ),
    Mutant(
        "settings-of-version-0-1-not-spelt-out",
        "hamq/runs/flat.py",
        old='(found["selection"] or "per_state") if is_part else None',
        new='found["selection"]',
        tests=(f"{OWN_COMPLETION}::test_settings_of_version_0_1_are_spelt_out",),
    ),
]
