"""Without exceptions, each header compiles, or stops the compiler with one #error that states the requirement.

usage: headers.py COMPILER FLAG...
"""

import concurrent.futures
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = (ROOT / "include", ROOT / "packaging/conformance/include")
TEXT = "this header of ferry needs exceptions: compile without -fno-exceptions"
STOPPED = {"adapters", "arrow", "conformance", "cuda", "ipc", "lease", "python"}  # folders, and umbrella headers
ALSO_STOPPED = ("base/detail/requires_exceptions.hpp", "column/detail/")
MUST_STOP = ("adapters/mdspan.hpp", "adapters/shaped.hpp", "adapters/std.hpp", "arrow.hpp", "conformance.hpp", "ipc.hpp", "lease.hpp")


def compile_headers(headers, *more):
    source = "".join(f"#include <ferry/{header}>\n" for header in headers)
    command = [*sys.argv[1:], "-std=c++20", "-fno-exceptions", *(f"-I{tree}" for tree in INCLUDE), "-xc++", "-", *more]
    return subprocess.run(command, input=source, capture_output=True, text=True)


def is_stopped(header):
    """Whether the header states the requirement; None if it needs a library that is not installed."""
    done = compile_headers([header], "-E", "-o/dev/null")
    # Clang does not repeat the directive in the line of the error.
    errors = [line for line in done.stderr.splitlines() if "error:" in line and ("#error" in line or TEXT in line)]
    if any(TEXT in line for line in errors):
        if len(errors) != 1:
            sys.exit(f"{header}: more than one #error\n{done.stderr}")
        return True
    return None if done.returncode != 0 else False


every = sorted(path.relative_to(tree / "ferry").as_posix() for tree in INCLUDE for path in tree.rglob("*.hpp") if path.name != "src.hpp")
tried = [h for h in every if h.split("/")[0].removesuffix(".hpp") in STOPPED or h.startswith(ALSO_STOPPED)]
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    outcome = dict(zip(tried, pool.map(is_stopped, tried)))
if wrong := [header for header in MUST_STOP if not outcome[header]]:
    sys.exit(f"no #error that states the requirement: {wrong}")
supported = [header for header in every if header not in outcome or outcome[header] is False]
done = compile_headers(supported, "-fsyntax-only")
if done.returncode != 0:
    sys.exit(f"a header neither compiles without exceptions nor states the requirement:\n{done.stderr[:4000]}")
done = compile_headers(["src.hpp"], "-fsyntax-only", "-DFERRY_SEPARATE_COMPILATION")
if done.returncode != 0:
    sys.exit(f"the engines do not compile without exceptions:\n{done.stderr[:4000]}")
print(f"{len(supported)} headers compile, {sum(value is True for value in outcome.values())} state the requirement")
