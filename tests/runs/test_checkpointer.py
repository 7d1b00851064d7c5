import pytest

from hamq.errors import RunError
from hamq.runs.recording import Checkpointer
from tests.runs.posed import history, state


class Recorder:
    def __init__(self):
        self.saved = []

    def save_checkpoint(self, arrays, history):
        self.saved.append(len(history))


@pytest.fixture
def recorder(as_user):  # a recorder is no RunFolder
    return Recorder()


def run(recorder, clock, iterations, **options):
    checkpointer = Checkpointer(recorder, clock=clock, **options)
    written = [t for t in iterations if checkpointer(state(t), history(t))]
    assert written == recorder.saved
    return written


def test_every_so_many_iterations(recorder):
    assert run(recorder, lambda: 0.0, range(1, 12), every_iterations=4) == [4, 8]


def test_chunks_of_iterations_are_counted_from_the_last_save(recorder):
    assert run(recorder, lambda: 0.0, range(3, 20, 3), every_iterations=4) == [6, 12, 18]


def test_every_so_many_seconds(recorder):
    now = iter(range(100))
    # The clock moves by one second each time it is read, saves included.
    assert run(recorder, lambda: float(next(now)), range(1, 10), every_seconds=3.0) == [3, 6, 9]


def test_either_is_enough_and_none_is_never(recorder):
    now = iter(range(100))
    assert run(recorder, lambda: float(next(now)), range(1, 6), every_iterations=1, every_seconds=50.0) == [1, 2, 3, 4, 5]
    recorder.saved.clear()
    assert run(recorder, lambda: 1e9, range(1, 6), every_seconds=None) == []


@pytest.mark.parametrize("options", [{"every_iterations": 0}, {"every_seconds": -1.0}, {"every_seconds": float("nan")}])
def test_senseless_intervals_are_refused(recorder, options):
    with pytest.raises(RunError, match=rf"Checkpointer: {next(iter(options))} must be above 0, or None for never, got"):
        Checkpointer(recorder, **options)
