"""`__cuda_array_interface__`, imported and exported."""

import gc
import sys

import pytest
from gates import Gate, cp, np, own_stream

import minitensor as mt

VALUES = [[6 * i + j for j in range(6)] for i in range(4)]


class Only:
    """An object that has nothing else."""

    def __init__(self, x, **changed):
        self.x = x
        self.facts = {**x.__cuda_array_interface__, **changed}

    @property
    def __cuda_array_interface__(self):
        return self.facts


@pytest.mark.parametrize("dtype, text", [("bool", "|b1"), ("int8", "|i1"), ("uint16", "<u2"), ("int64", "<i8"), ("float16", "<f2"), ("float32", "<f4"), ("complex64", "<c8"), ("complex128", "<c16")])
def test_what_it_says(dtype, text):
    t = mt.zeros((4, 6), dtype, "cuda")
    facts = t.__cuda_array_interface__
    assert (facts["version"], facts["typestr"], facts["shape"], facts["strides"]) == (3, text, (4, 6), None)
    assert facts["data"] == (t.data_ptr, False) and facts["descr"] == [("", text)] and facts["stream"] == 1
    size = np.dtype(text).itemsize
    assert t.T.__cuda_array_interface__["strides"] == (size, 6 * size) and t.as_readonly().__cuda_array_interface__["data"][1] is True
    s = own_stream()
    with mt.stream(s):
        t.fill(1)
    assert t.__cuda_array_interface__["stream"] == s.ptr


def test_who_has_it():
    assert hasattr(mt.zeros(3, device="cuda_managed"), "__cuda_array_interface__")
    for t in (mt.zeros(3), mt.zeros(3, "bfloat16", "cuda"), mt.zeros(3, device="cuda_host")):
        assert not hasattr(t, "__cuda_array_interface__")


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.T, lambda x: x[::2, 1::3], lambda x: x[::-1], lambda x: x[1, 2], lambda x: x[:0]])
def test_both_ways(view):
    x = view(cp.asarray(np.asarray(VALUES, "float32")))
    t = mt.from_dlpack(Only(x))
    assert (t.shape, t.device, t.readonly) == (x.shape, (2, 0), False) and t.tolist() == cp.asnumpy(x).tolist()
    assert x.size == 0 or t.data_ptr == x.data.ptr
    t = view(mt.asarray(VALUES, "float32", "cuda"))
    if t.size == 0 or min(t.strides, default=0) < 0:
        return  # CuPy's to take or not
    y = cp.asarray(Only(t))
    assert cp.asnumpy(y).tolist() == t.tolist() and (t.size == 0 or y.data.ptr == t.data_ptr)
    assert mt.from_dlpack(Only(x), copy=True).copied and mt.from_dlpack(Only(x), device="cpu").tolist() == cp.asnumpy(x).tolist()


def test_the_object_is_the_owner():
    only = Only(cp.arange(10, dtype="int32"))
    before = sys.getrefcount(only)
    t = mt.from_dlpack(only)
    u = t[2:]
    assert sys.getrefcount(only) == before + 1
    del t
    assert u.tolist() == list(range(2, 10))
    mt.synchronize()
    del u
    gc.collect()
    assert sys.getrefcount(only) == before


@pytest.mark.parametrize("changed, error", [
    ({"typestr": ">f4"}, BufferError), ({"typestr": "<V4"}, BufferError), ({"typestr": "<M8"}, BufferError), ({"typestr": 4}, ValueError),
    ({"typestr": "f4"}, ValueError), ({"typestr": "<f3"}, BufferError), ({"strides": (24, 3)}, BufferError), ({"strides": (4,)}, ValueError),
    ({"mask": object()}, BufferError), ({"stream": 0}, ValueError), ({"stream": -1}, ValueError), ({"stream": "1"}, ValueError),
    ({"shape": None}, ValueError), ({"shape": (-1, 6)}, BufferError), ({"data": None}, ValueError), ({"data": (0, False)}, BufferError),
    ({"version": "3"}, ValueError),
])  # fmt: skip
def test_what_is_refused(changed, error):
    x = cp.zeros((4, 6), "float32")
    before = sys.getrefcount(x)
    with pytest.raises(error):
        mt.from_dlpack(Only(x, **changed))
    gc.collect()
    assert sys.getrefcount(x) == before


def test_memory_of_the_host_is_refused():
    x = np.zeros((4, 6), "float32")
    with pytest.raises(BufferError):
        mt.from_dlpack(Only(cp.zeros((4, 6), "float32"), data=(x.ctypes.data, False)))


def test_read_only_and_empty():
    x = cp.zeros((4, 6), "float32")
    assert mt.from_dlpack(Only(x, data=(x.data.ptr, True))).readonly
    assert mt.from_dlpack(Only(x, shape=(0, 6), data=(0, False))).tolist() == []


def test_R43_the_stream_is_waited_for_on_the_stream():
    theirs, ours = own_stream(), own_stream()
    x = cp.zeros((4, 6), "float32")
    with mt.stream(ours):
        mt.from_dlpack(Only(x)).copy()
    mt.synchronize()
    with Gate(theirs.ptr) as gate:
        with theirs:
            x.fill(7)
        with mt.stream(ours):
            u = mt.from_dlpack(Only(x, stream=theirs.ptr)).copy()
        assert gate.is_closed and not ours.done
        gate.open()
        assert u.tolist() == [[7] * 6] * 4


def test_numba():
    cuda = pytest.importorskip("numba.cuda")
    t = mt.asarray(VALUES, "float32", "cuda")
    x = cuda.as_cuda_array(t)
    assert x.copy_to_host().tolist() == VALUES
    u = mt.from_dlpack(cuda.to_device(np.asarray(VALUES, "float32")))
    assert u.device == (2, 0) and u.tolist() == VALUES
    del x, u
