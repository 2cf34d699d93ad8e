"""Follows a topic of tensors in host memory without ferry, in place. The publisher must set `topic_options::text`, such as to_json.

usage: topic_reader.py NAME      prints the generation, type, shape and sum of each frame
"""

import contextlib
import fcntl
import json
import mmap
import os
import struct
import sys
import time

import numpy as np

CODES = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}  # DLPack type codes, and the corresponding NumPy kinds
DIRECTORY = f"{run}/ferry" if (run := os.environ.get("XDG_RUNTIME_DIR")) else f"/dev/shm/ferry-{os.geteuid()}"


def lock(file, kind):
    fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, 227, 1, 0))  # the byte of readers


def frames(name):
    """Yields generation and array of each new frame, from any publisher. The array is not written until the next iteration."""
    last, segments = (0, 0), {}
    while True:
        time.sleep(0.0005)
        with contextlib.suppress(FileNotFoundError), open(f"{DIRECTORY}/{name.replace('/', '!')}", "rb", 0) as topic:
            magic, slots, capacity, latest, stream = struct.unpack("<8sIIQQ", os.pread(topic.fileno(), 32, 0))
            assert magic == b"FERRTPC1", "not the file of a topic"
            (generation, slot), at = divmod(latest, 256), 64 + latest % 256 * capacity
            if slot >= slots or (stream == last[0] and generation <= last[1]):
                continue
            record, stamp = os.pread(topic.fileno(), capacity, at), struct.pack("<Q", generation)
            if os.pread(topic.fileno(), 8, at) != stamp:  # the slot is being written: there is a newer frame
                continue
            length, text = struct.unpack_from("<II", record, 16)
            descriptor = json.loads(record[32 + length :][:text])
            memory, tensor = descriptor["memories"][0], descriptor["tensor"]
            if memory["name"] not in segments.get(slot, ()):
                file = open("/dev/shm" + memory["name"], "rb", 0)
                segments[slot] = memory["name"], file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
            _, file, data = segments[slot]
            lock(file, fcntl.F_RDLCK)
            try:
                if os.pread(topic.fileno(), 8, at) == stamp:  # last: from here on, the publisher sees the lock
                    dtype = np.dtype(f"{CODES[tensor['dtype']['code']]}{tensor['dtype']['bits'] // 8}")
                    strides = tensor.get("strides") and [int(s) * dtype.itemsize for s in tensor["strides"]]
                    begin = max(mmap.PAGESIZE, 16384) + int(memory["offset"]) + int(tensor["byte_offset"])  # after the control page
                    last = stream, generation
                    yield generation, np.ndarray([int(n) for n in tensor["shape"]], dtype, data, begin, strides)
            finally:
                lock(file, fcntl.F_UNLCK)


if __name__ == "__main__":
    for generation, array in frames(sys.argv[1]):
        print(generation, array.dtype, array.shape, array.sum(), flush=True)
