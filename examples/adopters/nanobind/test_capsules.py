"""Capsules as arguments, which nanobind's own tests do not pass twice."""

import pytest
import test_ndarray_ext as t


def test_an_unversioned_capsule_is_a_writable_argument():
    t.pass_float32(t.return_no_framework())


def test_a_capsule_that_one_function_refuses_is_accepted_by_another():
    capsule = t.return_no_framework()
    with pytest.raises(TypeError):
        t.pass_uint32(capsule)
    t.pass_float32(capsule)
    with pytest.raises(TypeError):
        t.pass_float32(capsule)  # consumed
