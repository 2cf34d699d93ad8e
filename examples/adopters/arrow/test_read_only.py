"""Imports of read-only and unsupported arrays, which pyarrow's own tests of DLPack do not contain."""

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
