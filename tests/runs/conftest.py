import jaxtyping
import numpy as np
import pytest

from hamq.solution import History, Solution
from tests.exact.posed import swing


@pytest.fixture
def as_user():
    """No types checked, as users have it: what annotations forbid must still be refused by a sentence."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def solution():
    problem = swing()
    q = np.random.default_rng(5).normal(size=(problem.num_states, problem.num_actions))
    return Solution(problem, q, History(iteration=[1, 2], change=[0.5, 0.25]), "stopped ≤ 1e-3", True, q - 1, q + 1, 1.0)
