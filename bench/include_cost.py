"""What including ferry costs a compiler's front end, against #include <memory> in the same run.

usage: include_cost.py [--rounds N] [--json] [--compilers g++,clang++-19]

Processor time of `-fsyntax-only` on a file of one line, by turns, so that what else runs on the machine meets all of them alike.
The median of each; the interpreter's own header is taken off <ferry/python.hpp>. DLPack's header is found through
FERRY_DLPACK_INCLUDE_DIR. Exits with 1 when a row misses its budget.
"""

import argparse
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
HEADERS = ["memory", "ferry/tensor/view.hpp", "ferry/ferry.hpp", "Python.h", "ferry/python.hpp"]
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


def rows(compiler, medians):
    medians = dict(medians)
    medians["ferry/python.hpp"] -= medians.pop("Python.h")
    base = medians.pop("memory")
    for header, own in medians.items():
        ratio = own / base
        budget = BUDGETS.get(header)
        yield {
            "what": f"#include <{header}>" + (" without Python.h" if "python" in header else "") + f", {compiler}",
            "ours": own,
            "peer": base,
            "against": "#include <memory>",
            "ratio": ratio,
            "budget": f"<= {budget} x" if budget else "",
            "holds": ratio <= budget if budget else None,
        }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON, times in seconds")
    parser.add_argument("--compilers", default="g++,clang++-19")
    arguments = parser.parse_args()
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
            print(f"{row['what']:<55} {row['ours'] * 1e3:>6.0f} ms {row['peer'] * 1e3:>6.0f} ms {row['ratio']:>6.2f}   {row['budget']:<9} {verdict}".rstrip())
    sys.exit(any(row["holds"] is False for row in results))


if __name__ == "__main__":
    main()
