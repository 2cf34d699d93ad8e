"""mt.Column of fixed-size lists and of arrow.fixed_shape_tensor as tensors of more dimensions, beside other libraries."""

import json
import random

import duckdb
import nanoarrow
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import minitensor as mt


def back(c):
    return pa.Array._import_from_c_capsule(*c.__arrow_c_array__())


def lists_of(x):
    """Nested fixed-size lists of a contiguous array, by pyarrow."""
    made = pa.array(x.reshape(-1))
    for size in reversed(x.shape[1:]):
        made = pa.FixedSizeListArray.from_arrays(made, size)
    return made


def address(x):
    return x.__array_interface__["data"][0]


def test_fixed_size_lists_of_pyarrow_are_arrays_of_numpy_without_a_copy():
    numbers = np.arange(24, dtype="f4").reshape(2, 3, 4)
    c = mt.Column.from_arrow(lists_of(numbers))
    x = np.from_dlpack(c)
    assert x.shape == (2, 3, 4) and not x.flags.writeable and address(x) == address(numbers)
    assert np.array_equal(x, numbers)
    assert np.array_equal(np.from_dlpack(c[1:]), numbers[1:])
    y = np.from_dlpack(c, copy=True)
    assert y.flags.writeable and np.array_equal(y, numbers)


def test_arrays_of_numpy_are_fixed_size_lists_of_pyarrow_without_a_copy():
    numbers = np.arange(24, dtype="i2").reshape(2, 3, 4)
    made = back(mt.Column.from_dlpack(numbers))
    assert made.equals(lists_of(numbers)) and made.type == lists_of(numbers).type
    assert made.flatten().flatten().buffers()[1].address == address(numbers)
    made.validate(full=True)


def random_tensors(seed):
    """Arrays whose dimensions after the first are in any order in memory, with that memory and its order."""
    rng = random.Random(seed)
    for _ in range(80):
        shape = [rng.randint(1, 4) for _ in range(rng.randint(2, 5))]
        order = [0, *rng.sample(range(1, len(shape)), len(shape) - 1)]
        memory = np.arange(np.prod(shape), dtype=rng.choice(["f4", "i8", "u1"])).reshape([shape[i] for i in order])
        yield memory.transpose(np.argsort(order)), memory, rng.randint(0, shape[0] - 1)


def test_tensors_of_pyarrow_have_the_shape_and_strides_that_pyarrow_gives_them():
    compared = 0
    for numbers, memory, begin in random_tensors(11):
        tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(numbers)
        order = np.array(tensors.type.permutation or range(numbers.ndim - 1))
        if not np.array_equal(order, np.argsort(order)):
            continue  # pyarrow 26 cannot read such a permutation of its own: its strides are those of the inverse
        compared += 1
        x = np.from_dlpack(mt.Column.from_arrow(tensors[begin:]))
        expected = tensors[begin:].to_numpy_ndarray()
        assert x.shape == expected.shape and np.array_equal(x, expected) and np.array_equal(x, numbers[begin:])
        assert all(a == b for a, b, extent in zip(x.strides, expected.strides, x.shape) if extent > 1)
        made = back(mt.Column.from_dlpack(numbers, fixed_shape_tensor=True))
        assert np.array_equal(made.to_numpy_ndarray(), numbers)
        assert made.storage.flatten().buffers()[1].address == address(memory)
    assert compared > 30


def test_any_permutation_returns_as_it_was_and_has_the_shapes_of_the_specification():
    for numbers, memory, begin in random_tensors(12):
        c = mt.Column.from_dlpack(numbers, fixed_shape_tensor=True)
        x = np.from_dlpack(c[begin:])
        assert np.array_equal(x, numbers[begin:]) and address(np.from_dlpack(c)) == address(memory)
        described = json.loads(c.metadata[b"ARROW:extension:metadata"])
        permutation = described.get("permutation", range(numbers.ndim - 1))
        assert [described["shape"][i] for i in permutation] == list(numbers.shape[1:])
    # The example of "Fixed shape tensor" in Arrow's canonical extension types, a hundredth of it.
    type_ = pa.fixed_shape_tensor(pa.int32(), [10, 2, 5], permutation=[2, 0, 1])
    storage = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(100, dtype="i4")), 100)
    x = np.from_dlpack(mt.Column.from_arrow(pa.ExtensionArray.from_storage(type_, storage)))
    assert np.array_equal(x, np.arange(100).reshape(1, 10, 2, 5).transpose(0, 3, 1, 2))


def test_arrays_of_polars_duckdb_and_nanoarrow_are_tensors_and_tensors_are_their_arrays():
    rng = random.Random(13)
    for _ in range(40):
        shape = tuple(rng.randint(1, 4) for _ in range(rng.randint(2, 4)))
        numbers = np.arange(np.prod(shape), dtype=rng.choice(["f4", "i8", "u1"])).reshape(shape)
        c = mt.Column.from_dlpack(numbers)
        series = pl.Series(c)
        assert series.dtype.shape == shape[1:] and np.array_equal(series.to_numpy(), numbers)
        assert nanoarrow.Array(c).to_pylist() == numbers.tolist()
        begin = rng.randrange(shape[0])
        for theirs in (series, nanoarrow.c_array(c)):
            x = np.from_dlpack(mt.Column.from_arrow(theirs)[begin:])
            assert x.dtype == numbers.dtype and np.array_equal(x, numbers[begin:])
        batch = mt.Column.from_arrow(pa.table({"x": lists_of(numbers)}))
        relation = duckdb.sql("select x from batch")
        assert [np.array(row).tolist() for (row,) in relation.fetchall()] == numbers.tolist()
        assert np.array_equal(np.from_dlpack(mt.Column.from_arrow(relation).children[0]), numbers)


def test_tensors_in_a_table_keep_their_type():
    numbers = np.arange(12, dtype="f8").reshape(3, 2, 2)
    table = pa.record_batch({"t": pa.FixedShapeTensorArray.from_numpy_ndarray(numbers)})
    (c,) = mt.Column.from_arrow(table).children
    assert c.metadata[b"ARROW:extension:name"] == b"arrow.fixed_shape_tensor"
    assert np.array_equal(np.from_dlpack(c), numbers)


def test_nulls_at_any_level_and_lists_of_text_are_refused():
    type_ = pa.list_(pa.list_(pa.int32(), 2), 1)
    for values in ([[[1, 2]], None], [[None], [[1, 2]]], [[[1, None]], [[1, 2]]]):
        c = mt.Column.from_arrow(pa.array(values, type_))
        with pytest.raises(BufferError, match="1 nulls.*export the children"):
            np.from_dlpack(c)
    assert np.from_dlpack(mt.Column.from_arrow(pa.array([None, [[1, 2]]], type_))[1:]).tolist() == [[[1, 2]]]
    with pytest.raises(BufferError, match="format `u`"):
        np.from_dlpack(mt.Column.from_arrow(pa.array([["a"]], pa.list_(pa.string(), 1))))


def test_lists_of_booleans_are_copied():
    values = [[True, False, True], [False, False, True]]
    c = mt.Column.from_arrow(pa.array(values, pa.list_(pa.bool_(), 3)))
    assert np.from_dlpack(c).tolist() == values and np.from_dlpack(c[1:]).tolist() == values[1:]
    with pytest.raises((BufferError, ValueError)):
        np.from_dlpack(c, copy=False)
    assert back(mt.Column.from_dlpack(np.array(values))).to_pylist() == values


def test_what_is_no_tensor_of_numbers_is_refused():
    for x, error in ((None, TypeError), (np.array(1.0), BufferError), (np.zeros(2, "c8"), BufferError)):
        with pytest.raises(error):
            mt.Column.from_dlpack(x)
    with pytest.raises(BufferError, match="at least 2 dimensions"):
        mt.Column.from_dlpack(np.zeros(2), fixed_shape_tensor=True)
