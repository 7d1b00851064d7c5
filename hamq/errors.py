"""Errors and warnings that are meant for users. Without JAX, so that the command line can name them before it.

A sentence names the object, the value, the rule and the remedy; `suggestion` is what was probably meant.
"""

import difflib
from collections.abc import Iterable


class HamqError(ValueError):
    """Something that cannot be done as asked; the sentence says what, why, and what to do instead."""


class MissingExtraError(HamqError, ImportError):
    """A package that only a part of hamq needs is not installed; the sentence says how to install it."""


class NonFiniteError(ArithmeticError):
    """A value that is not finite; the last good ones are in the last checkpoint."""


class HamqWarning(UserWarning):
    """Something that will probably not give what was asked for; the sentence says what to change."""


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean …?` where something known is near, otherwise a full stop."""
    near = difflib.get_close_matches(word, list(known), 1)
    return f"; did you mean {near[0]}?" if near else "."


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
