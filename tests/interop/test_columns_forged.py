"""Invalid arrays and schemas: refused with a ValueError that names the node, and released once or not consumed."""

import ctypes
import gc
import struct as pack

import pyarrow as pa
import pytest
from arrow_forge import ARRAY, SCHEMA, Array, Chunks, Forged, Node, Schema, Tree, array_in, capsule, schema_in, struct
from forge import new_capsule

import minitensor as mt

INT32S = pack.pack("<3i", 1, 2, 3)
GOOD = Node()


def wrap(node):
    """Nests a node in a list `items` of a struct `orders`, for errors with paths."""
    items = Node(b"+l", 1, (None, pack.pack("<2i", 0, 3)), [node], name=b"items")
    return struct(items, length=1, name=b"orders")


def utf8(offsets, data=b"abcdef", length=None, **fields):
    return Node(b"u", len(offsets) - 1 if length is None else length, (None, pack.pack(f"<{len(offsets)}i", *offsets), data), **fields)


def view(lengths, **fields):
    views = pack.pack("<i12s", 1, b"a") * 3
    return Node(b"vu", 3, (None, views, *[b"x" * 16] * len(lengths), pack.pack(f"<{len(lengths)}q", *lengths)), **fields)


INVALID = {
    "no format": Node(format=None),
    "an empty format": Node(format=b""),
    "an unknown format": Node(format=b"Q"),
    "trailing characters in a format": Node(format=b"ii"),
    "a format that is not UTF-8": Node(format=b"\xff\xfe\x01"),
    "a width that overflows": Node(b"w:99999999999", buffers=(None, b"")),
    "a negative length": Node(length=-1),
    "the smallest length": Node(length=-(2**63)),
    "a negative offset": Node(offset=-1),
    "an offset that overflows": Node(length=2**62, offset=2**62 + 2**61),
    "bytes that overflow": Node(length=2**62),
    "a null count below -1": Node(null_count=-2),
    "a null count above the length": Node(null_count=4),
    "nulls without a validity": Node(null_count=2),
    "too few buffers": Node(n_buffers=1),
    "too many buffers": Node(buffers=(None, INT32S, INT32S)),
    "a negative number of buffers": Node(n_buffers=-1),
    "no buffers at all": Node(no_buffers=True),
    "no data": Node(buffers=(None, None)),
    "no offsets": Node(b"u", 3, (None, None, b"abc")),
    "children of a number": Node(children=[GOOD]),
    "no children of a list": Node(b"+l", 1, (None, pack.pack("<2i", 0, 3))),
    "two children of a list": Node(b"+l", 1, (None, pack.pack("<2i", 0, 3)), [GOOD, GOOD]),
    "children that are NULL": struct(GOOD, no_array_children=True),
    "schemas of children that are NULL": struct(GOOD, no_schema_children=True),
    "a child that is NULL": struct(GOOD, GOOD, absent_arrays=[1]),
    "a child's schema that is NULL": struct(GOOD, GOOD, absent_schemas=[1]),
    "more children in the array": struct(GOOD, schema_children=0),
    "fewer children in the array": struct(GOOD, GOOD, array_children=1),
    "a negative number of children": struct(GOOD, array_children=-1, schema_children=-1),
    "very many children": struct(GOOD, array_children=2**40, schema_children=2**40),
    "a child that is too short": struct(Node(length=2)),
    "a released child": struct(Node(array_released=True)),
    "a child's released schema": struct(Node(schema_released=True)),
    "a fixed-size list that is too long": Node(b"+w:2", 3, (None,), [GOOD]),
    "a fixed-size list of negative width": Node(b"+w:-1", 3, (None,), [GOOD]),
    "a dictionary in the schema only": Node(dictionary=utf8([0, 1, 2]), array_dictionary=False),
    "a dictionary in the array only": Node(dictionary=utf8([0, 1, 2]), schema_dictionary=False),
    "a dictionary of a float": Node(b"f", dictionary=utf8([0, 1, 2])),
    "a map of a number": Node(b"+m", 1, (None, pack.pack("<2i", 0, 3)), [GOOD]),
    "a map of a struct of three": Node(b"+m", 1, (None, pack.pack("<2i", 0, 3)), [struct(GOOD, GOOD, GOOD)]),
    "run ends of text": Node(b"+r", 3, (), [utf8([0, 1, 2, 3]), GOOD]),
    "no run ends": Node(b"+r", 3, (), [Node(length=0), GOOD]),
    "more type ids than children": Node(b"+us:0,1", 3, (b"\0\0\0",), [GOOD]),
    "type ids that are not numbers": Node(b"+us:a", 3, (b"\0\0\0",), [GOOD]),
    "a union with nulls": Node(b"+us:0", 3, (b"\0\0\0",), [GOOD], null_count=1),
    "a negative variadic length": view([-1]),
    "a variadic length without data": Node(b"vu", 3, (None, b"\0" * 48, None, pack.pack("<q", 16))),
    "no variadic lengths": Node(b"vu", 3, (None, b"\0" * 48, b"x" * 16, None)),
    "a view without the buffer of lengths": Node(b"vu", 3, (None, b"\0" * 48)),
    "metadata of a negative length": Node(metadata=pack.pack("<ii", 1, -5)),
    "metadata of a negative number of pairs": Node(metadata=pack.pack("<i", -1)),
}


def refused(node, text=None):
    tree = Tree(node)
    with pytest.raises(ValueError) as caught:
        mt.Column.from_arrow(Forged(tree))
    assert tree.is_untouched_or_released_once(), tree.released
    if text is not None:
        assert text in str(caught.value)
    return str(caught.value)


def test_the_nodes_of_the_invalid_arrays_are_valid_on_their_own():
    for node in (GOOD, wrap(GOOD), utf8([0, 1, 2, 3]), view([16]), view([]), struct(GOOD, GOOD), Node(dictionary=utf8([0, 1, 2, 3]))):
        tree = Tree(node)
        column = mt.Column.from_arrow(Forged(tree))
        assert tree.released == {"schema": 1, "array": 0} and not tree.array.release
        column.validate()
        del column
        gc.collect()
        assert tree.released == {"schema": 1, "array": 1}


@pytest.mark.parametrize("case", INVALID)
def test_an_invalid_root_is_refused_with_its_name(case):
    assert "column" in refused(INVALID[case])


@pytest.mark.parametrize("case", INVALID)
def test_an_invalid_descendant_is_refused_with_its_path(case):
    node = INVALID[case]
    fields = {**node.fields, "name": b"price"}
    below = Node(node.format, node.length, node.buffers, node.children, node.dictionary, **fields)
    holder = struct(below, length=0, name=b"ignored")
    assert "orders.items[].price" in refused(wrap(holder))


def test_paths_of_errors():
    bad = Node(format=b"Q")
    lists = pack.pack("<2i", 0, 3)
    refused(Node(format=b"Q"), "column: ")
    refused(Node(format=b"Q", name=b"prices"), "prices: ")
    refused(struct(Node(format=b"Q", name=b"a")), "column.a: ")
    refused(Node(b"+l", 1, (None, lists), [bad]), "column[]: ")
    refused(Node(b"+w:1", 3, (None,), [bad]), "column[]: ")
    refused(Node(b"+m", 1, (None, lists), [struct(GOOD, Node(format=b"Q", name=b"value"))]), "column{}.value: ")
    refused(Node(dictionary=bad), "column<dictionary>: ")
    refused(Node(b"+r", 3, (), [bad, GOOD]), "column<run_ends>: ")
    refused(Node(b"+r", 3, (), [Node(), bad]), "column<values>: ")
    refused(Node(b"+us:0", 3, (b"\0\0\0",), [Node(format=b"Q", name=b"a")]), "column.a: ")


def test_a_released_root_is_refused():
    tree = Tree(GOOD, releases=False)
    with pytest.raises(ValueError, match="released"):
        mt.Column.from_arrow(Forged(tree))
    for kind in ("schema", "array"):
        tree = Tree(GOOD)
        getattr(tree, kind).release = None
        with pytest.raises(ValueError, match="released"):
            mt.Column.from_arrow(Forged(tree))
        assert tree.released == {"schema": 0, "array": 0}


def test_a_pair_of_capsules_can_be_imported_once():
    class Same:
        def __init__(self, x):
            self.pair = x.__arrow_c_array__()

        def __arrow_c_array__(self, requested_schema=None):
            return self.pair

    same = Same(mt.Column.from_arrow(Forged(Tree(GOOD))))
    assert mt.Column.from_arrow(same).length == 3
    with pytest.raises(ValueError, match="released"):
        mt.Column.from_arrow(same)
    tree = Tree(GOOD)
    forged = Forged(tree)
    first = mt.Column.from_arrow(forged)
    with pytest.raises(ValueError):
        mt.Column.from_arrow(forged)
    del first
    assert tree.released == {"schema": 1, "array": 1}


def test_a_tree_that_contains_itself_is_refused():
    tree = Tree(struct(GOOD, GOOD))
    tree.schema.children[1] = ctypes.pointer(tree.schema)
    tree.array.children[1] = ctypes.pointer(tree.array)
    with pytest.raises(ValueError, match="deep"):
        mt.Column.from_arrow(Forged(tree))
    assert tree.is_untouched_or_released_once()
    tree = Tree(struct(GOOD))
    tree.schema.children[0] = ctypes.pointer(tree.schema)
    tree.array.children[0] = ctypes.pointer(tree.array)
    with pytest.raises(ValueError, match="deep"):
        mt.Column.from_arrow(Forged(tree))
    tree = Tree(Node(dictionary=GOOD))
    tree.schema.dictionary, tree.array.dictionary = ctypes.pointer(tree.schema), ctypes.pointer(tree.array)
    with pytest.raises(ValueError, match="deep"):
        mt.Column.from_arrow(Forged(tree))
    assert tree.is_untouched_or_released_once()


def test_deep_trees_are_refused_and_wide_trees_imported():
    node = GOOD
    for _ in range(40):
        node = struct(node)
    mt.Column.from_arrow(Forged(Tree(node))).validate()
    for _ in range(300):
        node = struct(node)
    refused(node, "deep")
    wide = mt.Column.from_arrow(Forged(Tree(struct(*[GOOD] * 5000))))
    assert len(wide.children) == 5000


def full(node, text=None):
    """Checks that the structure is valid and the values are not."""
    tree = Tree(node)
    column = mt.Column.from_arrow(Forged(tree))
    column.validate()
    with pytest.raises(ValueError) as caught:
        column.validate(full=True)
    if text is not None:
        assert text in str(caught.value)
    del column
    assert tree.released == {"schema": 1, "array": 1}


def lists(offsets, child, format_=b"+l", **fields):
    return Node(format_, len(offsets) - 1, (None, pack.pack(f"<{len(offsets)}i", *offsets)), [child], **fields)


def test_full_validation_reads_the_values():
    full(utf8([0, 2, 1, 3]), "column: ")
    full(utf8([-1, 0, 1, 2]))
    full(utf8([0, 1, 2, 3], b"\xff\xfe\xfd"))
    full(lists([0, 2, 1], GOOD))
    full(lists([0, 1, 4], GOOD))
    full(lists([-2, 1, 3], GOOD))
    full(Node(buffers=(None, pack.pack("<3i", 0, 1, 7)), dictionary=utf8([0, 1, 2])), "column")
    full(Node(buffers=(None, pack.pack("<3i", 0, -1, 1)), dictionary=utf8([0, 1, 2])))
    full(Node(b"+us:0,1", 3, (b"\0\1\2",), [GOOD, GOOD]))
    full(Node(b"+ud:0", 3, (b"\0\0\0", pack.pack("<3i", 0, 1, 3)), [GOOD]))
    full(Node(b"+r", 3, (), [Node(buffers=(None, pack.pack("<3i", 2, 1, 3))), GOOD]))
    full(Node(b"+r", 3, (), [Node(buffers=(None, pack.pack("<3i", 0, 1, 2))), GOOD]))
    full(Node(null_count=0, buffers=(b"\5", INT32S)), "null")
    full(struct(Node(b"vu", 3, (None, pack.pack("<i4sii", 20, b"abcd", 0, 0) * 3, b"x" * 16, pack.pack("<q", 16)), name=b"t")), "column.t")
    full(struct(Node(b"vu", 3, (None, pack.pack("<i4sii", 14, b"abcd", 7, 0) * 3, b"x" * 16, pack.pack("<q", 16)), name=b"t")), "column.t")


@pytest.mark.parametrize("null_count", [-1, 0, 2, 3])
def test_all_items_of_a_null_column_are_null_for_any_null_count(null_count):
    node = Node(b"n", 3, (), null_count=null_count)
    theirs = pa.Array._import_from_c_capsule(*Forged(Tree(node)).__arrow_c_array__())
    theirs.validate(full=True)
    ours = mt.Column.from_arrow(Forged(Tree(node)))
    ours.validate(full=True)
    assert ours.null_count == theirs.null_count == 3 and pa.array(ours).null_count == 3
    nested = mt.Column.from_arrow(Forged(Tree(struct(Node(b"n", 3, (), null_count=null_count, name=b"x")))))
    nested.validate(full=True)
    assert nested.children[0].null_count == 3


def test_full_validation_ignores_the_values_of_nulls():
    numbers = Node(null_count=1, buffers=(b"\x05", pack.pack("<3i", 0, 99, 1)), dictionary=utf8([0, 1, 2]))
    mt.Column.from_arrow(Forged(Tree(numbers))).validate(full=True)


def test_wrong_capsules_are_a_type_error():
    def importing(value):
        class It:
            def __arrow_c_array__(self, requested_schema=None):
                return value

        with pytest.raises(TypeError):
            mt.Column.from_arrow(It())

    tree = Tree(GOOD)
    schema, array = capsule(tree.schema, SCHEMA), capsule(tree.array, ARRAY)
    for value in (None, 3, "ab", (), (schema,), (schema, array, array), (array, schema), (schema, schema), (None, array), (schema, None), schema):
        importing(value)
    importing((new_capsule(ctypes.addressof(tree.schema), None, None), array))
    importing((schema, capsule(tree.array, b"used_arrow_array")))
    assert tree.released == {"schema": 0, "array": 0} and tree.schema.release and tree.array.release
    assert mt.Column.from_arrow(Forged(tree)).length == 3  # not consumed

    class Streams:
        def __arrow_c_stream__(self, requested_schema=None):
            return array

    with pytest.raises(TypeError, match="arrow_array_stream"):
        mt.Column.from_arrow(Streams())


def chunks(n, **fields):
    return Chunks(Tree(GOOD), [Tree(GOOD) for _ in range(n)], **fields)


def test_the_error_contains_the_text_of_the_stream_and_all_is_released_once():
    for stream, kind in (
        (chunks(0, fail_schema=5), OSError),
        (chunks(2, fail_next=(0, 5)), OSError),
        (chunks(2, fail_next=(1, 5)), OSError),
        (chunks(2, fail_next=(2, 22)), ValueError),
        (chunks(2, fail_next=(1, 12)), MemoryError),
    ):
        with pytest.raises(kind, match="the source failed"):
            mt.Column.from_arrow(stream)
        for tree in stream.chunks[: stream.given]:
            assert tree.released["array"] == 1
        assert stream.released == (0 if stream.stream.release else 1)
        assert stream.schema_tree.is_untouched_or_released_once() or stream.schema_tree.released["schema"] == 1


def test_the_text_of_a_stream_may_be_absent_or_long():
    with pytest.raises(OSError):
        mt.Column.from_arrow(chunks(1, fail_next=(0, 5), text=None))
    with pytest.raises(OSError):
        mt.Column.from_arrow(chunks(1, fail_next=(0, 5), text=b""))
    with pytest.raises(OSError, match="xxxxxxxxxx"):
        mt.Column.from_arrow(chunks(1, fail_next=(0, 5), text=b"x" * 100_000))
    with pytest.raises(OSError):
        mt.Column.from_arrow(chunks(1, fail_next=(0, 5), text=b"\xff\xfe not UTF-8"))


def test_invalid_streams_are_refused():
    for missing in range(4):
        with pytest.raises(ValueError):
            mt.Column.from_arrow(chunks(1, missing=[missing]))
    for bad in (Node(format=b"Q"), Node(format=None)):
        stream = Chunks(Tree(bad), [])
        with pytest.raises(ValueError):
            mt.Column.from_arrow(stream)
        assert stream.schema_tree.released["schema"] == 1
    stream = Chunks(Tree(GOOD), [Tree(GOOD), Tree(Node(length=-1))])
    with pytest.raises(ValueError):
        mt.Column.from_arrow(stream)
    assert [t.released["array"] for t in stream.chunks] == [1, 1]
    assert stream.released == 1


def test_a_stream_can_be_imported_once():
    stream = chunks(1)
    assert mt.Column.from_arrow(stream).length == 3
    assert stream.released == 1
    with pytest.raises(ValueError):
        mt.Column.from_arrow(stream)
    assert stream.released == 1


def test_a_chunk_of_another_type_than_the_stream_is_refused():
    other = Tree(struct(GOOD))
    stream = Chunks(Tree(GOOD), [other])
    with pytest.raises(ValueError):
        mt.Column.from_arrow(stream)
    assert other.released["array"] == 1


def test_capsules_that_are_not_consumed_release_once():
    for _ in range(100):
        column = mt.Column.from_arrow(Forged(tree := Tree(wrap(struct(GOOD, length=0)))))
        pair = column.__arrow_c_array__()
        device_pair = column.__arrow_c_device_array__()
        schema = column.__arrow_c_schema__()
        del column
        assert tree.released["array"] == 0
        array_in(pair[1])
        assert schema_in(pair[0]).format == b"+s" and schema_in(schema).format == b"+s"
        del pair, schema
        assert tree.released["array"] == 0
        del device_pair
        assert tree.released["array"] == 1


def test_structs_that_are_moved_out_outlive_their_capsules():
    column = mt.Column.from_arrow(Forged(tree := Tree(struct(GOOD, GOOD))))
    schema_capsule, array_capsule = column.__arrow_c_array__()
    array, schema = Array.from_buffer_copy(array_in(array_capsule)), Schema.from_buffer_copy(schema_in(schema_capsule))
    array_in(array_capsule).release = None
    schema_in(schema_capsule).release = None
    child = Array.from_buffer_copy(array.children[1].contents)
    array.children[1].contents.release = None  # the interface permits moving a child out of its parent
    del schema_capsule, array_capsule, column
    assert tree.released["array"] == 0 and schema.children[0].contents.format == b"i"
    release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    release(array.release)(ctypes.addressof(array))
    assert not array.release and tree.released["array"] == 0
    assert ctypes.string_at(child.buffers[1], 12) == INT32S
    release(child.release)(ctypes.addressof(child))
    assert not child.release and tree.released["array"] == 1
    release(schema.release)(ctypes.addressof(schema))
    assert not schema.release
