"""Times nanobind by hand and nanobind on ferry: python bench/adopters/nanobind.py BY_HAND ON_FERRY

Each argument is a build folder of examples/adopters/nanobind. The programs alternate; each figure is the smallest of all rounds. A ratio is the
time by hand, divided by that on ferry: above 1, ferry is faster.
"""

import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import timeit

ROUNDS = 4


def calls() -> tuple[dict[str, str], dict[str, object]]:
    """The statements to measure, and their names."""
    import measured as m
    import numpy as np
    import torch

    f, t, owner = np.ones((2, 3), np.float32), torch.ones(2, 3), object()
    obj = m.to_object(owner)

    def refused(argument):
        def call():
            try:
                m.typed(argument)
            except TypeError:
                pass

        return call

    statements = {
        "an empty call": "m.nothing(f)",
        "numpy, float32": "m.typed(f)",
        "torch, float32": "m.typed(t)",
        "bytes, read-only": "m.read_only(b)",
        "third of three overloads": "m.overloaded(f)",
        "an int, refused": "refuse_int()",
        "return numpy": "m.to_numpy(owner)",
        "return a capsule": "m.to_capsule(owner)",
        "obj.__dlpack__()": "d()",
        "obj.__dlpack__(max_version=(1, 1))": "d(max_version=v)",
        "memoryview(obj)": "memoryview(obj)",
    }
    scope = dict(m=m, f=f, t=t, b=b"abcdefgh", owner=owner, obj=obj, d=obj.__dlpack__, v=(1, 1), refuse_int=refused(1))
    return statements, scope


def rows() -> dict[str, float]:
    """Nanoseconds of each call."""
    statements, scope = calls()
    out = {}
    for name, statement in statements.items():
        timer = timeit.Timer(statement, globals=scope)
        timer.timeit(2000)
        out[name] = min(timer.timeit(20000) for _ in range(5)) / 20000 * 1e9
    return out


def run(folder: str) -> dict[str, float]:
    env = {"PYTHONPATH": str(pathlib.Path(folder).resolve())}
    return json.loads(subprocess.run([sys.executable, __file__], env=env, check=True, capture_output=True, text=True).stdout)


MARKS = """#include <valgrind/callgrind.h>
void begin(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void end(char const* name) { CALLGRIND_DUMP_STATS_AT(name); CALLGRIND_STOP_INSTRUMENTATION; }
"""
COUNTED = 200


def count(marks: str) -> None:
    """Runs under callgrind: marks the instructions of each call."""
    library = ctypes.CDLL(marks)
    statements, scope = calls()
    for name, statement in {"": "pass", **statements}.items():
        timer = timeit.Timer(statement, globals=scope)
        timer.timeit(COUNTED)
        library.begin()
        timer.timeit(COUNTED)
        library.end(f"<{name}>".encode())


def instructions(folder: str) -> dict[str, float]:
    """Instructions of each call, from callgrind; exact on a loaded machine."""
    with tempfile.TemporaryDirectory() as temporary:
        marks, out = f"{temporary}/marks.so", f"{temporary}/out"
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-xc", "-", "-o", marks], input=MARKS, text=True, check=True)
        env = {"PYTHONPATH": str(pathlib.Path(folder).resolve()), "PATH": os.environ["PATH"], "PYTHONHASHSEED": "0"}
        valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
        subprocess.run([*valgrind, sys.executable, __file__, marks], env=env, check=True, capture_output=True)
        counts = {}
        for file in pathlib.Path(temporary).glob("out.*"):
            text = file.read_text()
            if name := re.search(r"Client Request: <(.*)>", text):
                counts[name[1]] = int(re.search(r"^(?:summary|totals): (\d+)", text, re.M)[1]) / COUNTED
    base = counts.pop("")
    return {name: n - base for name, n in counts.items()}


def best(folders: list[str]) -> list[dict[str, float]]:
    """The smallest time of each row, for each folder."""
    out: list[dict[str, float]] = [{}, {}]
    for _ in range(ROUNDS):
        for mine, folder in zip(out, folders):
            for name, ns in run(folder).items():
                mine[name] = min(ns, mine.get(name, ns))
    return out


def main(folders: list[str]) -> None:
    hand, ferry = best(folders)
    print(f"{'nanoseconds a call':36}{'by hand':>9}{'on ferry':>10}{'ratio':>8}")
    for name, ns in hand.items():
        print(f"{name:36}{ns:9.0f}{ferry[name]:10.0f}{ns / ferry[name]:8.2f}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(sys.argv[1:])
    elif len(sys.argv) == 2:
        count(sys.argv[1])
    else:
        print(json.dumps(rows()))
