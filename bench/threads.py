"""Measures exchanges per second in a CPython without the GIL, from one thread to one for each core, on distinct objects.

usage: threads.py [--rounds N] [--processor-time]

Needs minitensor and NumPy. Every thread imports and exports arrays of its own. The numbers of threads take turns, in blocks of the same
work for each thread, so that other load affects them equally; a row shows the medians. The scaling is the rate of all threads over
that of one thread, times their number: 1 is linear. The exit status is 1 if it is below 0.8.

With --processor-time, a second is one of the processor that the thread uses: for a machine with other load. The time in which threads
wait for each other does not count then.

A thread calls through objects of its own: the reference count of a function that all threads call would be what is measured.
"""

import argparse
import functools
import os
import statistics
import sys
import threading
import time

import minitensor as mt
import numpy as np

BLOCK = 20_000  # exchanges


def kinds():
    """The exchanges: each makes a function without arguments, which a thread calls."""
    return {
        "import of a NumPy array": lambda: functools.partial(mt.from_dlpack, np.arange(8.0)),
        "import of a minitensor": lambda: functools.partial(mt.from_dlpack, mt.arange(8)),
        "export as a capsule": lambda: functools.partial(mt.arange(8).__dlpack__, max_version=(1, 3)),
        "export to NumPy": lambda: functools.partial(np.from_dlpack, mt.arange(8)),
        "import by NumPy of its own array, without ferry": lambda: functools.partial(np.from_dlpack, np.arange(8.0)),
    }


def rate(make, threads, clock):
    """Exchanges per second of all threads: each makes BLOCK, and they begin together."""
    start, seconds = threading.Barrier(threads), [None] * threads

    def run(i):
        exchange, block = make(), range(BLOCK)
        exchange()
        start.wait()
        begin = clock()
        for _ in block:
            exchange()
        seconds[i] = clock() - begin

    workers = [threading.Thread(target=run, args=(i,)) for i in range(threads)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    return threads * BLOCK / max(seconds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--processor-time", action="store_true")
    given = parser.parse_args()
    clock = time.thread_time if given.processor_time else time.perf_counter
    if getattr(sys, "_is_gil_enabled", lambda: True)():
        sys.exit("needs a CPython without the GIL")
    cores = len(os.sched_getaffinity(0))
    counts = range(1, cores + 1)
    print(f"{'million exchanges per second':48}", *(f"{n:8}" for n in counts), " scaling")
    slow = False
    for name, make in kinds().items():
        rates = {n: [] for n in counts}
        for _ in range(given.rounds):
            for n in counts:
                rates[n].append(rate(make, n, clock))
        scaling = statistics.median(all_ / (cores * one) for one, all_ in zip(rates[1], rates[cores]))
        slow = slow or (scaling < 0.8 and "without ferry" not in name)
        print(f"{name:48}", *(f"{statistics.median(rates[n]) / 1e6:8.2f}" for n in counts), f"{scaling:8.2f}")
    return slow


if __name__ == "__main__":
    sys.exit(main())
