"""Arrow's C structs through ctypes: invalid arrays and schemas, and the number of releases of each."""

import ctypes
from ctypes import POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_void_p

from forge import new_capsule, pointer_of, static

SCHEMA, ARRAY, DEVICE_ARRAY, STREAM = b"arrow_schema", b"arrow_array", b"arrow_device_array", b"arrow_array_stream"
NULLABLE = 2


class Schema(Structure):
    pass


class Array(Structure):
    pass


RELEASE = ctypes.CFUNCTYPE(None, c_void_p)

Schema._fields_ = [
    ("format", c_char_p), ("name", c_char_p), ("metadata", c_void_p), ("flags", c_int64), ("n_children", c_int64),
    ("children", POINTER(POINTER(Schema))), ("dictionary", POINTER(Schema)), ("release", c_void_p), ("private_data", c_void_p),
]  # fmt: skip
Array._fields_ = [
    ("length", c_int64), ("null_count", c_int64), ("offset", c_int64), ("n_buffers", c_int64), ("n_children", c_int64),
    ("buffers", POINTER(c_void_p)), ("children", POINTER(POINTER(Array))), ("dictionary", POINTER(Array)), ("release", c_void_p),
    ("private_data", c_void_p),
]  # fmt: skip


class DeviceArray(Structure):
    _fields_ = [
        ("array", Array), ("device_id", c_int64), ("device_type", c_int32), ("sync_event", c_void_p), ("reserved", c_int64 * 3),
    ]  # fmt: skip


class Stream(Structure):
    _fields_ = [
        ("get_schema", c_void_p), ("get_next", c_void_p), ("get_last_error", c_void_p), ("release", c_void_p), ("private_data", c_void_p),
    ]  # fmt: skip


class Node:
    """What a column is forged of; every field may lie."""

    def __init__(self, format=b"i", length=3, buffers=(None, b"\1\0\0\0\2\0\0\0\3\0\0\0"), children=(), dictionary=None, **fields):
        self.format, self.length, self.buffers, self.children, self.dictionary = format, length, buffers, children, dictionary
        self.fields = fields  # name, flags, metadata, null_count, offset, n_buffers, n_children, no_children, no_buffers, …


def struct(*children, length=3, **fields):
    return Node(b"+s", length, (None,), children, **fields)


class Tree:
    """Structs of a tree of nodes, and how often each of the two roots was released. Never destroyed: a consumer may release a
    struct at any time, and the callback is a member."""

    all = []

    def __init__(self, root, releases=True):
        self.all.append(self)
        self.kept, self.released = [], {"schema": 0, "array": 0}
        self.schema, self.array = self._schema(root), self._array(root)
        self._release = {}
        for kind, struct_ in (("schema", self.schema), ("array", self.array)):
            self._release[kind] = RELEASE(self._counter(kind, type(struct_)))
            struct_.release = ctypes.cast(self._release[kind], c_void_p).value if releases else None

    def _counter(self, kind, type_):
        def release(address):
            self.released[kind] += 1
            type_.from_address(address).release = None

        return release

    def _pointers(self, type_, structs, absent=()):
        if not structs:
            return None
        all_ = (POINTER(type_) * len(structs))(*(None if i in absent else ctypes.pointer(s) for i, s in enumerate(structs)))
        self.kept.append((all_, structs))
        return ctypes.cast(all_, POINTER(POINTER(type_)))

    def _child_release(self):
        never = getattr(self, "_never", None)
        if never is None:
            never = self._never = RELEASE(lambda _: self.released.__setitem__("child", self.released.get("child", 0) + 1))
        return ctypes.cast(never, c_void_p).value

    def _schema(self, node):
        f = node.fields
        children = [self._schema(c) for c in node.children]
        s = Schema(format=node.format, name=f.get("name"), flags=f.get("flags", NULLABLE), n_children=f.get("schema_children", len(children)))
        if f.get("metadata") is not None:
            held = ctypes.create_string_buffer(f["metadata"], len(f["metadata"]))
            self.kept.append(held)
            s.metadata = ctypes.addressof(held)
        if not f.get("no_schema_children"):
            s.children = self._pointers(Schema, children, f.get("absent_schemas", ()))
        if node.dictionary is not None and f.get("schema_dictionary", True):
            d = self._schema(node.dictionary)
            self.kept.append(d)
            s.dictionary = ctypes.pointer(d)
        s.release = self._child_release() if not f.get("schema_released") else None
        self.kept.append(s)
        return s

    def _array(self, node):
        f = node.fields
        children = [self._array(c) for c in node.children]
        addresses = []
        for b in node.buffers:
            if isinstance(b, bytes):
                held = ctypes.create_string_buffer(b, max(len(b), 1))
                self.kept.append(held)
                b = ctypes.addressof(held)
            addresses.append(b)
        a = Array(length=node.length, null_count=f.get("null_count", -1), offset=f.get("offset", 0))
        a.n_buffers, a.n_children = f.get("n_buffers", len(addresses)), f.get("array_children", len(children))
        if addresses and not f.get("no_buffers"):
            held = (c_void_p * len(addresses))(*addresses)
            self.kept.append(held)
            a.buffers = ctypes.cast(held, POINTER(c_void_p))
        if not f.get("no_array_children"):
            a.children = self._pointers(Array, children, f.get("absent_arrays", ()))
        if node.dictionary is not None and f.get("array_dictionary", True):
            d = self._array(node.dictionary)
            self.kept.append(d)
            a.dictionary = ctypes.pointer(d)
        a.release = self._child_release() if not f.get("array_released") else None
        self.kept.append(a)
        return a

    def is_untouched_or_released_once(self):
        """Each root is as it was, or has been released by the callback, once; no child ever by itself."""
        ok = "child" not in self.released
        for kind, struct_ in (("schema", self.schema), ("array", self.array)):
            ok &= self.released[kind] == (0 if struct_.release else 1)
        return ok


def capsule(struct_, name):
    """A capsule without a destructor: a test that keeps the struct sees how it was changed."""
    return new_capsule(ctypes.addressof(struct_), static(name), None)


class Forged:
    """An object with `__arrow_c_array__`, or the device's."""

    def __init__(self, tree, device=None):
        self.tree, self.device = tree, device
        if device is not None:
            type_, id_, event = device
            self.device_array = DeviceArray(array=tree.array, device_id=id_, device_type=type_, sync_event=event)
            tree.array = self.device_array.array

    def _pair(self):
        if self.device is None:
            return capsule(self.tree.schema, SCHEMA), capsule(self.tree.array, ARRAY)
        return capsule(self.tree.schema, SCHEMA), capsule(self.device_array, DEVICE_ARRAY)

    def __getattr__(self, name):
        wanted = "__arrow_c_array__" if self.device is None else "__arrow_c_device_array__"
        if name == wanted:
            return self._pair
        raise AttributeError(name)


class Chunks:
    """An object with `__arrow_c_stream__` over trees: what each call returns can be told."""

    all = []

    def __init__(self, schema, chunks=(), fail_schema=0, fail_next=None, text=b"the tape is torn", missing=()):
        self.all.append(self)
        self.schema_tree, self.chunks, self.given, self.released = schema, list(chunks), 0, 0
        self.text = ctypes.create_string_buffer(text) if text is not None else None
        prototype = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)

        def get_schema(_, out):
            if fail_schema:
                return fail_schema
            ctypes.memmove(out, ctypes.addressof(self.schema_tree.schema), ctypes.sizeof(Schema))
            self.schema_tree.schema.release = None
            return 0

        def get_next(_, out):
            if fail_next is not None and self.given == fail_next[0]:
                return fail_next[1]
            if self.given == len(self.chunks):
                ctypes.memset(out, 0, ctypes.sizeof(Array))
                return 0
            tree = self.chunks[self.given]
            ctypes.memmove(out, ctypes.addressof(tree.array), ctypes.sizeof(Array))
            tree.array.release = None
            self.given += 1
            return 0

        def get_last_error(_):
            return ctypes.addressof(self.text) if self.text is not None else None

        def release(address):
            self.released += 1
            Stream.from_address(address).release = None

        self.calls = (
            prototype(get_schema), prototype(get_next), ctypes.CFUNCTYPE(c_void_p, c_void_p)(get_last_error), RELEASE(release),
        )  # fmt: skip
        addresses = [ctypes.cast(c, c_void_p).value for c in self.calls]
        for i in missing:
            addresses[i] = None
        self.stream = Stream(*addresses, None)

    def __arrow_c_stream__(self, requested_schema=None):
        return capsule(self.stream, STREAM)


def _in(type_, capsule_):
    """The struct in a capsule, which lives as long as it does."""
    found = type_.from_address(pointer_of(capsule_))
    found.capsule = capsule_
    return found


def schema_in(capsule_):
    return _in(Schema, capsule_)


def array_in(capsule_):
    return _in(Array, capsule_)


def device_array_in(capsule_):
    return _in(DeviceArray, capsule_)
