"""Compares conversions of columns to a requested schema with pyarrow's cast on one thread, in turns in one run, in processor time.

usage: columns.py [rounds]
Prints a row for each conversion: what, ours, peer, ratio (above 1 ours is faster). Of a million items, a tenth is null. Both sides
allocate by malloc, which mostly keeps freed memory, as the pools of pyarrow do.
"""

import ctypes
import decimal
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import minitensor as mt

ITEMS = 1_000_000
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


def sources():
    """Arrays by their type, with nulls."""
    rng = np.random.default_rng(1)
    null = rng.random(ITEMS) < 0.1
    numbers = rng.integers(0, 100, ITEMS)
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz" * 8, np.uint8)
    lengths = rng.integers(0, 24, ITEMS)  # about half of them are inline in a view
    ends = np.concatenate([[0], np.cumsum(np.where(null, 0, lengths))]).astype(np.int32)
    valid = pa.array(~null)
    text = pa.Array.from_buffers(
        pa.string(), ITEMS, [valid.buffers()[1], pa.py_buffer(ends), pa.py_buffer(np.resize(letters, ends[-1]))]
    )
    whole = [pa.array(numbers, t, mask=null) for t in (pa.int64(), pa.int32(), pa.int8())]
    few = pa.array(rng.integers(0, 1000, ITEMS), pa.int16(), mask=null)
    lists = pa.ListArray.from_arrays(np.concatenate([[0], np.cumsum(rng.integers(0, 3, ITEMS))]).astype(np.int32), pa.array(np.arange(2 * ITEMS)), mask=pa.array(null))
    money = pa.array([decimal.Decimal(int(n)).scaleb(-2) for n in numbers[:1000]] * (ITEMS // 1000), pa.decimal128(18, 2))
    return [
        *((text, t) for t in (pa.large_string(), pa.string_view(), pa.binary())),
        *((text.cast(pa.string_view()), t) for t in (pa.string(), pa.large_string())),
        (text.cast(pa.large_string()), pa.string()),
        (whole[0], pa.int32()), (whole[0], pa.int8()), (whole[0], pa.uint64()), (whole[1], pa.int64()), (whole[2], pa.int32()),
        (money, pa.decimal256(38, 2)), (money, pa.decimal64(18, 2)), (money, pa.decimal128(9, 2)),
        (lists, pa.large_list(pa.int64())), (lists, pa.list_(pa.int32())),
        (pa.DictionaryArray.from_arrays(few, pa.array([f"value {i}" for i in range(1000)])), pa.string()),
        (pa.DictionaryArray.from_arrays(few, pa.array(np.arange(1000.0))), pa.float64()),
        (pa.DictionaryArray.from_arrays(few, pa.array([f"value {i}" for i in range(1000)])), pa.dictionary(pa.int32(), pa.string())),
    ]  # fmt: skip


def seconds(f):
    start = time.process_time()
    f()
    return time.process_time() - start


def measure(rounds):
    """Yields what, ours and pyarrow's seconds: the least of all turns, because now and then malloc takes new pages."""
    pa.set_cpu_count(1)
    libc = ctypes.CDLL(None)
    libc.mallopt(M_TRIM_THRESHOLD, 1 << 30)
    libc.mallopt(M_MMAP_THRESHOLD, 32 << 20)
    for source, to in sources():
        column, schema = mt.Column.from_arrow(source), to.__arrow_c_schema__()

        def ours(column=column, schema=schema):
            return column.__arrow_c_array__(schema)

        def theirs(source=source, to=to):
            return pc.cast(source, to, memory_pool=pa.system_memory_pool())

        if not pa.Array._import_from_c_capsule(*ours()).equals(theirs()):
            sys.exit(f"{source.type} to {to}: the values differ")
        turns = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
        mine, peer = map(min, zip(*turns, strict=True))
        yield f"{source.type} to {to}", mine, peer


if __name__ == "__main__":
    for what, mine, peer in measure(int(sys.argv[1]) if len(sys.argv) > 1 else 31):
        print(f"{what:<90} {mine * 1e3:8.3f} ms {peer * 1e3:8.3f} ms {peer / mine:6.2f}")
