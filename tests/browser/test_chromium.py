"""Without a browser the tests fail, and say what to do."""

import pytest

from tests.browser.chromium import find_chromium


def test_a_missing_chromium_is_a_failure_with_a_remedy(monkeypatch):
    monkeypatch.setenv("HAMQ_CHROMIUM", "/nowhere/chromium")
    with pytest.raises(
        pytest.fail.Exception, match=r"HAMQ_CHROMIUM=/nowhere/chromium is no program.*apt-get install -y chromium"
    ):
        find_chromium()
    monkeypatch.delenv("HAMQ_CHROMIUM")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(pytest.fail.Exception, match=r"none of chromium, .* is in the PATH"):
        find_chromium()
