"""The stable ABI: every header of ferry/python alone with the limited API, and one module in each CPython from 3.12 on."""

import os
import pathlib
import subprocess

import nanobind
import pybind11
import pytest
from tvm_ffi.libinfo import find_dlpack_include_path

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/stable-abi"  # an environment for each interpreter: ferry_setup_stable_abi of cmake/setup
PYTHONS = sorted(BUILD.glob("3.*/bin/python"), key=lambda p: int(p.parts[-3].split(".")[1]))
TOOLKIT = pathlib.Path("/usr/local/cuda/include")
HEADERS = sorted(
    p
    for p in (ROOT / "include/ferry/python").rglob("*.hpp")
    if p.name != "pybind11.hpp" and (TOOLKIT.exists() or not p.name.startswith("cuda_"))
)
OLDEST = [*pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")).glob("versions/3.9.*/include/python3.9")]
USE = ROOT / "tests/interop/stable_abi/use.py"

pytestmark = pytest.mark.skipif(not PYTHONS, reason="no CPython 3.12 or later with the GIL and headers is installed")


def output(python, code):
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def include_of(python):
    return output(python, "import sysconfig; print(sysconfig.get_path('include'))")


def compile_cpp(source, *options, api="0x030C0000", include=None):
    """Compiles a source with the headers of an interpreter, by default of the oldest one; returns the process."""
    include = include or include_of(PYTHONS[0])
    system = [include, find_dlpack_include_path(), nanobind.include_dir(), pybind11.get_include(), TOOLKIT]
    command = ["g++", "-std=c++20", *"-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -fPIC -fvisibility=hidden".split(),
               *([f"-DPy_LIMITED_API={api}"] if api else []), f"-I{ROOT / 'include'}", *(f"-isystem{folder}" for folder in system)]  # fmt: skip
    return subprocess.run([*command, *options, source], capture_output=True, text=True)


def compile_header(header, tmp_path, **how):
    source = tmp_path / "header.cpp"
    mode = "#define FERRY_SEPARATE_COMPILATION\n" if header.name == "src.hpp" else ""
    source.write_text(f"{mode}#include <ferry/{header.relative_to(ROOT / 'include/ferry')}>\n")
    return compile_cpp(source, "-fsyntax-only", **how)


@pytest.mark.parametrize("header", HEADERS, ids=lambda p: p.stem)
def test_every_header_compiles_alone_with_the_limited_api(header, tmp_path):
    done = compile_header(header, tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_limited_api_of_the_newest_interpreter(tmp_path):
    version = output(PYTHONS[-1], "import sys; print('0x%02X%02X0000' % sys.version_info[:2])")
    done = compile_header(ROOT / "include/ferry/python/caster.hpp", tmp_path, api=version, include=include_of(PYTHONS[-1]))
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not OLDEST, reason="the headers of CPython 3.9 are not installed")
def test_the_oldest_supported_cpython():
    done = compile_cpp(ROOT / "tests/interop/stable_abi/module.cpp", "-fsyntax-only", api=None, include=OLDEST[0])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("header", "api", "message"),
    [("pybind11.hpp", "0x030C0000", "pybind11 does not support the limited API: do not define Py_LIMITED_API"),
     ("api.hpp", "0x030B0000", "ferry needs the limited API of CPython 3.12 or later"),
     ("api.hpp", "3", "ferry needs the limited API of CPython 3.12 or later")],
)  # fmt: skip
def test_a_header_that_does_not_support_the_limited_api_says_so_first(header, api, message, tmp_path):
    done = compile_header(ROOT / "include/ferry/python" / header, tmp_path, api=api)
    assert done.returncode != 0
    assert message in next(line for line in done.stderr.splitlines() if "error:" in line)


@pytest.fixture(scope="module")
def module():
    path = BUILD / "stable_abi.abi3.so"
    done = compile_cpp(ROOT / "tests/interop/stable_abi/module.cpp", "-O1", "-shared", "-o", path)
    assert done.returncode == 0, done.stderr
    return path


@pytest.mark.parametrize("case", ["exports", "imports", "legacy", "torch", "results", "columns", "buffers", "threads", "finalisation"])
@pytest.mark.parametrize("python", PYTHONS, ids=lambda p: p.parts[-3])
def test_one_module_runs_in_every_interpreter(python, case, module):
    done = subprocess.run([python, USE, module, case], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
