"""Measures the time of a compiler's front end for ferry's headers, compared with #include <memory> in the same run.

usage: include_cost.py [--rounds N] [--json] [--compilers g++,clang++-19]
       include_cost.py --parts [--rounds N] [--json]      # each part of ferry: lines, and g++'s time

Processor time of `-fsyntax-only` on a file of one line, in turns, so that other load affects all of them equally. The median of
each; the time of CPython's own header is subtracted from that of <ferry/python.hpp>. DLPack's header is found through
FERRY_DLPACK_INCLUDE_DIR, the CUDA toolkit's through FERRY_CUDA_INCLUDE_DIR (by default /usr/local/cuda/include). The exit
status is 1 if a budget does not hold.
"""

import argparse
import datetime
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
KIT = ROOT / "packaging/conformance/include"
HEADERS = ["memory", "ferry/tensor/view.hpp", "ferry/ferry.hpp", "Python.h", "ferry/python.hpp"]
# part: header, what its lines are counted of, and what it needs beside DLPack's header, whose cost is taken off.
PARTS = {
    "core": ("ferry.hpp", ["ferry.hpp", "fwd.hpp", "config.hpp", "version.hpp", "abi", "base", "tensor", "exchange", "space"], ""),
    "columns": ("column.hpp", ["column.hpp", "column"], ""),
    "Arrow": ("arrow.hpp", ["arrow.hpp", "arrow"], ""),
    "CUDA": ("cuda.hpp", ["cuda.hpp", "cuda"], "cuda_runtime_api.h"),
    "IPC": ("ipc.hpp", ["ipc.hpp", "ipc", "wire"], ""),
    "leases": ("lease.hpp", ["lease.hpp", "lease"], ""),
    "Python": ("python.hpp", ["python.hpp", "python"], "Python.h"),
    "adapters": ("adapters/std.hpp", ["adapters"], ""),
    "conformance kit": ("conformance.hpp", ["conformance.hpp", "conformance"], ""),
}
BUDGETS = {"ferry/ferry.hpp": 1.0, "ferry/tensor/view.hpp": 0.4}


def seconds(command):
    """Processor seconds of a command and what it starts."""

    def spent():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = spent()
    subprocess.run(command, check=True)
    return spent() - before


def measure(compiler, rounds, folder):
    includes = [f"-I{ROOT / 'include'}", "-isystem", os.environ["FERRY_DLPACK_INCLUDE_DIR"]]
    includes += ["-isystem", sysconfig.get_path("include")]
    samples = {header: [] for header in HEADERS}
    for n in range(rounds + 1):
        for header in HEADERS if n % 2 else reversed(HEADERS):
            source = folder / "one.cpp"
            source.write_text(f"#include <{header}>\n")
            spent = seconds([compiler, "-std=c++20", "-fsyntax-only", *includes, str(source)])
            if n > 0:  # the first round fills the page cache
                samples[header].append(spent)
    return {header: statistics.median(values) for header, values in samples.items()}


def lines_of(names):
    """Lines of headers and of folders of headers, without the generated kernels."""
    found = [path for name in names for path in (ROOT / "include/ferry" / name, KIT / "ferry" / name) if path.exists()]
    files = [file for path in found for file in (sorted(path.rglob("*.*")) if path.is_dir() else [path])]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files if file.name != "fatbin.hpp")


def parts(rounds, folder):
    """Measures each part, in turns: the time of g++'s front end minus that of an empty file; the minimum of all rounds, since load only adds time."""
    compiler = "g++"
    includes = [f"-I{ROOT / 'include'}", f"-I{KIT}", "-isystem", os.environ["FERRY_DLPACK_INCLUDE_DIR"], "-isystem", sysconfig.get_path("include")]
    includes += ["-isystem", os.environ.get("FERRY_CUDA_INCLUDE_DIR", "/usr/local/cuda/include")]
    sources = {"": "", "memory": "#include <memory>\n", "Python.h": "#include <Python.h>\n", "cuda_runtime_api.h": "#include <cuda_runtime_api.h>\n"}
    sources |= {name: f"#include <ferry/{header}>\n" for name, (header, _, _) in PARTS.items()}
    samples = {name: [] for name in sources}
    for n in range(rounds + 1):
        for name in sources if n % 2 else reversed(sources):
            source = folder / "one.cpp"
            source.write_text(sources[name])
            spent = seconds([compiler, "-std=c++20", "-fsyntax-only", *includes, str(source)])
            if n > 0:
                samples[name].append(spent)
    least = {name: min(values) for name, values in samples.items()}
    version = subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    listed = [
        {"part": name, "header": header, "lines": round(lines_of(names), -1), "seconds": least[name] - least[without], "without": without}
        for name, (header, names, without) in PARTS.items()
    ]
    return {"date": datetime.date.today().isoformat(), "compiler": f"{compiler} {version}", "rounds": rounds, "memory": least["memory"] - least[""], "rows": listed}


def rows(compiler, medians):
    medians = dict(medians)
    medians["ferry/python.hpp"] -= medians.pop("Python.h")
    base = medians.pop("memory")
    for header, own in medians.items():
        ratio = base / own
        budget = BUDGETS.get(header)
        yield {
            "what": f"#include <{header}>" + (" without Python.h" if "python" in header else "") + f", {compiler}",
            "ours": own,
            "peer": base,
            "against": "#include <memory>",
            "ratio": ratio,
            "budget": f"time <= {budget} x the peer's" if budget else "",
            "holds": own <= budget * base if budget else None,
        }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON, times in seconds")
    parser.add_argument("--compilers", default="g++,clang++-19")
    parser.add_argument("--parts", action="store_true", help="what each part of ferry costs, instead")
    arguments = parser.parse_args()
    if arguments.parts:
        with tempfile.TemporaryDirectory() as folder:
            measured = parts(arguments.rounds, pathlib.Path(folder))
        if arguments.json:
            print(json.dumps(measured, indent=1))
        else:
            for part in measured["rows"]:
                print(f"{part['part']:<16} ferry/{part['header']:<18} {part['lines']:>6} lines {part['seconds']:>6.2f} s")
        return
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for compiler in arguments.compilers.split(","):
            if shutil.which(compiler) is None:
                print(f"{compiler} is not installed: left out", file=sys.stderr)
                continue
            results += rows(compiler, measure(compiler, arguments.rounds, pathlib.Path(folder)))
    if arguments.json:
        print(json.dumps(results, indent=1))
    else:
        for row in results:
            verdict = {None: "", True: "yes", False: "NO"}[row["holds"]]
            print(f"{row['what']:<55} {row['ours'] * 1e3:>6.0f} ms {row['peer'] * 1e3:>6.0f} ms {row['ratio']:>6.2f}   {row['budget']:<26} {verdict}".rstrip())
    sys.exit(any(row["holds"] is False for row in results))


if __name__ == "__main__":
    main()
