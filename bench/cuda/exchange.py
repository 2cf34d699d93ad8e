"""Measures columns copied to a GPU, and CUDA tensors sent to another process, as ratios to other libraries in the same run.

usage: exchange.py [--json FILE] [--rounds N]

Needs minitensor with CUDA, NumPy, pyarrow and CuPy; numba is measured if it is installed. Rows show medians, and whether budgets hold.

frame      a table of 1000 columns of 1000 floats, copied to the device by one call of ferry, and by CuPy with a copy for each buffer
first      a tensor of 16 MiB that was not shared before: shared, attached in another process, one byte read there, released
cached     the same memory again: ferry keeps the mapping; numba opens and closes the handle each time, as in its documentation
"""

import argparse
import json
import multiprocessing
import pickle
import statistics
import time

import cupy as cp
import minitensor as mt
import numpy as np
import pyarrow as pa

try:
    from numba import cuda as numba_cuda
except (ImportError, AttributeError):  # numba-cuda breaks on a NumPy that is newer than it knows
    numba_cuda = None

COLUMNS, ROWS, BYTES = 1000, 1000, 16 << 20
WHAT = {"first": "16 MiB to another process, first time", "cached": "16 MiB to another process, shared before"}


def median(call, rounds, warm=2):
    times = []
    for i in range(rounds + warm):
        begin = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - begin)
        del result
    return statistics.median(times[warm:])


def frame(rounds):
    table = pa.table({f"c{i}": pa.array(np.arange(ROWS, dtype=np.float32) + i) for i in range(COLUMNS)}).combine_chunks()
    column = mt.Column.from_arrow(table)
    buffers = [np.asarray(c.chunk(0)) for c in table.columns]

    def ours():
        there = column.to("cuda")
        mt.synchronize()
        return there

    def theirs():
        there = [cp.asarray(b) for b in buffers]
        cp.cuda.get_current_stream().synchronize()
        return there

    return {"row": "frame", "what": "a table of 1000 columns of 1000 floats, `to(\"cuda\")`", "against": "a copy for each buffer", "ours": median(ours, rounds), "theirs": median(theirs, rounds), "budget": 5}


def serve(line):
    """The other process: opens what it is sent, reads a byte of it, and says so."""
    mt.zeros(1, "uint8", "cuda")
    while (said := line.recv_bytes()) != b"end":
        if said[:1] == b"f":
            t = mt.ipc_attach(said[1:])
            seen = t[0].item()
            del t
        else:
            with pickle.loads(said[1:]) as x:
                seen = int(x[:1].copy_to_host()[0])
        line.send_bytes(bytes([seen]))


def between_processes(rounds):
    spawn = multiprocessing.get_context("spawn")
    line, theirs = spawn.Pipe()
    other = spawn.Process(target=serve, args=(theirs,), daemon=True)
    other.start()

    def ask(message, expected):
        line.send_bytes(message)
        assert line.recv_bytes() == bytes([expected])

    seven = np.full(BYTES, 7, np.uint8)

    def first():
        t = mt.asarray(seven, device="cuda")
        with mt.ipc_share(t) as shared:
            ask(b"f" + shared.descriptor, 7)

    kept = mt.ipc_share(mt.zeros(BYTES, "uint8", "cuda"))
    kept.tensor.fill(9)

    def cached():
        with mt.ipc_share(kept.tensor) as shared:
            ask(b"f" + shared.descriptor, 9)

    rows = []
    if numba_cuda is None:
        print("numba is not here: no row against its handles")
        rows += [{"row": "first", "ours": median(first, rounds)}, {"row": "cached", "ours": median(cached, rounds)}]
    else:
        def numba_first():
            x = numba_cuda.to_device(seven)
            ask(b"n" + pickle.dumps(x.get_ipc_handle()), 7)

        kept_by_numba = numba_cuda.to_device(np.full(BYTES, 9, np.uint8))

        def numba_again():
            ask(b"n" + pickle.dumps(kept_by_numba.get_ipc_handle()), 9)

        for name, ours, others in (("first", first, numba_first), ("cached", cached, numba_again)):
            rows.append({"row": name, "what": WHAT[name], "against": "numba's get_ipc_handle", "ours": median(ours, rounds), "theirs": median(others, rounds), "budget": 1})
    line.send_bytes(b"end")
    other.join(20)
    kept.close()
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    rows = [frame(min(options.rounds, 20)), *between_processes(options.rounds)]
    for row in rows:
        line = f"{row['row']:10} {row['ours'] * 1e6:10.1f} us"
        if "theirs" in row:
            row["ratio"] = row["theirs"] / row["ours"]
            line += f"   {row['against']}: {row['theirs'] * 1e6:10.1f} us   {row['ratio']:6.2f} x as fast, budget {row['budget']}: {'holds' if row['ratio'] >= row['budget'] else 'NO'}"
        print(line, flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(rows, out, indent=1)


if __name__ == "__main__":
    main()
