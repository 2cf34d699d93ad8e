"""The time from a message about a frame in shared memory to its readers, with multiprocessing: SharedMemory, and a Pipe for each reader.

usage: pipes.py [frames]     prints lines as bench/ipc/topics.cpp does: name, readers, bytes, median µs, 99th percentile of the µs
"""

import multiprocessing
import sys
import time
from multiprocessing.shared_memory import SharedMemory

SLOTS, WARM_UP = 3, 10


def read(pipe, names, size):
    slots = [SharedMemory(name) for name in names]
    while (slot := pipe.recv()) is not None:
        frame = slots[slot].buf[:size]
        seen = time.monotonic_ns()
        frame[::4096].tobytes()  # a byte of each page
        frame.release()
        pipe.send(seen)
    for slot in slots:
        slot.close()


def measure(readers, size, frames):
    context = multiprocessing.get_context("fork")
    slots = [SharedMemory(create=True, size=size) for _ in range(SLOTS)]
    pipes, theirs = zip(*(context.Pipe() for _ in range(readers)), strict=True)
    processes = [context.Process(target=read, args=(p, [s.name for s in slots], size), daemon=True) for p in theirs]
    for process in processes:
        process.start()
    taken = []
    for i in range(frames + WARM_UP):
        time.sleep(1e-4)  # the readers wait again
        begin = time.monotonic_ns()
        for pipe in pipes:
            pipe.send(i % SLOTS)
        seen = [pipe.recv() - begin for pipe in pipes]
        if i >= WARM_UP:
            taken += seen
    for pipe in pipes:
        pipe.send(None)
    for process in processes:
        process.join()
    for slot in slots:
        slot.close()
        slot.unlink()
    taken.sort()
    return [taken[int(q * (len(taken) - 1))] * 1e-3 for q in (0.5, 0.99)]


def main():
    frames = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for readers in (1, 4, 64):
        for size in (64 << 10, 8 << 20):
            print("pipes", readers, size, *(f"{n:.2f}" for n in measure(readers, size, frames)), sep="\t", flush=True)


if __name__ == "__main__":
    main()
