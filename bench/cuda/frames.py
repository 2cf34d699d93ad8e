"""Measures streams of frames in GPU memory from one process to another, in GB/s, and ratios to other libraries.

usage: frames.py LIBRARY FOLDER [--seconds PER_GROUP]      # LIBRARY: frames.cpp, compiled; FOLDER gets frames.json

The producer fills two slots alternately on a stream, so that it can write one slot while the other is read. The consumer copies each frame on
its own stream, and replies. All libraries use the same CUDA calls to fill and copy, and announce frames from Python through the same pipe. A
stream is timed from its first fill until the consumer has received all frames and has compared the ends of each copy. Other rows have one
frame in flight. The exit status is 1 if a budget does not hold or a frame was wrong. Missing libraries are reported and left out.

shared slots         ferry: both slots are shared once. The producer waits for its fill and announces the slot; the consumer attaches it,
                     queues its copy, releases it and replies at once. The next fill waits for that copy on the device
one share per frame  ferry: each frame is shared separately, with an event, and neither process blocks. The slot is mapped already
numba                the producer waits for its fill and sends a get_ipc_handle; the consumer opens it, copies, waits, closes and replies
torch                each frame is a separate tensor, sent by torch.multiprocessing, which orders by an event; the consumer copies, waits,
                     releases it and replies
"""

import argparse
import ctypes
import faulthandler
import multiprocessing
import pathlib
import pickle
import sys

from peers import by_turns, compared, finish, line_of

try:
    import torch
    import torch.multiprocessing

    if not torch.cuda.is_available():
        raise ImportError("it has no CUDA")
except ImportError as e:
    torch = print(f"torch is left out: {e}")
try:
    import numpy as np
    from numba import cuda as numba_cuda
except (ImportError, AttributeError) as e:  # numba-cuda breaks on a NumPy that is newer than it knows
    numba_cuda = print(f"numba is left out: {e}")

SIZES = [2 << 20, 16 << 20, 256 << 20]  # whole blocks of the driver: a handle opens nothing else
STREAM, SLOTS = 32, 2
OURS = {"shared slots": 0, "one share per frame": 1}
PATIENCE, LIMIT = 20, 100  # seconds for an answer; for all, and then a process ends itself


def loaded(library):
    """The library, whose functions end this process when they fail."""

    def must(result, function, _):
        return result if result >= 0 else sys.exit(f"{function.__name__} failed")

    own, number, text = ctypes.CDLL(library), ctypes.c_int64, ctypes.c_char_p
    for name, arguments in {
        "stream": [],
        "wait": [],
        "fill": [number, number, number],
        "room": [number],
        "take": [number, number],
        "wrong": [number, number],
        "slot": [number],
        "drop": [number],
        "refill": [number, number, number],
        "describe": [number, number, text, number],
        "attach": [text, number, number],
    }.items():
        function = own[f"bench_{name}"]
        function.restype, function.argtypes, function.errcheck = number, arguments, must
        setattr(own, name, function)
    if torch:
        torch.cuda.init()
        torch.cuda.set_stream(torch.cuda.ExternalStream(own.stream()))
    return own


def consume(library, line):
    """The other process: copies the frames that it is told of, and answers."""
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    own, taken = loaded(library), 0
    line.send_bytes(b"")
    while (said := line.recv_bytes()) != b"end":
        how, argument, answer = said[:1], said[1:], b""
        if how == b"f":
            own.attach(argument, len(argument), taken)
        elif how == b"n":
            with pickle.loads(argument) as frame:
                own.take(frame.__cuda_array_interface__["data"][0], taken)
                own.wait()
        elif how == b"t":
            frame = line.recv()
            own.take(frame.data_ptr(), taken)
            own.wait()
            del frame
        elif how == b"r":
            own.room(int(argument))
        elif how == b"?":
            answer = b"%d" % own.wrong(int(argument), taken)
        taken = taken + 1 if how in b"fnt" else 0
        line.send_bytes(answer)


class Producer:
    """Sends frames of one size."""

    def __init__(self, own, line, size):
        self.own, self.line, self.size, self.sent = own, line, size, 0
        self.ask(b"r%d" % size)
        self.text = ctypes.create_string_buffer(4096)
        self.slots = [own.slot(size) for _ in range(SLOTS)]
        self.senders = {way: lambda k, value, is_fresh=is_fresh: self.by_ferry(k, value, is_fresh) for way, is_fresh in OURS.items()}
        if numba_cuda:
            self.arrays = [numba_cuda.device_array(size, np.uint8) for _ in range(SLOTS)]
            self.senders["numba's get_ipc_handle"] = self.by_numba
        if torch:
            self.tensors = [None] * SLOTS
            self.senders["torch.multiprocessing"] = self.by_torch

    def close(self):
        for slot in self.slots:
            self.own.drop(slot)

    def answer(self):
        if not self.line.poll(PATIENCE):
            sys.exit("the consumer does not answer")
        return self.line.recv_bytes()

    def ask(self, message):
        self.line.send_bytes(message)
        return self.answer()

    def by_ferry(self, k, value, is_fresh):
        self.own.refill(self.slots[k], is_fresh, value)
        if not is_fresh:
            self.own.wait()
        length = self.own.describe(self.slots[k], is_fresh, self.text, len(self.text))
        self.line.send_bytes(b"f" + ctypes.string_at(self.text, length))

    def by_numba(self, k, value):
        self.own.fill(self.arrays[k].__cuda_array_interface__["data"][0], self.size, value)
        self.own.wait()
        self.line.send_bytes(b"n" + pickle.dumps(self.arrays[k].get_ipc_handle()))

    def by_torch(self, k, value):
        self.tensors[k] = None  # its memory is the next one's
        self.tensors[k] = frame = torch.empty(self.size, dtype=torch.uint8, device="cuda")
        self.own.fill(frame.data_ptr(), self.size, value)
        self.line.send_bytes(b"t")
        self.line.send(frame)

    def stream(self, way, frames):
        send, first = self.senders[way], self.sent
        for i in range(frames):
            if i >= SLOTS:
                self.answer()  # the consumer has done with this slot what it does before it answers
            send(i % SLOTS, (first + i) % 251)
        for _ in range(min(frames, SLOTS)):
            self.answer()
        self.sent += frames
        if wrong := int(self.ask(b"?%d" % first)):
            sys.exit(f"{way}: {wrong} of {frames} frames of {self.size} bytes were wrong")


def rows_of(times, size, frames):
    """A row for each way of ferry's and each peer: its time over ours, for each frame."""
    seconds = {way: [t / frames for t in each] for way, each in times.items()}
    for way in OURS:
        for peer in seconds:
            if peer in OURS:
                continue
            figures, layout = compared(seconds[way], seconds[peer]), way if frames > 1 else f"{way}, one at a time"
            budget = 1 if frames > 1 else 0
            yield {"table": "frames", "what": f"frames to another process, {layout}", "layout": layout, "bytes": size, "peer": peer, **figures,
                   "budget": budget, "of_times": False, "holds": figures["ratio"] >= budget}  # fmt: skip


def measured(own, line, limit):
    for size in SIZES:
        producer = Producer(own, line, size)
        for frames in (STREAM, 1):
            times = by_turns({way: lambda way=way: producer.stream(way, frames) for way in producer.senders}, limit)
            yield from rows_of(times, size, frames)
        producer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=1.5)
    asked = parser.parse_args()
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    library = str(asked.library.resolve())
    spawn = multiprocessing.get_context("spawn")
    line, theirs = spawn.Pipe()
    consumer = spawn.Process(target=consume, args=(library, theirs), daemon=True)
    consumer.start()
    theirs.close()
    rows = []
    try:
        own = loaded(library)
        if not line.poll(60):
            sys.exit("the consumer does not begin")
        line.recv_bytes()
        for row in measured(own, line, asked.seconds):
            print(line_of(row), flush=True)
            rows.append(row)
        line.send_bytes(b"end")
        consumer.join(PATIENCE)
    finally:
        consumer.kill()
    finish(rows, asked.folder / "frames.json")


if __name__ == "__main__":
    main()
