"""Planted bugs of what devices and processes share."""

from tests.mutants.mutant import Mutant

DEVICES = "tests/learning/test_devices.py"
PROCESSES = "tests/cli/test_processes.py"

SCALE = [
    Mutant(
        "key-from-the-place-on-the-device",
        "hamq/learning/draws.py",
        old="given = table[index[i, c]], index[i, c].astype(np.int32), action[i, c].astype(np.int32)",
        new="given = table[index[i, c]], (index[i, c] - index[i, 0, 0, 0]).astype(np.int32), action[i, c].astype(np.int32)",
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
        "hamq/cli/solve.py",
        old="return _lead(task) if place.index == 0 else _follow(task)",
        new="return _lead(task)",
        tests=(f"{PROCESSES}::test_two_processes_give_the_bits_of_one",),
    ),
    Mutant(
        "resumed-by-process-0-alone",
        "hamq/cli/processes.py",
        old='words["start"] = arrays if words["start"] else None',
        new='words["start"] = None',
        tests=(f"{PROCESSES}::test_a_killed_process_is_survived[3-2]",),
    ),
    Mutant(
        "endless-patience",
        "hamq/learning/devices.py",
        old="threading.Timer(limit, give_up)",
        new="threading.Timer(1e6, give_up)",
        tests=(f"{DEVICES}::test_patience_ends",),
    ),
    Mutant(
        "silence-not-noticed",
        "hamq/cli/lifeline.py",
        old="if heard is None and time.monotonic() - last > SILENCE:",
        new="if heard is None and time.monotonic() - last < 0:",
        tests=(f"{PROCESSES}::test_a_lifeline_notices_who_is_gone",),
    ),
]
