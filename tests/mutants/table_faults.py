"""Planted bugs of what a fault would find: spare checkpoints, readers of nonsense, hostile names."""

from tests.mutants.mutant import Mutant

PREVIOUS = "tests/runs/test_previous.py"
INERT = "tests/faults/test_inert.py"
FAULTS = "tests/faults/test_parts.py"

FAULT_MUTANTS = [
    Mutant(
        "checkpoint-before-not-kept",
        "hamq/runs/folder.py",
        old="if CHECKPOINT in contents and CHECKPOINT in old.files and PREVIOUS not in dropped:",
        new="if not contents:",
        tests=(f"{PREVIOUS}::test_a_run_goes_on_from_the_checkpoint_before",),
    ),
    Mutant(
        "damaged-checkpoint-kept-as-the-one-before",
        "hamq/runs/checkpoint.py",
        old="tuple(name for name in NAMES if name not in (CONFIG, *restored))",
        new="tuple(name for name in NAMES if name not in (CONFIG, PREVIOUS, *restored))",
        tests=(f"{PREVIOUS}::test_a_run_goes_on_from_the_checkpoint_before",),
    ),
    Mutant(
        "goes-back-without-a-word",
        "hamq/runs/folder.py",
        old="            if sound.said:\n",
        new="            if not sound.contents:\n",
        tests=(f"{PREVIOUS}::test_a_run_goes_on_from_the_checkpoint_before",),
    ),
    Mutant(
        "spare-checkpoint-needed",
        "hamq/runs/storage.py",
        old=" for name in manifest.files if name != PREVIOUS}",
        new=" for name in manifest.files}",
        tests=(f"{PREVIOUS}::test_a_spare_checkpoint_is_not_needed",),
    ),
    Mutant(
        "certificate-not-verified",
        "hamq/runs/storage.py",
        old=" for name in manifest.files if name != PREVIOUS}",
        new=" for name in manifest.files if name not in (PREVIOUS, CERTIFICATE)}",
        tests=(f"{FAULTS}::test_every_kind_of_damage_is_judged",),
    ),
    Mutant(
        "certificate-of-any-table-believed",
        "hamq/runs/certificate.py",
        old='if said.get("q") != fingerprint(q):',
        new='if "q" not in said:',
        tests=(f"{FAULTS}::test_a_certificate_is_read_for_what_it_says",),
    ),
    Mutant(
        "certificate-survives-going-back",
        "hamq/runs/checkpoint.py",
        old="tuple(name for name in NAMES if name not in (CONFIG, *restored))",
        new="(PREVIOUS,)",
        tests=(f"{FAULTS}::test_every_kind_of_damage_is_judged",),
    ),
    Mutant(
        "disk-error-after-the-commit",
        "hamq/runs/storage.py",
        old="    except OSError as error:\n        num_bytes",
        new="    except FileExistsError as error:\n        num_bytes",
        tests=(f"{FAULTS}::test_no_system_call_without_room_loses_anything",),
    ),
    Mutant(
        "manifest-leads-out",
        "hamq/runs/manifest.py",
        old="return all(NAME.fullmatch(name) and DIGEST.fullmatch(digest) for name, digest in files.items())",
        new="return True",
        tests=(f"{FAULTS}::test_no_run_folder_leads_out_of_itself",),
    ),
    Mutant(
        "written-through-links",
        "hamq/runs/storage.py",
        old="    path.unlink(missing_ok=True)\n    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)",
        new="    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)",
        tests=(f"{FAULTS}::test_no_run_folder_leads_out_of_itself",),
    ),
    Mutant(
        "lock-follows-links",
        "hamq/runs/storage.py",
        old=" | os.O_NOFOLLOW",
        new="",
        tests=(f"{FAULTS}::test_no_run_folder_leads_out_of_itself",),
    ),
    Mutant(
        "terminal-steered",
        "hamq/cli/messages.py",
        old="    if text.isprintable():",
        new="    if text:",
        tests=(f"{INERT}::test_whatever_is_printed_is_inert",),
    ),
    Mutant(
        "tables-steer-the-terminal",
        "hamq/cli/messages.py",
        old="super().render_str(inert(text), **options)",
        new="super().render_str(text, **options)",
        tests=(f"{INERT}::test_whatever_is_printed_is_inert",),
    ),
    Mutant(
        "compressed-arrays-unpacked",
        "hamq/runs/encoding.py",
        old="member.compress_type != zipfile.ZIP_STORED",
        new="member.is_dir()",
        tests=(f"{INERT}::test_compressed_and_lying_arrays_are_refused",),
    ),
    Mutant(
        "headers-believed",
        "hamq/runs/encoding.py",
        old="if math.prod(shape) * dtype.itemsize != len(content) - file.tell() or dtype.hasobject:",
        new="if dtype.hasobject:",
        tests=(f"{INERT}::test_compressed_and_lying_arrays_are_refused",),
    ),
    Mutant(
        "kinds-of-errors-forgotten",
        "hamq/runs/encoding.py",
        old="except Exception as error:  # zipfile",
        new="except (ValueError, OSError) as error:  # zipfile",
        tests=(f"{FAULTS}::test_readers_refuse_nonsense_by_our_error_alone",),
    ),
    Mutant(
        "masses-counted-once",
        "hamq/exact/factored.py",
        old="max(laying_out, tables + smallest.work_bytes)",
        new="tables + smallest.work_bytes",
        tests=("tests/exact/test_factored.py::test_what_is_refused_by_is_what_building_takes",),
    ),
    Mutant(
        "weights-of-draws-not-counted",
        "hamq/learning/budget.py",
        old="(4 if sampler.weighs else 0)",
        new="0",
        tests=("tests/learning/test_budget.py::test_a_draw_is_counted_as_it_is_kept",),
    ),
    Mutant(
        "draws-copied-to-the-device",
        "hamq/learning/layout.py",
        old="start = -room.ctypes.data % ALIGNMENT",
        new="start = -room.ctypes.data % 8 + 8",
        tests=("tests/learning/test_budget.py::test_devices_take_over_what_was_filled",),
    ),
]
