import jaxtyping
import pytest


@pytest.fixture
def as_user():
    """No types checked, as users have it: what annotations forbid must still be refused by a sentence."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
