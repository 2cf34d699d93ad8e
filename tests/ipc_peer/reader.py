"""Attaches a host tensor of integers from the JSON of its descriptor, with nothing but Python: prints the values, writes 42 into
the first. What a reader in another language does."""

import json
import mmap
import os
import struct
import sys


def number(n):
    return int(n)  # integers above 2^53 are decimal strings


document = json.loads(sys.stdin.readline())
tensor = document["tensor"]
memory = document["memories"][number(tensor["memory"])]
assert memory["kind"] == "host_shared" and tensor["dtype"]["code"] == 0

fd = os.open("/dev/shm" + memory["name"], os.O_RDWR | os.O_NOFOLLOW)
assert os.fstat(fd).st_uid == os.geteuid()
segment = mmap.mmap(fd, 0)
os.close(fd)

# The data ends the segment; before it is the control page.
begin = len(segment) - number(memory["allocation"]) + number(memory["offset"]) + number(tensor["byte_offset"])
size = tensor["dtype"]["bits"] // 8
code = {1: "b", 2: "h", 4: "i", 8: "q"}[size]
shape = [number(n) for n in tensor["shape"]]
strides = [number(n) for n in tensor["strides"]]


def values(axis, at):
    if axis == len(shape):
        return struct.unpack_from(code, segment, at)[0]
    return [values(axis + 1, at + i * strides[axis] * size) for i in range(shape[axis])]


print(values(0, begin), flush=True)
struct.pack_into(code, segment, begin, 42)
