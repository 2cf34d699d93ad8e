"""to_host against what a Python user would call, in the sizes that bench has measured, and a picture of it.

usage: peers.py FOLDER        # holds cuda.json of bench, from the same machine just before; peers.json and cuda.png are added

Exits 1 when the budget against torch does not hold. Libraries that are missing are left out, loudly.
"""

import json
import pathlib
import statistics
import sys
import time

OURS = "to_host, fresh memory, 8 lanes"
SIZES = [4 << 20, 64 << 20, 256 << 20, 1 << 30]
BUDGET_FROM, BUDGET = 256 << 20, 20


def seconds(call, finish, limit=4.0, rounds=7):
    call()
    finish()
    times, start = [], time.perf_counter()
    while len(times) < 3 or (len(times) < rounds and time.perf_counter() - start < limit):
        begin = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - begin)
        del result
    return statistics.median(times)


def peers():
    """Name, a function that makes an array of n bytes, one that takes it to the host, one that waits for the device's work."""
    try:
        import torch

        make = lambda n: torch.ones(n, dtype=torch.uint8, device="cuda")
        yield "torch .cpu()", make, lambda x: x.cpu(), torch.cuda.synchronize
    except ImportError as e:
        print(f"torch is left out: {e}")
    try:
        import cupy
        import numpy

        make = lambda n: cupy.ones(n, dtype=cupy.uint8)
        finish = cupy.cuda.get_current_stream().synchronize
        yield "CuPy .get()", make, lambda x: x.get(), finish
        yield 'np.from_dlpack(CuPy, device="cpu")', make, lambda x: numpy.from_dlpack(x, device="cpu", copy=True), finish
    except ImportError as e:
        print(f"CuPy is left out: {e}")


def draw(folder, rows, measured):
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("no matplotlib: no picture")
        return
    curves = {}
    for row in rows:
        if "device to host, touched" in row["what"] and row["peer"] == "pinned link":
            curves.setdefault("ferry, touched memory", []).append((row["bytes"], row["seconds"]))
            curves.setdefault("pinned link", []).append((row["bytes"], row["peer_seconds"]))
        if "device to host, touched" in row["what"] and row["peer"] == "cudaMemcpy":
            curves.setdefault("cudaMemcpy, touched memory", []).append((row["bytes"], row["peer_seconds"]))
        if row["what"] == OURS and row["peer"] == "pinned link":
            curves.setdefault("ferry::to_host, fresh memory", []).append((row["bytes"], row["seconds"]))
    for row in measured:
        curves.setdefault(row["peer"], []).append((row["bytes"], row["peer_seconds"]))
    plt.figure(figsize=(8, 5))
    for name, points in curves.items():
        points.sort()
        plt.plot([n / 2**20 for n, _ in points], [n / t * 1e-9 for n, t in points], marker="o", label=name)
    plt.xscale("log", base=2)
    plt.xlabel("MiB")
    plt.ylabel("GB/s, device to host")
    plt.grid(alpha=0.3)
    plt.legend()
    plt.tight_layout()
    plt.savefig(folder / "cuda.png", dpi=150)
    print(f"{folder / 'cuda.png'} drawn")


def main():
    folder = pathlib.Path(sys.argv[1])
    rows = json.loads((folder / "cuda.json").read_text())
    ours = {row["bytes"]: row["seconds"] for row in rows if row["what"] == OURS}
    measured, all_hold = [], True
    for name, make, fetch, finish in peers():
        for n in SIZES:
            if n not in ours:
                continue
            array = make(n)
            finish()
            took = seconds(lambda: fetch(array), finish)
            ratio = took / ours[n]
            bound = name.startswith("torch") and n >= BUDGET_FROM
            holds = not bound or ratio >= BUDGET
            all_hold &= holds
            verdict = f">= {BUDGET}  {'yes' if holds else 'NO'}" if bound else ""
            print(f"to_host, fresh memory {n >> 20:>6} MiB  {n / ours[n] * 1e-9:6.2f} GB/s   {name:<36} {n / took * 1e-9:6.2f} GB/s  {ratio:7.2f}  {verdict}")
            measured.append({"peer": name, "bytes": n, "seconds": ours[n], "peer_seconds": took, "ratio": ratio, "holds": holds})
            del array
    (folder / "peers.json").write_text(json.dumps(measured, indent=1))
    draw(folder, rows, measured)
    sys.exit(not all_hold)


if __name__ == "__main__":
    main()
