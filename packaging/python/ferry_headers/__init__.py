"""The headers of ferry, and where they are."""

import importlib.metadata
import pathlib

__all__ = ["__version__", "get_cmake_dir", "get_include"]

__version__ = importlib.metadata.version("ferry-headers")
_ROOT = pathlib.Path(__file__).resolve().parent


def get_include() -> str:
    """The folder for the include path: it holds ferry/ferry.hpp."""
    return str(_ROOT / "include")


def get_cmake_dir() -> str:
    """The folder for ferry_DIR or CMAKE_PREFIX_PATH: it holds ferry-config.cmake."""
    return str(_ROOT / "share" / "cmake" / "ferry")
