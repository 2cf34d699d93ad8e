"""Arrow arrays of every type and shape: values for each type, null patterns, nesting, and random trees of them."""

import datetime
import decimal
import random

import pyarrow as pa

LENGTH = 40  # of what is sliced: enough for offsets up to 17 and some bytes of bits behind them

INTEGERS = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
UNITS = ["s", "ms", "us", "ns"]
TIMES = [
    pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"),
    *(pa.timestamp(u) for u in UNITS), pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Zurich"), *(pa.duration(u) for u in UNITS),
]  # fmt: skip
DECIMALS = [pa.decimal32(7, 2), pa.decimal64(15, -3), pa.decimal128(30, 5), pa.decimal256(60, 10)]
TEXTS = [pa.string(), pa.large_string(), pa.string_view()]
BYTES = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(5)]
LEAVES = [pa.null(), pa.bool_(), *INTEGERS, *FLOATS, *TIMES, *DECIMALS, *TEXTS, *BYTES, pa.month_day_nano_interval()]

PATTERNS = {"none": lambda i: False, "some": lambda i: i % 7 in (2, 3), "all": lambda i: True, "alternate": lambda i: i % 2 == 1}


def _text(i):
    return "" if i % 9 == 4 else "ü€😀 long enough to be out of line" * (i % 3 == 0) + f"s{i}"


def value(type_, i):
    """The i-th value of a type: never two times the same in a row."""
    if pa.types.is_boolean(type_):
        return i % 3 == 1
    if pa.types.is_integer(type_):
        signed = pa.types.is_signed_integer(type_)
        return (-1 if signed and i % 2 else 1) * ((i * 37 + 11) % 127)
    if pa.types.is_floating(type_):
        return i / 2 - 7
    if pa.types.is_decimal(type_):
        return decimal.Decimal((i * 97) % 9973 - 999) * (1000 if type_.scale < 0 else 1)
    if pa.types.is_date64(type_):
        return datetime.date(2001, 2, 3) + datetime.timedelta(days=i)
    if pa.types.is_date(type_):
        return datetime.date(1969, 12, 3) + datetime.timedelta(days=5 * i)
    if pa.types.is_time(type_):
        return datetime.time(i % 24, i % 60, (7 * i) % 60)
    if pa.types.is_timestamp(type_) or pa.types.is_duration(type_) or pa.types.is_interval(type_):
        return (i, -i, 10**9 + i) if pa.types.is_interval(type_) else (i * 1009 - 5000) * 1000
    if pa.types.is_fixed_size_binary(type_):
        return bytes([i % 256, 0, 255, 7, i % 5])
    return _text(i) if pa.types.is_string(type_) or pa.types.is_large_string(type_) or type_ == pa.string_view() else _text(i).encode()


def leaf(type_, pattern, length=LENGTH):
    is_null = PATTERNS[pattern]
    if pa.types.is_null(type_):
        return pa.nulls(length)
    return pa.array([None if is_null(i) else value(type_, i) for i in range(length)], type_)


def mask_of(pattern, length):
    """As from_arrays takes it; None when there are no nulls."""
    if pattern == "none":
        return None
    return pa.array([PATTERNS[pattern](i) for i in range(length)], pa.bool_())


def offsets_of(length, items, type_=None):
    """Cuts `items` items into `length` lists: empty ones too."""
    cuts = [min(items, (i * 3 // 2) * (i % 4 != 1) or 0) for i in range(length)]
    cuts = [max(cuts[: i + 1]) for i in range(length)] + [items]
    return pa.array(cuts, type_ or pa.int32())


def in_list(child, pattern, length, large=False):
    kind, offsets = (pa.LargeListArray, pa.int64()) if large else (pa.ListArray, pa.int32())
    return kind.from_arrays(offsets_of(length, len(child), offsets), child, mask=mask_of(pattern, length))


def in_list_view(child, pattern, length, large=False):
    kind, number = (pa.LargeListViewArray, pa.int64()) if large else (pa.ListViewArray, pa.int32())
    starts = pa.array([(i * 5) % max(len(child), 1) for i in range(length)], number)
    sizes = pa.array([min(i % 3, len(child) - starts[i].as_py()) for i in range(length)], number)
    return kind.from_arrays(starts, sizes, child, mask=mask_of(pattern, length))


def in_fixed(child, pattern, length):
    width = len(child) // length if length else 2
    return pa.FixedSizeListArray.from_arrays(child[: width * length], width, mask=mask_of(pattern, length))


def in_struct(child, pattern, length):
    child = child[:length]
    second = pa.array(range(length), pa.int16())
    fields = [pa.field("of", child.type, metadata={b"k": b"\xff\0v"}), pa.field("n", pa.int16(), nullable=False)]
    return pa.StructArray.from_arrays([child, second], fields=fields, mask=mask_of(pattern, length))


def in_map(child, pattern, length):
    keys = pa.array([f"k{i}" for i in range(len(child))])
    return pa.MapArray.from_arrays(offsets_of(length, len(child)), keys, child, mask=mask_of(pattern, length))


def in_dictionary(child, pattern, length, index=None):
    is_null = PATTERNS[pattern]
    count = len(child)
    numbers = [None if is_null(i) or count == 0 else (i * 7) % min(count, 100) for i in range(length)]
    return pa.DictionaryArray.from_arrays(pa.array(numbers, index or pa.int16()), child)


def in_runs(child, pattern, length):
    runs = max(1, min(len(child), (length + 2) // 3))
    ends = [min(length, (i + 1) * 3) for i in range(runs - 1)] + [length]
    ends = [e for i, e in enumerate(ends) if i == 0 or e > ends[i - 1]]
    if length == 0:
        ends = []
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), child[: len(ends)])


def in_sparse_union(child, pattern, length):
    ids = pa.array([(i % 3) % 2 for i in range(length)], pa.int8())
    return pa.UnionArray.from_sparse(ids, [child[:length], pa.array(range(length), pa.int64())], ["of", "n"])


def in_dense_union(child, pattern, length):
    ids = [i % 2 if len(child) else 1 for i in range(length)]
    starts = [min(i // 2, len(child) - 1) if ids[i] == 0 else i for i in range(length)]
    return pa.UnionArray.from_dense(
        pa.array(ids, pa.int8()), pa.array(starts, pa.int32()), [child, pa.array(range(length), pa.int64())], ["of", "n"], [0, 1]
    )


NESTS = {
    "list": in_list,
    "large_list": lambda c, p, n: in_list(c, p, n, True),
    "list_view": in_list_view,
    "large_list_view": lambda c, p, n: in_list_view(c, p, n, True),
    "fixed_size_list": in_fixed,
    "struct": in_struct,
    "map": in_map,
    "dictionary": in_dictionary,
    "run_end": in_runs,
    "sparse_union": in_sparse_union,
    "dense_union": in_dense_union,
}
# Of three levels each; every way to nest is the outermost one once, and the innermost one once.
CHAINS = [
    ("list", "struct"), ("struct", "list"), ("fixed_size_list", "map"), ("map", "fixed_size_list"), ("large_list", "list_view"),
    ("list_view", "large_list"), ("dictionary", "struct"), ("struct", "dictionary"), ("run_end", "struct"), ("struct", "run_end"),
    ("sparse_union", "large_list_view"), ("large_list_view", "dense_union"), ("dense_union", "fixed_size_list"), ("list", "sparse_union"),
]  # fmt: skip


def nested(chain, type_, pattern, length=LENGTH):
    array = leaf(type_, pattern, 2 * length)
    for how in reversed(chain):
        array = NESTS[how](array, pattern, length)
    return array


class Forest:
    """Random trees of depth 3 at most, out of leaves that are made once."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.leaves = [leaf(t, p, 60) for t in LEAVES for p in PATTERNS]

    def tree(self, depth=None):
        r = self.random
        depth = r.choice((0, 1, 1, 2, 2, 3)) if depth is None else depth
        if depth == 0:
            array = r.choice(self.leaves)
            begin = r.randrange(20)
            return array[begin : begin + r.randrange(len(array) - begin + 1)]
        child = self.tree(depth - 1)
        how = r.choice(list(NESTS))
        length = r.randrange(len(child) + 1) if how in ("struct", "sparse_union", "fixed_size_list") else r.randrange(24)
        if how == "run_end" and "run_end" in str(child.type):
            how = "list"  # pyarrow imports no runs of runs
        if how == "run_end" and not len(child):
            length = 0
        try:
            array = NESTS[how](child, r.choice(list(PATTERNS)), length)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, NotImplementedError):
            return child  # pyarrow cannot build this one
        if r.random() < 0.5:
            begin = r.randrange(len(array) + 1)
            array = array[begin : begin + r.randrange(len(array) - begin + 1)]
        return array
