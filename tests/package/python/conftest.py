"""Own names in /dev/shm, and after each test: no Python error is set."""

import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(TESTS / "support"), str(TESTS / "interop")]

import own_shm  # noqa: F401, I001: before what starts threads
import pytest
from forge import error_is_set


@pytest.fixture(autouse=True)
def no_error_is_left():
    yield
    assert not error_is_set()
