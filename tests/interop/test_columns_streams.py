"""mt.Column as a stream of one chunk, for the libraries that read streams, and the chunks of their streams without a copy."""

import errno
import gc

import arrow_trees as trees
import duckdb
import nanoarrow
import polars as pl
import pyarrow as pa
import pytest
from forge import name_of

import minitensor as mt

TABLE = pa.table({"n": [1, None, 3], "text": ["a", "", None], "lists": [[1], None, [2, 3]]})


def column(values, type_=None):
    return mt.Column.from_arrow(pa.array(values, type_))


def back(c):
    return pa.Array._import_from_c_capsule(*c.__arrow_c_array__())


class Only:
    """Provides one protocol of an object."""

    def __init__(self, x, name):
        self._x, self._name = x, name

    def __getattr__(self, name):
        if name == self._name:
            return getattr(self._x, name)
        raise AttributeError(name)


# Exports


def test_capsules_have_the_names_of_the_interface():
    c = column([1, 2, 3])
    assert name_of(c.__arrow_c_stream__()) == b"arrow_array_stream"
    assert name_of(c.__arrow_c_device_stream__()) == b"arrow_device_array_stream"
    with pytest.raises(TypeError):
        c.__arrow_c_stream__(None, None)
    with pytest.raises(TypeError):
        c.__arrow_c_stream__(3)
    with pytest.raises(NotImplementedError):
        c.__arrow_c_device_stream__(sooner=1)


def test_pyarrow_reads_a_struct_column_as_a_table_and_any_column_as_a_chunked_array():
    c = mt.Column.from_arrow(TABLE)
    assert pa.table(c).equals(TABLE) and pa.table(c[1:]).equals(TABLE.slice(1))
    reader = pa.RecordBatchReader.from_stream(c)
    assert reader.schema == TABLE.schema and reader.read_all().equals(TABLE)
    for values in ([1, None, 3], ["a", None], [[1], [2, 3]], []):
        got = pa.chunked_array(Only(column(values), "__arrow_c_stream__"))
        assert got.num_chunks == 1 and got.combine_chunks().equals(pa.array(values))
    numbers = pa.array([1, 2, 3])
    shared = pa.chunked_array(mt.Column.from_arrow(numbers)).chunk(0)
    assert shared.buffers()[1].address == numbers.buffers()[1].address


@pytest.mark.parametrize("seed", range(4))
def test_random_trees_are_preserved_in_streams_and_their_chunks(seed):
    forest = trees.Forest(seed)
    for _ in range(300):
        array = forest.tree()
        begin = forest.random.randrange(len(array) + 1)
        for part in (array, array[begin:]):
            got = pa.chunked_array(Only(mt.Column.from_arrow(part), "__arrow_c_stream__"))
            assert got.type == array.type and got.num_chunks == 1 and got.chunk(0).equals(part)
        chunks = pa.chunked_array([array[:begin], array[begin:]])
        assert [back(c).equals(x) for c, x in zip(mt.Column.chunks_from_arrow(chunks), chunks.chunks)] == [True, True]


def test_polars_nanoarrow_and_duckdb_read_the_stream():
    c = mt.Column.from_arrow(TABLE)
    stream = Only(c, "__arrow_c_stream__")
    assert pl.DataFrame(stream).equals(pl.DataFrame(TABLE))
    assert pl.Series(Only(column([1, None, 3]), "__arrow_c_stream__")).to_list() == [1, None, 3]
    assert nanoarrow.Array(Only(column([1, None, 3]), "__arrow_c_stream__")).to_pylist() == [1, None, 3]
    assert list(nanoarrow.ArrayStream(c).read_all().to_pylist()) == TABLE.to_pylist()
    assert duckdb.sql("select sum(n), count(*) from c").fetchall() == [(4, 3)]


READERS = {
    "polars": lambda x: pl.Series(x).to_list(),
    "nanoarrow": lambda x: nanoarrow.Array(x).to_pylist(),
    "duckdb": lambda x: duckdb.from_arrow(x).fetchall(),
}
# nanoarrow 0.9 aborts on the first three, and ignores the offset of pyarrow's sparse unions. DuckDB 2.0 reports internal errors for its own.
FOREIGN = {"nanoarrow": ("binary_view", "string_view", "run_end", "sparse_union"), "duckdb": ("run_end", "dictionary", ", -3)"), "polars": ()}


@pytest.mark.parametrize("library", READERS)
@pytest.mark.parametrize("seed", range(2))
def test_libraries_read_random_trees_from_a_stream_as_from_one_of_pyarrow(library, seed):
    read, forest, compared = READERS[library], trees.Forest(100 + seed), 0
    for _ in range(200):
        array = forest.tree()
        if any(word in str(array.type) for word in FOREIGN[library]):
            continue
        table = pa.table({"x": array})
        try:
            expected = read(table if library == "duckdb" else table["x"])
        except BaseException as error:  # noqa: BLE001: the library does not support the type; polars panics
            if isinstance(error, KeyboardInterrupt):
                raise
            continue
        ours = mt.Column.from_arrow(table if library == "duckdb" else array)
        got = read(ours if library == "duckdb" else Only(ours, "__arrow_c_stream__"))
        assert repr(got) == repr(expected), array.type
        compared += 1
    assert compared > 30


def test_narwhals_reads_the_stream():
    nw = pytest.importorskip("narwhals")
    frame = nw.from_arrow(mt.Column.from_arrow(TABLE), backend="pyarrow")
    assert frame.to_arrow().equals(TABLE)


def test_a_stream_keeps_the_memory_until_it_is_dropped():
    gc.collect()
    before = pa.total_allocated_bytes()
    capsule = column(range(1000)).__arrow_c_stream__()
    gc.collect()
    assert pa.total_allocated_bytes() >= before + 8000
    del capsule
    gc.collect()
    assert pa.total_allocated_bytes() == before


# Imports


def test_chunks_are_imported_without_joining_them():
    chunks = [pa.array([1, 2]), pa.array([], pa.int64()), pa.array([None, 4])]
    got = mt.Column.chunks_from_arrow(pa.chunked_array(chunks))
    assert [back(c) for c in got] == chunks
    for c, x in zip(got, chunks):
        assert back(c).buffers()[1] is None or back(c).buffers()[1].address == x.buffers()[1].address
    assert mt.Column.chunks_from_arrow(pa.chunked_array([], pa.int8())) == ()
    (one,) = mt.Column.chunks_from_arrow(pa.array([1, 2]))
    assert back(one).equals(pa.array([1, 2]))
    series = pl.concat([pl.Series("x", [1, 2])] * 3, rechunk=False)
    assert [c.length for c in mt.Column.chunks_from_arrow(series)] == [2, 2, 2]
    assert [c.length for c in mt.Column.chunks_from_arrow(duckdb.sql("select 1 as x"))] == [1]


def test_a_device_stream_of_the_host_is_imported():
    c = column([1, None, 3])[1:]
    for read in (mt.Column.from_arrow, lambda x: mt.Column.chunks_from_arrow(x)[0]):
        assert back(read(Only(c, "__arrow_c_device_stream__"))).equals(pa.array([None, 3]))


def test_a_device_stream_is_used_if_the_stream_is_refused():
    class OnDevice:
        def __init__(self, error):
            self.error = error

        def __arrow_c_stream__(self, requested_schema=None):
            raise self.error

        def __arrow_c_device_stream__(self, requested_schema=None, **kwargs):
            return column([1, 2]).__arrow_c_device_stream__()

    for error in (NotImplementedError("not on the CPU"), BufferError("not on the CPU")):
        assert mt.Column.from_arrow(OnDevice(error)).length == 2
    with pytest.raises(RuntimeError, match="broken"):
        mt.Column.from_arrow(OnDevice(RuntimeError("broken")))


@pytest.mark.parametrize("read", [mt.Column.from_arrow, mt.Column.chunks_from_arrow])
def test_errors_of_a_stream_are_python_errors_and_its_chunks_are_released(read):
    schema = pa.schema([("a", pa.int64())])
    for error, expected in ((ValueError("bad"), ValueError), (MemoryError(), MemoryError), (OSError(errno.EIO, "disk"), OSError)):

        def batches(error=error):
            yield pa.record_batch([pa.array([1, 2])], schema=schema)
            raise error

        gc.collect()
        before = pa.total_allocated_bytes()
        with pytest.raises(expected):
            read(pa.RecordBatchReader.from_batches(schema, batches()))
        gc.collect()
        assert pa.total_allocated_bytes() == before
    for x in (None, 1, object(), mt.Column):
        with pytest.raises(TypeError):
            read(x)
