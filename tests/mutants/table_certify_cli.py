"""Planted bugs of what users see of a certificate: the run folder, the page, the commands."""

from tests.mutants.mutant import Mutant

FOLDER = "tests/runs/test_certificate.py"
CARD = "tests/report/test_certificate_card.py"

CERTIFY_CLI_MUTANTS = [
    Mutant(
        "certificate-of-another-table-shown",
        "hamq/runs/certificate.py",
        old='if said.get("q") != fingerprint(q):',
        new='if "q" not in said:',
        tests=(f"{FOLDER}::test_one_of_another_table_counts_as_none",),
    ),
    Mutant(
        "certificate-survives-a-checkpoint",
        "hamq/runs/folder.py",
        old="dropped=(TABLES, RESULT, CERTIFICATE, BOUNDS)",
        new="dropped=(TABLES, RESULT)",
        tests=(f"{FOLDER}::test_a_run_that_goes_on_loses_it",),
    ),
    Mutant(
        "certificate-not-in-the-manifest",
        "hamq/runs/folder.py",
        old="self._commit(encode_certificate(certificate, q), dropped=(CERTIFICATE, BOUNDS), versions=manifest.versions)",
        new="[(self.path / name).write_bytes(content) for name, content in encode_certificate(certificate, q).items()]",
        tests=(f"{FOLDER}::test_it_comes_back_and_nothing_else_changes",),
    ),
    Mutant(
        "certificate-of-what-was-read-before",
        "hamq/runs/folder.py",
        old='if "q" not in held or fingerprint(held["q"]) != fingerprint(q):',
        new='if "q" not in held:',
        tests=(f"{FOLDER}::test_another_table_is_not_certified",),
    ),
    Mutant(
        "certificate-changes-the-versions",
        "hamq/runs/folder.py",
        old="Manifest(old.problem, versions or package_versions(), new)",
        new="Manifest(old.problem, package_versions(), new)",
        tests=(f"{FOLDER}::test_the_versions_stay_those_that_solved",),
    ),
    Mutant(
        "certified-maps-swapped",
        "hamq/report/table_page.py",
        old='ERROR_BOUND, LOSS_BOUND = "Error bound", "Loss bound"',
        new='LOSS_BOUND, ERROR_BOUND = "Error bound", "Loss bound"',
        tests=(f"{CARD}::test_the_page_of_one_run",),
    ),
    Mutant(
        "certified-error-of-one-side",
        "hamq/runs/certificate.py",
        old="np.maximum(self.upper - q, q - self.lower).max(axis=1)",
        new="(self.upper - q).max(axis=1)",
        tests=(f"{CARD}::test_maps_are_the_widest_bounds_of_each_state",),
    ),
    Mutant(
        "vacuous-certificate-has-maps",
        "hamq/runs/certificate.py",
        old="return self.error is not None and not self.is_vacuous",
        new="return self.error is not None",
        tests=(f"{CARD}::test_what_bounds_nothing_has_no_maps",),
    ),
    Mutant(
        "certificate-with-the-default-confidence",
        "hamq/cli/commands/certify.py",
        old='named = ("confidence", "max_evaluations", "method")',
        new='named = ("max_evaluations", "method")',
        tests=("tests/cli/test_certify.py::test_a_run_is_certified_and_keeps_it",),
    ),
]
