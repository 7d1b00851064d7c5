"""Errors that are meant for users: one class, which is a ValueError, and an ImportError where an extra is missing."""

import pytest

import hamq
from hamq.errors import DamagedError, MissingExtraError, RunError
from hamq.paper.records import RecordError
from hamq.problem.cells import DoesNotFit


def test_one_class_for_users():
    with pytest.raises(hamq.HamqError, match="discount must be in") as caught:
        hamq.problems.pendulum(discount=2.0)
    assert isinstance(caught.value, ValueError)
    for kind in (RunError, DamagedError, RecordError, DoesNotFit, MissingExtraError):
        assert issubclass(kind, hamq.HamqError)
    assert issubclass(MissingExtraError, ImportError)
