"""Reads a table of numbers and text that ferry shares, without ferry, and prints its rows as JSON: column_reader.py < DESCRIPTOR.json"""

import ctypes
import json
import mmap
import os
import sys

import numpy as np

NUMBERS = dict(zip("cCsSiIlLefg", ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")))


def check(status):
    assert status == 0, f"CUDA error {status}"


def content(memory):
    """The shared range of one allocation, in host memory."""
    size, begin, length = (int(memory[key]) for key in ("allocation", "offset", "length"))
    assert memory["kind"] in ("none", "host_shared", "cuda_legacy") and begin + length <= size, f"cannot read memory of kind {memory['kind']}: {memory}"
    if memory["kind"] == "host_shared":
        begin += max(mmap.PAGESIZE, 16384)  # the control page comes first
        return np.frombuffer(mmap.mmap(os.open("/dev/shm" + memory["name"], os.O_RDONLY), begin + length, prot=mmap.PROT_READ), np.uint8)[begin:]
    data = np.empty(length, np.uint8)
    if memory["kind"] == "cuda_legacy":
        cuda = ctypes.CDLL("libcudart.so.13")
        handle = type("handle", (ctypes.Structure,), {"_fields_": [("bytes", ctypes.c_ubyte * 64)]})
        base, event = ctypes.c_void_p(), ctypes.c_void_p()
        if memory.get("ready"):  # waits for work that was queued before the share
            check(cuda.cudaIpcOpenEventHandle(ctypes.byref(event), handle.from_buffer_copy(bytes.fromhex(memory["ready"]))))
            check(cuda.cudaEventSynchronize(event))
        check(cuda.cudaIpcOpenMemHandle(ctypes.byref(base), handle.from_buffer_copy(bytes.fromhex(memory["handle"])), 1))
        check(cuda.cudaMemcpy(data.ctypes.data_as(ctypes.c_void_p), ctypes.c_void_p(base.value + begin), ctypes.c_size_t(length), 2))
        check(cuda.cudaIpcCloseMemHandle(base))
    return data


def items(node, memories, first=0, count=None):
    """Items of a node; the offset and length of a struct apply to its children."""
    begin, count, kind = int(node["offset"]) + first, int(node["length"]) if count is None else count, node["format"]
    assert kind in ("+s", "u", *NUMBERS), f"the format {kind} is not supported"
    parts = [b and memories[b["memory"]][int(b["offset"]) :][: int(b["length"])] for b in node["buffers"]]
    if kind == "+s":
        values = [dict(zip([c["name"] for c in node["children"]], row)) for row in zip(*(items(c, memories, begin, count) for c in node["children"]))]
    elif kind == "u":
        ends = parts[1].view("i4")[begin : begin + count + 1] if count else []
        values = [bytes(parts[2][a:b]).decode() if b > a else "" for a, b in zip(ends, ends[1:])]
    else:
        values = parts[1].view(NUMBERS[kind])[begin : begin + count].tolist() if count else []
    valid = [parts[0] is None or parts[0][i // 8] >> i % 8 & 1 for i in range(begin, begin + count)]  # a bit for each item, lowest first
    if not node["dictionary"]:
        return [v if is_valid else None for v, is_valid in zip(values, valid)]
    words = items(node["dictionary"], memories)  # the values are indices
    assert all(0 <= v < len(words) for v, is_valid in zip(values, valid) if is_valid), "an index is outside of its dictionary"
    return [words[v] if is_valid else None for v, is_valid in zip(values, valid)]


assert (descriptor := json.load(sys.stdin))["version"]["major"] == 2
print(json.dumps(items(descriptor["column"], [content(m) for m in descriptor["memories"]])))
