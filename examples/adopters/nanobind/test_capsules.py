"""Capsules as arguments, which nanobind's own tests do not pass twice."""

import pytest
import test_ndarray_ext as t
import torch


def test_an_unversioned_capsule_is_a_writable_argument():
    t.pass_float32(t.return_no_framework())


def test_a_capsule_that_one_function_refuses_is_accepted_by_another():
    capsule = t.return_no_framework()
    with pytest.raises(TypeError):
        t.pass_uint32(capsule)
    t.pass_float32(capsule)
    with pytest.raises(TypeError):
        t.pass_float32(capsule)  # consumed


@pytest.mark.parametrize("function", [t.pass_complex64, t.pass_complex64_const])
def test_a_tensor_with_a_conjugate_bit_is_refused(function):
    z = torch.tensor([1 + 2j], dtype=torch.complex64)
    with pytest.raises(TypeError):
        function(z.conj())
    function(z.conj().resolve_conj())


@pytest.mark.parametrize("function", [t.pass_float32, t.pass_float32_const])
def test_a_tensor_with_a_negative_bit_is_refused(function):
    z = torch.tensor([1 + 2j], dtype=torch.complex64)
    with pytest.raises(TypeError):
        function(z.conj().imag)
    function(torch.ones(3, requires_grad=True))


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"copy": True}, "this object cannot copy: omit copy=True"),
        ({"dl_device": (2, 0)}, "the data is on cpu:0, and this object cannot copy it to cuda:0: omit dl_device"),
    ],
)
def test_a_refused_export_is_a_plain_buffer_error(arguments, text):
    with pytest.raises(BufferError) as caught:
        t.ret_array_api().__dlpack__(**arguments)
    assert type(caught.value) is BufferError and str(caught.value) == f"__dlpack__: {text}"
