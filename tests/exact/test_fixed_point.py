import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hamq.exact.fixed_point import WINDOW, Anderson, Record, iterate, macqueen
from tests.exact.posed import random_model

models = st.builds(
    random_model,
    seed=st.integers(0, 2**32 - 1),
    num_states=st.integers(2, 12),
    num_actions=st.integers(1, 4),
    discount=st.sampled_from([0.0, 0.5, 0.95, 0.999]),
    num_terminal=st.integers(0, 2),
)


def has_terminal(model):
    return bool(np.any(model.masses.sum(axis=(1, 2)) == 0))


def run(model, tolerance=1e-8, max_sweeps=2000, slack=lambda value: 0.0):
    def apply(value):
        q = model.backup(value)
        return q.max(axis=1), q

    record = Record()
    found = iterate(
        apply,
        slack,
        np.zeros(len(model.rewards)),
        discount=model.discount,
        has_terminal_states=has_terminal(model),
        tolerance=tolerance,
        max_sweeps=max_sweeps,
        record=record,
    )
    return found, record.history()


@given(models, st.integers(0, 2**32 - 1))
@settings(max_examples=300)
def test_bounds_hold_at_any_value_with_and_without_terminal_states(model, seed):
    value = np.random.default_rng(seed).normal(size=len(model.rewards)) * 10
    running = model.masses.sum(axis=(1, 2)) > 0
    value[~running] = 0
    q = model.backup(value)
    bounds = macqueen(value, q.max(axis=1), model.discount, 0.0)
    exact = model.optimal_q()
    rounding = 1e-9 * (1 + np.abs(exact).max())
    assert np.all(q[running] + bounds.low <= exact[running] + rounding)
    assert np.all(q[running] + bounds.high >= exact[running] - rounding)


@given(models, st.integers(0, 2**32 - 1))
@settings(max_examples=100)
def test_bounds_hold_when_the_image_is_off_by_the_slack(model, seed):
    rng = np.random.default_rng(seed)
    running = model.masses.sum(axis=(1, 2)) > 0
    value = np.where(running, rng.normal(size=len(running)), 0)
    slack = 0.3
    q = model.backup(value) + slack * rng.choice([-1, 1], size=model.rewards.shape)
    image = np.where(running, q.max(axis=1), 0)
    bounds = macqueen(value, image, model.discount, slack)
    exact = model.optimal_q()
    rounding = 1e-9 * (1 + np.abs(exact).max())
    assert np.all(q[running] + bounds.low <= exact[running] + rounding)
    assert np.all(q[running] + bounds.high >= exact[running] - rounding)


@given(models)
@settings(max_examples=100)
def test_the_fixed_point_is_within_the_tolerance_and_needs_few_sweeps_more_than_plain_ones(model):
    size = np.abs(model.rewards).max() / (1 - model.discount)
    tolerance = 1e-7 * size
    found, history = run(model, tolerance)
    assert found.reason == "reached" and found.bounds.error <= tolerance
    exact = model.optimal_q()
    middle = found.table + (found.bounds.low + found.bounds.high) / 2
    running = model.masses.sum(axis=(1, 2)) > 0
    assert np.abs(middle - exact)[running].max(initial=0) <= tolerance + 1e-9 * size
    assert len(history) <= 2 * WINDOW + 1.2 * plain_sweeps(model, tolerance)


def plain_sweeps(model, tolerance):
    value = np.zeros(len(model.rewards))
    for sweep in range(1, 10**5):
        image = model.backup(value).max(axis=1)
        if macqueen(value, image, model.discount, 0.0).error <= tolerance:
            return sweep
        value = image
    raise AssertionError("value iteration did not end")


def test_acceleration_needs_a_tenth_of_the_sweeps_on_a_slow_chain():
    n = 60
    masses = np.zeros((n, 1, n))
    for s in range(n):
        masses[s, 0, max(s - 1, 0)] += 0.5
        masses[s, 0, min(s + 1, n - 1)] += 0.5
    model = random_model(0, n, 1, 0.999)._replace(masses=masses, rewards=np.sin(np.arange(n))[:, None])
    _, history = run(model, 1e-8)
    assert 15 * len(history) < plain_sweeps(model, 1e-8)


@pytest.mark.parametrize("size", [1e9, 1.0])
def test_an_extrapolation_that_does_not_pay_is_left_for_plain_sweeps(monkeypatch, size):
    extrapolate, noise = Anderson.extrapolate, np.random.default_rng(0)

    def nonsense(self, value, image):
        if self.is_resting:
            return extrapolate(self, value, image)
        return image + size * noise.normal(size=len(image))

    model = random_model(1, 12, 3, 0.95, num_terminal=1)
    plain = plain_sweeps(model, 1e-8)
    monkeypatch.setattr(Anderson, "extrapolate", nonsense)
    found, history = run(model, 1e-8)
    assert found.reason == "reached"
    assert 0.8 * plain < history.resting.sum() and len(history) < 2 * plain
    np.testing.assert_allclose(found.table[1:] + found.bounds.low, model.optimal_q()[1:], atol=2.1e-8)


def test_slack_above_the_tolerance_stops_the_run_with_the_bound_that_is_left():
    model = random_model(4, 8, 2, 0.9)
    found, history = run(model, tolerance=1e-6, slack=lambda value: 1e-3)
    assert found.reason == "slack"
    assert 1e-2 <= found.bounds.error <= 1.2e-2  # slack/(1 − γ), and little more
    assert len(history) < 60


def test_too_few_sweeps_are_said_and_the_bound_still_holds():
    model = random_model(5, 10, 2, 0.99)
    found, history = run(model, 1e-9, max_sweeps=2)
    assert found.reason == "sweeps" and len(history) == 2
    q = found.table
    assert np.all(q + found.bounds.low <= model.optimal_q()) and np.all(model.optimal_q() <= q + found.bounds.high)


def test_history_has_one_row_per_sweep():
    _, history = run(random_model(6, 10, 2, 0.9), 1e-8)
    assert list(history.sweep) == list(range(1, len(history) + 1))
    assert history.error[-1] <= 1e-8 and np.all(np.diff(history.seconds) >= 0)
    assert history[-1]["sweep"] == len(history) and history["resting"][0] == 0
