"""Round trips through pyarrow and nanoarrow: every type, slice, null pattern and nesting, and random trees."""

import arrow_trees as trees
import nanoarrow
import pyarrow as pa
import pytest

import minitensor as mt


def from_capsules(x):
    return pa.Array._import_from_c_capsule(*x.__arrow_c_array__())


def addresses(array):
    return [b and b.address for b in array.buffers()]


def validation_error(array):
    """Returns the error of full validation by pyarrow, or None."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as e:
        return str(e)
    return None


def round_trip(array, by_nanoarrow=False):
    """Imports and exports an array: the result is equal, in the memory that a round trip of pyarrow alone would use."""
    plain = from_capsules(array)
    by_nanoarrow = by_nanoarrow and not any(t in str(array.type) for t in ("string_view", "binary_view"))  # nanoarrow 0.9 crashes
    column = mt.Column.from_arrow(nanoarrow.c_array(array) if by_nanoarrow else array)
    assert (column.length, column.offset, column.null_count) == (len(array), array.offset, array.null_count)
    column.validate(full=True)
    out = pa.array(nanoarrow.c_array(column)) if by_nanoarrow else from_capsules(column)
    assert out.type == array.type
    assert out.equals(array)
    assert addresses(out) == addresses(plain)
    assert validation_error(out) == validation_error(plain)
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
