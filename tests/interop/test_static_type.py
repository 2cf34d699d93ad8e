"""Static types with the DLPack protocol, with the extension module interop/casters/static_type.cpp."""

import array
import gc
import mmap
import sys
from ctypes import byref, c_void_p, py_object

import numpy as np
import pytest
from forge import Forged, Tensor, Versioned, delete, describe, name_of
from test_casters import BUILT  # noqa: F401: adds the folder of the extension modules to sys.path
from test_exchange_api import BORROW, FROM_OBJECT, NAME, TO_OBJECT, Table, pointer_of

import static_type


@pytest.fixture(params=["ReadyMade", "HandWritten"])
def kind(request):
    return getattr(static_type, request.param)


def test_R53_a_static_type_exports_to_numpy_without_a_copy(kind):
    a = kind(4)
    one, two = np.from_dlpack(a), np.from_dlpack(a)
    one[0] = 7
    assert two.tolist() == [7, 1, 2, 3]


def test_R57_the_version_of_the_capsule_is_the_one_that_the_consumer_supports(kind):
    a = kind(4)
    assert name_of(a.__dlpack__()) == b"dltensor"
    assert name_of(a.__dlpack__(max_version=(1, 0))) == b"dltensor_versioned"
    assert name_of(a.__dlpack__(max_version=[1, 0], stream=None, copy=None, dl_device=(1, 0))) == b"dltensor_versioned"


def test_R54_copy_True_exports_new_memory(kind):
    a = kind(4)
    copy = np.from_dlpack(a, copy=True)
    copy[0] = 7
    assert np.from_dlpack(a).tolist() == [0, 1, 2, 3]


def test_R52_a_static_type_refuses_positional_and_unknown_arguments(kind):
    a = kind(4)
    with pytest.raises(TypeError, match="does not accept positional arguments"):
        a.__dlpack__(None)
    with pytest.raises(TypeError, match="unexpected keyword argument 'streams'"):
        a.__dlpack__(streams=None)
    with pytest.raises(ValueError, match="copy must be None, True or False"):
        a.__dlpack__(copy=1)
    with pytest.raises(ValueError, match="CPU memory has no streams"):
        a.__dlpack__(stream=1)


def test_R37_the_device_is_known_where_the_array_has_no_view(kind):
    a = kind(4, False)
    assert a.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match="these samples have nulls"):
        a.__dlpack__()


def test_R58_a_static_type_imports():
    a = static_type.ReadyMade.from_dlpack(np.arange(3.0))
    assert isinstance(a, static_type.ReadyMade)
    assert np.from_dlpack(a).tolist() == [0, 1, 2]
    b = static_type.ReadyMade.from_dlpack(np.arange(3.0), device="cpu", copy=True)
    assert np.from_dlpack(b).tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="unexpected keyword argument 'dtype'"):
        static_type.ReadyMade.from_dlpack(np.arange(3.0), dtype=None)


def test_a_method_of_another_type_refuses_the_object():
    with pytest.raises(TypeError, match="descriptor '__dlpack__'"):
        static_type.ReadyMade.__dlpack__(static_type.HandWritten(3))


def test_R48_the_arguments_are_converted_for_the_device_of_the_tensor():
    request = static_type.HandWritten.request
    assert request() == (-9, (0, 0), (2, 1), 0)
    assert request(stream=1, max_version=(1, 1), dl_device=(2, 0), copy=False) == (1, (1, 1), (2, 0), 2)
    with pytest.raises(ValueError, match="stream 0 is ambiguous"):
        request(stream=0)
    with pytest.raises(ValueError, match="CPU memory has no streams"):
        request(stream=1, dl_device=(1, 0))


def test_R52_arguments_that_remove_one_another_are_converted_safely():
    """`__index__` of an argument clears the dict that holds the other arguments."""

    class Clearing:
        def __index__(self):
            keywords.clear()
            return 1

    import ctypes

    keywords = {"max_version": (Clearing(), 0), "dl_device": (1, Clearing()), "copy": None}
    call = ctypes.pythonapi.PyObject_Call
    call.restype, call.argtypes = ctypes.py_object, [ctypes.py_object] * 3
    a = static_type.HandWritten(3)
    assert name_of(call(a.__dlpack__, (), keywords)) == b"dltensor_versioned"


def table_of(kind):
    return Table.from_address(pointer_of(kind.__dlpack_c_exchange_api__, NAME))


def test_R69_R73_the_table_of_a_static_type_exports(kind):
    out = c_void_p()
    assert FROM_OBJECT(table_of(kind).from_object)(kind(4), byref(out)) == 0
    raw = Versioned.from_address(out.value)
    assert describe(raw.tensor).shape == (4,)
    delete(raw)
    with pytest.raises(TypeError, match="not an instance of the type that defines this method"):
        FROM_OBJECT(table_of(kind).from_object)(3, byref(out))


def test_R69_tvm_ffi_imports_a_static_type_through_its_table(kind):
    import tvm_ffi

    a = kind(4)
    assert np.from_dlpack(tvm_ffi.from_dlpack(a)).tolist() == [0, 1, 2, 3]


def test_R75_a_type_whose_array_is_returned_by_value_has_no_function_that_borrows():
    assert table_of(static_type.HandWritten).borrow is None
    seen = Tensor()
    assert BORROW(table_of(static_type.ReadyMade).borrow)(static_type.ReadyMade(4), byref(seen)) == 0
    assert describe(seen).shape == (4,)


def test_R74_the_function_that_makes_objects_receives_its_context():
    before = static_type.HandWritten.imports()
    out = py_object()
    tensor = Forged(dtype=(2, 64, 1), shape=(3,))
    assert TO_OBJECT(table_of(static_type.HandWritten).to_object)(tensor.address, byref(out)) == 0
    assert isinstance(out.value, static_type.HandWritten)
    assert static_type.HandWritten.imports() == before + 1


class Recording:
    """A NumPy array that records the arguments of `__dlpack__`."""

    def __init__(self):
        self.array, self.calls = np.arange(3.0), []

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, **how):
        self.calls.append(how)
        return self.array.__dlpack__(**how)


OURS = (1, 3)


@pytest.mark.parametrize(
    "request_, expected",
    [
        ({"max_version": OURS}, {"max_version": OURS}),
        ({"max_version": (1, 1)}, {"max_version": (1, 1)}),
        ({"max_version": (0, 8)}, {}),
        ({}, {}),
        ({"max_version": OURS, "stream": -1}, {"max_version": OURS}),
        ({"max_version": (1, 0), "stream": -1, "copy": True}, {"max_version": (1, 0), "copy": True}),
    ],
)
def test_R46_R57_a_producer_on_the_host_receives_the_version_and_no_stream(request_, expected):
    x = Recording()
    got = static_type.HandWritten.import_(x, **request_)
    assert np.from_dlpack(got, copy=True).tolist() == [0, 1, 2]
    assert x.calls == [expected]


@pytest.mark.parametrize("stream", [None, -1])
@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), OURS], ids=str)
@pytest.mark.parametrize("copy", [None, False, True])
def test_R46_R57_numpy_exports_for_every_request_of_the_host(stream, version, copy):
    """NumPy raises a RuntimeError for every stream other than None."""
    a = np.arange(3.0)
    with pytest.raises(RuntimeError):
        a.__dlpack__(stream=-1)
    got = static_type.HandWritten.import_(a, stream=stream, max_version=version, copy=copy)
    assert np.from_dlpack(got, copy=True).tolist() == [0, 1, 2]
    a[0] = 7
    assert np.from_dlpack(got, copy=True)[0] == (0 if copy else 7)


# The buffer protocol


def imported(x):
    return np.from_dlpack(static_type.HandWritten.from_buffer(x))


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("layout", ["rows", "columns", "reversed", "scalar", "empty"])
def test_R16_numpy_arrays_are_shared_through_the_buffer_protocol(dtype, layout):
    a = np.arange(6).reshape(2, 3).astype(dtype)
    a = {"rows": a, "columns": a.T, "reversed": a[::-1, ::2], "scalar": a[1, 1:2].reshape(()), "empty": a[:0]}[layout]
    got = imported(a)
    assert got.dtype == a.dtype and got.shape == a.shape and got.tolist() == a.tolist()
    assert a.size == 0 or got.ctypes.data == a.ctypes.data


def test_R11_the_import_is_writable_where_the_buffer_is():
    a = np.zeros(3)
    imported(a)[1] = 7
    assert a.tolist() == [0, 7, 0]
    a.flags.writeable = False
    for x in (a, b"abc", memoryview(b"abc"), memoryview(bytearray(3)).toreadonly()):
        assert not imported(x).flags.writeable
    for x in (bytearray(3), array.array("d", [1]), memoryview(bytearray(8)).cast("i"), mmap.mmap(-1, 16)):
        assert imported(x).flags.writeable


def test_R65_the_buffer_is_released_with_the_tensor():
    """A bytearray cannot be resized while it has buffers, and can afterwards."""
    x = bytearray(b"abc")
    one, two = imported(x), imported(x)
    for _ in range(2):
        with pytest.raises(BufferError):
            x.append(1)
        del one
        one = two
        two = None
    del one, two
    gc.collect()
    x.append(1)


def test_R20_R30_what_dlpack_cannot_describe_is_refused_and_released():
    pairs = np.zeros(3, dtype=[("a", "i1"), ("b", "f4")])
    for x, text in [
        (np.arange(3, dtype=">i4"), "big-endian"),
        (pairs["b"], "not a multiple of the element size"),
        (pairs, "no DLPack data type"),
        (np.zeros(3, dtype="U4"), "no DLPack data type"),
        (np.zeros(3, dtype="longdouble"), "no DLPack data type"),
    ]:
        before = sys.getrefcount(x)
        with pytest.raises(BufferError, match=text):
            static_type.HandWritten.from_buffer(x)
        assert sys.getrefcount(x) == before
    assert imported(pairs[:1]["b"]).shape == (1,)  # the stride of one element is not used
    with pytest.raises(TypeError, match="bytes-like"):
        static_type.HandWritten.from_buffer(3)


def test_R30_a_type_exports_through_the_buffer_protocol():
    a = static_type.ReadyMade(4)
    view = memoryview(a)
    assert (view.format, view.shape, view.strides, view.readonly, view.tolist()) == ("d", (4,), (8,), False, [0, 1, 2, 3])
    view[2] = 9
    assert np.from_dlpack(a).tolist() == [0, 1, 9, 3]
    assert bytes(a) == np.from_dlpack(a).tobytes()
    b = static_type.ReadyMade.from_dlpack(np.arange(12, dtype="f4").reshape(3, 4)[::-1, ::2])
    assert np.asarray(memoryview(b)).tolist() == np.from_dlpack(b).tolist()
    assert memoryview(b).strides == (-16, 8)
    assert bytes(memoryview(b)) == np.from_dlpack(b).tobytes()
    c = static_type.ReadyMade.from_dlpack(np.frombuffer(b"abc", "u1"))
    assert memoryview(c).readonly


def test_R39_a_buffer_of_device_memory_is_refused():
    tensor = Forged(dtype=(2, 32, 1), shape=(2, 3), device=(2, 1))
    with pytest.raises(BufferError, match="the memory is on cuda:1.*copy the tensor to the CPU"):
        memoryview(static_type.ReadyMade.from_dlpack(tensor.capsule()))
