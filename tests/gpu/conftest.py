"""Checks after each test, and the message when there is no device."""

import gc
import os
import pathlib
import sys

os.environ.setdefault("CUDA_MODULE_LOADING", "EAGER")  # a kernel loaded behind a closed gate would wait for it
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import own_shm  # noqa: F401, I001: before what starts threads
import pytest

import minitensor as mt


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: needs the GPUs to itself, under their usual numbers")


def pytest_report_header():
    if not mt.cuda_available():
        return "NO CUDA DEVICE: all of tests/gpu is skipped, nothing here has been tested"
    return f"{mt.device_count()} CUDA device(s)"


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    gc.collect()
    mt.synchronize()
    before = mt.live_bytes()
    yield
    gc.collect()
    mt.synchronize()
    assert mt.live_bytes() == before
