"""The C exchange API (R69–R77): minitensor's table, called through ctypes, and tables of other types."""

import ctypes
import sys
from ctypes import POINTER, PYFUNCTYPE, Structure, byref, c_char_p, c_int, c_int32, c_uint32, c_void_p, py_object, pythonapi

import pytest
from forge import (
    DATA, IS_COPIED, PADDED, READ_ONLY, DType, Forged, Producer, Tensor, Versioned, delete, describe, new_capsule, static,
)  # fmt: skip
from test_threads import child

import minitensor as mt

VALUES = [[0, 1, 2], [3, 4, 5]]
NAME = b"dlpack_exchange_api"
SPELLING, SPELLING_1_2 = "__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"


class Table(Structure):
    _fields_ = [
        ("major", c_uint32), ("minor", c_uint32), ("prev_api", c_void_p), ("allocator", c_void_p),
        ("from_object", c_void_p), ("to_object", c_void_p), ("borrow", c_void_p), ("current_stream", c_void_p),
    ]  # fmt: skip


SET_ERROR = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)
ALLOCATOR = ctypes.CFUNCTYPE(c_int, POINTER(Tensor), POINTER(c_void_p), c_void_p, SET_ERROR)  # called without the GIL
FROM_OBJECT = PYFUNCTYPE(c_int, py_object, POINTER(c_void_p))
TO_OBJECT = PYFUNCTYPE(c_int, c_void_p, POINTER(py_object))
BORROW = PYFUNCTYPE(c_int, py_object, POINTER(Tensor))
CURRENT_STREAM = PYFUNCTYPE(c_int, c_int32, c_int32, POINTER(c_void_p))


def pointer_of(capsule, name):
    return PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", pythonapi))(capsule, name)


OURS = Table.from_address(pointer_of(mt.Tensor.__dlpack_c_exchange_api__, NAME))
allocate, from_object, to_object = ALLOCATOR(OURS.allocator), FROM_OBJECT(OURS.from_object), TO_OBJECT(OURS.to_object)
borrow, current_stream = BORROW(OURS.borrow), CURRENT_STREAM(OURS.current_stream)


def tensor():
    return mt.asarray(VALUES, "int32")


# Our table


def test_R69_the_type_publishes_a_capsule_for_the_life_of_the_process():
    capsule = mt.Tensor.__dict__[SPELLING]
    assert type(capsule).__name__ == "PyCapsule"
    for question in ("PyCapsule_GetDestructor", "PyCapsule_GetContext"):
        assert PYFUNCTYPE(c_void_p, py_object)((question, pythonapi))(capsule) is None
    assert type(tensor()).__dlpack_c_exchange_api__ is capsule


def test_R70_R71_the_header_has_our_version_and_no_member_is_null():
    assert (OURS.major, OURS.minor, OURS.prev_api) == (1, 3, None)
    members = [getattr(OURS, name) for name, _ in Table._fields_[3:]]
    assert all(members) and len(set(members)) == 5
    assert ctypes.sizeof(Table) == 56


def allocated(shape, dtype=(2, 32, 1), device=(1, 0), **garbage):
    errors = []
    set_error = SET_ERROR(lambda context, kind, message: errors.append((context, kind.decode(), message.decode())))
    extents = (ctypes.c_int64 * max(1, len(shape)))(*shape)
    prototype = Tensor(ndim=len(shape), dtype=DType(*dtype), shape=extents)
    prototype.device.type, prototype.device.id = device
    for name, value in garbage.items():
        setattr(prototype, name, value)
    out = c_void_p()
    before = bytes(prototype)
    status = allocate(byref(prototype), byref(out), 0x1234, set_error)
    assert bytes(prototype) == before
    return status, out.value, errors


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3), (1,) * 64])
@pytest.mark.parametrize("dtype, bits", [((2, 32, 1), 32), ((0, 8, 1), 8), ((10, 8, 1), 8), ((17, 4, 1), 4), ((5, 128, 1), 128)])
def test_R72_the_allocator_returns_new_writable_memory_without_the_gil(shape, dtype, bits):
    before = mt.live_bytes()
    status, address, errors = allocated(shape, dtype)
    assert (status, errors) == (0, [])
    raw = Versioned.from_address(address)
    seen = describe(raw.tensor)
    elements = 1
    for extent in shape:
        elements *= extent
    assert (seen.shape if shape else ()) == shape and seen.dtype == dtype and seen.device == (1, 0)
    assert seen.byte_offset == 0 and raw.flags == 0 and raw.major == 1 and (seen.strides is not None or not shape)
    assert (seen.data == 0) if elements == 0 else seen.data % 256 == 0 and seen.data
    assert mt.live_bytes() - before == -(-elements * bits // 8)
    ctypes.memset(seen.data, 0xFF, -(-elements * bits // 8))
    delete(raw)
    assert mt.live_bytes() == before


def test_R72_only_dtype_rank_shape_and_device_of_the_prototype_are_used():
    junk = (ctypes.c_int64 * 2)(2**62, -(2**62))
    status, address, _ = allocated((2, 3), data=0x10, strides=junk, byte_offset=2**64 - 1)
    assert status == 0
    seen = describe(Versioned.from_address(address).tensor)
    assert seen.strides == (3, 1) and seen.byte_offset == 0
    delete(Versioned.from_address(address))
    status, address, _ = allocated((2, 3), data=None)
    assert status == 0
    delete(Versioned.from_address(address))


@pytest.mark.parametrize("prototype, kinds", [
    (dict(shape=(2**50,)), {"MemoryError"}),
    (dict(shape=(2**31, 2**31)), {"MemoryError", "BufferError"}),
    (dict(shape=(-1,)), {"BufferError"}),
    (dict(shape=(1,), dtype=(2, 31, 1)), {"BufferError"}),
    (dict(shape=(1,), dtype=(99, 8, 1)), {"BufferError"}),
    (dict(shape=(1,), dtype=(2, 32, 2)), {"BufferError"}),
    (dict(shape=(1,), device=(2, 0)), {"BufferError"}),
    (dict(shape=(1,), device=(99, 0)), {"BufferError"}),
    (dict(shape=(), ndim=-1), {"BufferError"}),
])  # fmt: skip
def test_R72_a_failed_allocation_is_reported_through_set_error(prototype, kinds):
    before = mt.live_bytes()
    status, address, errors = allocated(**prototype)
    assert status != 0 and address is None and len(errors) == 1
    context, kind, message = errors[0]
    assert context == 0x1234 and kind in kinds and len(message) > 10
    assert mt.live_bytes() == before


@pytest.mark.parametrize("dtype", [(1, 24, 1), (3, 64, 1), (2, 128, 1), (18, 32, 1), (99, 8, 1)])
def test_R81_import_and_allocator_refuse_a_dtype_with_the_same_error(dtype):
    with pytest.raises(BufferError) as refused:
        mt.from_dlpack(Forged(dtype=dtype, shape=(2,)).capsule())
    (_, kind, message), = allocated((2,), dtype)[2]
    assert kind == "BufferError" and message.partition("minitensor does not support")[2] == str(refused.value).partition("minitensor does not support")[2]


def test_R21_import_and_allocator_refuse_lanes_with_the_same_error():
    with pytest.raises(BufferError) as refused:
        mt.from_dlpack(Forged(dtype=(2, 32, 2), shape=(2,)).capsule())
    (_, kind, message), = allocated((2,), (2, 32, 2))[2]
    assert kind == "BufferError" and "float32x2 has 2 lanes, expected 1" in message
    assert message.partition(": ")[2] == str(refused.value).partition(": ")[2]


def test_R72_null_arguments_are_an_error():
    errors = []
    set_error = SET_ERROR(lambda *e: errors.append(e[1]))
    out = c_void_p()
    assert allocate(None, byref(out), None, set_error) != 0
    assert allocate(byref(Tensor()), None, None, set_error) != 0
    assert len(errors) == 2


@pytest.mark.parametrize("readonly", [False, True])
def test_R73_from_py_object_shares_and_owns(readonly):
    t = tensor().as_readonly() if readonly else tensor()
    out = c_void_p()
    assert from_object(t, byref(out)) == 0
    raw = Versioned.from_address(out.value)
    seen = describe(raw.tensor)
    assert (seen.data, seen.shape, seen.strides, seen.device) == (t.data_ptr, (2, 3), (3, 1), (1, 0))
    assert (raw.major, raw.minor, raw.flags) == (1, 3, READ_ONLY if readonly else 0)
    live = mt.live_bytes()
    del t
    assert mt.live_bytes() == live and (ctypes.c_int32 * 6).from_address(seen.data)[:] == [0, 1, 2, 3, 4, 5]
    delete(raw)
    assert mt.live_bytes() == live - 24


def test_R73_R77_an_object_of_another_type_is_a_python_error():
    for other in (None, 1, [1], object(), mt.Tensor, mt.Tensor.__new__(mt.Tensor)):
        out, lent = c_void_p(), Tensor()
        with pytest.raises(TypeError):
            from_object(other, byref(out))
        with pytest.raises(TypeError):
            borrow(other, byref(lent))
        assert not out.value and not lent.data


def given(address, to_object=to_object):
    """What to_py_object makes: the object, whose one new reference the caller owns."""
    out = py_object()
    assert to_object(address, byref(out)) == 0
    made = out.value
    ctypes.memset(byref(out), 0, ctypes.sizeof(out))  # the reference in `out` is the one in `made` from here on
    pythonapi.Py_DecRef(py_object(made))
    return made


def test_R74_to_py_object_takes_ownership_of_the_tensor():
    tensor_ = Forged(flags=IS_COPIED)
    t = given(tensor_.address)
    assert sys.getrefcount(t) == 2
    assert t.tolist() == VALUES and t.data_ptr == DATA and t.copied and tensor_.deletions == 0
    del t
    assert tensor_.deletions == 1


def test_R73_R74_a_tensor_is_exported_and_imported_through_the_table():
    t = tensor()
    out = c_void_p()
    from_object(t[:, ::-1], byref(out))
    back = given(out.value)
    assert back.strides == (3, -1) and back.tolist() == [[2, 1, 0], [5, 4, 3]] and not back.copied
    del t
    assert back.tolist() == [[2, 1, 0], [5, 4, 3]]


@pytest.mark.parametrize("fields", [
    {"ndim": -1}, {"data": None}, {"dtype": (99, 8, 1)}, {"dtype": (2, 32, 2)}, {"device": (2, 0)}, {"device": (99, 0)},
    {"version": (2, 0)}, {"shape": (2**40, 2**40)}, {"dtype": (2, 24, 1)},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("has_deleter", [True, False])
def test_R74_a_tensor_that_to_py_object_refuses_is_deleted_once(fields, has_deleter):
    tensor_ = Forged(**fields, has_deleter=has_deleter)
    out = py_object()
    with pytest.raises(BufferError):
        to_object(tensor_.address, byref(out))
    assert tensor_.deletions == int(has_deleter)


def test_R13_padded_elements_are_packed_by_our_table():
    ctypes.memset(DATA + 1024, 0, 64)
    (ctypes.c_uint8 * 6).from_address(DATA + 1024)[:] = range(0xA0, 0xA6)  # what is in the padding does not count
    tensor_ = Forged(data=DATA + 1024, dtype=(1, 4, 1), flags=PADDED)
    t = given(tensor_.address)
    assert t.tolist() == VALUES and t.nbytes == 3 and t.copied and tensor_.deletions == 1


def test_R74_null_is_an_error():
    with pytest.raises(BufferError):
        to_object(None, byref(py_object()))


@pytest.mark.parametrize("view", [lambda t: t, lambda t: t.T, lambda t: t[::-1, ::2], lambda t: t[1, 2], lambda t: t[:0]])
def test_R75_a_borrowed_tensor_describes_the_array_without_an_allocation(view):
    t = view(tensor())
    counts, live = sys.getrefcount(t), mt.live_bytes()
    lent = Tensor()
    assert borrow(t, byref(lent)) == 0
    seen = describe(lent)
    assert (seen.data, seen.ndim, seen.device, seen.byte_offset) == (t.data_ptr, t.ndim, (1, 0), 0)
    if t.ndim:
        assert (seen.shape, seen.strides) == (t.shape, t.strides)
        assert ctypes.addressof(lent.shape.contents) == ctypes.addressof(borrowed_again(t).shape.contents)
    assert (sys.getrefcount(t), mt.live_bytes()) == (counts, live)


def borrowed_again(t):
    lent = Tensor()
    borrow(t, byref(lent))
    return lent


@pytest.mark.parametrize("make", [lambda t: t.as_readonly(), lambda t: t.broadcast_to((4, 2, 3)), lambda t: mt.from_dlpack(t.__dlpack__())])
def test_R75_read_only_tensors_are_not_lent(make):
    t = make(tensor())
    assert t.readonly
    with pytest.raises(BufferError, match="read-only"):
        borrow(t, byref(Tensor()))
    out = c_void_p()
    assert from_object(t, byref(out)) == 0
    assert Versioned.from_address(out.value).flags == READ_ONLY
    delete(Versioned.from_address(out.value))


@pytest.mark.parametrize("before", [None, 0xDEAD])
def test_R76_the_cpu_has_no_current_stream(before):
    out = c_void_p(before)
    assert current_stream(1, 0, byref(out)) == 0 and out.value is None


def test_R59_calls_through_the_table_leak_nothing():
    t = tensor()
    counts, live = sys.getrefcount(t), mt.live_bytes()
    out = c_void_p()
    for _ in range(20_000):
        from_object(t, byref(out))
        delete(Versioned.from_address(out.value))
    assert (sys.getrefcount(t), mt.live_bytes()) == (counts, live)


# Foreign tables

_tables = []


class Publisher(Producer):
    """Publishes a table; its __dlpack__ hands out a fresh tensor and remembers that it was asked."""

    def __init__(self):
        super().__init__(lambda **_: Forged().capsule())


def table(from_object=None, stream=True, version=(1, 3), prev=None, **members):
    """The address of a table that lives on. `from_object` gets the object and returns the address of a tensor."""
    if callable(from_object):
        maker = from_object

        @FROM_OBJECT
        def from_object(x, out):
            out[0] = maker(x)
            return 0

        _tables.append(from_object)
        from_object = ctypes.cast(from_object, c_void_p).value
    no_stream = CURRENT_STREAM(lambda *_: 0)
    made = Table(*version, prev, None, from_object, None, None, ctypes.cast(no_stream, c_void_p).value if stream else None)
    for name, value in members.items():
        setattr(made, name, value)
    _tables.extend([made, no_stream])
    return ctypes.addressof(made)


def publish(address, spelling=SPELLING):
    return type("Published", (Publisher,), {spelling: new_capsule(address, static(NAME), None)})()


@pytest.mark.parametrize("spelling", [SPELLING, SPELLING_1_2])
def test_R69_a_table_is_found_under_both_attribute_names(spelling):
    made = Forged()
    x = publish(table(lambda _: made.address), spelling)
    t = mt.from_dlpack(x)
    assert t.tolist() == VALUES and x.asked == [] and made.deletions == 0
    del t
    assert made.deletions == 1


def test_R69_the_newer_attribute_name_has_priority():
    new, old = Forged(), Forged()
    x = publish(table(lambda _: new.address))
    setattr(type(x), SPELLING_1_2, new_capsule(table(lambda _: old.address), static(NAME), None))
    mt.from_dlpack(x)
    assert (new.deletions, old.deletions) == (1, 0)


def test_R69_the_table_is_an_attribute_of_the_type():
    x = Publisher()
    x.__dlpack_c_exchange_api__ = new_capsule(table(lambda _: 1 / 0), static(NAME), None)
    assert mt.from_dlpack(x).tolist() == VALUES and len(x.asked) == 1


def test_R73_the_function_receives_the_object_unchanged():
    seen = []
    made = Forged()
    x = publish(table(lambda o: seen.append(o) or made.address))
    mt.from_dlpack(x)
    assert len(seen) == 1 and seen[0] is x


@pytest.mark.parametrize("how", [{"copy": True}, {"copy": False}, {"device": "cpu"}], ids=str)
def test_R56_a_request_that_the_table_does_not_support_uses_dlpack(how):
    x = publish(table(lambda _: 1 / 0))
    assert mt.from_dlpack(x, **how).tolist() == VALUES and len(x.asked) == 1


@pytest.mark.parametrize("how, copied", [({}, False), ({"copy": True}, True), ({"copy": False}, False), ({"device": "cpu"}, False)], ids=str)
@pytest.mark.parametrize("spelling", [SPELLING, SPELLING_1_2])
def test_R56_R69_for_an_object_with_only_a_table_the_importer_does_the_rest(how, copied, spelling):
    made = Forged()
    value = new_capsule(table(lambda _: made.address), static(NAME), None)
    t = mt.from_dlpack(type("OnlyTable", (), {spelling: value})(), **how)
    assert t.tolist() == VALUES and t.copied == copied and (t.data_ptr != DATA) == copied
    del t
    assert made.deletions == 1


def test_R69_complex_numbers_of_an_object_with_only_a_table_are_accepted():
    value = new_capsule(table(lambda _: Forged(dtype=(5, 64, 1), shape=(2,)).address), static(NAME), None)
    assert mt.from_dlpack(type("OnlyTable", (), {SPELLING: value})()).dtype == "complex64"


@pytest.mark.parametrize("minor", [0, 2, 3, 4, 99])
def test_R70_any_minor_version_of_the_table_is_read(minor):
    made = Forged()
    mt.from_dlpack(publish(table(lambda _: made.address, version=(1, minor))))
    assert made.deletions == 1


def test_R70_an_older_table_is_used_instead_of_one_that_is_too_new():
    made = Forged()
    oldest = table(lambda _: made.address)
    middle = table(lambda _: 1 / 0, version=(2, 0), prev=oldest)
    x = publish(table(lambda _: 1 / 0, version=(3, 0), prev=middle))
    assert mt.from_dlpack(x).tolist() == VALUES
    assert made.deletions == 1 and x.asked == []


UNUSABLE = {
    "too new, nothing older": lambda: table(lambda _: 1 / 0, version=(2, 0)),
    "too new, then too old": lambda: table(lambda _: 1 / 0, version=(2, 0), prev=table(lambda _: 1 / 0, version=(0, 9))),
    "too old": lambda: table(lambda _: 1 / 0, version=(0, 9)),
    "no from_py_object": lambda: table(None),
    "no current_work_stream": lambda: table(lambda _: 1 / 0, stream=False),
}


@pytest.mark.parametrize("what", UNUSABLE)
@pytest.mark.parametrize("spelling", [SPELLING, SPELLING_1_2])
def test_R70_R71_an_unusable_table_is_ignored(what, spelling):
    x = publish(UNUSABLE[what](), spelling)
    assert mt.from_dlpack(x).tolist() == VALUES and len(x.asked) == 1


@pytest.mark.parametrize("attributes", [
    {SPELLING: None}, {SPELLING: 3}, {SPELLING: "x"}, {SPELLING_1_2: None}, {SPELLING_1_2: 0}, {SPELLING_1_2: "x"},
    {SPELLING_1_2: True}, {SPELLING_1_2: new_capsule(DATA, static(b"other"), None)},
    {SPELLING: new_capsule(DATA, static(b"other"), None)}, {SPELLING: new_capsule(DATA, None, None)},
], ids=str)  # fmt: skip
def test_R69_attributes_that_are_not_a_table_are_ignored(attributes):
    x = type("Published", (Publisher,), attributes)()
    assert mt.from_dlpack(x).tolist() == VALUES and len(x.asked) == 1


def test_R69_an_int_is_never_used_as_the_address_of_a_table():
    """1.2 published an int; a number that is no table's address cannot be told from one. In a process of its own: it crashed."""
    child("""
        import minitensor as mt

        class X:
            __c_dlpack_exchange_api__ = 1

        class Subclass(int):
            pass

        for number in (1, -1, 4096, 2**62, 2**64, 2**200, id(X), Subclass(1), True):
            X.__c_dlpack_exchange_api__ = number
            try:
                mt.from_dlpack(X())
            except TypeError as e:
                assert "__dlpack__" in str(e)
            else:
                raise AssertionError(number)
    """)


def test_R70_the_search_of_a_cyclic_chain_of_tables_ends():
    """In a process of its own: it never ended."""
    child("""
        import ctypes
        from forge import new_capsule, static
        from test_exchange_api import NAME, SPELLING, Table
        import minitensor as mt

        one, other = Table(major=3), Table(major=2)
        one.prev_api, other.prev_api = ctypes.addressof(other), ctypes.addressof(one)
        value = new_capsule(ctypes.addressof(one), static(NAME), None)
        try:
            mt.from_dlpack(type("Ring", (), {SPELLING: value})())
        except TypeError:
            print("refused")
    """)


class Mine(Exception):
    pass


def test_R73_the_error_of_a_table_is_raised():
    """PyObject_Size has the signature, and fails with whatever __len__ raises."""
    failing = ctypes.cast(pythonapi.PyObject_Size, c_void_p).value
    x = publish(table(failing))
    mine = Mine("mine")

    def raises(_):
        raise mine

    type(x).__len__ = raises
    with pytest.raises(Mine) as caught:
        mt.from_dlpack(x)
    assert caught.value is mine and x.asked == []


def test_R77_a_table_that_fails_without_an_error_is_a_system_error():
    fail = FROM_OBJECT(lambda *_: -1)
    _tables.append(fail)
    with pytest.raises(SystemError, match="error"):
        mt.from_dlpack(publish(table(ctypes.cast(fail, c_void_p).value)))


def test_R73_a_table_that_returns_no_tensor_is_a_buffer_error():
    with pytest.raises(BufferError):
        mt.from_dlpack(publish(table(lambda _: 0)))


@pytest.mark.parametrize("fields", [{"ndim": -3}, {"data": None}, {"dtype": (0, 0, 1)}, {"version": (2, 0)}, {"device": (2, 0)}], ids=str)
def test_R2_R32_the_tensor_of_a_table_is_validated_and_deleted_once(fields):
    made = Forged(**fields)
    with pytest.raises(BufferError):
        mt.from_dlpack(publish(table(lambda _: made.address)))
    assert made.deletions == 1


def test_R76_the_stream_of_the_cpu_is_never_requested():
    asked = []
    fail = CURRENT_STREAM(lambda *_: asked.append(1) or -1)
    _tables.append(fail)
    made = Forged()
    mt.from_dlpack(publish(table(lambda _: made.address, current_stream=ctypes.cast(fail, c_void_p).value)))
    assert asked == [] and made.deletions == 1


def test_R76_a_failed_stream_query_is_an_error_and_the_tensor_is_released():
    fail = CURRENT_STREAM(lambda *_: -1)
    _tables.append(fail)
    made = Forged(device=(3, 0))
    with pytest.raises(SystemError):
        mt.from_dlpack(publish(table(lambda _: made.address, current_stream=ctypes.cast(fail, c_void_p).value)))
    assert made.deletions == 1


# Real libraries


@pytest.fixture
def only_the_table(monkeypatch):
    def used(self, **_):
        raise AssertionError("__dlpack__ was called")

    monkeypatch.setattr(mt.Tensor, "__dlpack__", used)


def test_R73_tvm_ffi_functions_import_our_tensors_by_the_table(only_the_table):
    import tvm_ffi

    got = []
    tvm_ffi.convert(lambda x: got.append((tuple(x.shape), str(x.dtype), mt.from_dlpack(x).data_ptr)))(t := tensor())
    assert got == [((2, 3), "int32", t.data_ptr)]


def test_R73_minitensor_imports_torch_tensors_by_the_table(monkeypatch):
    import torch


    def used(self, **_):
        raise AssertionError("__dlpack__ was called")

    x = torch.arange(6, dtype=torch.int32).reshape(2, 3)
    monkeypatch.setattr(torch.Tensor, "__dlpack__", used)
    t = mt.from_dlpack(x)
    assert t.data_ptr == x.data_ptr() and t.tolist() == VALUES
    with pytest.raises(AssertionError, match="was called"):
        mt.from_dlpack(x, copy=True)


def test_R73_R74_the_table_of_torch_imports_our_tensors_and_exports_its_own():
    import torch

    theirs = Table.from_address(pointer_of(torch.Tensor.__dlpack_c_exchange_api__, NAME))
    t = tensor()
    live = mt.live_bytes()
    out = c_void_p()
    assert from_object(t, byref(out)) == 0
    x = given(out, TO_OBJECT(theirs.to_object))
    assert x.data_ptr() == t.data_ptr and x.tolist() == VALUES
    del t
    assert mt.live_bytes() == live
    del x
    assert mt.live_bytes() == live - 24

    x = torch.arange(6, dtype=torch.int32).reshape(2, 3)
    address = x.data_ptr()
    assert FROM_OBJECT(theirs.from_object)(x, byref(out)) == 0
    del x
    t = given(out.value)
    assert t.data_ptr == address and t.tolist() == VALUES and not t.readonly


def test_R69_a_changed_type_is_inspected_again():
    """What was seen of a type is remembered until the type, or one of its bases, is another."""

    class Base:
        def __dlpack__(self, **keywords):
            return tensors[0].__dlpack__(**keywords)

    class Derived(Base):
        pass

    tensors = [mt.arange(2), mt.arange(3)]
    for kind in (Base, Derived):
        assert mt.from_dlpack(kind()).tolist() == mt.from_dlpack(kind()).tolist() == [0, 1]
    Base.__dlpack__ = lambda self, **keywords: tensors[1].__dlpack__(**keywords)
    for kind in (Base, Derived):
        assert mt.from_dlpack(kind()).tolist() == mt.from_dlpack(kind()).tolist() == [0, 1, 2]
    Base.__dlpack_c_exchange_api__ = mt.Tensor.__dlpack_c_exchange_api__
    for kind in (Base, Derived):
        with pytest.raises(TypeError, match="publishes this exchange table"):
            mt.from_dlpack(kind())
    del Base.__dlpack_c_exchange_api__
    assert mt.from_dlpack(Derived()).tolist() == [0, 1, 2]
    del Base.__dlpack__
    with pytest.raises(TypeError, match="expects an object with __dlpack__"):
        mt.from_dlpack(Derived())
    instance = Base()
    instance.__dlpack__ = tensors[0].__dlpack__
    assert mt.from_dlpack(instance).tolist() == [0, 1]
    tensors.clear()  # CPython 3.13 without the GIL does not free functions, once a thread has been started
