"""mt.Column: attributes, sharing and copies, lifetime of the memory, and errors."""

import ctypes
import gc
import random
import threading
import weakref

import arrow_trees as trees
import nanoarrow
import numpy as np
import pyarrow as pa
import pytest
from arrow_forge import (
    ARRAY,
    DEVICE_ARRAY,
    SCHEMA,
    Chunks,
    Forged,
    Node,
    Tree,
    array_in,
    device_array_in,
    schema_in,
    struct,
)
from forge import name_of, pointer_of

import minitensor as mt

COPY_NEEDED = (BufferError, ValueError)


def column(values, type_=None):
    return mt.Column.from_arrow(pa.array(values, type_))


def back(c):
    return pa.Array._import_from_c_capsule(*c.__arrow_c_array__())


class Producer:
    """Provides the named protocols of an array, and records which were looked up."""

    def __init__(self, array, *names):
        self._array, self._names, self.asked = array, names, []

    def __getattr__(self, name):
        if name.startswith("__arrow_c_"):
            self.asked.append(name)
            if name in self._names:
                return getattr(self._array, name)
        raise AttributeError(name)


# Attributes


def test_attributes_have_the_values_of_schema_and_array():
    field = pa.field("price", pa.int32(), nullable=False, metadata={"unit": "CHF", b"raw": b"\0\xff", b"": b""})
    batch = pa.record_batch([pa.array([1, 2, 3], pa.int32())], schema=pa.schema([field]))
    whole = mt.Column.from_arrow(batch)
    assert (whole.type, whole.name, whole.length, whole.offset, whole.null_count, whole.device) == ("+s", "", 3, 0, 0, (1, 0))
    price = whole.children[0]
    assert (price.type, price.name, price.nullable, price.length, len(price)) == ("i", "price", False, 3, 3)
    assert price.metadata == {b"unit": b"CHF", b"raw": b"\0\xff", b"": b""}
    assert whole.metadata == {} and price.children == () and price.dictionary is None
    assert all(type(x) is int for x in (*price.device, price.length, price.offset, price.null_count))
    assert column([1, None]).nullable


def test_the_type_is_the_format_of_the_schema():
    formats = {
        pa.null(): "n", pa.bool_(): "b", pa.int8(): "c", pa.uint8(): "C", pa.int16(): "s", pa.uint16(): "S", pa.int32(): "i",
        pa.uint32(): "I", pa.int64(): "l", pa.uint64(): "L", pa.float16(): "e", pa.float32(): "f", pa.float64(): "g",
        pa.binary(): "z", pa.large_binary(): "Z", pa.binary_view(): "vz", pa.string(): "u", pa.large_string(): "U",
        pa.string_view(): "vu", pa.decimal128(9, 2): "d:9,2", pa.decimal256(40, -1): "d:40,-1,256", pa.decimal32(5, 1): "d:5,1,32",
        pa.binary(7): "w:7", pa.date32(): "tdD", pa.date64(): "tdm", pa.time32("s"): "tts", pa.time64("ns"): "ttn",
        pa.timestamp("us"): "tsu:", pa.timestamp("ms", "Europe/Zurich"): "tsm:Europe/Zurich", pa.duration("s"): "tDs",
        pa.month_day_nano_interval(): "tin", pa.list_(pa.int8()): "+l", pa.large_list(pa.int8()): "+L", pa.list_view(pa.int8()): "+vl",
        pa.large_list_view(pa.int8()): "+vL", pa.list_(pa.int8(), 3): "+w:3", pa.struct([("a", pa.int8())]): "+s",
        pa.map_(pa.string(), pa.int8()): "+m", pa.dense_union([pa.field("a", pa.int8())]): "+ud:0",
        pa.sparse_union([pa.field("a", pa.int8())], [5]): "+us:5", pa.run_end_encoded(pa.int16(), pa.string()): "+r",
        pa.dictionary(pa.int16(), pa.string()): "s", pa.uuid(): "w:16",
    }  # fmt: skip
    for type_, format_ in formats.items():
        c = mt.Column.from_arrow(pa.nulls(0, type_))
        assert c.type == format_, type_
        assert schema_in(c.__arrow_c_schema__()).format.decode() == format_
        assert pa.field(c).type == type_  # with the metadata of an extension type


def test_types_without_a_pyarrow_type_are_imported_and_exported():
    for format_, bits in ((b"tiM", 32), (b"tiD", 64), (b"tin", 128)):
        node = Node(format_, 3, (None, bytes(range(bits // 8 * 3))))
        c = mt.Column.from_arrow(Forged(Tree(node)))
        c.validate(full=True)
        assert c.type == format_.decode() and nanoarrow.c_array(c).length == 3


def test_a_dictionary_is_a_column():
    c = mt.Column.from_arrow(pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.int8()), ["a", "b"], ordered=True))
    assert (c.type, c.null_count, c.dictionary.type, c.dictionary.length) == ("c", 1, "u", 2)
    assert back(c.dictionary).to_pylist() == ["a", "b"]
    assert back(c).type.ordered
    assert c.dictionary.dictionary is None


def test_names_that_are_not_utf8_are_preserved():
    c = mt.Column.from_arrow(Forged(Tree(struct(Node(name=b"\xff\xfe"), name="größe".encode()))))
    assert c.name == "größe" and c.children[0].name.encode("utf-8", "surrogateescape") == b"\xff\xfe"


def test_an_unknown_null_count_is_computed():
    for null_count, bits, length, offset, counted in ((-1, b"\5", 3, 0, 1), (-1, b"\xff", 3, 0, 0), (-1, b"\xf0", 3, 2, 2), (-1, None, 3, 0, 0)):
        node = Node(length=length, offset=offset, null_count=null_count, buffers=(bits, bytes(4 * (length + offset))))
        assert mt.Column.from_arrow(Forged(Tree(node))).null_count == counted
    assert column([None, None], pa.null()).null_count == 2
    sliced = column([1, None, 3, None, 5])
    assert [sliced[i:].null_count for i in range(6)] == [2, 2, 1, 1, 0, 0]


def test_the_first_of_equal_metadata_keys_is_used():
    pairs = [(b"k", b"1"), (b"other", b""), (b"k", b"2")]
    parts = [len(pairs).to_bytes(4, "little")] + [len(part).to_bytes(4, "little") + part for pair in pairs for part in pair]
    forged = Forged(Tree(Node(metadata=b"".join(parts))))
    c = mt.Column.from_arrow(forged)
    assert c.metadata == {b"k": b"1", b"other": b""} == pa.KeyValueMetadata(pairs).to_dict()
    assert pa.Field._import_from_c_capsule(c.__arrow_c_schema__()).metadata == c.metadata


def test_the_error_of_a_python_stream_contains_the_traceback():
    def deep(n):
        return deep(n - 1) if n else {}["no such key"]

    def batches():
        yield pa.record_batch([[1]], names=["x"])
        deep(9)

    reader = pa.RecordBatchReader.from_batches(pa.schema([("x", pa.int64())]), batches())
    with pytest.raises(ValueError, match=r"(?s)Traceback \(most recent call last\):\n.* in deep\n.*\nKeyError: 'no such key'$"):
        mt.Column.from_arrow(reader)


def test_metadata_is_preserved():
    pairs = {b"ARROW:extension:name": b"mine", b"ARROW:extension:metadata": b"\0\1", b"k\0": b""}
    schema = pa.schema([pa.field("x", pa.int8())], metadata=pairs)
    c = mt.Column.from_arrow(pa.record_batch([pa.array([1], pa.int8())], schema=schema))
    assert c.metadata == pairs
    assert pa.RecordBatch._import_from_c_capsule(*c.__arrow_c_array__()).schema.metadata == pairs


def test_flags_are_preserved():
    for flags in range(8):
        c = mt.Column.from_arrow(Forged(Tree(Node(flags=flags))))
        assert schema_in(c.__arrow_c_schema__()).flags == flags and c.nullable == bool(flags & 2)


# Slices


def test_slices_follow_the_rules_of_python():
    values = list(range(20))
    c = column(values)
    for begin in (None, *range(-25, 26, 3)):
        for end in (None, *range(-25, 26, 4)):
            for step in (None, 1):
                part = c[begin:end:step]
                assert back(part).to_pylist() == values[begin:end:step]
                assert part.offset == slice(begin, end).indices(20)[0] and part.length == len(part)
                assert back(part).buffers()[1].address == back(c).buffers()[1].address
    inner = c[5:][3:10]
    assert (inner.offset, inner.length) == (8, 7)
    of_slice = mt.Column.from_arrow(pa.array(values)[4:])
    assert of_slice.offset == 4 and of_slice[2:].offset == 6


@pytest.mark.parametrize("step", [2, -1, -2, 3])
def test_a_step_other_than_1_is_a_value_error(step):
    with pytest.raises(ValueError):
        column([1, 2, 3])[::step]
    with pytest.raises(ValueError, match="zero"):
        column([1, 2, 3])[::0]


@pytest.mark.parametrize("key", [0, -1, True, None, "a", (slice(None), slice(None)), ..., np.int64(1), 1.5])
def test_an_index_that_is_not_a_slice_is_a_type_error(key):
    with pytest.raises(TypeError):
        column([1, 2, 3])[key]
    with pytest.raises(TypeError):
        column([1, 2, 3])["a":]


def test_children_do_not_have_the_slice_of_the_parent():
    array = pa.array([{"a": i, "b": [i] * (i % 3)} for i in range(10)])
    c = mt.Column.from_arrow(array[4:8])
    assert (c.offset, c.length) == (4, 4)
    assert [(x.name, x.offset, x.length) for x in c.children] == [("a", 0, 10), ("b", 0, 10)]
    assert back(c[1:].children[0]).to_pylist() == list(range(10))


# Imports


def test_protocols_are_tried_in_order():
    array = pa.array([1, 2, 3])
    table = pa.chunked_array([array])
    every = ("__arrow_c_array__", "__arrow_c_device_array__", "__arrow_c_stream__")
    for i, name in enumerate(every[:2]):
        p = Producer(array, *every[i:])
        assert back(mt.Column.from_arrow(p)).equals(array)
        assert p.asked[-1] == name and p.asked == [*every[: i + 1]]
    p = Producer(table, "__arrow_c_stream__")
    assert back(mt.Column.from_arrow(p)).equals(array) and p.asked == [*every]


def test_device_memory_is_imported_by_the_device_protocol():
    class OnlyDevice:
        def __init__(self, error):
            self.error = error

        def __arrow_c_array__(self, requested_schema=None):
            raise self.error

        def __arrow_c_device_array__(self, requested_schema=None, **kwargs):
            return pa.array([1, 2]).__arrow_c_device_array__()

    for error in (NotImplementedError("not on the CPU"), BufferError("not on the CPU")):
        assert mt.Column.from_arrow(OnlyDevice(error)).length == 2
    with pytest.raises(RuntimeError, match="broken"):
        mt.Column.from_arrow(OnlyDevice(RuntimeError("broken")))


def test_errors_of_the_producer_propagate():
    class Mine(Exception):
        pass

    for name in ("__arrow_c_array__", "__arrow_c_device_array__", "__arrow_c_stream__"):
        for error in (Mine("no"), NotImplementedError("no"), BufferError("no"), KeyboardInterrupt()):

            def method(self, error=error):
                raise error

            with pytest.raises(type(error)):
                mt.Column.from_arrow(type("Failing", (), {name: method})())
    with pytest.raises(Mine):
        mt.Column.from_arrow(type("Failing", (), {"__getattr__": lambda self, name: (_ for _ in ()).throw(Mine())})())


@pytest.mark.parametrize("x", [None, 1, "a", [1, 2], (1, 2), b"", object(), object, pa.Array, np.arange(3), mt.Column])
def test_an_object_without_protocol_is_a_type_error(x):
    with pytest.raises(TypeError):
        mt.Column.from_arrow(x)
    with pytest.raises(TypeError):
        mt.Column.from_arrow(*[pa.array([1])] * 2)
    with pytest.raises(TypeError):
        mt.Column.from_arrow()


def test_a_stream_is_imported_as_one_column():
    type_ = pa.int32()
    empty = mt.Column.from_arrow(pa.chunked_array([], type_))
    assert (empty.length, empty.type, empty.offset) == (0, "i", 0)
    empty.validate(full=True)
    assert back(empty).to_pylist() == []
    array = pa.array([1, None, 3], type_)
    one = mt.Column.from_arrow(pa.chunked_array([array]))
    assert back(one).buffers()[1].address == array.buffers()[1].address
    several = mt.Column.from_arrow(pa.chunked_array([array, array[1:], array[:0], pa.array([7], type_)]))
    assert back(several).to_pylist() == [1, None, 3, None, 3, 7] and several.null_count == 2
    several.validate(full=True)


def test_batches_and_tables_are_imported_as_a_struct_column():
    batch = pa.record_batch({"a": [1, 2, 3], "b": ["x", None, "z"]})
    for x in (batch, pa.table(batch), pa.RecordBatchReader.from_batches(batch.schema, [batch])):
        c = mt.Column.from_arrow(x)
        assert c.type == "+s" and [y.name for y in c.children] == ["a", "b"] and c.length == 3
        assert pa.record_batch(c).equals(batch)
        assert back(c.children[1]).buffers()[2].address == batch.column(1).buffers()[2].address
    table = pa.concat_tables([pa.table(batch), pa.table(batch[1:])])
    c = mt.Column.from_arrow(table)
    assert pa.record_batch(c).equals(table.combine_chunks().to_batches()[0])
    none = mt.Column.from_arrow(pa.table(batch)[:0])
    assert none.length == 0 and pa.record_batch(none).schema.equals(batch.schema)


@pytest.mark.parametrize("how", [None, *trees.NESTS])
def test_chunks_of_every_type_are_concatenated(how):
    for type_ in trees.LEAVES:
        for pattern in trees.PATTERNS:
            array = trees.leaf(type_, pattern) if how is None else trees.nested([how], type_, pattern)
            parts = [array[:5], array[3:20], array[7:7], array[11:]]
            c = mt.Column.from_arrow(pa.chunked_array(parts))
            assert c.length == sum(map(len, parts))
            c.validate(full=True)
            out = back(c)
            out.validate(full=True)
            assert out.type == array.type
            begin = 0
            for part in parts:
                assert out[begin : begin + len(part)].equals(part)
                begin += len(part)


@pytest.mark.parametrize("seed", range(4))
def test_chunks_with_different_dictionaries_are_joined_as_pyarrow_unifies_them(seed):
    r = random.Random(seed)
    for type_ in (pa.string(), pa.large_binary(), pa.int32(), pa.uint64(), pa.float64(), pa.date32(), pa.timestamp("us"), pa.binary(5)):
        for ordered in (False, True):
            values = [trees.value(type_, i) for i in range(30)]
            chunks = []
            for _ in range(r.randrange(2, 9)):
                dictionary = pa.array(r.sample(values, r.randrange(1, 12)), type_)
                indices = [r.choice([None, r.randrange(len(dictionary))]) for _ in range(r.randrange(8))]
                chunks.append(pa.DictionaryArray.from_arrays(pa.array(indices, pa.int16()), dictionary, ordered=ordered))
            chunked = pa.chunked_array([*chunks, chunks[0][:1]])
            c = mt.Column.from_arrow(chunked)
            c.validate(full=True)
            out, expected = back(c), chunked.unify_dictionaries().combine_chunks()
            assert out.to_pylist() == chunked.to_pylist()
            assert out.dictionary.equals(expected.dictionary) and out.indices.equals(expected.indices)


def test_nulls_and_nested_values_of_dictionaries_are_joined():
    """pyarrow unifies neither."""
    for values in (["a", None, "b"], [["x"], [], None], [{"k": 1, "l": None}, {"k": None, "l": "y"}, None]):
        one = pa.array(values)
        two = pa.array([values[2], values[0]], one.type)
        chunks = [pa.DictionaryArray.from_arrays(pa.array([2, 1, None, 0], pa.int8()), one), pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), two)]
        c = mt.Column.from_arrow(pa.chunked_array(chunks))
        assert c.dictionary.length == 3 and back(c).to_pylist() == [values[2], values[1], None, values[0], values[0], values[2]]


def test_many_chunks_with_mostly_equal_dictionaries_are_joined():
    words = [f"word {i}" for i in range(20)]
    chunks = [pa.DictionaryArray.from_arrays(pa.array([i % 20, 0], pa.int8()), words[i % 7 :] + words[: i % 7]) for i in range(1600)]
    chunked = pa.chunked_array(chunks)
    c = mt.Column.from_arrow(chunked)
    assert c.dictionary.length == 20 and back(c).to_pylist() == chunked.to_pylist()


def test_a_stream_whose_producer_needs_the_gil_on_another_thread_can_be_read():
    schema = pa.schema([("a", pa.int64())])
    ready = threading.Event()

    def batches():
        for i in range(3):
            worker = threading.Thread(target=ready.set)  # needs the GIL while this thread waits
            worker.start()
            assert ready.wait(10)
            worker.join()
            yield pa.record_batch([pa.array([i])], schema=schema)

    c = mt.Column.from_arrow(pa.RecordBatchReader.from_batches(schema, batches()))
    assert back(c.children[0]).to_pylist() == [0, 1, 2]


def test_the_error_contains_the_text_of_the_stream():
    def batches():
        raise ValueError("the source is unavailable")
        yield

    with pytest.raises(Exception, match="the source is unavailable"):
        mt.Column.from_arrow(pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), batches()))


# Exports


def test_capsules_have_the_names_of_the_interface():
    c = column([1, 2, 3])
    assert name_of(c.__arrow_c_schema__()) == SCHEMA
    assert [name_of(x) for x in c.__arrow_c_array__()] == [SCHEMA, ARRAY]
    assert [name_of(x) for x in c.__arrow_c_device_array__()] == [SCHEMA, DEVICE_ARRAY]
    assert type(c.__arrow_c_array__()) is tuple


def test_a_device_array_in_host_memory_has_device_id_minus_1_and_no_event():
    _, capsule = column([1, None, 3])[1:].__arrow_c_device_array__()
    d = device_array_in(capsule)
    assert (d.device_type, d.device_id, d.sync_event, list(d.reserved)) == (1, -1, None, [0, 0, 0])
    assert (d.array.length, d.array.offset) == (2, 1)
    assert column([1]).device == (1, 0)


def test_device_arrays_in_host_memory_are_imported():
    for device in ((1, -1, None), (1, 0, None), (1, 7, 0x1234)):
        tree = Tree(Node())
        c = mt.Column.from_arrow(Forged(tree, device))
        assert c.device == (1, 0) and back(c).to_pylist() == [1, 2, 3]
        del c
        assert tree.released == {"schema": 1, "array": 1}


def test_device_arrays_on_unsupported_devices_are_refused_and_not_consumed():
    for device, errors in (((2, 0, None), BufferError), ((99, 0, None), (ValueError, BufferError)), ((0, 0, None), (ValueError, BufferError)), ((8, 0, None), BufferError)):
        if device[0] == 2 and mt.cuda_available():
            continue
        tree = Tree(Node())
        with pytest.raises(errors):
            mt.Column.from_arrow(Forged(tree, device))
        assert tree.is_untouched_or_released_once()


def test_a_requested_schema_is_optional():
    c = column([1, 2, 3], pa.int32())
    requested = pa.int64().__arrow_c_schema__()
    for method in (c.__arrow_c_array__, c.__arrow_c_device_array__):
        for pair in (method(requested), method(requested_schema=requested)):
            assert schema_in(pair[0]).format == b"l"
        for pair in (method(), method(None), method(requested_schema=None)):
            assert schema_in(pair[0]).format == b"i"
        for bad in (3, "i", pa.int64(), c.__arrow_c_array__()[1]):
            with pytest.raises(TypeError):
                method(bad)
        with pytest.raises(TypeError):
            method(None, None)
    assert schema_in(requested).release  # not consumed


@pytest.mark.parametrize("type_, requested", [
    (pa.int32(), pa.string()), (pa.string(), pa.int32()), (pa.int32(), pa.list_(pa.int32())), (pa.int32(), pa.struct([])),
    (pa.list_(pa.int8()), pa.list_(pa.string())), (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int8()), ("b", pa.int8())])),
    (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.string())])), (pa.dictionary(pa.int8(), pa.string()), pa.int8()),
    (pa.string(), pa.run_end_encoded(pa.int32(), pa.int64())), (pa.int8(), pa.dense_union([pa.field("a", pa.int8())])),
], ids=str)  # fmt: skip
def test_a_requested_schema_of_other_data_is_a_value_error(type_, requested):
    """The interface requires an error; pyarrow raises a ValueError for a cast that fails."""
    c = column(pa.array([], type_))
    for method in (c.__arrow_c_array__, c.__arrow_c_device_array__):
        with pytest.raises(ValueError, match="requested_schema: column.*: request another representation of the same data, or None"):
            method(requested.__arrow_c_schema__())


@pytest.mark.parametrize("type_, requested", [
    (pa.float64(), pa.int8()), (pa.timestamp("s"), pa.date32()), (pa.string(), pa.dictionary(pa.int8(), pa.string_view())),
    (pa.binary(), pa.binary(3)), (pa.null(), pa.int8()), (pa.int8(), pa.null()), (pa.int32(), pa.run_end_encoded(pa.int32(), pa.int64())),
], ids=str)  # fmt: skip
def test_a_request_for_which_there_is_no_conversion_returns_the_type_of_the_column(type_, requested):
    c = column(pa.array([], type_))
    for method in (c.__arrow_c_array__, c.__arrow_c_device_array__):
        assert schema_in(method(requested.__arrow_c_schema__())[0]).format == schema_in(c.__arrow_c_schema__()).format


def test_unknown_keywords_must_be_none():
    c = column([1, 2, 3])
    c.__arrow_c_device_array__(requested_schema=None, stream=None, anything=None)
    with pytest.raises(NotImplementedError, match="stream"):
        c.__arrow_c_device_array__(stream=1)
    with pytest.raises(NotImplementedError):
        c.__arrow_c_device_array__(None, whatever=False)
    with pytest.raises(TypeError):
        c.__arrow_c_array__(stream=None)
    with pytest.raises(TypeError):
        c.__arrow_c_schema__(1)


def test_methods_of_another_object_are_a_type_error():
    with pytest.raises(TypeError):
        mt.Column.__arrow_c_array__(3)
    with pytest.raises(TypeError):
        mt.Column()
    with pytest.raises(TypeError):
        mt.Column.__new__(mt.Column).__arrow_c_array__()


def test_an_export_has_length_offset_and_null_count_of_the_slice():
    c = column([1, None, 3, 4])
    for part, length, offset in ((c, 4, 0), (c[1:], 3, 1), (c[2:3], 1, 2)):
        _, capsule = part.__arrow_c_array__()
        a = array_in(capsule)
        assert (a.length, a.offset) == (length, offset) and a.null_count in (-1, part.null_count)
        assert a.buffers[1] == back(c).buffers()[1].address  # never shifted


# Lifetime


def made(node=None):
    tree = Tree(node or struct(Node(name=b"a"), Node(name=b"d", dictionary=Node(b"u", 3, (None, bytes([0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]), b"abc")))))
    return tree, mt.Column.from_arrow(Forged(tree))


@pytest.mark.parametrize(
    "derive",
    [
        lambda c: c[1:], lambda c: c[1:][1:], lambda c: c.children, lambda c: c.children[0], lambda c: c.children[1].dictionary,
        lambda c: c.__arrow_c_array__(), lambda c: c.__arrow_c_array__()[1], lambda c: c.__arrow_c_device_array__(),
        lambda c: c.children[0].__dlpack__(max_version=(1, 0)), lambda c: mt.from_dlpack(c.children[0]), lambda c: np.from_dlpack(c.children[0]),
        lambda c: mt.from_dlpack(c.children[0])[1:], lambda c: back(c), lambda c: back(c).field(0), lambda c: mt.Column.from_arrow(c[1:]),
        lambda c: c.to("cpu"), lambda c: nanoarrow.c_array(c),
    ],
)  # fmt: skip
def test_each_derived_object_keeps_the_memory_alive_and_it_is_released_once(derive):
    tree, c = made()
    one = derive(c)
    del c
    gc.collect()
    assert tree.released == {"schema": 1, "array": 0}
    two = one
    del one
    gc.collect()
    assert tree.released["array"] == 0
    del two
    gc.collect()
    assert tree.released == {"schema": 1, "array": 1}


def test_a_schema_does_not_keep_the_data_alive():
    tree, c = made()
    schema = c.__arrow_c_schema__()
    pair = c.__arrow_c_array__()
    del c
    first = pair[0]
    del pair
    assert tree.released["array"] == 1
    assert schema_in(schema).n_children == schema_in(first).n_children == 2


def test_a_column_supports_weak_references_and_threads():
    tree, c = made()
    watched = weakref.ref(c)
    parts = []
    threads = [threading.Thread(target=lambda: parts.extend(c[i % 3 :].children for i in range(200))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    del c
    gc.collect()
    assert watched() is None and tree.released["array"] == 0
    parts.clear()
    threads.clear()
    gc.collect()
    assert tree.released["array"] == 1


def test_the_release_of_memory_preserves_the_current_exception():
    """The ctypes callback runs Python code, which clears the current exception."""

    def drop():
        tree, c = made()
        tree.test = [c]
        c = None
        mt.ipc_share(tree.test.pop(), nonsense=1)

    for _ in range(3):
        with pytest.raises(TypeError):
            drop()
        with pytest.raises(TypeError):
            mt.from_dlpack(made()[1].children[0], nonsense=1)
        with pytest.raises(IndexError):
            made()[1].children[7]
        with pytest.raises(ValueError):
            made()[1][::2]


def test_the_memory_of_pyarrow_is_freed_with_the_last_column():
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    c = mt.Column.from_arrow(pa.array(range(100_000)))
    assert pool.bytes_allocated() > before
    part = c[5:]
    del c
    assert pool.bytes_allocated() > before
    del part
    assert pool.bytes_allocated() == before


# Defects of other implementations


def test_an_empty_column_is_exported_with_an_offset():
    """Consumers read the first offset of an empty column, which may be imported with NULL offsets."""
    for format_, buffers, children in ((b"u", 3, ()), (b"Z", 3, ()), (b"+l", 2, (Node(length=0, buffers=(None, None)),))):
        tree = Tree(Node(format_, 0, (None,) * buffers, children))
        c = mt.Column.from_arrow(Forged(tree))
        c.validate(full=True)
        a = array_in(c.__arrow_c_array__()[1])
        assert a.length == 0 and ctypes.string_at(a.buffers[1] + a.offset * 4, 8) == bytes(8)
        assert back(c).to_pylist() == []
    views = mt.Column.from_arrow(Forged(Tree(Node(b"vu", 0, (None, None, None)))))
    assert back(views).to_pylist() == []


def test_concatenated_columns_have_zeros_in_padding_and_null_slots():
    """Bits after the last item and values of nulls may be uninitialised memory of the producer."""
    garbage = Node(length=3, null_count=-1, buffers=(b"\xf5", b"\1\0\0\0\xee\xee\xee\xee\3\0\0\0"))
    c = mt.Column.from_arrow(Chunks(Tree(Node()), [Tree(garbage), Tree(garbage)]))
    bits, data = back(c).buffers()
    assert bits.to_pybytes()[0] == 0b101101 and data.to_pybytes()[4:8] == bytes(4)
    assert back(c).to_pylist() == [1, None, 3, 1, None, 3]
    a = array_in(c.__arrow_c_array__()[1])
    assert ctypes.string_at(a.buffers[0], 64) == b"\x2d" + bytes(63) and ctypes.string_at(a.buffers[1] + 24, 40) == bytes(40)


def test_concatenated_buffers_are_aligned_and_padded_to_64_bytes():
    """The validity of 1000 rows has 128 bytes."""
    array = pa.array([None if i % 3 == 0 else i for i in range(500)])
    c = mt.Column.from_arrow(pa.chunked_array([array, array]))
    a = array_in(c.__arrow_c_array__()[1])
    assert a.buffers[0] % 64 == a.buffers[1] % 64 == 0 and ctypes.string_at(a.buffers[0] + 125, 3) == bytes(3)


def test_a_slice_shares_validity_data_and_offsets():
    """The slice is expressed by the offset of the array; no buffer is shifted."""
    array = pa.array(["a", None, "ccc", "dd", None, "f"])
    c = mt.Column.from_arrow(array)[1:5][1:]
    a, whole = array_in(c.__arrow_c_array__()[1]), [b.address for b in array.buffers()]
    assert (a.offset, a.length) == (2, 3) and [a.buffers[i] for i in range(3)] == whole


def test_an_empty_slice_of_a_view_column_is_valid():
    """validate of pyarrow refuses its own empty slices."""
    for type_ in (pa.string_view(), pa.binary_view()):
        part = pa.array(["a", "b", "c"], type_)[3:]
        mt.Column.from_arrow(part).validate(full=True)


def test_an_empty_slice_begins_at_an_offset_that_is_valid():
    """Offsets in front of a slice may have any values, and pyarrow reads the first offset of an empty array."""
    offsets = np.array([-7, -7, 0, 1, 2], "i4").tobytes()
    for format_, more in ((b"u", (b"ab",)), (b"+l", ())):
        child = Node(format_, 2, (None, offsets, *more), (Node(name=b"item"),) if format_ == b"+l" else (), offset=2, name=b"x")
        for format_of_parent, buffer in ((b"+s", None), (b"+w:1", None), (b"+us:0", bytes(2))):
            c = mt.Column.from_arrow(Forged(Tree(Node(format_of_parent, 2, (buffer,), (child,), null_count=0))))
            c.validate(full=True)
            for begin in range(3):
                back(c[begin:begin]).validate(full=True)


# DLPack


@pytest.mark.parametrize("type_", [*trees.INTEGERS, *trees.FLOATS], ids=str)
def test_numbers_without_nulls_are_shared_read_only(type_):
    array = trees.leaf(type_, "none")
    for offset in (0, 1, 7):
        c = mt.Column.from_arrow(array)[offset:]
        t = mt.from_dlpack(c)
        assert (t.readonly, t.copied, t.shape) == (True, False, (40 - offset,))
        assert t.data_ptr == array.buffers()[1].address + offset * type_.bit_width // 8
        assert t.tolist() == array[offset:].to_pylist()
        n = np.from_dlpack(c)
        assert not n.flags.writeable and n.ctypes.data == t.data_ptr
        assert c.__dlpack_device__() == (1, 0)
        mine = mt.from_dlpack(c, copy=True)
        assert (mine.readonly, mine.copied) == (False, True) and mine.tolist() == t.tolist()
        assert mt.from_dlpack(c, copy=False).data_ptr == t.data_ptr


@pytest.mark.parametrize("type_", trees.TIMES, ids=str)
def test_times_are_shared_as_integers(type_):
    array = trees.leaf(type_, "none")
    t = mt.from_dlpack(mt.Column.from_arrow(array)[3:])
    integer = pa.int32() if type_.bit_width == 32 else pa.int64()
    assert t.dtype == str(integer) and t.tolist() == array[3:].view(integer).to_pylist() and t.readonly and not t.copied


def test_booleans_are_copied():
    values = [i % 3 == 0 for i in range(200)]
    for offset in range(18):
        c = column(values)[offset:]
        for t in (mt.from_dlpack(c), mt.from_dlpack(c, copy=True)):
            assert (t.dtype, t.copied, t.readonly, t.tolist()) == ("bool", True, False, values[offset:])
        assert np.from_dlpack(c).tolist() == values[offset:]
        with pytest.raises(BufferError) as caught:
            c.__dlpack__(copy=False)
        assert isinstance(caught.value, ValueError)
    assert mt.from_dlpack(column([], pa.bool_())).tolist() == []
    t = mt.from_dlpack(column(values).__dlpack__())  # a legacy capsule
    assert t.tolist() == values


def test_a_legacy_capsule_holds_a_copy():
    c = column([1, 2, 3])
    t = mt.from_dlpack(c.__dlpack__())
    assert t.tolist() == [1, 2, 3] and t.data_ptr != back(c).buffers()[1].address
    with pytest.raises(BufferError) as caught:
        c.__dlpack__(copy=False)
    assert isinstance(caught.value, ValueError)
    assert name_of(c.__dlpack__(max_version=(1, 0), copy=False)) == b"dltensor_versioned"
    assert name_of(c.__dlpack__(max_version=(0, 8))) == b"dltensor"


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, None, 3]), pa.array([True, None]), pa.array([None, None]), pa.array(["a"]), pa.array([b"a"]),
        pa.array([[1], [2]]), pa.array([["a", "b"]], pa.list_(pa.string(), 2)), pa.array([{"a": 1}]), pa.array([1], pa.decimal128(9, 2)),
        pa.DictionaryArray.from_arrays([0, 1], ["a", "b"]), pa.array([(1, 2, 3)], pa.month_day_nano_interval()), pa.array([b"12345"], pa.binary(5)),
        pa.RunEndEncodedArray.from_arrays([1, 3], [4, 5]), pa.array(["a"], pa.string_view()), pa.nulls(0),
    ],
    ids=lambda a: str(a.type),
)  # fmt: skip
def test_other_columns_are_a_buffer_error(array):
    c = mt.Column.from_arrow(array)
    for arguments in ({}, {"copy": True}, {"copy": False}, {"max_version": (1, 0)}):
        with pytest.raises(BufferError) as caught:
            c.__dlpack__(**arguments)
        assert not isinstance(caught.value, ValueError)


def test_a_slice_without_nulls_is_exported():
    c = column([None, 1, 2, None])
    assert mt.from_dlpack(c[1:3]).tolist() == [1, 2]
    assert mt.from_dlpack(c[1:1]).tolist() == []
    with pytest.raises(BufferError):
        c[1:].__dlpack__()


def test_nan_is_not_null():
    c = column([1.0, float("nan"), 3.0])
    assert c.null_count == 0
    assert np.isnan(np.from_dlpack(c)).tolist() == [False, True, False]
    both = column([float("nan"), None])
    assert both.null_count == 1 and back(both).is_null().to_pylist() == [False, True]
    assert back(both).is_null(nan_is_null=True).to_pylist() == [True, True]
    with pytest.raises(BufferError):
        both.__dlpack__()


def test_invalid_arguments_of_dlpack_raise_the_errors_of_tensors():
    c = column([1, 2, 3])
    for bad in ({"stream": 1}, {"stream": 0}, {"stream": "a"}, {"max_version": (1, -1)}, {"copy": 1}, {"dl_device": (1,)}):
        with pytest.raises(ValueError):
            c.__dlpack__(**bad)
    with pytest.raises(TypeError):
        c.__dlpack__(max_version=1)
    c.__dlpack__(stream=None)
    c.__dlpack__(stream=-1)
    with pytest.raises(TypeError):
        c.__dlpack__(None)
    with pytest.raises(TypeError):
        c.__dlpack__(unknown=None)
    if not mt.cuda_available():
        with pytest.raises(BufferError):
            c.__dlpack__(max_version=(1, 0), dl_device=(2, 0))


def test_torch_and_jax_import_columns():
    import torch

    c = column([1.5, 2.5, 3.5])
    assert torch.from_dlpack(c[1:]).tolist() == [2.5, 3.5]
    import jax

    assert jax.numpy.from_dlpack(column([1, 2], pa.int32())).tolist() == [1, 2]


# Other devices


@pytest.mark.parametrize("device", ["cpu", (1, 0), "cpu:0", np.arange(1)], ids=["name", "pair", "numbered", "array"])
def test_to_the_same_device_shares(device):
    for seed in range(3):
        array = trees.Forest(seed).tree()[1:]
        c = mt.Column.from_arrow(array)
        same = c.to(device)
        assert (same.device, same.offset, same.length) == ((1, 0), c.offset, c.length)
        assert [pointer_of(x) for x in same.__arrow_c_array__()]
        assert [b and b.address for b in back(same).buffers()] == [b and b.address for b in back(c).buffers()]


def test_to_an_invalid_or_unavailable_device_is_an_error():
    c = column([1, 2, 3])
    for bad in ("nowhere", "cuda:", 3, None, (1,), object()):
        with pytest.raises(ValueError):
            c.to(bad)
    if not mt.cuda_available():
        for device in ("cuda", "cuda:0", (2, 0), "cuda_host", "cuda_managed"):
            with pytest.raises(BufferError):
                c.to(device)
    for device in ("metal", (8, 0), "vulkan"):
        with pytest.raises(BufferError):
            c.to(device)


def test_validate_accepts_full_by_position_and_keyword():
    c = column([1, 2, 3])
    assert c.validate() is None and c.validate(True) is None and c.validate(full=False) is None
    assert "Column" in repr(c) and "'l'" in repr(c)


def test_a_single_chunk_is_shared():
    stream = Chunks(Tree(Node()), [chunk := Tree(Node())])
    c = mt.Column.from_arrow(stream)
    pair = c.__arrow_c_array__()
    assert array_in(pair[1]).buffers[1] == chunk.array.buffers[1]
    del pair
    assert stream.released == 1 and chunk.released["array"] == 0
    del c
    assert chunk.released["array"] == 1
