"""Counts the instructions of loops with typed views, compared with the same loops by hand, and of calls that throw, compared with
their `try_` forms (D17).

usage: loops.py [--json] [--compilers g++,clang++-19]

Compiles bench/loops/loops.cpp at -O2 and -O3 and counts the instructions of each function in the assembly, so the result depends
on the compiler only. DLPack's header is found through FERRY_DLPACK_INCLUDE_DIR. The exit status is 1 if the budget does not hold
for a loop.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The instructions of the loop, divided by those of the loop by hand.
BUDGET = 1.1


def instructions(compiler, level):
    """Counts the instructions of each function."""
    command = [compiler, "-std=c++20", level, "-S", "-o", "-", f"-I{ROOT / 'include'}", "-isystem", os.environ["FERRY_DLPACK_INCLUDE_DIR"]]
    text = subprocess.run([*command, str(ROOT / "bench/loops/loops.cpp")], check=True, capture_output=True, text=True).stdout
    counts, name = collections.Counter(), None
    for line in text.splitlines():
        if match := re.match(r"(\w+)(\.\w+)*:", line):
            name = match[1]
        elif re.match(r"\t[a-z]", line):
            counts[name] += 1
    return counts


def rows(compilers):
    for compiler in compilers:
        for level in ("-O2", "-O3"):
            counts = instructions(compiler, level)
            pairs = ((name.rpartition("_by_")[0], count) for name, count in counts.items() if name.endswith(("_by_hand", "_by_try")))
            for name, peer in pairs:
                ours = counts[name]
                yield {"what": name, "compiler": f"{compiler} {level}", "ours": ours, "peer": peer, "ratio": ours / peer,
                       "budget": BUDGET, "holds": ours <= BUDGET * peer}  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--compilers", default="g++,clang++-19")
    arguments = parser.parse_args()
    found = list(rows(name for name in arguments.compilers.split(",") if shutil.which(name)))
    if arguments.json:
        print(json.dumps(found))
    else:
        print(f"{'loop':20} {'compiler':16} {'ferry':>6} {'by hand':>8} {'ratio':>6}  budget")
        for r in found:
            row = f"{r['what']:20} {r['compiler']:16} {r['ours']:6} {r['peer']:8} {r['ratio']:6.2f}"
            print(row, f" {r['budget']} {'yes' if r['holds'] else 'no'}")
    return 0 if all(r["holds"] for r in found) else 1


if __name__ == "__main__":
    sys.exit(main())
