"""Checks after each test: no memory of minitensor is left, and no Python error is set."""

import gc
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import own_shm  # noqa: F401, I001: before what starts threads
import pytest
import without_gil  # noqa: F401: before the libraries
from forge import error_is_set

import minitensor as mt


def pytest_collection_finish():
    """Excludes the libraries and the tests from the collections: without the GIL, each takes the time of all objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    before = mt.live_bytes()
    yield
    assert not error_is_set()
    if mt.live_bytes() != before:
        gc.collect()
    assert mt.live_bytes() == before
