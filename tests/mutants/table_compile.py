"""Bugs in what makes chains in parts, from random numbers with addresses, by programs that are shared and released."""

from tests.mutants.mutant import Mutant

NOISE = "tests/sampling/test_noise.py"
CHUNKS = "tests/learning/test_chunks.py"
PROGRAMS = "tests/problem/test_programs.py"

COMPILE_MUTANTS = [
    Mutant(
        "threefry-without-the-round",
        "hamq/sampling/noise.py",
        old="keys[(rounds + 1) % 3] + rounds.astype(np.uint32)",
        new="keys[(rounds + 1) % 3]",
        tests=(f"{NOISE}::test_threefry_is_that_of_jax",),
    ),
    Mutant(
        "every-chunk-has-the-first-numbers",
        "hamq/sampling/noise.py",
        old="rows + jnp.asarray(first, jnp.uint32)",
        new="rows",
        tests=(f"{NOISE}::test_a_part_has_the_numbers_of_the_whole",),
    ),
    Mutant(
        "one-number-used-twice",
        "hamq/sampling/noise.py",
        old="ChainNoise(normals[:, :d], logs[:, 0], plain[:, 0], made)",
        new="ChainNoise(normals[:, :d], logs[:, 0], jnp.exp(logs[:, 0]), made)",
        tests=(f"{NOISE}::test_numbers_are_independent_and_follow_their_laws",),
    ),
    Mutant(
        "transitions-counted-that-were-not-made",
        "hamq/sampling/chain.py",
        old="is_made = jnp.arange(len(gains), dtype=jnp.int32) < count",
        new="is_made = jnp.arange(len(gains), dtype=jnp.int32) >= 0",
        tests=("tests/sampling/test_chain.py::test_a_chain_in_parts_is_the_chain",),
    ),
    Mutant(
        "warm-up-kept",
        "hamq/learning/chunks.py",
        old="skipped = max(0, self.sampler.num_warmup - first)",
        new="skipped = min(0, self.sampler.num_warmup - first)",
        tests=(f"{CHUNKS}::test_chunks_make_the_draws_of_one_pair",),
    ),
    Mutant(
        "blocks-of-noise-share-their-numbers",
        "hamq/learning/chunks.py",
        old="at = first + jnp.asarray(begin, jnp.uint32)",
        new="at = first + jnp.asarray(0 * begin, jnp.uint32)",
        tests=(f"{CHUNKS}::test_chunks_make_the_draws_of_one_pair",),
    ),
    Mutant(
        "purity-is-not-looked-at",
        "hamq/problem/checks.py",
        old="if first is not None and first == second:",
        new="if first is not None:",
        tests=("tests/problem/test_problem.py",),
    ),
    Mutant(
        "chains-share-their-numbers",
        "hamq/learning/chunks.py",
        old="words = jr.key_data(jr.fold_in(key, chain))",
        new="words = jr.key_data(jr.fold_in(key, 0))",
        tests=(f"{CHUNKS}::test_chunks_make_the_draws_of_one_pair",),
    ),
    Mutant(
        "ridge-not-in-the-slope-on-the-host",
        "hamq/sampling/calibration.py",
        old="slope = centre + ridge * multipliers",
        new="slope = centre",
        tests=("tests/sampling/test_calibration.py::test_the_host_finds_the_same_weights",),
    ),
    Mutant(
        "programs-kept-for-ever",
        "hamq/problem/programs.py",
        old="self.function = weakref.ref(function, _programs.forget)",
        new="self.function = lambda: function",
        tests=(f"{PROGRAMS}::test_programs_go_with_their_functions",),
    ),
    Mutant(
        "programs-of-other-shapes-mixed-up",
        "hamq/problem/programs.py",
        old="key = (_references(functions), job, structure, shapes, is_double, device)",
        new="key = (_references(functions), job, structure, is_double, device)",
        tests=(f"{PROGRAMS}::test_a_program_is_found_again_by_job_functions_and_shapes",),
    ),
    Mutant(
        "draws-compiled-for-every-number",
        "hamq/learning/chunks.py",
        old="self.chunk = CHUNK if is_cpu() else chunk or sampler.num_transitions",
        new="self.chunk = sampler.num_transitions",
        tests=(f"{CHUNKS}::test_numbers_of_draws_chains_states_and_actions_compile_nothing",),
    ),
]
