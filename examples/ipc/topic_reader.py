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

KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}  # of NumPy, by DLPack's type codes
DIRECTORY = f"{run}/ferry" if (run := os.environ.get("XDG_RUNTIME_DIR")) else f"/dev/shm/ferry-{os.geteuid()}"
LOCK = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 227, 1, 0)  # of the byte of readers


def attach(descriptor):
    """The array of a descriptor, in place. While it exists, the publisher sees the lock."""
    (memory,), tensor = descriptor["memories"], descriptor["tensor"]
    with open("/dev/shm" + memory["name"], "rb", 0) as file:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, LOCK)  # until the mapping ends
        data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    dtype = np.dtype(f"{KINDS[tensor['dtype']['code']]}{tensor['dtype']['bits'] // 8}")
    strides = tensor["strides"] and [int(s) * dtype.itemsize for s in tensor["strides"]]
    begin = max(mmap.PAGESIZE, 16384) + int(memory["offset"]) + int(tensor["byte_offset"])  # after the control page
    return np.ndarray([int(n) for n in tensor["shape"]], dtype, data, begin, strides)


def frames(name):
    """Yields generation and array of each new frame, from any publisher. While the array exists, the frame is not overwritten."""
    last = None
    while True:
        with contextlib.suppress(FileNotFoundError), open(f"{DIRECTORY}/{name.replace('/', '!')}", "rb", 0) as topic:
            magic, slots, capacity, latest, stream = struct.unpack("<8sIIQQ", os.pread(topic.fileno(), 32, 0))
            assert magic == b"FERRTPC1", "not the file of a topic"
            at, current = 64 + latest % 256 * capacity, struct.pack("<Q", latest >> 8)
            record = os.pread(topic.fileno(), capacity, at)
            if latest % 256 < slots and (stream, latest) != last and record[:8] == current:
                length, text = struct.unpack_from("<II", record, 16)
                array = attach(json.loads(record[32 + length :][:text]))
                if os.pread(topic.fileno(), 8, at) == current:  # last, and in vain if there is a newer frame meanwhile
                    last = stream, latest
                    yield latest >> 8, array
                del array
        time.sleep(0.0005)


if __name__ == "__main__":
    for generation, array in frames(sys.argv[1]):
        print(generation, array.dtype, array.shape, array.sum(), flush=True)
