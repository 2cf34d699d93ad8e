"""Compares host copies with memcpy, NumPy and PyTorch on one thread, in turns in one run, in processor time,
which other programs on the machine affect less.

usage: host_copy.py <bench_copy> [rounds]
Prints a row for each budget: what, ours, peer, ratio (above 1 ours is faster), budget, whether it holds.
The exit status is 1 if a budget does not hold. Rows without a budget are informational.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch

SIZES = ["1 KiB", "16 KiB", "256 KiB", "4 MiB", "64 MiB", "1 GiB"]
TRANSPOSE = "transpose 4096x4096, 4 bytes"


def bench(program, pattern, repetitions=1):
    """Processor seconds of each benchmark whose name matches: the median of its repetitions."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [
            program,
            f"--benchmark_filter={pattern}",
            f"--benchmark_repetitions={repetitions}",
            "--benchmark_out_format=json",
            f"--benchmark_out={file.name}",
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        report = json.load(file)
    unit = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}
    return {
        run["run_name"].removesuffix("/real_time"): run["cpu_time"] * unit[run["time_unit"]]
        for run in report["benchmarks"]
        if run.get("aggregate_name", "median") == "median"
    }


def timed(work):
    start = time.process_time()
    work()
    return time.process_time() - start


def peers():
    """What NumPy and PyTorch call the same thing: into fresh memory, and into memory at hand."""
    array = np.random.default_rng(0).random((4096, 4096), dtype=np.float32)
    into = np.ones_like(array)
    tensor, target = torch.from_numpy(array), torch.ones(4096, 4096)
    return {
        "np.ascontiguousarray(a.T)": lambda: np.ascontiguousarray(array.T),
        "np.copyto(b, a.T)": lambda: np.copyto(into, array.T),
        "a.t().contiguous()": lambda: tensor.t().contiguous(),
        "b.copy_(a.t())": lambda: target.copy_(tensor.t()),
    }


def measure(program, rounds):
    samples = {}
    torch.set_num_threads(1)
    works = peers()
    for work in works.values():
        work()
    for _ in range(rounds):
        for name, work in works.items():
            samples.setdefault(name, []).append(timed(work))
        found = bench(program, f"^{TRANSPOSE}/(executed|fresh)", 3)
        found |= bench(program, "^contiguous ", 5)
        for name, seconds in found.items():
            samples.setdefault(name, []).append(seconds)
    return {name: statistics.median(values) for name, values in samples.items()}


def rows(seconds):
    fresh, touched = f"{TRANSPOSE}/fresh", f"{TRANSPOSE}/executed"
    # Fresh memory costs more than the copy: NumPy asks the system for huge pages, PyTorch does not.
    yield f"{fresh}, huge pages", "np.ascontiguousarray(a.T)", 3.0
    yield fresh, "np.ascontiguousarray(a.T)", None
    yield touched, "np.copyto(b, a.T)", 3.0
    yield fresh, "a.t().contiguous()", 0.9
    yield touched, "b.copy_(a.t())", 0.9
    for size in SIZES:
        yield f"contiguous {size}/executed", f"contiguous {size}/memcpy", 0.95
    for size in SIZES:
        # Making the plan costs about ten nanoseconds, which small copies notice.
        budget = None if size in ("1 KiB", "16 KiB") else 0.95
        yield f"contiguous {size}/planned and executed", f"contiguous {size}/memcpy", budget


def main():
    program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    seconds = measure(program, rounds)
    kept = True
    print(f"NumPy {np.__version__}, PyTorch {torch.__version__}, one thread, medians of {rounds} rounds, processor time")
    print("what\tours (us)\tpeer (us)\tratio\tbudget\tholds\tpeer")
    for ours, peer, budget in rows(seconds):
        ratio = seconds[peer] / seconds[ours]
        holds = budget is None or ratio >= budget
        kept = kept and holds
        verdict = "-" if budget is None else "yes" if holds else "no"
        print(
            f"{ours}\t{seconds[ours] * 1e6:.4g}\t{seconds[peer] * 1e6:.4g}\t{ratio:.3f}"
            f"\t{budget or '-'}\t{verdict}\t{peer}"
        )
    sys.exit(not kept)


if __name__ == "__main__":
    main()
