"""mt.Column with a requested_schema: the values of pyarrow's cast, and the column unchanged where values would be lost."""

import decimal
import itertools
import random

import duckdb
import nanoarrow
import polars
import pyarrow as pa
import pytest
from arrow_forge import schema_in

import minitensor as mt

TEXT = [pa.string(), pa.large_string(), pa.string_view()]
BYTES = [pa.binary(), pa.large_binary(), pa.binary_view()]
INTEGERS = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
DECIMALS = [pa.decimal32(9, 2), pa.decimal64(18, 2), pa.decimal128(38, 2), pa.decimal256(76, 2)]
LISTS = [pa.list_, pa.large_list, pa.list_view, pa.large_list_view]
VALUES = [*TEXT, *BYTES, pa.int16(), pa.float64(), pa.bool_(), pa.decimal128(9, 2), pa.binary(3)]
PAIRS = [
    *itertools.permutations(TEXT, 2),
    *itertools.permutations(BYTES, 2),
    *itertools.product(TEXT, BYTES),
    *itertools.permutations(INTEGERS, 2),
    *itertools.permutations(DECIMALS, 2),
    *((a(pa.int16()), b(pa.int64())) for a, b in itertools.permutations(LISTS, 2)),
    *((a(pa.string()), b(pa.string_view())) for a, b in itertools.product(LISTS, LISTS)),
    *((pa.dictionary(index, value), value) for index in (pa.int8(), pa.uint32()) for value in VALUES),
    (pa.dictionary(pa.int8(), pa.string()), pa.string_view()),
    (pa.dictionary(pa.int8(), pa.list_(pa.int8())), pa.large_list_view(pa.int16())),
    (pa.dictionary(pa.int8(), pa.struct([("a", pa.int8()), ("b", pa.string())])), pa.struct([("a", pa.int64()), ("b", pa.large_string())])),
    (pa.dictionary(pa.int16(), pa.string()), pa.dictionary(pa.int8(), pa.large_string())),
    (pa.map_(pa.string(), pa.int8()), pa.map_(pa.large_string(), pa.int64())),
    (pa.list_(pa.string(), 3), pa.list_(pa.string_view(), 3)),
    (pa.struct([("a", pa.int8()), ("b", pa.string())]), pa.struct([("a", pa.uint64()), ("b", pa.string_view())])),
]  # fmt: skip


def value(rng, type_):
    """A random value that every type of its group can represent; None for a null."""
    if rng.random() < 0.2:
        return None
    if pa.types.is_dictionary(type_):
        return value(rng, type_.value_type)
    if pa.types.is_struct(type_):
        return {field.name: value(rng, field.type) for field in type_}
    if pa.types.is_map(type_):
        return [(text(rng), value(rng, type_.item_type)) for _ in range(rng.randrange(4))]
    if pa.types.is_fixed_size_list(type_):
        return [value(rng, type_.value_type) for _ in range(type_.list_size)]
    if pa.types.is_nested(type_):
        return [value(rng, type_.value_type) for _ in range(rng.choice([0, 1, 2, 9]))]
    if pa.types.is_decimal(type_):
        return decimal.Decimal(rng.randint(-(10**9) + 1, 10**9 - 1)).scaleb(-2)
    if pa.types.is_fixed_size_binary(type_):
        return rng.randbytes(type_.byte_width)
    if pa.types.is_integer(type_):
        return rng.randrange(128)
    if pa.types.is_boolean(type_):
        return rng.random() < 0.5
    if pa.types.is_floating(type_):
        return rng.random()
    return text(rng) if type_ in TEXT else text(rng).encode()


def text(rng):
    return "".join(rng.choices("aé€😀", k=rng.choice([0, 1, 3, 4, 5, 12, 13, 40])))


def array(rng, type_, count):
    if not pa.types.is_dictionary(type_):
        return pa.array([value(rng, type_) for _ in range(count)], type_)
    values = array(rng, type_.value_type, 30)
    indices = [rng.choice([None, *range(30)]) for _ in range(count)]
    return pa.DictionaryArray.from_arrays(pa.array(indices, type_.index_type), values)


def cast(of, type_):
    """pyarrow's cast; where it has none, or one that is invalid, its array of the same values."""
    if "list_view" in str(of.type):  # offsets without the last one, in pyarrow 26
        return pa.array(of.to_pylist(), type_)
    try:
        return of.cast(type_)
    except pa.ArrowNotImplementedError:
        return pa.array(of.to_pylist(), type_)


def requested(of, type_, method="array"):
    c = mt.Column.from_arrow(of)
    wanted = type_.__arrow_c_schema__()
    if method == "array":
        return pa.Array._import_from_c_capsule(*c.__arrow_c_array__(wanted))
    if method == "device_array":
        return pa.Array._import_from_c_device_capsule(*c.__arrow_c_device_array__(wanted))
    if method == "stream":
        return pa.ChunkedArray._import_from_c_capsule(c.__arrow_c_stream__(wanted)).chunk(0)
    return pa.array(mt.Column.from_arrow(OneStream(c.__arrow_c_device_stream__(wanted))))


class OneStream:
    def __init__(self, capsule):
        self._capsule = capsule

    def __arrow_c_device_stream__(self, requested_schema=None, **kwargs):
        return self._capsule


def check(of, type_, **how):
    out = requested(of, type_, **how)
    out.validate(full=True)
    assert out.type == type_
    assert out.equals(cast(of, type_))
    assert pa.types.is_dictionary(type_) or out.null_count == sum(x is None for x in out.to_pylist())


@pytest.mark.parametrize("type_, to", PAIRS, ids=str)
def test_values_are_those_of_a_cast(type_, to):
    rng = random.Random(str((type_, to)))
    for count in (0, 1, 70, 200):
        of = array(rng, type_, count)
        check(of, to)
        for begin in {0, count // 3, min(count, 9)}:
            for method in ("device_array", "stream", "device_stream"):
                check(of.slice(begin, (count - begin) // 2), to, method=method)
    if not pa.types.is_dictionary(type_):
        check(pa.array([x for x in of.to_pylist() if x is not None], type_), to)
    if not (pa.types.is_dictionary(type_) and pa.types.is_nested(to)):  # no item to repeat
        check(pa.nulls(5, type_), to)
    row, of_row = (pa.struct([pa.field("a", t), pa.field("b", pa.int8())]) for t in (type_, to))
    rows = pa.StructArray.from_arrays([of, pa.nulls(len(of), pa.int8())], fields=list(row), mask=pa.array([rng.random() < 0.2 for _ in of]))
    check(rows, of_row)
    check(rows.slice(3, 50), of_row)
    lists = pa.ListArray.from_arrays(pa.array([0, 3, None, 3, 99, 150]), of)
    for part in (lists, lists.slice(1, 3)):
        check(part, pa.large_list(to))


def test_list_views_that_overlap_and_are_out_of_order_become_lists():
    items = pa.array(["a", None, "ccccccccccccccccc", "d"])
    views = pa.ListViewArray.from_arrays([2, 0, 1, 3], [2, 3, 0, 1], items, mask=pa.array([False, False, False, True]))
    for to in (pa.list_(pa.string()), pa.large_list(pa.string_view()), pa.large_list_view(pa.large_string())):
        check(views, to)
        check(views.slice(1, 2), to)


@pytest.mark.parametrize("values, type_, to", [
    ([1, 128, None], pa.int16(), pa.int8()), ([-1], pa.int8(), pa.uint64()), ([2**63], pa.uint64(), pa.int64()),
    ([2**31], pa.int64(), pa.int32()), ([decimal.Decimal("1e9")], pa.decimal128(20, 2), pa.decimal32(9, 2)),
    ([decimal.Decimal("1.23")], pa.decimal128(20, 2), pa.decimal128(20, 3)), ([decimal.Decimal(100)], pa.decimal64(18, 2), pa.decimal64(4, 2)),
    ([1.5], pa.float64(), pa.float32()), ([1], pa.int64(), pa.float64()), ([1], pa.timestamp("s"), pa.timestamp("ms")),
    ([b"\xff"], pa.binary(), pa.string()), (["a"], pa.string(), pa.dictionary(pa.int8(), pa.string())), (["a"], pa.string(), pa.run_end_encoded(pa.int32(), pa.string())),
], ids=str)  # fmt: skip
def test_what_cannot_be_converted_without_loss_is_unchanged(values, type_, to):
    of = pa.array(values, type_)
    out = requested(of, to)
    assert out.type == type_ and out.equals(of)
    rows = pa.StructArray.from_arrays([of, pa.array(["text"] * len(of))], ["a", "b"])
    out = requested(rows, pa.struct([("a", to), ("b", pa.string_view())]))
    assert out.type == pa.struct([("a", type_), ("b", pa.string_view())])
    assert out.field("a").equals(of) and out.field("b").to_pylist() == ["text"] * len(of)


def test_a_value_that_does_not_fit_may_be_null():
    of = pa.Array.from_buffers(pa.int16(), 2, [pa.py_buffer(b"\x02"), pa.array([999, 1], pa.int16()).buffers()[1]])
    assert requested(of, pa.int8()).equals(pa.array([None, 1], pa.int8()))


def test_buffers_that_stay_the_same_are_shared():
    of = pa.array(["a" * 20, None, "b" * 30])
    for to in (pa.large_string(), pa.string_view(), pa.large_binary()):
        out = requested(of, to)
        assert [out.buffers()[i].address for i in (0, 2)] == [of.buffers()[i].address for i in (0, 2)]
    lists = pa.array([[1, 2], [3]], pa.list_(pa.int64()))
    assert requested(lists, pa.list_view(pa.int64())).values.buffers()[1].address == lists.values.buffers()[1].address


def test_names_flags_and_metadata_are_those_of_the_column():
    schema = pa.schema([pa.field("a", pa.string(), nullable=False, metadata={"k": "v"})], metadata={"of": "all"})
    c = mt.Column.from_arrow(pa.record_batch([pa.array(["x"])], schema=schema))
    wanted = pa.schema([pa.field("other", pa.string_view())])
    out = pa.RecordBatch._import_from_c_capsule(*c.__arrow_c_array__(wanted.__arrow_c_schema__()))
    assert out.schema.equals(pa.schema([schema.field(0).with_type(pa.string_view())], metadata=schema.metadata), check_metadata=True)


def test_the_storage_of_another_extension_type_is_unchanged():
    of = pa.array([1, None, 0], pa.bool8())
    assert requested(of, pa.int64()).type == pa.bool8()
    json = pa.array(['{"a": 1}'], pa.json_(pa.string()))
    assert requested(json, pa.json_(pa.large_string())).type == pa.json_(pa.large_string())


class Asking:
    """Passes a schema on, as a library does that wants one layout."""

    def __init__(self, of, type_):
        self._column, self._type = mt.Column.from_arrow(of), type_

    def __arrow_c_array__(self, requested_schema=None):
        return self._column.__arrow_c_array__(self._type.__arrow_c_schema__())

    def __arrow_c_schema__(self):
        return self.__arrow_c_array__()[0]


def table(rng, count=100):
    columns = [array(rng, t, count) for t in (pa.string(), pa.int8(), pa.list_(pa.string()), pa.dictionary(pa.int8(), pa.string()), pa.decimal128(9, 2))]
    schema = pa.schema(list(zip("abcde", [pa.string_view(), pa.int64(), pa.large_list(pa.large_string()), pa.string(), pa.decimal128(38, 2)], strict=True)))
    return pa.record_batch(columns, list("abcde")), schema


def test_pyarrow_gets_the_schema_that_it_asks_for():
    batch, schema = table(random.Random(1))
    c = mt.Column.from_arrow(batch)
    for out in (pa.record_batch(c, schema), pa.table(c, schema).to_batches()[0]):
        assert out.schema == schema and out.to_pylist() == batch.to_pylist()
    assert pa.array(mt.Column.from_arrow(pa.array(["a", None])), pa.large_string()).equals(pa.array(["a", None], pa.large_string()))


def test_nanoarrow_gets_the_schema_that_it_asks_for():
    batch, schema = table(random.Random(2))
    c = mt.Column.from_arrow(batch)
    out = nanoarrow.c_array(c, schema)
    assert [child.format for child in out.schema.children] == ["vu", "l", "+L", "u", "d:38,2"]
    strings = nanoarrow.Array(mt.Column.from_arrow(batch.column(0)), nanoarrow.large_string())  # of views it makes no array
    assert strings.schema.type == nanoarrow.Type.LARGE_STRING and strings.to_pylist() == batch.column(0).to_pylist()
    numbers = nanoarrow.Array(mt.Column.from_arrow(batch.column(1)), nanoarrow.int64())
    assert numbers.schema.type == nanoarrow.Type.INT64 and numbers.to_pylist() == batch.column(1).to_pylist()


def test_polars_and_duckdb_read_the_requested_layouts():
    batch, schema = table(random.Random(3))
    asking = Asking(batch, schema)
    assert schema_in(asking.__arrow_c_schema__()).n_children == 5
    assert polars.DataFrame(asking).to_dicts() == batch.to_pylist()
    made = pa.table(asking)
    assert made.schema == schema
    read = duckdb.from_arrow(made).fetchall()
    assert [dict(zip("abcde", row, strict=True)) for row in read] == batch.to_pylist()
