"""Compiles all public headers in one translation unit, not as SYSTEM headers; reports warnings, and differences between options.

usage: headers.py warnings COMPILER DLPACK | headers.py same-text COMPILER DLPACK
"""

import importlib.util
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TREES = (ROOT / "include", ROOT / "packaging/conformance/include")

GCC = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow"]
# The warnings of -Weverything that are disabled, and the reasons.
CLANG = {
    "c++98-compat": "only for code that must also compile with an older language standard",
    "c++98-compat-pedantic": "the same",
    "c++20-compat": "the same: consteval is a keyword of C++20",
    "padded": "structs with padding are intended",
    "switch-default": "without a default label the compiler reports missing enumerators",
    "switch-enum": "a default label handles the remaining enumerators on purpose",
    "ctad-maybe-unsupported": "deduction from the constructors is intended",
    "weak-vtables": "a header-only library has no source file for a vtable",
    "unsafe-buffer-usage": "DLPack passes pointers; they are checked on import",
    "unsafe-buffer-usage-in-container": "the same, for std::span of a pointer and a count",
    "comma": "two assignments in one case of a switch statement",
    "float-equal": "the conformance kit compares with exactly the value that it wrote",
    "documentation": "a \\throws that only names the error is complete",
    "exit-time-destructors": "the CUDA events of a thread are destroyed with the thread",
    "disabled-macro-expansion": "macros of CPython and the C library that expand to their own name",
    "cast-function-type-strict": "CPython's method table stores functions of several types as one type",
}


def wheel(name, include):
    """Returns the folder of headers in an installed wheel."""
    spec = importlib.util.find_spec(name)
    return [str(pathlib.Path(root, include)) for root in (spec.submodule_search_locations if spec else [])]


# Headers of other libraries that ferry's headers include, and the folders to search. Headers of missing libraries are left out.
LIBRARIES = {
    "cuda_runtime_api.h": ["/usr/local/cuda/include"],
    "thrust/device_vector.h": ["/usr/local/cuda/include/cccl"],
    "cuda/std/mdspan": ["/usr/local/cuda/include/cccl"],
    "Python.h": [sysconfig.get_path("include")],
    "Eigen/Core": ["/usr/include/eigen3"],
    "opencv2/core/mat.hpp": ["/usr/include/opencv4"],
    "xtensor/xarray.hpp": ["/usr/include"],
    "nanobind/nanobind.h": wheel("nanobind", "include"),
    "pybind11/pybind11.h": wheel("pybind11", "include"),
    "ATen/core/Tensor.h": [],  # takes minutes; the tests of the adapter compile it with ferry's own warnings
}
NEEDS = {
    "ferry/cuda": ["cuda_runtime_api.h"],
    "ferry/cuda/thrust.hpp": ["thrust/device_vector.h"],
    "ferry/adapters/mdspan_cccl.hpp": ["cuda/std/mdspan"],
    "ferry/adapters/eigen.hpp": ["Eigen/Core"],
    "ferry/adapters/opencv.hpp": ["opencv2/core/mat.hpp"],
    "ferry/adapters/xtensor.hpp": ["xtensor/xarray.hpp"],
    "ferry/adapters/torch.hpp": ["ATen/core/Tensor.h"],
    "ferry/python": ["Python.h"],
    "ferry/python/nanobind": ["nanobind/nanobind.h"],
    "ferry/python/pybind11": ["pybind11/pybind11.h"],
    "ferry/python/cuda_": ["Python.h", "cuda_runtime_api.h"],
}


def folder_of(library):
    return next((folder for folder in LIBRARIES[library] if pathlib.Path(folder, library).exists()), None)


def sort_headers():
    """Returns the headers that can be compiled here, those of Python first, as CPython requires; and the others with the missing libraries."""
    usable, left_out = [], {}
    for tree, file in ((tree, file) for tree in TREES for file in sorted(tree.rglob("*.hpp"))):
        header = file.relative_to(tree).as_posix()
        needed = {library for prefix, libraries in NEEDS.items() if header.startswith(prefix) for library in libraries}
        missing = sorted(library for library in needed if folder_of(library) is None)
        if file.name == "src.hpp":  # the engines, which the other headers include
            continue
        if missing:
            left_out[header] = missing
        else:
            usable.append(header)
    return sorted(usable, key=lambda header: (not header.startswith("ferry/python"), header)), left_out


def flags(dlpack):
    folders = {folder_of(library) for library in LIBRARIES} - {None, "/usr/include"}
    return ["-std=c++20", *(f"-I{tree}" for tree in TREES), "-isystem", dlpack, *(part for folder in sorted(folders) for part in ("-isystem", folder))]


def includes(headers):
    return "".join(f"#include <{header}>\n" for header in headers)


def compile_text(text, *command):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "all.cpp")
        source.write_text(text, encoding="utf-8")
        return subprocess.run([*command, source], capture_output=True, text=True, check=False)


def warnings(compiler, dlpack):
    """Compiles all headers and, with Clang, the examples, which instantiate templates. A warning in a header of ferry is an error.

    GCC compiles the tests, which instantiate the templates, with these warnings in any case.
    """
    headers, left_out = sort_headers()
    command = [compiler, *flags(dlpack), "-fsyntax-only"]
    sources = {"all headers": includes(headers)}
    if "clang" in compiler:
        for example in [*sorted((ROOT / "examples").glob("*.cpp")), ROOT / "examples/quickstart/main.cpp"]:
            sources[example.name] = f'#include "{example}"\n'
        # xtensor before 0.25 has partial specialisations that are ambiguous under the rules of Clang 19.
        command += ["-fno-relaxed-template-template-args", "-Wno-deprecated-no-relaxed-template-template-args"]
        command += ["-Weverything", *(f"-Wno-{name}" for name in CLANG), "-ferror-limit=0"]
    else:
        command += GCC
    failed = False
    for name, text in sources.items():
        result = compile_text(text, *command)
        ours = [line for line in result.stderr.splitlines() if re.match(rf"({'|'.join(re.escape(str(tree)) for tree in TREES)})/.*(warning|error): ", line)]
        print(f"{name}: {len(ours)} warnings", *ours, sep="\n")
        if result.returncode:
            print(result.stderr)
        failed = failed or bool(ours) or result.returncode != 0
    planted = compile_text(f'# 1 "{TREES[0]}/ferry/planted.hpp" 1\ninline char planted(int i) {{ return i; }}\n', *command)
    if "planted.hpp" not in planted.stderr:
        sys.exit("the deliberate conversion was not reported")
    print(f"{len(headers)} headers")
    if left_out:
        print("left out, library not installed:", *left_out)
    return failed


def text_of(compiler, dlpack, options, first):
    """Returns the preprocessed text of the headers that need no library, by file."""
    core = [header for header in sort_headers()[0] if not any(header.startswith(prefix) for prefix in NEEDS)]
    result = compile_text(includes([*first, *core]), compiler, *flags(dlpack), *options, "-E")
    if result.returncode:
        sys.exit(result.stderr)
    text, header = {}, None
    for line in result.stdout.splitlines():
        if mark := re.match(r'# \d+ "([^"]+)"', line):
            name = mark[1].rpartition("/include/")[2]
            header = name if name in core else None
        elif header and line.strip():
            text.setdefault(header, []).append(line.strip())
    return text


def same_text(compiler, dlpack):
    """Checks that the text of no header depends on options or on headers before it, so that inline functions do not either."""
    plain = text_of(compiler, dlpack, [], [])
    usable = sort_headers()[0]
    variants = {
        "NDEBUG, optimised": (["-DNDEBUG", "-O3"], []),
        "assertions of the library": (["-D_GLIBCXX_ASSERTIONS"], []),
        "CPython before": ([], ["ferry/python.hpp"]),
        "position-independent, hidden": (["-fPIC", "-fvisibility=hidden"], []),
        "CUDA before": ([], ["ferry/cuda.hpp"]),
    }
    failed = len(plain) < 100
    for name, (options, first) in variants.items():
        if not set(first) <= set(usable):
            print(f"left out, library not installed: {name}")
            continue
        other = text_of(compiler, dlpack, options, first)
        differ = [header for header in plain if plain[header] != other.get(header)]
        print(f"{name}: {len(plain)} headers, {len(differ)} differ", *differ, sep="\n")
        failed = failed or bool(differ)
    if text_of(compiler, dlpack, ["-fno-rtti"], []) == plain:
        sys.exit("-fno-rtti, which a header queries, did not change the text")
    return failed


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("warnings", "same-text"):
        sys.exit(__doc__)
    sys.exit({"warnings": warnings, "same-text": same_text}[sys.argv[1]](*sys.argv[2:]))
