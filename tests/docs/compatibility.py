"""Compares docs/compatibility.md with the lanes of tests/run, the macros of the headers, and the deprecated names.

usage: compatibility.py [--fix | --self-test]

--fix writes the matrix between `<!-- matrix -->` and `<!-- /matrix -->` from the lanes and the presets that they name. If CI is set,
the versions of the compilers must also be those of the page.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/compatibility.md"
# The compiler in CI for a command without a version in its name.
VERSIONS = {"g++": ("GCC", 12), "nvcc": ("nvcc", 13)}
RUNS = {"cxx_all", "cxx_unit", "cxx_parts", "cxx_programs", "older_dlpack", "nvcc_tests", "fake_cuda", "cuda_headers", "cuda_12", "cross", "windows", "free_threaded"}
# A lane, or the line at the beginning or the end of the lanes of a scope.
LANE = re.compile(r"^ *(?:if \[ (?P<scope>[^]]*) \]; then$|(?P<end>fi)$|(?:\[.*?\] \|\| )*lane (?P<name>\S+) (?P<run>\S+)(?P<rest>(?:.*\\\n)*.*)$)", re.M)
SCOPES = {'-n "$scope"': "`--ci`, `--full`", '"$scope" = ci': "`--ci`", '"$scope" = full': "`--full`"}
CROSS = (
    "AArch64, tests of tensor, exchange; s390x (big-endian), tests of tensor, wire; "
    "Arm (32 bits), tests of base, tensor, space, exchange, wire, the conformance kit, seeds of fuzzing"
)
WINDOWS_HEADERS = "the headers after `<windows.h>`, except those of ipc, cuda and adapters of other libraries"
WINDOWS = (
    "under Wine: tests of base, tensor, space, exchange, wire, column, arrow, adapters, abi, the conformance kit and its std, Eigen and xtensor arrays; static checks; "
    f"{WINDOWS_HEADERS}; tests of python and most Python tests in CPython for Windows; "
    "and, except the Eigen and xtensor arrays and the Python tests, all of this compiled by Clang 19 in its mode for MSVC"
)
WINDOWS_CI = f"under Wine: tests of base, tensor, exchange, the conformance kit; {WINDOWS_HEADERS}, also in Clang's mode for MSVC"
FREE_THREADED = (
    "CPython 3.13 without the GIL: Python tests of threads, types and the exchange table (`--full`: all whose libraries have wheels for it); "
    "two modules with ThreadSanitizer, called by 8 threads"
)
MATRIX = re.compile(r"(?<=<!-- matrix -->\n).*?(?=<!-- /matrix -->)", re.S)
MACRO = re.compile(r"^ *# *define (FERRY_(?:VERSION|HAS)\w*)", re.M)
DEPRECATED = re.compile(r"\[\[deprecated(?:\((.*?)\))?\]\]", re.S)
TERM = re.compile(r'"[^"]*; removed in (\d+)\.(\d+)"')


def preset(presets, name, key):
    """Returns a cache variable of a preset, or of the preset that it inherits from."""
    found = next(p for p in presets["configurePresets"] if p["name"] == name)
    return found.get("cacheVariables", {}).get(key) or preset(presets, found["inherits"], key)


def compiler_name(command):
    if command in VERSIONS:
        return "{} {}".format(*VERSIONS[command])
    return re.sub(r"^clang\+\+-", "Clang ", command)


def parts(rest):
    named = re.findall(r"(?<=unit_)\w+", rest)
    named += ["the conformance kit's std arrays"] if "conformance_std" in rest else []
    every = "every header" if "$each_header" in rest else "all headers in one program"
    return f"{every}, static checks, tests of {', '.join(named)}"


def row(scope, lane, run, rest, presets):
    """Returns the row of the matrix for a lane that compiles."""
    words = rest.split()
    standard = (re.findall(r"CMAKE_CXX_STANDARD=(\d+)", rest) or ["20"])[0]
    library = "libc++ 19" if "$libcxx" in rest else "libstdc++ 12"
    if run == "cuda_headers":
        command, what = "nvcc", ("every CUDA header" if scope == "`--full`" else "the CUDA headers that changed") + ", the umbrella headers"
    elif run == "nvcc_tests":
        command, what = "nvcc", f"CUDA tests{': all' if scope == '`--full`' else ', if they or the CUDA headers changed: those in `*.cu` files'} are compiled; those that need no GPU are run"
    elif run == "fake_cuda":
        command, what = preset(presets, words[1], "CMAKE_CXX_COMPILER"), "GPU tests on a fake CUDA runtime"
        what += ", ThreadSanitizer" if words[1] == "tsan" else ""
    elif run == "cuda_12":
        command = preset(presets, "clang", "CMAKE_CXX_COMPILER")
        what = "CUDA 12.6: GPU tests on a fake CUDA runtime; CUDA 12.6 and 12.8: every CUDA header (GCC 12)"
    elif run == "cross":
        command, what = "g++", f"under QEMU: {'s390x (big-endian), tests of wire' if words else CROSS}"
    elif run == "windows":
        return f"| {lane} | {scope} | GCC 12 (MinGW-w64) | {library} | C++{standard} | {WINDOWS_CI if words else WINDOWS} |"
    elif run == "free_threaded":
        return f"| {lane} | {scope} | GCC 12, Clang 19 | {library} | C++{standard} | {FREE_THREADED} |"
    elif run == "older_dlpack":
        command, what = preset(presets, "dev", "CMAKE_CXX_COMPILER"), f"the DLPack header of version {words[0]}"
    else:
        command = (re.findall(r"CMAKE_CXX_COMPILER=(\S+)", rest) or [preset(presets, words[1], "CMAKE_CXX_COMPILER")])[0]
        what = {"cxx_all": "everything", "cxx_unit": "unit tests", "cxx_programs": "tests of multithreaded programs"}.get(run) or parts(rest)
        if run == "cxx_all" and "$each_header" in rest:
            what += ", every header alone (`--ci`, `--full`)"
    return f"| {lane} | {scope} | {compiler_name(command)} | {library} | C++{standard} | {what} |"


def matrix(script, presets):
    scope, rows = "always", []
    for found in LANE.finditer(script):
        scope = "always" if found["end"] else SCOPES.get(found["scope"], scope)
        run = (found["run"] or "").strip('"')
        if run in RUNS:
            rows.append(row(scope, found["name"], run, found["rest"], presets))
    return "\n".join(["| lane | run by | compiler | standard library | language | what |", "|---|---|---|---|---|---|", *rows, ""])


def check_macros(headers, page):
    """What the headers define for users to ask has a row, and no row is of anything else."""
    defined, rows = {m for text in headers.values() for m in MACRO.findall(text)}, set(re.findall(r"^\| `(FERRY_\w+)", page, re.M))
    yield from (f"{PAGE.name}: {macro} has no row" for macro in sorted(defined - rows))
    yield from (f"{PAGE.name}: no header defines {macro}" for macro in sorted(rows - defined))


def check_deprecated(headers, version):
    """What is deprecated says what to write instead and in which version it goes, and is gone by then."""
    for path, text in headers.items():
        for said in DEPRECATED.findall(text):
            term = TERM.search(said)
            if not term:
                yield f'{path}: write [[deprecated("use ...; removed in X.Y")]]'
            elif (int(term[1]), int(term[2])) <= version:
                yield f"{path}: should have gone in {term[1]}.{term[2]}: {said}"


def check_compilers():
    for command, (name, version) in VERSIONS.items():
        try:
            text = subprocess.run([command, "--version"], capture_output=True, text=True, check=True).stdout
        except FileNotFoundError:
            continue  # the lane says so
        if not re.search(rf"(?:release|\)) {version}\.", text):
            yield f"{PAGE.name} says {name} {version}, and {command} is: {text.splitlines()[0]}"


def check(fix):
    page = PAGE.read_text(encoding="utf-8")
    headers = {
        f.relative_to(ROOT).as_posix(): f.read_text(encoding="utf-8")
        for f in sorted((ROOT / "include").rglob("*.*pp")) + sorted((ROOT / "include").rglob("*.cuh"))
    }
    fresh = matrix((ROOT / "tests/run").read_text(encoding="utf-8"), json.loads((ROOT / "CMakePresets.json").read_text()))
    if fix:
        page = MATRIX.sub(lambda _: fresh, page)
        PAGE.write_text(page, encoding="utf-8")
    errors = [] if MATRIX.findall(page) == [fresh] else [f"{PAGE.name}: the matrix is not what tests/run does: compatibility.py --fix"]
    numbers = re.findall(r"#define FERRY_VERSION_M\w+ (\d+)", headers["include/ferry/version.hpp"])
    errors += [*check_macros(headers, page), *check_deprecated(headers, tuple(map(int, numbers)))]
    if os.environ.get("CI"):
        errors += check_compilers()
    print(*errors, sep="\n", end="\n" if errors else "")
    print(f"{fresh.count(chr(10)) - 2} lanes, {len(errors)} errors")
    return bool(errors)


def self_test():
    presets = {"configurePresets": [
        {"name": "base", "cacheVariables": {}},
        {"name": "dev", "inherits": "base", "cacheVariables": {"CMAKE_CXX_COMPILER": "g++"}},
        {"name": "clang", "inherits": "base", "cacheVariables": {"CMAKE_CXX_COMPILER": "clang++-19"}},
        {"name": "asan", "inherits": "clang", "cacheVariables": {}},
    ]}  # fmt: skip
    script = (
        'lane dev cxx_all dev dev "all $each_header"\nif [ -n "$scope" ]; then\n    lane a cxx_unit a asan\nfi\n'
        'if [ "$scope" = full ]; then\n    [ -n "$x" ] || [ -n "$(y)" ] || lane n cuda_headers\n'
        '    lane l cxx_parts l clang "$each_header unit_base" \\\n        "$libcxx" -DCMAKE_CXX_STANDARD=23\n    lane docs documentation\n'
        "    lane 16 cxx_unit 16 clang -DCMAKE_CXX_COMPILER=clang++-16\n    lane old older_dlpack 1.0 a==1\n"
    )
    assert matrix(script, presets).splitlines()[2:] == [
        "| dev | always | GCC 12 | libstdc++ 12 | C++20 | everything, every header alone (`--ci`, `--full`) |",
        "| a | `--ci`, `--full` | Clang 19 | libstdc++ 12 | C++20 | unit tests |",
        "| n | `--full` | nvcc 13 | libstdc++ 12 | C++20 | every CUDA header, the umbrella headers |",
        "| l | `--full` | Clang 19 | libc++ 19 | C++23 | every header, static checks, tests of base |",
        "| 16 | `--full` | Clang 16 | libstdc++ 12 | C++20 | unit tests |",
        "| old | `--full` | GCC 12 | libstdc++ 12 | C++20 | the DLPack header of version 1.0 |",
    ], matrix(script, presets)
    header = {"a.hpp": "#define FERRY_HAS_X 1\n#define FERRY_COLD\n#  define FERRY_VERSION 3\n"}
    assert not list(check_macros(header, "| `FERRY_HAS_X` | x |\n| `FERRY_VERSION` | x |\n"))
    assert len(list(check_macros(header, "| `FERRY_HAS_Y` | x |\n"))) == 3
    for text, wrong in (
        ('[[deprecated("use g; removed in 0.3")]] void f();', False),
        ('[[deprecated("use g; removed in 0.2")]] void f();', True),
        ('[[deprecated("use g")]] void f();', True),
        ("[[deprecated]] void f();", True),
    ):
        assert bool(list(check_deprecated({"a.hpp": text}, (0, 2)))) == wrong, text
    return False


if __name__ == "__main__":
    sys.exit(self_test() if sys.argv[1:] == ["--self-test"] else check(sys.argv[1:] == ["--fix"]))
