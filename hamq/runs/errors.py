"""What run folders refuse."""

START_AGAIN = "delete the folder or start with --overwrite"


class RunError(ValueError):
    """A run folder that cannot be read, written or continued; the sentence says which file, why, and what to do."""


def damaged(folder, name: str, why: object) -> RunError:
    """The error of a file whose content is not what was written."""
    return RunError(f"{name} of {folder} is damaged: {why}; {START_AGAIN}.")
