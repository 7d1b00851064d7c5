"""Planted bugs of what devices and processes share."""

from tests.mutants.mutant import Mutant

DEVICES = "tests/learning/test_devices.py"
PROCESSES = "tests/cli/test_processes.py"

SCALE = [
    Mutant(
        "key-from-the-place-on-the-device",
        "hamq/learning/draws.py",
        old="stream = state if self.coupled else",
        new="stream = state - rows.states[own][i, 0, 0, 0] if self.coupled else",
        tests=(f"{DEVICES}::test_bits_do_not_depend_on_the_number_of_devices",),
    ),
    Mutant(
        "parts-in-the-wrong-order",
        "hamq/learning/devices.py",
        old="return [by_device[device] for device in self.own]",
        new="return [by_device[device] for device in reversed(self.own)]",
        tests=(f"{DEVICES}::test_bits_do_not_depend_on_the_number_of_devices",),
    ),
    Mutant(
        "padding-counted",
        "hamq/learning/sweep.py",
        old="(0, 0)), constant_values=table.dtype == bool)",
        new="(0, 0)), constant_values=False)",
        tests=(f"{DEVICES}::test_iterations_on_the_devices_equal_those_on_the_host",),
    ),
    Mutant(
        "every-process-writes",
        "hamq/cli/commands/solve.py",
        old="return _lead(task) if place.index == 0 else _follow(task)",
        new="return _lead(task)",
        tests=(f"{PROCESSES}::test_two_processes_give_the_bits_of_one",),
    ),
    Mutant(
        "resumed-by-process-0-alone",
        "hamq/cli/processes.py",
        old='words["start"] = arrays if words["start"] else None',
        new='words["start"] = None',
        tests=(f"{PROCESSES}::test_a_killed_process_is_survived[2-1-2]",),
    ),
    Mutant(
        "endless-patience",
        "hamq/learning/devices.py",
        old="threading.Timer(limit, give_up)",
        new="threading.Timer(1e6, give_up)",
        tests=(f"{DEVICES}::test_patience_ends",),
    ),
    Mutant(
        "lost-process-is-only-said",
        "hamq/learning/devices.py",
        old="_watch.end(LOST)",
        new="_watch.end(0)",
        tests=(f"{DEVICES}::test_patience_ends",),
    ),
    Mutant(
        "library-ends-its-caller",
        "hamq/learning/devices.py",
        old="if _watch.end is not None:",
        new="if _watch.end is None:\n            __import__('os')._exit(LOST)\n        else:",
        tests=(f"{DEVICES}::test_nobody_ends_the_process_of_a_caller_of_the_library",),
    ),
    Mutant(
        "silence-not-noticed",
        "hamq/cli/processes.py",
        old="if heard is None and time.monotonic() - last > SILENCE:",
        new="if heard is None and time.monotonic() - last < 0:",
        tests=(f"{PROCESSES}::test_a_lifeline_notices_who_is_gone",),
    ),
    Mutant(
        "registers-without-the-last-half-kick",
        "hamq/sampling/registers.py",
        old="(w[i] + 0.5 * axes[i][1].kick * new_g[i])",
        new="w[i]",
        tests=("tests/sampling/test_registers.py::test_the_kernel_makes_the_same_chains",),
    ),
    Mutant(
        "registers-keep-what-was-rejected",
        "hamq/sampling/registers.py",
        old="g = tuple(jnp.where(is_accepted, new_g[i], g[i]) for i in range(d))",
        new="g = new_g",
        tests=("tests/sampling/test_registers.py::test_the_kernel_makes_the_same_chains",),
    ),
    Mutant(
        "regenerated-with-fresh-keys",
        "hamq/learning/preparation.py",
        old='key = self.keys["draws"] if self.settings.passes.draws == "regenerate" else jr.fold_in(self.keys["draws"], t)',
        new='key = jr.fold_in(self.keys["draws"], t)',
        tests=("tests/learning/test_devices.py::test_draws_made_again_are_those_kept",),
    ),
    Mutant(
        "sweep-forgets-the-step-size",
        "hamq/learning/sweep.py",
        old="q + step * (rewards + discount * mixed - q)",
        new="rewards + discount * mixed",
        tests=("tests/learning/test_devices.py::test_iterations_on_the_devices_equal_those_on_the_host",),
    ),
    Mutant(
        "mixing-forgets-the-columns-before",
        "hamq/completion/cross.py",
        old="(shares[k] - later) / upper[k][1]",
        new="shares[k] / upper[k][1]",
        tests=("tests/learning/test_devices.py::test_mixing_equals_least_squares",),
    ),
    Mutant(
        "devices-go-on-with-what-is-not-finite",
        "hamq/learning/q_iteration.py",
        old="if not told.is_finite:",
        new="if told.is_finite is None:",
        tests=("tests/learning/test_devices.py::test_the_pair_is_named_where_devices_find_what_is_not_finite",),
    ),
]
