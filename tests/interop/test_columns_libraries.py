"""polars, DuckDB and nanoarrow as producers and consumers of mt.Column."""

import arrow_trees as trees
import duckdb
import nanoarrow
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import minitensor as mt

FRAME = {
    "whole": [1, None, 3, 4, None],
    "real": [0.5, float("nan"), None, -1.0, 2.0],
    "flag": [True, None, False, True, True],
    "text": ["a", None, "", "much longer than what fits into a view", "größe"],
    "lists": [[1, 2], [], None, [3], [None]],
    "structs": [{"k": 1}, None, {"k": None}, {"k": 4}, {"k": 5}],
}


def back(c):
    return pa.Array._import_from_c_capsule(*c.__arrow_c_array__())


# polars


def test_a_polars_frame_is_imported_and_exported():
    frame = pl.DataFrame(FRAME)
    for part in (frame, frame[1:4], frame[:0], frame[4:]):
        c = mt.Column.from_arrow(part)
        c.validate(full=True)
        assert c.type == "+s" and [x.name for x in c.children] == list(FRAME)
        assert pl.DataFrame(c).equals(part)


def test_polars_series_are_imported_and_exported():
    for name, values in FRAME.items():
        series = pl.Series(name, values)
        for begin in range(5):
            c = mt.Column.from_arrow(series[begin:])
            assert c.name == name and c.null_count == series[begin:].null_count()
            assert pl.Series(c).equals(series[begin:])
            assert pl.Series(c[1:3]).equals(series[begin:][1:3])


def test_chunks_of_polars_are_concatenated():
    series = pl.Series("x", ["one", None, "a string that is too long to be in the view itself"])
    chunked = pl.concat([series, series, series[1:]], rechunk=False)
    assert chunked.n_chunks() == 3
    c = mt.Column.from_arrow(chunked)
    c.validate(full=True)
    assert pl.Series(c).equals(chunked)
    frames = pl.concat([pl.DataFrame(FRAME)] * 3, rechunk=False)
    assert pl.DataFrame(mt.Column.from_arrow(frames)).equals(frames)


def test_polars_categories_are_dictionaries():
    series = pl.Series("c", ["a", "b", None, "a"], dtype=pl.Categorical)
    c = mt.Column.from_arrow(series)
    assert c.dictionary is not None and c.null_count == 1
    assert pl.Series(c).cast(pl.String).to_list() == ["a", "b", None, "a"]


# Types that polars does not support.
FOREIGN = ("decimal256", "union", "interval", "float16", "run_end", "decimal32", "decimal64", "list_view", "fixed_size_binary[5]")


def test_polars_reads_every_supported_type():
    read = 0
    for type_ in trees.LEAVES:
        if any(word in str(type_) for word in FOREIGN):
            continue
        for pattern in trees.PATTERNS:
            array = trees.leaf(type_, pattern)
            for offset in (0, 1, 7, 8, 17):
                c = mt.Column.from_arrow(array)[offset:]
                assert pl.Series(c).equals(pl.Series(array[offset:])), (type_, pattern, offset)
                read += 1
    assert read > 500


# DuckDB


def test_results_of_duckdb_are_imported():
    relation = duckdb.sql("""
        select i::int as i, i / 2.0 as half, 'v' || i as text, case when i % 3 = 0 then null else i end as some,
               [i, i + 1] as lists, {'a': i} as structs, i % 2 = 0 as even, (i || '.25')::decimal(9, 2) as price
        from range(5000) t(i)""")
    c = mt.Column.from_arrow(relation)
    c.validate(full=True)
    assert c.length == 5000 and [x.name for x in c.children] == ["i", "half", "text", "some", "lists", "structs", "even", "price"]
    children = {x.name: x for x in c.children}
    assert children["some"].null_count == 1667
    assert back(children["text"])[4999].as_py() == "v4999"
    assert back(children["lists"])[7].as_py() == [7, 8]
    assert np.from_dlpack(children["half"]).sum() == sum(range(5000)) / 2


def test_duckdb_reads_columns():
    frame = mt.Column.from_arrow(pl.DataFrame(FRAME))
    assert duckdb.sql("select sum(whole), count(whole), max(text) from frame").fetchall() == [(8, 3, "much longer than what fits into a view")]
    part = frame[1:4]
    assert len(duckdb.from_arrow(part).fetchall()) == 3
    assert duckdb.sql("select whole from part").fetchall() == [(None,), (3,), (4,)]
    assert duckdb.sql("select text from part").fetchall() == [(None,), ("",), ("much longer than what fits into a view",)]
    assert duckdb.sql("select flag, lists from part").fetchall() == [(None, []), (False, None), (True, [3])]


def test_duckdb_respects_the_offset_of_slices():
    batch = pa.record_batch({"x": [None if i % 5 == 2 else i for i in range(40)], "b": [i % 3 == 0 for i in range(40)]})
    whole = mt.Column.from_arrow(batch)
    for offset in range(18):
        part = whole[offset : offset + 10]
        assert duckdb.sql("select x, b from part").fetchall() == [(r["x"], r["b"]) for r in batch[offset : offset + 10].to_pylist()]


# nanoarrow


def test_nanoarrow_arrays_are_imported_and_exported():
    array = nanoarrow.c_array([1, None, 3], nanoarrow.int32())
    c = mt.Column.from_arrow(array)
    assert (c.type, c.length, c.null_count) == ("i", 3, 1)
    assert nanoarrow.Array(c).to_pylist() == [1, None, 3] and nanoarrow.Array(c[1:]).to_pylist() == [None, 3]
    assert nanoarrow.c_schema(c).format == "i"
    stream = nanoarrow.c_array_stream(pa.chunked_array([pa.array([1, 2]), pa.array([3])]))
    assert back(mt.Column.from_arrow(stream)).to_pylist() == [1, 2, 3]


def test_nanoarrow_reads_the_same_buffers():
    for type_ in (pa.int32(), pa.string(), pa.bool_(), pa.decimal128(30, 5)):
        array = trees.leaf(type_, "some")
        view = nanoarrow.c_array(mt.Column.from_arrow(array)[3:]).view()
        assert (view.length, view.offset, view.null_count) == (37, 3, array[3:].null_count)
        for mine, theirs in zip(view.buffers, array.buffers(), strict=True):
            assert bytes(mine)[: theirs.size] == theirs.to_pybytes()[: len(bytes(mine))]


def test_nanoarrow_reads_the_device_array():
    from nanoarrow.device import c_device_array

    for part in (mt.Column.from_arrow(pa.array([1, None, 3])), mt.Column.from_arrow(pa.array(["a", None]))[1:]):
        d = c_device_array(part)
        assert (d.device_type_id, d.device_id) == (1, -1) and d.array.length == part.length
        again = mt.Column.from_arrow(d)
        assert back(again).equals(back(part))


@pytest.mark.parametrize("how", [how for how in trees.NESTS if how != "run_end"])  # nanoarrow 0.9 does not support it
def test_nested_columns_by_nanoarrow(how):
    for type_ in (pa.int64(), pa.string(), pa.bool_()):
        array = trees.nested([how], type_, "some")
        try:
            theirs = nanoarrow.c_array(array)
        except Exception:  # noqa: BLE001: nanoarrow does not support the type
            continue
        c = mt.Column.from_arrow(theirs)
        assert back(c).equals(array)
        assert pa.array(nanoarrow.c_array(c[5:])).equals(array[5:])
