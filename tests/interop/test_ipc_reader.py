"""Readers of 60 lines without ferry: one attaches a tensor by its JSON and writes to it, two read a table, in Python and JavaScript."""

import json
import pathlib
import shutil
import subprocess
import sys

import pyarrow as pa
import pytest
from layouts import LAYOUTS

import minitensor as mt

READER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "ipc" / "reader.py"
COLUMN_READER = READER.with_name("column_reader.py")
NODE_READER = READER.with_name("column_reader.mjs")
TOPIC_READERS = [READER.with_name("topic_reader.py"), READER.with_name("topic_reader.mjs")]  # tested by tests/ipc/topic_readers.cpp


def read(shared, *arguments):
    result = subprocess.run([sys.executable, READER, *arguments], input=shared.json(), capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return eval(result.stdout)  # a list of numbers


@pytest.mark.parametrize("reader", [READER, COLUMN_READER, NODE_READER, *TOPIC_READERS], ids=lambda path: path.name)
def test_a_reader_has_at_most_sixty_lines_and_no_ferry(reader):
    text = reader.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    assert "minitensor" not in text


def rows_read(table, *command):
    with mt.ipc_share(mt.Column.from_arrow(table)) as shared:
        done = subprocess.run(command, input=shared.json(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def table_with_nulls(n=20):
    inner = pa.StructArray.from_arrays([pa.array([None if i % 3 == 1 else i / 2 for i in range(n)])], ["half"], mask=pa.array([i % 7 == 2 for i in range(n)]))
    columns = [pa.array(range(n), pa.int16()), pa.array([None if i % 4 == 0 else "ü" * (i % 3) for i in range(n)]), inner]
    return pa.record_batch(columns, names=["number", "text", "inner"])


@pytest.mark.parametrize("begin", [0, 1, 9, 20])
def test_a_table_with_nulls_is_read(begin):
    table = table_with_nulls().slice(begin)
    assert rows_read(table, sys.executable, COLUMN_READER) == table.to_pylist()


@pytest.mark.parametrize("begin", [0, 1, 9, 20])
def test_a_table_with_nulls_is_read_by_javascript(begin):
    if not (node := shutil.which("node")):
        pytest.skip("needs Node 18 or newer")
    n = 20
    types = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64()]
    table = table_with_nulls(n)
    for type_ in types:
        values = [None if i % 5 == 3 else i / 8 if pa.types.is_floating(type_) else 2 ** (type_.bit_width - 1) - 1 - i for i in range(n)]
        table = table.append_column(str(type_), pa.array(values, type_))
    table = table.append_column("negative", pa.array([-(2**63) + i for i in range(n)]))
    table = table.append_column("bool", pa.array([None if i % 3 == 0 else i % 2 == 0 for i in range(n)]))
    table = table.append_column("large", pa.array([None if i % 6 == 0 else "\ufeff\"\\😀"[: i % 5] for i in range(n)], pa.large_string()))
    table = table.append_column("empty", pa.array([""] * n))
    table = table.append_column("nested", pa.StructArray.from_arrays([pa.array([None] * n, pa.int64()), *table.columns[2:4]], ["none", "deep", "byte"])).slice(begin)
    for part in (table, table.slice(1, 9), table.slice(0, 0)):
        assert rows_read(part, node, NODE_READER) == part.to_pylist()


def commands():
    yield sys.executable, COLUMN_READER
    if node := shutil.which("node"):
        yield node, NODE_READER


@pytest.mark.parametrize("begin", [0, 1, 9, 20])
def test_the_values_of_dictionary_columns_are_read(begin):
    n = 20
    row = pa.StructArray.from_arrays([pa.array(["x", None, "z"])], ["a"], mask=pa.array([False, False, True]))
    columns = {}
    for index, dictionary in ((pa.int8(), pa.array(["a", "", "ü"])), (pa.uint64(), pa.array([7, None, 9])), (pa.int32(), row)):
        numbers = pa.array([None if i % 4 == 1 else i % 3 for i in range(n)], index)
        columns[str(index)] = pa.DictionaryArray.from_arrays(numbers, dictionary)
    columns["nested"] = pa.StructArray.from_arrays([columns["int8"]], ["of"], mask=pa.array([i % 6 == 0 for i in range(n)]))
    table = pa.record_batch(columns).slice(begin)
    for command in commands():
        assert rows_read(table, *command) == table.to_pylist()


@pytest.mark.parametrize("column, format_", [
    (pa.array([[1]]), "+l"), (pa.array([None]), "n"), (pa.array([b"x"]), "z"), (pa.array([0], pa.time32("s")), "tts"),
    (pa.array(["x"], pa.string_view()), "vu"), (pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([[1]])), "+l"),
    (pa.RunEndEncodedArray.from_arrays([1], [1]), "+r"),
], ids=str)  # fmt: skip
def test_a_column_of_a_format_that_a_reader_does_not_know_is_refused_by_name(column, format_):
    with mt.ipc_share(mt.Column.from_arrow(pa.record_batch({"x": column}))) as shared:
        for command in commands():
            done = subprocess.run(command, input=shared.json(), capture_output=True, text=True, timeout=120)
            assert done.returncode != 0 and f"the format {format_} is not supported" in done.stderr


def test_an_index_outside_of_its_dictionary_is_refused():
    for index in (-1, 2):
        column = pa.DictionaryArray.from_arrays(pa.array([0, index], pa.int8()), pa.array(["a", "b"]), safe=False)
        with mt.ipc_share(mt.Column.from_arrow(pa.record_batch({"x": column}))) as shared:
            for command in commands():
                done = subprocess.run(command, input=shared.json(), capture_output=True, text=True, timeout=120)
                assert done.returncode != 0 and "an index is outside of its dictionary" in done.stderr


@pytest.mark.parametrize("dtype", ["int32", "float64", "uint8"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_offset_and_strides_are_used_and_its_writes_are_visible(layout, dtype):
    whole = mt.asarray([[10 * y + x for x in range(6)] for y in range(4)], dtype=dtype)
    with mt.ipc_share(whole) as first, mt.ipc_share(LAYOUTS[layout](first.tensor)) as shared:
        assert not shared.copied
        view = shared.tensor
        before = view.tolist()
        assert read(shared, "5") == before
        assert plus(before, 5) == view.tolist()


def plus(values, more):
    return [plus(v, more) for v in values] if isinstance(values, list) else values + more


def test_a_read_only_tensor_is_read_and_not_written():
    source = mt.asarray([1, 2, 3], dtype="int32").as_readonly()
    with mt.ipc_share(source) as shared:
        assert read(shared) == [1, 2, 3]
        late = subprocess.run([sys.executable, READER, "5"], input=shared.json(), capture_output=True, text=True, timeout=120)
        assert late.returncode != 0 and "read-only" in late.stderr
        assert shared.tensor.tolist() == [1, 2, 3]


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_a_tensor_without_elements_has_no_memory_to_map(shape):
    with mt.ipc_share(mt.zeros(shape)) as shared:
        assert read(shared) == read(shared, "5") == mt.zeros(shape).tolist()


def test_a_closed_share_cannot_be_attached():
    with mt.ipc_share(mt.zeros((4,), dtype="int64")) as shared:
        assert read(shared) == [0, 0, 0, 0]
        text = shared.json()
    late = subprocess.run([sys.executable, READER], input=text, capture_output=True, text=True, timeout=120)
    assert late.returncode != 0 and "FileNotFoundError" in late.stderr
