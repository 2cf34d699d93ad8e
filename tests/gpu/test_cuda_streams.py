"""Current streams, as libraries tell them: through the table of the C exchange API (R76), numba-cuda's own, the per-thread
default stream; and memory of a context that is not the device's primary one."""

import ctypes
import threading
from ctypes import POINTER, PYFUNCTYPE, Structure, byref, c_int, c_int32, c_uint32, c_void_p, py_object, pythonapi

import pytest
from gates import Gate, cp, np, own_stream

import minitensor as mt

SPELLINGS = ("__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__")
VALUES = [[6 * i + j for j in range(6)] for i in range(4)]
CUDA, LEGACY, PER_THREAD = 2, 1, 2


class Table(Structure):
    _fields_ = [
        ("major", c_uint32), ("minor", c_uint32), ("prev_api", c_void_p), ("allocator", c_void_p),
        ("from_object", c_void_p), ("to_object", c_void_p), ("borrow", c_void_p), ("current_stream", c_void_p),
    ]  # fmt: skip


def table_of(kind):
    capsule = next((getattr(kind, spelling) for spelling in SPELLINGS if hasattr(kind, spelling)), None)
    if capsule is None:
        pytest.skip(f"{kind} publishes no exchange table")
    if isinstance(capsule, int):
        return Table.from_address(capsule)
    address = PYFUNCTYPE(c_void_p, py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", pythonapi))(capsule, b"dlpack_exchange_api")
    return Table.from_address(address)


def current_stream_of(kind, device=0):
    out = c_void_p(99)
    assert PYFUNCTYPE(c_int, c_int32, c_int32, POINTER(c_void_p))(table_of(kind).current_stream)(CUDA, device, byref(out)) == 0
    return out.value or 0


def test_R76_our_table_tells_the_stream_of_this_thread():
    s = own_stream()
    assert current_stream_of(mt.Tensor) == LEGACY
    with mt.stream(s):
        assert current_stream_of(mt.Tensor) == s.ptr
        seen = []
        other = threading.Thread(target=lambda: seen.append(current_stream_of(mt.Tensor)))
        other.start(), other.join()
        assert seen == [LEGACY]
        with mt.stream(PER_THREAD):
            assert current_stream_of(mt.Tensor) == PER_THREAD
    assert current_stream_of(mt.Tensor) == LEGACY


def test_R76_the_table_of_torch_tells_the_stream_that_imports_wait_for():
    torch = pytest.importorskip("torch")
    theirs, ours = own_stream(), own_stream()
    table_of(torch.Tensor)
    with torch.cuda.stream(torch.cuda.ExternalStream(theirs.ptr)):
        assert current_stream_of(torch.Tensor) == theirs.ptr
        x = torch.zeros((4, 6), device="cuda")
        x.fill_(1)
        with mt.stream(ours):
            mt.from_dlpack(x).copy().tolist()
        theirs.synchronize()
        with Gate(theirs.ptr) as gate:
            x.fill_(7)
            with mt.stream(ours):
                u = mt.from_dlpack(x).copy()
            assert gate.is_closed and not ours.done
            gate.open()
            assert u.tolist() == [[7] * 6] * 4
    assert current_stream_of(torch.Tensor) in (0, LEGACY)


def test_R73_R76_what_our_table_hands_out_is_ready_on_the_current_stream():
    ours, current = own_stream(), own_stream()
    t = mt.zeros((4, 6), "float32", "cuda")
    from_object = PYFUNCTYPE(c_int, py_object, POINTER(c_void_p))(table_of(mt.Tensor).from_object)
    to_object = PYFUNCTYPE(c_int, c_void_p, POINTER(py_object))(table_of(mt.Tensor).to_object)
    y = cp.zeros((4, 6), "float32")
    with current:
        y += cp.from_dlpack(t)
    mt.synchronize()
    raw = c_void_p()
    with Gate(ours.ptr) as gate:
        with mt.stream(ours):
            t.fill(7)
        with mt.stream(current):
            assert from_object(t, byref(raw)) == 0
        assert gate.is_closed and not current.done
        with current:  # work of the consumer, unknown to minitensor
            cp.cuda.runtime.memcpyAsync(y.data.ptr, t.data_ptr, y.nbytes, cp.cuda.runtime.memcpyDeviceToDevice, current.ptr)
        gate.open()
        current.synchronize()
        assert cp.asnumpy(y).tolist() == [[7] * 6] * 4
    back = py_object()
    assert to_object(raw.value, byref(back)) == 0
    made = back.value
    ctypes.memset(byref(back), 0, ctypes.sizeof(back))  # the reference in `back` is the one in `made` from here on
    pythonapi.Py_DecRef(py_object(made))
    assert made.data_ptr == t.data_ptr


def test_the_per_thread_default_stream():
    ours = own_stream()
    with mt.stream(PER_THREAD):
        t = mt.zeros(1000, "int32", "cuda")
    with mt.stream(ours):
        t.copy()
    mt.synchronize()
    with Gate(PER_THREAD) as gate:
        with mt.stream(PER_THREAD):
            t.fill(7)
        with mt.stream(ours):
            u = t.copy()
        assert gate.is_closed and not ours.done
        gate.open()
        assert u.tolist() == [7] * 1000


def test_numba_on_a_stream_of_its_own():
    cuda = pytest.importorskip("numba.cuda")
    theirs, ours = own_stream(), own_stream()
    x = cuda.device_array((4, 6), np.float32, stream=cuda.external_stream(theirs.ptr))
    assert x.__cuda_array_interface__["stream"] == theirs.ptr
    y = cp.asarray(x)
    with theirs:
        y.fill(1)
    with mt.stream(ours):
        mt.from_dlpack(x).copy().tolist()
    theirs.synchronize()
    with Gate(theirs.ptr) as gate:
        with theirs:
            y.fill(7)
        with mt.stream(ours):
            u = mt.from_dlpack(x).copy()
        assert gate.is_closed and not ours.done
        gate.open()
        assert u.tolist() == [[7] * 6] * 4
    del x, y


def test_what_numba_takes_says_its_stream():
    cuda = pytest.importorskip("numba.cuda")
    ours = own_stream()
    t = mt.zeros((4, 6), "float32", "cuda")
    mt.synchronize()
    with Gate(ours.ptr) as gate:
        with mt.stream(ours):
            t.fill(7)
        x = cuda.as_cuda_array(t, sync=False)
        assert gate.is_closed and x.__cuda_array_interface__["stream"] == ours.ptr
        gate.open()
        ours.synchronize()
        assert x.copy_to_host().tolist() == [[7] * 6] * 4
    del x


class OwnContext:
    """Memory of a context other than the device's primary one."""

    def __init__(self, nbytes):
        self.api = ctypes.CDLL("libcuda.so.1")
        self.primary, self.own, self.address = c_void_p(), c_void_p(), ctypes.c_uint64()
        self.call("cuCtxGetCurrent", byref(self.primary))
        if hasattr(self.api, "cuCtxCreate_v4"):
            self.call("cuCtxCreate_v4", byref(self.own), None, 0, 0)
        else:
            self.call("cuCtxCreate_v2", byref(self.own), 0, 0)
        self.call("cuMemAlloc_v2", byref(self.address), ctypes.c_size_t(nbytes))
        self.call("cuCtxSetCurrent", self.primary)

    def call(self, name, *arguments):
        assert getattr(self.api, name)(*arguments) == 0, name

    def __enter__(self):
        return self.address.value

    def __exit__(self, *_):
        self.call("cuCtxSetCurrent", self.own)
        self.call("cuMemFree_v2", self.address)
        self.call("cuCtxDestroy_v2", self.own)
        self.call("cuCtxSetCurrent", self.primary)


@pytest.mark.parametrize("how", [{}, {"copy": True}, {"device": "cpu"}], ids=str)
def test_memory_of_another_context_is_refused_by_name(how):
    mt.zeros(1, device="cuda").tolist()

    class Only:
        def __init__(self, address):
            self.__cuda_array_interface__ = {"shape": (4, 6), "typestr": "<f4", "data": (address, False), "version": 3, "stream": None}

    with OwnContext(96) as address:
        with pytest.raises(BufferError, match="other than the primary context of cuda:0"):
            mt.from_dlpack(Only(address), **how)
    assert mt.zeros(2, device="cuda").tolist() == [0, 0]


@pytest.mark.parametrize("how", [{"copy": True}, {"device": "cpu"}], ids=str)
def test_a_copy_of_memory_of_another_context_is_refused_by_name(how):
    class Old:
        """A producer that copies nothing itself."""

        def __init__(self, x):
            self.x = x

        def __dlpack_device__(self):
            return (CUDA, 0)

        def __dlpack__(self, stream=None):
            return self.x.__dlpack__(stream=stream)

    with OwnContext(96) as address:
        x = Old(cp.ndarray((4, 6), "float32", cp.cuda.MemoryPointer(cp.cuda.UnownedMemory(address, 96, None, 0), 0)))
        with pytest.raises(BufferError, match="other than the primary context of cuda:0"):
            mt.from_dlpack(x, **how)
        del x
    assert mt.zeros(2, device="cuda").tolist() == [0, 0]
