"""Measures frames from one Python process to another, as ratios to other methods in the same run.

usage: frames.py [--json] [--rounds N] [--seconds N]

Needs minitensor and NumPy; torch is measured if it is installed. A frame is a tensor of bytes in the producer's memory; the time is
measured from the producer's first step until the consumer has read a byte of each of its pages. One frame is in flight at a time. All
methods announce a frame by a line through the same pipe, and take turns in one run, so that other load affects them equally; a row
shows the medians, and the median of the ratios of consecutive measurements.

first     each frame is a separate tensor: shared (which copies it once), attached, read, released, and freed by the producer
cached    the frame is in memory that was shared and attached before, written there by the producer; it is named and attached again
          pipe: copied into a pipe and out of it, into memory that the consumer keeps
          shared_memory: multiprocessing.shared_memory; cached: the consumer keeps the mapping open, and looks it up by its name
          torch: a tensor in shared memory through a connection of torch.multiprocessing, by file descriptor (torch's default here)
          or by file name; cached: the consumer keeps a tensor of that storage, which torch then finds
"""

import argparse
import fcntl
import json
import multiprocessing
import os
import random
import statistics
import sys
import time
from multiprocessing import shared_memory

import minitensor as mt
import numpy as np

try:
    import torch
    import torch.multiprocessing
except ImportError:
    torch = None

SIZES = [64 << 10, 1 << 20, 16 << 20]
PEERS = ["pipe", "shared_memory", *(["torch, file_descriptor", "torch, file_system"] if torch else [])]


def spoken(n):
    return f"{n >> 20} MiB" if n >= 1 << 20 else f"{n >> 10} KiB"


def touch(frame):
    """Reads as a consumer would that looks at all pages; the moment after it, and a sum to check."""
    total = int(frame[::4096].sum(dtype=np.int64))
    return time.perf_counter_ns(), total


def consume(line, bulk, most):
    """The other process: does what each line says, and answers when it has seen the frame."""
    if torch:
        torch.set_num_threads(1)
    room = np.empty(most, np.uint8)
    kept = {}
    while (said := line.recv_bytes()) != b"end":
        how, argument = said[:1], said[1:]
        if how == b"o":
            seen = touch(np.from_dlpack(mt.ipc_attach(argument)))
        elif how == b"p":
            n, at = int(argument), 0
            while at < n:
                at += os.readv(bulk.fileno(), [memoryview(room)[at:n]])
            seen = touch(room[:n])
        elif how == b"s":
            memory = shared_memory.SharedMemory(argument.decode())
            frame = np.frombuffer(memory.buf, np.uint8)
            seen = touch(frame)
            del frame
            memory.close()
        elif how == b"S":
            name = argument.decode()
            if name not in kept:
                kept[name] = shared_memory.SharedMemory(name)
            frame = np.frombuffer(kept[name].buf, np.uint8)
            seen = touch(frame)
            del frame
        elif how in b"tT":
            if argument:
                torch.multiprocessing.set_sharing_strategy(argument.decode())
            tensor = line.recv()
            seen = touch(tensor.numpy())
            if how == b"T":
                kept["tensor"] = tensor
            del tensor
        line.send_bytes(b"%d %d" % seen)
    for memory in kept.values():
        if isinstance(memory, shared_memory.SharedMemory):
            memory.close()


class Producer:
    def __init__(self, line, bulk, n):
        self.line, self.bulk, self.n = line, bulk, n
        self.frame = np.arange(n, dtype=np.uint8)
        self.tensor = torch.from_numpy(self.frame) if torch else None
        self.owned = mt.ipc_share(mt.from_dlpack(self.frame))
        self.slot = np.from_dlpack(self.owned.tensor)
        self.descriptor = b"o" + self.owned.descriptor
        self.memory = shared_memory.SharedMemory(create=True, size=n)
        self.memory_slot = np.frombuffer(self.memory.buf, np.uint8)[:n]
        self.memory_slot[:] = self.frame
        self.torch_slot = {}
        for peer in PEERS:
            if peer.startswith("torch"):
                self.strategy(peer)
                self.torch_slot[peer] = self.new_shared()

    def close(self):
        del self.memory_slot, self.torch_slot
        self.memory.close()
        self.memory.unlink()
        self.owned.close()

    @staticmethod
    def strategy(peer):
        name = peer.split(", ")[1]
        if torch.multiprocessing.get_sharing_strategy() != name:
            torch.multiprocessing.set_sharing_strategy(name)
        return name.encode()

    def new_shared(self):
        """One copy into fresh shared memory, as torch's DataLoader does it."""
        made = torch.empty(0, dtype=torch.uint8).set_(torch.UntypedStorage._new_shared(self.n), 0, (self.n,))
        made.copy_(self.tensor)
        return made

    def answered(self, begin, expected):
        at, total = map(int, self.line.recv_bytes().split())
        if total != expected:
            sys.exit(f"the consumer read {total}, not {expected}")
        return at - begin

    def send(self, how, cached):
        """Nanoseconds of one frame."""
        frame = self.frame
        frame[:64] += 1  # another frame than the last; the producer's own work is not what is measured
        expected = int(frame[::4096].sum(dtype=np.int64))
        begin = time.perf_counter_ns()
        if how == "ours" and cached:
            self.slot[:] = frame
            self.line.send_bytes(self.descriptor)
            return self.answered(begin, expected)
        if how == "ours":
            with mt.ipc_share(mt.from_dlpack(frame)) as shared:
                self.line.send_bytes(b"o" + shared.descriptor)
                return self.answered(begin, expected)
        if how == "pipe":
            self.line.send_bytes(b"p%d" % self.n)
            at = 0
            while at < self.n:
                at += os.write(self.bulk.fileno(), memoryview(frame)[at:])
            return self.answered(begin, expected)
        if how == "shared_memory" and cached:
            self.memory_slot[:] = frame
            self.line.send_bytes(b"S" + self.memory.name.encode())
            return self.answered(begin, expected)
        if how == "shared_memory":
            memory = shared_memory.SharedMemory(create=True, size=self.n)
            there = np.frombuffer(memory.buf, np.uint8)
            there[: self.n] = frame
            self.line.send_bytes(b"s" + memory.name.encode())
            taken = self.answered(begin, expected)
            del there
            memory.close()
            memory.unlink()
            return taken
        name = self.strategy(how)
        begin = time.perf_counter_ns()
        if cached:
            tensor = self.torch_slot[how]
            tensor.copy_(self.tensor)
        else:
            tensor = self.new_shared()
        self.line.send_bytes((b"T" if cached else b"t") + name)
        self.line.send(tensor)
        return self.answered(begin, expected)


def measure(rounds, seconds):
    if torch:
        torch.set_num_threads(1)  # a copy of a frame by several threads would take the consumer's core
    context = (torch.multiprocessing if torch else multiprocessing).get_context("spawn")
    line, other = context.Pipe()
    bulk_in, bulk_out = context.Pipe(duplex=False)
    fcntl.fcntl(bulk_out.fileno(), fcntl.F_SETPIPE_SZ, 1 << 20)
    child = context.Process(target=consume, args=(other, bulk_in, max(SIZES)))
    child.start()
    other.close()
    bulk_in.close()
    for n in SIZES:
        producer = Producer(line, bulk_out, n)
        for cached in (False, True):
            times = {how: [] for how in ("ours", *PEERS)}
            begin = time.perf_counter()
            for i in range(rounds + 2):
                turns = [*times]
                random.shuffle(turns)  # who comes after whom matters: caches, and threads that end
                for how in turns:
                    taken = producer.send(how, cached)
                    if i >= 2:  # the first ones load what is loaded once
                        times[how].append(taken)
                if i >= 10 and time.perf_counter() - begin > seconds:
                    break
            for peer in PEERS:
                yield {
                    "what": f"frame of {spoken(n)}, {'attached before' if cached else 'first attach'}",
                    "ns": statistics.median(times["ours"]),
                    "against": {"pipe": "a pipe copy", "shared_memory": "multiprocessing.shared_memory"}.get(peer, "torch.multiprocessing" + peer[5:]),
                    "against_ns": statistics.median(times[peer]),
                    "ratio": statistics.median(b / a for a, b in zip(times["ours"], times[peer])),
                }
        producer.close()
    line.send_bytes(b"end")
    child.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=8, help="at most, for each size and kind")
    arguments = parser.parse_args()
    rows = []
    for r in measure(arguments.rounds, arguments.seconds):
        rows.append(r)
        if not arguments.json:
            print(f"{r['what']:<40} {r['ns'] / 1e3:>9.1f} µs  {r['against']:<40} {r['against_ns'] / 1e3:>9.1f} µs  ratio {r['ratio']:.2f}", flush=True)
    if arguments.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
