"""Prints the error messages that the unit tests provoke, so that all of them can be read at once.

usage: messages.py BUILD [FOLDER...]
       messages.py --check

Runs the programs unit_FOLDER of a build, by default those of all folders, and prints each message once, without regard to its numbers.
Then it names the error codes that the headers of a folder can report, and no call of `support::fails` provokes. `support::fails` requires
that each message states a fix.

With --check, reads the sources only: each code that a header of a folder can report must be passed to `support::fails`, `support::both_fail`
or a function that calls them, in a test of the folder. EXCEPTIONS lists the others with the reason.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parent
INCLUDE = TESTS.parent / "include/ferry"
ELSEWHERE = {"adapters": ["conformance/adapters"], "cuda": ["gpu"]}  # folders with tests of a layer, besides unit/LAYER
# The codes that no test of a folder can provoke through support::fails, with the reason.
EXCEPTIONS = {
    "base": {"foreign_exception": "catch_into stores it with the text of the foreign exception (unit/base/catch_into.cpp)"},
    "cuda": {
        "context_lost": "only a broken kernel or device causes it (unit/cuda/error.cpp, gpu/endings.cpp)",
        "no_context": "CUDA 12 creates the context of each device itself (unit/cuda/error.cpp)",
        "dtype": "only thrust.hpp reports it, whose test checks that it throws (gpu/thrust.cu)",
        "shape": "only thrust.hpp reports it, whose test checks that it throws (gpu/thrust.cu)",
        "device_not_found": "an importing process reports it by its code (gpu/ipc.cpp)",
        "permission": "an importing process reports it by its code (gpu/ipc_pool.cpp)",
    },
    "python": {
        "foreign_pointer": "only a driver knows to which device an address belongs (gpu/test_cuda_array_interface.py)",
        "null_struct": "managed_tensor_allocator reports it through set_error (interop/test_exchange_api.py)",
        "strides": "dltensor_from_py_object_no_sync reports it as a Python exception",
    },
}
CHECKER = re.compile(  # a function with a parameter `errc NAME`, which it passes to `fails`
    r"\b(\w+)(?: = \[[^\]]*\])?\((?:[^;()]|\([^()]*\))*?\berrc (\w+)\b[^;]{0,300}?\{.{0,600}?\b(?:fails|both_fail)\(\s*\2\b", re.DOTALL)


def code_of(*folders):
    """The C++ code of folders, without comments."""
    paths = sorted(path for folder in folders for path in folder.rglob("*") if path.suffix in (".hpp", ".ipp", ".cuh", ".cpp", ".cu"))
    return re.sub(r"//.*", "", "\n".join(path.read_text(encoding="utf-8") for path in paths if path != INCLUDE / "base/error.hpp"))


def named(folder):
    """The codes that the headers of a folder can report: those that they name, except in comparisons."""
    return set(re.findall(r"(?<![!=]= )(?<!case )\berrc::(\w+)", code_of(INCLUDE / folder))) - {"ok"}


def passed(text):
    """The codes that the tests of a folder pass to `fails` and functions that call it, directly or from a table of the test case."""
    checkers = "|".join({"fails", "both_fail"} | {match[1] for match in CHECKER.finditer(text)})
    codes = set(re.findall(rf"\b(?:{checkers})\([^;]*?\berrc::(\w+)", text))
    for case in re.split(r"^TEST_CASE", text, flags=re.MULTILINE)[1:]:
        if re.search(rf"\b(?:{checkers})\(\s*(?:\w+\.)?code\b", case):
            codes |= set(re.findall(r"[{,]\s*(?:ferry::)?errc::(\w+)", case))
    return codes


def check():
    """Prints the codes that no test provokes, and the exceptions that are none; returns whether there are any."""
    faults = []
    for folder in sorted(path.name for path in INCLUDE.iterdir() if path.is_dir()):
        tests = [TESTS / "unit" / folder, *(TESTS / other for other in ELSEWHERE.get(folder, []))]
        missing = named(folder) - passed(code_of(*tests))
        exceptions = EXCEPTIONS.get(folder, {}).keys()
        faults += [f"{folder}: no test provokes errc::{code} through support::fails" for code in sorted(missing - exceptions)]
        faults += [f"{folder}: errc::{code} is provoked or not named, remove it from EXCEPTIONS" for code in sorted(exceptions - missing)]
    print(*faults, sep="\n", end="\n" if faults else "")
    return bool(faults)


def provoked(program):
    """(code, function, text) of each error."""
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run([program], env=os.environ | {"FERRY_MESSAGES": file.name}, stdout=subprocess.DEVNULL, check=False)
        lines = pathlib.Path(file.name).read_text(encoding="utf-8", errors="replace").splitlines()
    return {tuple(line.split("\t", 2)) for line in lines if line.count("\t") >= 2}


def main(build, *folders):
    programs = {path.name.removeprefix("unit_"): path for path in sorted((pathlib.Path(build) / "tests").glob("unit_*")) if path.is_file()}
    for folder in folders or [name for name in programs if (INCLUDE / name).is_dir()]:
        errors = provoked(programs[folder])
        forms = {(code, api, re.sub(r"\d+", "0", text)): text for code, api, text in sorted(errors) if api.startswith("ferry::")}
        print(f"{folder}: {len(forms)} messages")
        print(*(f"  {code}: {api}: {text}" for (code, api, _), text in sorted(forms.items())), sep="\n")
        print(f"  not provoked: {' '.join(sorted(named(folder) - {code for code, _, _ in errors})) or 'none'}")


if __name__ == "__main__":
    sys.exit(check() if sys.argv[1:] == ["--check"] else main(*sys.argv[1:]))
