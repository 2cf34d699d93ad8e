"""Imports of read-only and unsupported arrays, and error messages, which pyarrow's own tests of DLPack do not contain."""

import ctypes

import numpy as np
import pyarrow as pa
import pytest


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


def test_an_array_of_a_later_version_is_invalid_and_the_message_does_not_name_ferry():
    class Later:
        def __dlpack_device__(self):
            return 1, 0

        def __dlpack__(self, **_):
            capsule = np.zeros(3).__dlpack__(max_version=(1, 0))
            pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
            ctypes.c_uint32.from_address(pointer(capsule, b"dltensor_versioned")).value = 2
            return capsule

    with pytest.raises(pa.ArrowInvalid, match="version") as raised:
        pa.Tensor.from_dlpack(Later())
    assert "ferry" not in str(raised.value)
