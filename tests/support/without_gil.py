"""Tests in a CPython without the GIL or on Windows, where some libraries are missing: a test that imports one of them is skipped there.

In every other CPython all libraries must be installed: MISSING is empty, and an import fails.
"""

import importlib.util
import pathlib
import re
import sys
import sysconfig

import pytest

WITHOUT_GIL = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
TESTS = str(pathlib.Path(__file__).resolve().parents[1])
SOME = ("array_api_strict", "duckdb", "imageio", "jax", "polars", "pyarrow", "sklearn", "torch", "tvm_ffi")
MISSING = tuple(name for name in SOME if (WITHOUT_GIL or sys.platform == "win32") and importlib.util.find_spec(name) is None)


def skip(name):
    where = "without the GIL" if WITHOUT_GIL else "on Windows"
    pytest.skip(f"{name} is not installed for CPython {sys.version_info[0]}.{sys.version_info[1]} {where}", allow_module_level=True)


def need(name):
    """Skips a test, of which another process imports a library, if that is missing."""
    if name in MISSING:
        skip(name)


def need_for(code):
    """Skips a test if the code of another process imports a missing library."""
    for name in MISSING:
        if re.search(rf"\bimport\b.*\b{name}\b", code):
            skip(name)


class Missing:
    """Skips the test that imports a missing library; other libraries may try to import it."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        frame = sys._getframe(1)
        while "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        if name.partition(".")[0] in MISSING and frame.f_code.co_filename.startswith(TESTS):
            skip(name)


if MISSING:
    sys.meta_path.append(Missing)
