"""Round trips through pyarrow and nanoarrow: every type, slice, null pattern and nesting, and random trees."""

import arrow_trees as trees
import nanoarrow
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import minitensor as mt


def from_capsules(x):
    return pa.Array._import_from_c_capsule(*x.__arrow_c_array__())


def addresses(array):
    return [b and b.address for b in array.buffers()]


def copies(out, array):
    """Buffers of `out` that are outside of the memory of `array`."""
    ranges = [(b.address, b.address + b.size) for b in array.buffers() if b]
    return sum(1 for a in addresses(out) if a and not any(begin <= a <= end for begin, end in ranges))


def validation_error(array):
    """Returns the error of full validation by pyarrow, or None."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as e:
        return str(e)
    return None


def round_trip(array, by_nanoarrow=False):
    """Imports and exports an array: the result is equal, in the memory that a round trip of pyarrow alone would use. The validity of
    structs and fixed-size lists may be copied."""
    plain = from_capsules(array)
    by_nanoarrow = by_nanoarrow and not any(t in str(array.type) for t in ("string_view", "binary_view"))  # nanoarrow 0.9 crashes
    column = mt.Column.from_arrow(nanoarrow.c_array(array) if by_nanoarrow else array)
    assert (column.length, column.offset, column.null_count) == (len(array), array.offset, array.null_count)
    column.validate(full=True)
    out = pa.array(nanoarrow.c_array(column)) if by_nanoarrow else from_capsules(column)
    assert out.type == array.type
    assert out.equals(array)
    if any(kind in str(array.type) for kind in ("struct<", "fixed_size_list<", "sparse_union<", "map<")):
        assert copies(out, array) <= sum(str(array.type).count(kind) for kind in ("struct<", "fixed_size_list<"))
    else:
        assert addresses(out) == addresses(plain)
    assert validation_error(out) in (None, validation_error(plain))  # an empty slice that pyarrow exports may be invalid
    return column, out


def slices(array):
    for offset in range(18):
        yield array[offset:]
        yield array[offset : offset + 9]


@pytest.mark.parametrize("pattern", trees.PATTERNS)
@pytest.mark.parametrize("type_", trees.LEAVES, ids=str)
def test_every_type_slice_and_null_pattern_is_preserved(type_, pattern):
    array = trees.leaf(type_, pattern)
    for i, part in enumerate(slices(array)):
        round_trip(part, by_nanoarrow=i % 2 == 1)
    column = mt.Column.from_arrow(array)
    for offset in range(18):
        assert from_capsules(column[offset:]).equals(array[offset:])
        assert from_capsules(column[offset : offset + 9][3:5]).equals(array[offset : offset + 9][3:5])


@pytest.mark.parametrize("chain", trees.CHAINS, ids="-".join)
@pytest.mark.parametrize("pattern", trees.PATTERNS)
def test_every_nesting_is_preserved_to_depth_3(chain, pattern):
    for type_ in trees.LEAVES:
        array = trees.nested(chain, type_, pattern)
        column, _ = round_trip(array)
        for offset in range(18):
            round_trip(array[offset:])
            assert from_capsules(column[offset : offset + 11]).equals(array[offset : offset + 11])


@pytest.mark.parametrize("how", trees.NESTS)
def test_empty_columns_are_preserved(how):
    for type_ in trees.LEAVES:
        round_trip(trees.NESTS[how](trees.leaf(type_, "none", 0), "none", 0))
        round_trip(trees.nested([how], type_, "some")[5:5])


@pytest.mark.parametrize("seed", range(8))
def test_random_trees_are_preserved(seed):
    """3000 trees for each seed, and slices of them."""
    forest = trees.Forest(seed)
    r = forest.random
    for n in range(3000):
        array = forest.tree()
        column, _ = round_trip(array, by_nanoarrow=n % 8 == 0)
        begin = r.randrange(len(array) + 1)
        end = r.randrange(begin, len(array) + 1)
        assert from_capsules(column[begin:end]).equals(array[begin:end])
        if n % 4 == 0:
            joined = mt.Column.from_arrow(pa.chunked_array([array[begin:end], array[end:], array[:begin]]))
            joined.validate(full=True)
            out = from_capsules(joined)
            out.validate(full=True)
            assert out[: end - begin].equals(array[begin:end]) and out[end - begin : len(array) - begin].equals(array[end:])
            assert out[len(array) - begin :].equals(array[:begin])


def test_children_and_dictionaries_are_columns():
    forest = trees.Forest(200)
    for _ in range(1000):
        array = forest.tree()
        check_children(mt.Column.from_arrow(array), array)


def check_children(column, array):
    if pa.types.is_dictionary(array.type):
        assert from_capsules(column.dictionary).equals(array.dictionary)
        check_children(column.dictionary, array.dictionary)
        return
    assert column.dictionary is None
    stored = []
    if pa.types.is_struct(array.type) or pa.types.is_union(array.type):
        stored = [array.field(i) for i in range(array.type.num_fields)]
        names = [f.name for f in array.type]
        assert [c.name for c in column.children] == names
    elif pa.types.is_run_end_encoded(array.type):
        stored = [array.run_ends, array.values]
    elif pa.types.is_nested(array.type) and not pa.types.is_map(array.type):
        stored = [array.values]
    if not pa.types.is_map(array.type):
        assert len(column.children) == len(stored)
    for child, inner in zip(column.children, stored, strict=False):
        back = from_capsules(child)
        if pa.types.is_struct(array.type):  # pyarrow applies the offset of the parent to its fields
            back = back[array.offset : array.offset + len(array)]
        if pa.types.is_union(array.type) and array.type.mode == "sparse":
            back = back[array.offset : array.offset + len(array)]
        assert back.equals(inner)


def test_consumers_compute_the_same_from_the_slice_of_a_table():
    """pyarrow refuses batches with an offset: each column is sliced instead."""
    import polars as pl

    n = 40
    inner = pa.StructArray.from_arrays([pa.array(range(n)), pa.array([str(i) for i in range(n)])], ["x", "y"], mask=pa.array([i % 5 == 1 for i in range(n)]))
    table = pa.record_batch({"n": pa.array(range(n)), "s": inner, "t": pa.array([None if i % 3 == 0 else "ü" * i for i in range(n)])})
    column = mt.Column.from_arrow(table)
    for begin in (0, 1, 7, 8, 17, 39):
        for end in (begin, begin + 1, n):
            part, expected = column[begin:end], table[begin:end]
            batch = pa.record_batch(part)
            assert batch.equals(expected) and batch.to_pylist() == expected.to_pylist()
            assert pc.sum(batch.column(0)).as_py() == pc.sum(expected.column(0)).as_py()
            mask = pa.array([i % 2 == 0 for i in range(end - begin)], pa.bool_())
            assert batch.filter(mask).equals(expected.filter(mask))
            assert pl.from_arrow(batch)["n"].to_list() == list(range(begin, end))
            as_struct = from_capsules(part)
            assert as_struct.filter(mask).to_pylist() == expected.filter(mask).to_pylist()
            assert [len(x) for x in as_struct.flatten()] == [end - begin] * 3


def test_the_fields_of_sliced_structs_lists_and_unions_are_those_of_the_slice():
    n = 24
    numbers = pa.array(range(n))
    flags = pa.array([i % 7 == 2 for i in range(n)])
    rows = pa.StructArray.from_arrays([numbers], ["x"], mask=flags)
    pairs = pa.FixedSizeListArray.from_arrays(pa.array(range(2 * n)), 2, mask=flags)
    union = pa.UnionArray.from_sparse(pa.array([i % 2 for i in range(n)], pa.int8()), [numbers, pairs])
    deep = pa.StructArray.from_arrays([rows, pairs, union], ["rows", "pairs", "union"])
    for array in (rows, pairs, union, deep):
        column = mt.Column.from_arrow(array)
        for begin in range(n):
            out = from_capsules(column[begin : begin + 5])
            out.validate(full=True)
            expected = array[begin : begin + 5]
            assert out.offset == 0 and out.equals(expected) and out.to_pylist() == expected.to_pylist()
            assert out.null_count == expected.null_count
            again = mt.Column.from_arrow(out)
            again.validate(full=True)
            assert from_capsules(again[1:]).equals(expected[1:])
