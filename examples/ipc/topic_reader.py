"""Follows a topic of tensors in host memory without ferry, in place. The publisher must set `topic_options::text` to to_json.

usage: topic_reader.py NAME      prints the generation, type, shape and sum of each frame"""

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
LOCK = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 227, 1, 0)  # of the byte of readers


def newest(name, last=None):
    """The stream and generation of the newest frame, unless they are `last`, and an array, while which exists the frame is not overwritten."""
    with open(f"{DIRECTORY}/{name.replace('/', '!')}", "rb", 0) as topic:
        magic, slots, capacity, latest, stream = struct.unpack("<8sIIQQ", os.pread(topic.fileno(), 32, 0))
        assert magic == b"FERRTPC1", "not the file of a topic"
        (generation, slot), at = divmod(latest, 256), 64 + latest % 256 * capacity
        if slot >= slots or last == (stream, generation):
            return None
        record = os.pread(topic.fileno(), capacity, at)
        if os.pread(topic.fileno(), 8, at) != struct.pack("<Q", generation):  # the slot is being written: there is a newer frame
            return None
        length, text = struct.unpack_from("<II", record, 16)
        descriptor = json.loads(record[32 + length :][:text])
        memory, tensor = descriptor["memories"][0], descriptor["tensor"]
        with open("/dev/shm" + memory["name"], "rb", 0) as file:
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, LOCK)  # until the mapping ends
            data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        if os.pread(topic.fileno(), 8, at) != struct.pack("<Q", generation):  # last: from here on, the publisher sees the lock
            return None
    dtype = np.dtype(f"{CODES[tensor['dtype']['code']]}{tensor['dtype']['bits'] // 8}")
    strides = tensor.get("strides") and [int(s) * dtype.itemsize for s in tensor["strides"]]
    begin = max(mmap.PAGESIZE, 16384) + int(memory["offset"]) + int(tensor["byte_offset"])  # after the control page
    return (stream, generation), np.ndarray([int(n) for n in tensor["shape"]], dtype, data, begin, strides)


def frames(name):
    """Yields generation and array of each new frame, from any publisher."""
    last = None
    while True:
        with contextlib.suppress(FileNotFoundError):  # no publisher, or it has replaced the memory
            if found := newest(name, last):
                last = found[0]
                yield last[1], found[1]
            del found
        time.sleep(0.0005)


if __name__ == "__main__":
    for generation, array in frames(sys.argv[1]):
        print(generation, array.dtype, array.shape, array.sum(), flush=True)
