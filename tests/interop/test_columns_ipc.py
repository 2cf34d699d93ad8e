"""Columns in another process, which receives only the descriptor."""

import ctypes
import gc
import json
import pathlib
import pickle
import subprocess
import sys

import arrow_trees as trees
import numpy as np
import pyarrow as pa
import pytest
import without_gil
from arrow_forge import Forged, Node, Tree, array_in
from other_process import Process

import minitensor as mt

BEGIN = """
import json, sys
import pyarrow as pa
import minitensor as mt

def back(c):
    return pa.Array._import_from_c_capsule(*c.__arrow_c_array__())

def read():
    return bytes.fromhex(sys.stdin.readline())
"""


def back(c):
    return pa.Array._import_from_c_capsule(*c.__arrow_c_array__())


def in_other_process(code, *lines):
    done = subprocess.run([sys.executable, "-c", BEGIN + code], input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-3000:]
    return done.stdout.strip()


class Reader:
    """Another process that attaches columns and returns them pickled."""

    CODE = (
        BEGIN
        + """
import pickle
for line in iter(sys.stdin.readline, ""):
    c = mt.ipc_attach(bytes.fromhex(line))
    c.validate(full=True)
    out = back(c)
    out.validate(full=True)
    print(pickle.dumps(out).hex(), flush=True)
"""
    )

    def __init__(self):
        self.process = Process(self.CODE)

    def __call__(self, descriptor):
        self.process.tell(descriptor if isinstance(descriptor, str) else descriptor.hex())
        return pickle.loads(bytes.fromhex(self.process.hear()))

    def close(self):
        self.process.end()


@pytest.fixture(scope="module")
def reader():
    one = Reader()
    yield one
    one.close()


@pytest.mark.parametrize("how", [None, *trees.NESTS])
def test_every_type_is_received(reader, how):
    for i, type_ in enumerate(trees.LEAVES):
        pattern = list(trees.PATTERNS)[i % 4]
        array = trees.leaf(type_, pattern) if how is None else trees.nested([how], type_, pattern)
        for part in (array, array[i % 18 :][:7]):
            with mt.ipc_share(mt.Column.from_arrow(part)) as shared:
                assert reader(shared.descriptor).equals(part), type_


def test_random_trees_are_attached_in_the_same_process():
    forest = trees.Forest(77)
    for _ in range(300):
        array = forest.tree()
        with mt.ipc_share(mt.Column.from_arrow(array)) as shared:
            c = mt.ipc_attach(shared.descriptor)
            c.validate(full=True)
            assert back(c).equals(array)
            assert back(shared.tensor).equals(array)


class Split:
    """A column that was shared, in memory with one allocation for each buffer; `shares` must stay open."""

    def __init__(self, share):
        self.share, self.shares = share, [share]

    def __arrow_c_array__(self, requested_schema=None):
        schema, array = self.share.tensor.__arrow_c_array__()
        self.move(array_in(array), json.loads(self.share.json())["column"])
        return schema, array

    def move(self, array, node):
        for i, part in enumerate(node["buffers"]):
            if part is not None and part["length"] != 0:
                share = mt.ipc_share(mt.asarray(np.frombuffer(ctypes.string_at(array.buffers[i], part["length"]), np.uint8)))
                self.shares.append(share)
                array.buffers[i] = np.from_dlpack(share.tensor).ctypes.data
        for i, child in enumerate(node["children"]):
            self.move(array.children[i].contents, child)
        if node["dictionary"] is not None:
            self.move(array.dictionary.contents, node["dictionary"])


def unsliced(array):
    """Returns a copy in which every offset is 0, so that an export has the buffers of the share."""
    batch, written = pa.record_batch([array], ["x"]), pa.BufferOutputStream()
    with pa.ipc.new_stream(written, batch.schema) as stream:
        stream.write_batch(batch)
    return pa.ipc.open_stream(written.getvalue()).read_next_batch().column(0)


def can_be_pickled(type_):
    try:
        return pickle.loads(pickle.dumps(type_)) == type_
    except ValueError:  # of pyarrow: a null type that is not nullable
        return False


@pytest.mark.parametrize("is_split", [False, True], ids=["an allocation for each column", "an allocation for each buffer"])
def test_random_trees_of_shared_buffers_are_received_without_a_copy(reader, is_split):
    forest, shares = trees.Forest(78), []
    for i in range(60):
        arrays = []
        while len(arrays) < 1 + i % 3:
            split = Split(mt.ipc_share(mt.Column.from_arrow(unsliced(forest.tree()))))
            array = back(split if is_split else split.share.tensor)
            if can_be_pickled(array.type):
                arrays.append(array)
                shares.append(split.shares)
        length = min(map(len, arrays))
        whole = pa.StructArray.from_arrays([a[:length] for a in arrays], [f"c{k}" for k in range(len(arrays))])
        for array in (arrays[0], whole, whole[i % 7 :][:9], arrays[-1][i % 5 :]):
            with mt.ipc_share(mt.Column.from_arrow(array)) as shared:
                assert not shared.copied, array.type
                assert reader(shared.descriptor).equals(array), array.type


def test_a_column_is_attached_as_a_column_and_a_tensor_as_a_tensor():
    with mt.ipc_share(mt.Column.from_arrow(pa.array([1, 2]))) as c, mt.ipc_share(mt.arange(2)) as t:
        assert type(mt.ipc_attach(c.descriptor)) is mt.Column and type(c.tensor) is mt.Column
        assert type(mt.ipc_attach(t.descriptor)) is mt.Tensor and type(t.tensor) is mt.Tensor
        assert c.copied and c.descriptor != t.descriptor


def test_names_metadata_flags_and_dictionaries_are_preserved():
    field = pa.field("größe", pa.dictionary(pa.int8(), pa.string(), ordered=True), nullable=False, metadata={b"k": b"\0\xff"})
    column = pa.DictionaryArray.from_arrays(pa.array([1, 0, 1], pa.int8()), ["a", "b"], ordered=True)
    batch = pa.record_batch([column], schema=pa.schema([field], metadata={b"of": b"all"}))
    with mt.ipc_share(mt.Column.from_arrow(batch)) as shared:
        c = mt.ipc_attach(shared.descriptor)
        assert pa.record_batch(c).equals(batch, check_metadata=True)
        assert c.children[0].name == "größe" and not c.children[0].nullable and c.children[0].dictionary.length == 2


def test_a_shared_column_is_shared_again_without_a_copy():
    with mt.ipc_share(mt.Column.from_arrow(pa.array(["a", None, "c"]))) as first:
        assert first.copied
        with mt.ipc_share(first.tensor) as second:
            assert not second.copied
            assert back(mt.ipc_attach(second.descriptor)).to_pylist() == ["a", None, "c"]
        attached = mt.ipc_attach(first.descriptor)
        with mt.ipc_share(attached) as third:
            assert back(mt.ipc_attach(third.descriptor)).to_pylist() == ["a", None, "c"]


def test_the_json_descriptor_shows_the_schema():
    with mt.ipc_share(mt.Column.from_arrow(pa.table({"price": [1.5, None], "name": ["a", "b"]}))) as shared:
        text = shared.json()
        assert json.loads(text) and '"price"' in text and '"name"' in text


def test_a_buffer_that_children_share_is_sent_once():
    array = pa.array(range(100_000))
    batch = pa.record_batch([array] * 20, names=[str(i) for i in range(20)])
    with mt.ipc_share(mt.Column.from_arrow(batch)) as shared:
        c = mt.ipc_attach(shared.descriptor)
        assert len({back(x).buffers()[1].address for x in c.children}) == 1


def test_an_attached_column_is_exported_without_a_copy():
    values = np.arange(100_000, dtype="float64")
    with mt.ipc_share(mt.Column.from_arrow(pa.array(values))) as shared:
        output = in_other_process("c = mt.ipc_attach(read())\nt = mt.from_dlpack(c)\nprint(json.dumps([t.copied, t.readonly, sum(t.tolist())]))", shared.descriptor.hex())
    assert json.loads(output) == [False, True, values.sum()]


def test_attached_columns_stay_valid_after_close():
    shared = mt.ipc_share(mt.Column.from_arrow(pa.array([1, None, 3])))
    c = mt.ipc_attach(shared.descriptor)
    descriptor = bytes(shared.descriptor)
    shared.close()
    shared.close()
    with pytest.raises(OSError):
        mt.ipc_attach(descriptor)
    assert back(c).to_pylist() == [1, None, 3] and back(shared.tensor).to_pylist() == [1, None, 3]
    part = c[1:]
    del c, shared
    gc.collect()
    assert back(part).to_pylist() == [None, 3]


def test_the_source_of_a_copy_is_released():
    tree = Tree(Node())
    with mt.ipc_share(mt.Column.from_arrow(Forged(tree))) as shared:
        gc.collect()
        assert tree.released["array"] == 1  # the copy is shared
        assert back(shared.tensor).to_pylist() == [1, 2, 3]


def test_empty_columns_are_shared():
    for array in (pa.array([], pa.int32()), pa.array([], pa.string()), pa.nulls(5), pa.nulls(0), pa.array([{}, {}]), pa.array([[], None], pa.list_(pa.int8()))):
        with mt.ipc_share(mt.Column.from_arrow(array)) as shared:
            assert back(mt.ipc_attach(shared.descriptor)).equals(array)


def test_modified_descriptors_are_refused():
    with mt.ipc_share(mt.Column.from_arrow(pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]}))) as shared:
        good = bytes(shared.descriptor)
        for i in range(0, len(good), 3):
            bad = bytearray(good)
            bad[i] ^= 0x55
            with pytest.raises((ValueError, OSError)):
                mt.ipc_attach(bytes(bad))
        for cut in range(0, len(good), 7):
            with pytest.raises(ValueError):
                mt.ipc_attach(good[:cut])


def test_ipc_share_refuses_other_objects():
    for x in (3, None, pa.array([1]), np.arange(3)):
        with pytest.raises(TypeError):
            mt.ipc_share(x)


def test_the_columns_example_reports_shares_and_copies():
    """examples/columns/demo.py receives every value."""
    without_gil.need("sklearn")
    demo = pathlib.Path(__file__).resolve().parents[2] / "examples" / "columns" / "demo.py"
    done = subprocess.run([sys.executable, str(demo)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all values are equal" in done.stdout
    for words in ("copied: several chunks", "copied: once, into shared memory", "copied: bits become bytes", "refused: nulls", "shared"):
        assert words in done.stdout
