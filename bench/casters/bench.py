"""Measures tensor arguments of bound functions: ferry's casters compared with nanobind's nb::ndarray and pybind11's py::array_t, in the same run.

usage: bench.py <folder of the modules> [--json] [--rounds N]

Both sides call the same function with the same array, alternately, as in bench/python.py. The exit status is 1 if a row misses its budget.
"""

import argparse
import importlib
import json
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]
compare = importlib.import_module("python").compare

BUDGET, VIEW_BUDGET, OVERLOAD_BUDGET = 1.3, 0.5, 0.3


def rows():
    """(what, ours, against, theirs, budget or None)"""
    nb, py = importlib.import_module("bench_nanobind"), importlib.import_module("bench_pybind11")
    array = np.zeros((4, 5), np.float32)
    yield "typed_view<float const, 2> of NumPy", nb.reads, "nb::ndarray", nb.reads_ndarray, array, VIEW_BUDGET
    yield "typed_view<float, 2> of NumPy", nb.writes, "nb::ndarray", nb.writes_ndarray, array, VIEW_BUDGET
    yield "NumPy's own versioned capsule", lambda a: a.__dlpack__(max_version=(1, 0)), "NumPy's legacy capsule", lambda a: a.__dlpack__(), array, None
    yield "managed_tensor of NumPy", nb.tensor, "nb::ndarray", nb.tensor_ndarray, array, 1.0
    yield "the fourth of four overloads", nb.fourth, "nb::ndarray", nb.fourth_ndarray, array, OVERLOAD_BUDGET
    yield "a result array, as a NumPy array", nb.made, "nb::ndarray<nb::numpy>", nb.made_ndarray, None, None
    try:
        import torch
    except ImportError:
        pass
    else:
        tensor = torch.zeros(4, 5)
        yield "typed_view<float const, 2> of PyTorch", nb.reads, "nb::ndarray", nb.reads_ndarray, tensor, BUDGET
    yield "typed_view<float const, 2> of NumPy", py.reads, "py::array_t", py.reads_array, array, VIEW_BUDGET
    yield "typed_view<float, 2> of NumPy", py.writes, "py::array_t", py.writes_array, array, VIEW_BUDGET


def calling(function, argument):
    return function if argument is None else lambda: function(argument)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--rounds", type=int, default=201, help="blocks for each contestant")
    arguments = parser.parse_args()
    sys.path[:0] = [str(arguments.folder)]
    results, missed = [], 0
    for what, ours, against, theirs, argument, budget in rows():
        a, b, ratio, _ = compare(calling(ours, argument), calling(theirs, argument), arguments.rounds)
        holds = None if budget is None else 1 / ratio <= budget
        missed += holds is False
        limit = "" if budget is None else f"time <= {budget} x the peer's"
        results.append({"what": what, "ns": a, "against": against, "against_ns": b, "ratio": ratio, "budget": limit, "holds": holds})
        if not arguments.json:
            print(f"{what:<38} {a:>6.0f} ns   {against:<22} {b:>6.0f} ns   {ratio:5.2f}   {limit:<26} {({None: '', True: 'yes', False: 'NO'})[holds]}", flush=True)
    if arguments.json:
        print(json.dumps(results, indent=1))
    sys.exit(missed != 0)


if __name__ == "__main__":
    main()
