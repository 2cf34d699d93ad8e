"""Compares to_host with the calls of other libraries in one process: sizes from 4 KiB to 4 GiB, contiguous and transposed.

usage: peers.py LIBRARY FOLDER [--seconds PER_GROUP]      # LIBRARY: to_host.cpp, compiled; FOLDER gets peers.json

The calls take turns. Each copies the same floats to newly allocated host memory. The release of the result is not timed, except for short
calls that are repeated. The exit status is 1 if the budget against torch does not hold. Missing libraries are reported and left out.
"""

import argparse
import ctypes
import json
import pathlib
import statistics
import sys
import time

SIZES = [4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20, 1 << 30, 4 << 30]
LAYOUTS = ("contiguous", "transposed")
BUDGET_FROM, BUDGET, LANES = 256 << 20, 20, 8


def by_turns(calls, limit, least=3, clock=time.perf_counter):
    """Seconds of each call, one for each round, of which there are at least so many; short ones are repeated. The first calls do not count."""
    repeat = {}
    for name, call in calls.items():
        for _ in range(2):
            began = clock()
            kept = call()
            took = clock() - began
            del kept
            if took > 0.2:
                break
        repeat[name] = 1 if took >= 20e-6 else int(100e-6 / (took + 1e-7)) + 1
    times, names, start = {name: [] for name in calls}, list(calls), clock()
    for turn in range(301):
        if turn >= least and clock() - start > limit:
            break
        for i in range(len(names)):
            name = names[(i + turn) % len(names)]
            call, count = calls[name], repeat[name]
            began = clock()
            for _ in range(count):
                kept = call()
            times[name].append((clock() - began) / count)
            del kept
    return times


def compared(ours, theirs):
    """Of the seconds of each round: the medians, their ratio and its quartiles."""
    each = sorted(b / a for a, b in zip(ours, theirs))
    return {"seconds": statistics.median(ours), "peer_seconds": statistics.median(theirs), "ratio": statistics.median(each), "low": each[len(each) // 4],
            "high": each[-1 - len(each) // 4], "rounds": len(ours)}  # fmt: skip


def rows_of(times, size, layout):
    """A row for each peer: its time over ours."""
    for name, theirs in times.items():
        if name == "ferry":
            continue
        figures = compared(times["ferry"], theirs)
        bound = name == "torch .cpu()" and layout == "contiguous" and size >= BUDGET_FROM
        yield {"table": "peers", "what": f"to_host, fresh memory, {LANES} lanes, {layout}", "kind": "fresh", "layout": layout, "way": "down", "bytes": size,
               "peer": name, **figures, "budget": BUDGET if bound else 0, "of_times": False, "holds": not bound or figures["ratio"] >= BUDGET}  # fmt: skip


def line_of(row):
    """What is printed of a row."""
    rate, verdict = row["bytes"] / row["seconds"] * 1e-9, ""
    if row["budget"]:
        verdict = f">= {row['budget']}  {'yes' if row['holds'] else 'NO'}"
    return (f"{row['what']:<52} {row['bytes'] >> 10:>8} KiB {rate:7.2f} GB/s  {row['peer']:<36} {row['bytes'] / row['peer_seconds'] * 1e-9:7.2f} GB/s"
            f"  {row['ratio']:8.2f} ({row['low']:.2f}-{row['high']:.2f})  {verdict}")  # fmt: skip


def finish(rows, file):
    """Writes the rows; exits 1 when a budget does not hold."""
    file.write_text(json.dumps(rows, indent=1))
    sys.exit(not all(row["holds"] for row in rows))


class Brought:
    """A tensor on the host; lets it go when it dies."""

    __slots__ = ("at", "let_go")

    def __init__(self, at, let_go):
        self.at, self.let_go = at, let_go

    def __del__(self):
        self.let_go(self.at)


def ferry_of(library):
    own = ctypes.CDLL(library)
    own.bench_copier.restype = own.bench_to_host.restype = ctypes.c_void_p
    own.bench_let_go.argtypes = (ctypes.c_void_p,)
    own.bench_let_go.restype = None
    own.bench_to_host.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    copier = own.bench_copier(LANES)

    def call_for(address, shape, strides):
        rank = len(shape)
        kept = (ctypes.c_int64 * rank)(*shape), (ctypes.c_int64 * rank)(*strides)

        def call():
            at = own.bench_to_host(copier, address, rank, *kept)
            if at is None:
                sys.exit("ferry::to_host failed")
            return Brought(at, own.bench_let_go)

        return call

    return call_for


def measured(ferry, limit):
    """Rows, size by size. The memory is PyTorch's or CuPy's, whichever is there; the others look at the same."""
    try:
        import torch
    except ImportError as e:
        torch = print(f"torch is left out: {e}")
    try:
        import cupy
        import numpy
    except ImportError as e:
        cupy = print(f"CuPy is left out: {e}")
    if torch is None and cupy is None:
        return
    for size in SIZES:
        columns = 1 << ((size // 4).bit_length() - 1) // 2
        shape = (size // 4 // columns, columns)
        if torch is not None:
            whole = torch.ones(shape, dtype=torch.float32, device="cuda")
            torch.cuda.synchronize()
        else:
            whole = cupy.ones(shape, dtype=cupy.float32)
            cupy.cuda.Device().synchronize()
        address = whole.data_ptr() if torch is not None else whole.data.ptr
        for layout in LAYOUTS:
            x = whole if layout == "contiguous" else whole.T
            strides = (columns, 1) if layout == "contiguous" else (1, columns)
            calls = {"ferry": ferry(address, tuple(x.shape), strides)}
            if torch is not None:
                # all of them make a transposed tensor compact, on the device, before it travels, as ferry does
                calls["torch .cpu()"] = lambda x=x: x.contiguous().cpu()
            if cupy is not None:
                y = cupy.from_dlpack(x) if torch is not None else x
                calls["CuPy .get()"] = lambda y=y: y.get(order="C")
                calls['np.from_dlpack(CuPy, device="cpu")'] = lambda y=y: numpy.from_dlpack(cupy.ascontiguousarray(y), device="cpu", copy=True)
            yield from rows_of(by_turns(calls, limit, 3 if size <= 1 << 30 else 2), size, layout)
            del x, calls
        whole = None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=0.4)
    asked = parser.parse_args()
    rows = []
    for row in measured(ferry_of(str(asked.library.resolve())), asked.seconds):
        print(line_of(row), flush=True)
        rows.append(row)
    finish(rows, asked.folder / "peers.json")


if __name__ == "__main__":
    main()
