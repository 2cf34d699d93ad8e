"""Times nanobind by hand and nanobind on ferry: python bench/adopters/nanobind.py BY_HAND ON_FERRY

Each argument is a build folder of examples/adopters/nanobind. The programs alternate; each figure is the smallest of all rounds.
"""

import json
import pathlib
import subprocess
import sys
import timeit

ROUNDS = 7


def rows() -> dict[str, float]:
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

    calls = {
        "an empty call": ("m.nothing(f)",),
        "numpy, float32": ("m.typed(f)",),
        "torch, float32": ("m.typed(t)",),
        "bytes, read-only": ("m.read_only(b)",),
        "third of three overloads": ("m.overloaded(f)",),
        "an int, refused": ("refuse_int()",),
        "return numpy": ("m.to_numpy(owner)",),
        "return a capsule": ("m.to_capsule(owner)",),
        "obj.__dlpack__()": ("d()",),
        "obj.__dlpack__(max_version=(1, 1))": ("d(max_version=v)",),
        "memoryview(obj)": ("memoryview(obj)",),
    }
    scope = dict(m=m, f=f, t=t, b=b"abcdefgh", owner=owner, obj=obj, d=obj.__dlpack__, v=(1, 1), refuse_int=refused(1))
    out = {}
    for name, (statement,) in calls.items():
        timer = timeit.Timer(statement, globals=scope)
        timer.timeit(2000)
        out[name] = min(timer.timeit(20000) for _ in range(5)) / 20000 * 1e9
    return out


def run(folder: str) -> dict[str, float]:
    env = {"PYTHONPATH": str(pathlib.Path(folder).resolve())}
    return json.loads(subprocess.run([sys.executable, __file__], env=env, check=True, capture_output=True, text=True).stdout)


def main(folders: list[str]) -> None:
    best: list[dict[str, float]] = [{}, {}]
    for _ in range(ROUNDS):
        for mine, folder in zip(best, folders):
            for name, ns in run(folder).items():
                mine[name] = min(ns, mine.get(name, ns))
    print(f"{'nanoseconds a call':36}{'by hand':>9}{'on ferry':>10}{'ratio':>8}")
    for name, hand in best[0].items():
        print(f"{name:36}{hand:9.0f}{best[1][name]:10.0f}{best[1][name] / hand:8.2f}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(sys.argv[1:])
    else:
        print(json.dumps(rows()))
