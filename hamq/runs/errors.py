"""What run folders refuse."""

from hamq.errors import HamqError

START_AGAIN = "delete the folder or start with --overwrite"


class RunError(HamqError):
    """A run folder that cannot be read, written or continued; the sentence says which file, why, and what to do."""


class DamagedError(RunError):
    """A file whose content is not what was written; `name` is the file's."""

    def __init__(self, sentence: str, name: str):
        super().__init__(sentence)
        self.name = name


def damaged(folder, name: str, why: object, remedy: str = START_AGAIN) -> DamagedError:
    return DamagedError(f"{name} of {folder} is damaged: {why}; {remedy}.", name)
