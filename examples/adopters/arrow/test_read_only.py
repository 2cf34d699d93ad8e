"""Imports of read-only and unsupported arrays, and error messages, which pyarrow's own tests of DLPack do not contain."""

import ctypes
import sys

import numpy as np
import pyarrow as pa
import pytest


class Forged:
    """An array whose struct differs in one field, at an offset in bytes of a 64-bit DLManagedTensorVersioned."""

    def __init__(self, array, offset, field):
        self.array, self.offset, self.field = array, offset, field

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **_):
        capsule = self.array.__dlpack__(max_version=(1, 0))
        pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
        ctypes.memmove(pointer(capsule, b"dltensor_versioned") + self.offset, ctypes.byref(self.field), ctypes.sizeof(self.field))
        return capsule


def test_an_array_is_imported_from_an_array():
    assert pa.Array.from_dlpack(pa.array([1, 2, 3])).to_pylist() == [1, 2, 3]


def test_a_read_only_array_is_imported_as_an_immutable_tensor():
    values = np.arange(4)
    assert pa.Tensor.from_dlpack(values).is_mutable
    values.flags.writeable = False
    assert pa.Array.from_dlpack(values).to_pylist() == [0, 1, 2, 3]
    imported = pa.Tensor.from_dlpack(values)
    assert not imported.is_mutable
    assert imported.to_numpy().tolist() == [0, 1, 2, 3]


def test_an_unsupported_type_is_invalid():
    with pytest.raises(pa.ArrowInvalid):
        pa.Array.from_dlpack(np.zeros(3, complex))


def test_the_messages_contain_the_hints_of_arrow():
    with pytest.raises(pa.ArrowInvalid, match="Try importing to Tensor first."):
        pa.Array.from_dlpack(np.zeros((2, 3)))
    with pytest.raises(TypeError, match="string, try converting to a Tensor for multi dimensional data support"):
        pa.array(["a"]).__dlpack__()
    immutable = pa.Tensor.from_numpy(np.frombuffer(b"1234", np.int8))
    with pytest.raises(NotImplementedError, match="Please move to the DLPack version >=1.0"), pytest.warns(DeprecationWarning):
        immutable.__dlpack__()


def test_vectors_are_a_type_error():
    with pytest.raises(TypeError, match="one lane"):
        pa.Tensor.from_dlpack(Forged(np.zeros(3), 54, ctypes.c_uint16(2)))


def test_a_stride_that_no_element_uses_may_be_odd_and_must_not_overflow():
    records = np.zeros(5, [("a", "i4"), ("b", "i2")])["a"]
    assert np.from_dlpack(pa.Tensor.from_numpy(records[:1])).tolist() == [0]
    with pytest.raises(pa.ArrowInvalid, match="multiples of the element size"):
        np.from_dlpack(pa.Tensor.from_numpy(records))
    strides = (ctypes.c_int64 * 1)(1 << 58)  # times 64 bits: 0 in 64 bits
    one = Forged(np.zeros(1), 64, ctypes.pointer(strides))
    assert pa.Tensor.from_dlpack(one).strides == (1 << 61,)
    strides[0] = 1 << 60
    with pytest.raises(pa.ArrowInvalid, match="Overflow computing DLPack tensor stride in bytes"):
        pa.Tensor.from_dlpack(one)


def test_an_empty_array_is_released_at_once_and_is_immutable():
    memory = np.zeros((0, 3))
    count = sys.getrefcount(memory)
    imported = pa.Tensor.from_dlpack(memory)
    assert (imported.shape, imported.is_mutable, sys.getrefcount(memory)) == ((0, 3), False, count)
    assert pa.Array.from_dlpack(np.zeros(0)).to_pylist() == []


def test_an_array_of_a_later_version_is_invalid_and_the_message_does_not_name_ferry():
    with pytest.raises(pa.ArrowInvalid, match="version") as raised:
        pa.Tensor.from_dlpack(Forged(np.zeros(3), 0, ctypes.c_uint32(2)))
    assert "ferry" not in str(raised.value)
    assert "(R" not in str(raised.value)
