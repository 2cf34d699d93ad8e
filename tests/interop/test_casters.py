"""The type casters for nanobind and pybind11, with the extension modules of interop/casters."""

import gc
import importlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import threading

import numpy as np
import pytest
import without_gil
from forge import FLOAT32, USED_LEGACY, USED_VERSIONED, VERSIONED, Forged, Producer, error_is_set, name_of

import minitensor as mt

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILT = pathlib.Path(os.environ.get("FERRY_CASTERS", ROOT / "build/casters"))
sys.path.insert(0, str(BUILT))


@pytest.fixture(params=["nanobind", "pybind11"])
def ext(request):
    return importlib.import_module(f"casters_{request.param}")


@pytest.fixture
def nanobind():
    return importlib.import_module("casters_nanobind")


def forged(**how):
    return Forged(**{"dtype": FLOAT32, **how})


def owned(tensor, **keywords):
    """A producer that exports one forged tensor at each call."""
    return Producer(lambda **_: tensor.capsule(), **keywords)


def image(rows=2, columns=3, dtype=np.float32):
    return np.arange(rows * columns, dtype=dtype).reshape(rows, columns)


def refusal(call, *arguments, **keywords):
    """Checks that the call raises a TypeError without a matching overload, and returns its text."""
    with pytest.raises(TypeError) as caught:
        call(*arguments, **keywords)
    assert "incompatible function arguments" in str(caught.value)
    assert not error_is_set()
    return str(caught.value)


def libraries():
    import array_api_strict
    import jax
    import torch
    import tvm_ffi

    a = image()
    yield "numpy", a
    yield "numpy, transposed", image(3, 2).T
    yield "numpy, negative strides", a[::-1, ::-1]
    yield "numpy, broadcast", np.broadcast_to(a[:1], (2, 3))
    yield "torch", torch.arange(6, dtype=torch.float32).reshape(2, 3)
    yield "torch, transposed", torch.arange(6, dtype=torch.float32).reshape(3, 2).T
    yield "jax", jax.numpy.arange(6, dtype=jax.numpy.float32).reshape(2, 3)
    yield "minitensor", mt.from_dlpack(a)
    yield "tvm_ffi", tvm_ffi.from_dlpack(a)
    yield "array_api_strict", array_api_strict.asarray(a)
    yield "capsule", a.__dlpack__()
    yield "versioned capsule", a.__dlpack__(max_version=(1, 0))


# Views


def test_a_view_reads_the_tensors_of_every_library(ext):
    for what, tensor in libraries():
        assert ext.total(tensor) == (6 if "broadcast" in what else 15), what


def test_arguments_have_names_and_defaults(ext):
    a, b = image(), np.ones((2, 3), np.float32)
    assert ext.dot(a, b) == ext.dot(left=a, right=b) == ext.dot(a, right=b, times=1.0) == 15
    assert ext.dot(right=b, times=2, left=a) == 30


def test_a_writable_view_writes_to_the_memory_of_the_caller(ext):
    import torch

    a, t = image(), torch.ones(2, 3)
    ext.scale(a, 2)
    ext.scale(t, by=3)
    ext.scale(image=a[:, ::2], by=10)
    assert a.tolist() == [[0, 2, 40], [60, 8, 100]]
    assert t.tolist() == [[3, 3, 3]] * 2


def test_R11_a_read_only_tensor_is_refused_by_writable_views_only(ext):
    a = image()
    a.flags.writeable = False
    assert ext.total(a) == 15
    refusal(ext.scale, a, 2)
    import jax

    refusal(ext.scale, jax.numpy.ones((2, 3), jax.numpy.float32), 2)  # R15: legacy data
    assert ext.writable_or_not(a) == "read-only"
    assert ext.writable_or_not(image()) == "writable"


def test_R29_a_writable_view_refuses_repeated_elements(ext):
    tensor = forged(shape=(2, 3), strides=(0, 1))
    refusal(ext.scale, owned(tensor), 2)
    assert ext.total(owned(tensor)) == pytest.approx(ext.total(owned(forged(shape=(1, 3)))) * 2)
    assert ext.identity(owned(tensor)).readonly and not ext.identity(owned(forged())).readonly


def test_R68_a_view_is_released_when_the_call_ends(ext):
    tensor, seen = forged(), []
    ext.during(owned(tensor), lambda: seen.append(tensor.deletions))
    assert seen == [0]
    assert tensor.deletions == 1


def test_R68_a_view_is_released_when_the_function_throws(ext):
    tensor = forged()
    with pytest.raises(RuntimeError, match="the function failed"):
        ext.fail(owned(tensor))
    assert tensor.deletions == 1

    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ext.during(owned(tensor), interrupt)
    assert tensor.deletions == 2


def test_a_view_is_released_when_another_argument_is_refused(ext):
    tensor, other = forged(), forged()
    refusal(ext.dot, owned(tensor), 7)
    refusal(ext.dot, owned(tensor), owned(other), "much")
    assert (tensor.deletions, other.deletions) == (2, 1)


def test_the_same_tensor_twice_is_imported_twice(ext):
    tensor = forged()
    ext.dot(owned(tensor), owned(tensor))
    assert tensor.deletions == 2


def test_contiguous_views_share_contiguous_elements_and_copy_others(ext):
    a = image(4, 6)
    assert ext.rows_address(a) == a.ctypes.data
    assert ext.rows_sum(a[::2, ::3]) == a[::2, ::3].sum()
    assert ext.rows_address(a[::2, ::3]) != a.ctypes.data
    refusal(ext.rows_address_strict, a.T)
    assert ext.rows_address_strict(a) == a.ctypes.data


def test_R31_misaligned_elements_are_copied_for_read_only_views(ext):
    raw = np.zeros(4 * 6 + 1, np.uint8)
    a = raw[1:].view(np.float32).reshape(2, 3)
    a[:] = image()
    assert ext.total(a) == 15
    refusal(ext.scale, a, 2)


def test_None_is_for_optional_views_only(ext):
    assert ext.total_or() == ext.total_or(None) == ext.total_or(image=None) == -1
    assert ext.total_or(image()) == 15
    assert ext.total_or(None, otherwise=4) == 4
    refusal(ext.total, None)
    refusal(ext.total_or, image(dtype=np.int16))
    tensor = forged()
    ext.total_or(owned(tensor))
    assert tensor.deletions == 1


def test_R39_a_host_view_refuses_device_memory(ext):
    tensor = forged(device=(2, 0))
    producer = owned(tensor, device=(2, 0))
    refusal(ext.total, producer)
    assert ext.device_address(producer) == tensor.raw.tensor.data
    assert ext.host_or_device(producer) == "device"
    assert ext.host_or_device(image()) == "host"
    assert tensor.deletions == len(producer.asked)  # each export was released once, also that of a refused overload
    capsule = tensor.capsule()
    refusal(ext.total, capsule)
    assert name_of(capsule) == VERSIONED
    assert ext.host_or_device(capsule) == "device"
    assert tensor.deletions == len(producer.asked) + 1


# Overloads


def test_overloads_are_selected_by_element_type_and_rank(ext):
    assert ext.kind(image()) == "float32, 2"
    assert ext.kind(image(dtype=np.float64)) == "float64, 2"
    assert ext.kind(image().ravel()) == "float32, 1"
    assert ext.kind(np.int32(3) + np.zeros((1, 1, 1), np.int32)) == ext.kind(np.zeros((), np.int32)) == "int32, any"
    assert ext.kind("x") == "text"


def test_an_argument_that_is_converted_does_not_hide_an_overload_of_the_next(ext):
    assert ext.after_number(3, image(dtype=np.float64)) == "float64"
    assert ext.after_number(3, image()) == "float32"


def test_an_overload_that_shares_is_preferred_to_one_that_copies(ext):
    a = image(4, 4)
    assert ext.rows_first(a) == ("rows", a.ctypes.data)
    assert ext.rows_first(a.T) == ("any", a.ctypes.data)
    kind, address = ext.only_rows(a.T)
    assert kind == "rows" and address != a.ctypes.data


def test_R63_an_overload_that_refuses_a_capsule_does_not_consume_it(ext):
    tensor = forged(shape=(6,))
    capsule = tensor.capsule()
    assert ext.kind(capsule) == "float32, 1"
    assert name_of(capsule) == USED_VERSIONED and tensor.deletions == 1
    legacy = Forged(versioned=False).capsule()
    assert ext.kind(legacy) == "int32, any"
    assert name_of(legacy) == USED_LEGACY
    wrong = forged(shape=(1, 2, 3))
    capsule = wrong.capsule()
    refusal(ext.total, capsule)
    assert name_of(capsule) == VERSIONED and wrong.deletions == 0
    used = forged()
    capsule = used.capsule()
    ext.total(capsule)
    refusal(ext.total, capsule)


def test_each_import_of_a_refused_overload_is_released(ext):
    tensor = forged(dtype=(2, 64, 1), shape=(1, 2, 3))
    refusal(ext.kind, owned(tensor))
    assert tensor.deletions > 0
    before = tensor.deletions
    refusal(ext.kind, owned(tensor))
    assert tensor.deletions == 2 * before


# Errors


def test_a_refused_argument_raises_the_TypeError_of_the_binding_library(ext):
    text = refusal(ext.total, image(dtype=np.float64))
    assert "image: tensor[float32, 2]" in text and "float64 elements" not in text and "convert the tensor" not in text
    refusal(ext.total, np.zeros(3, np.float32))
    refusal(ext.dot, image(), right=[1])
    refusal(ext.kind, np.zeros(3, np.uint8))


def test_R81_a_function_that_imports_an_object_itself_raises_the_error_of_the_import(ext):
    assert ext.total_of_object(image()) == 15
    for wrong, kind, texts in (
        (image(dtype=np.float64), BufferError, ("float32", "float64")),
        (np.zeros(3, np.float32), BufferError, ("rank",)),
        ([1], TypeError, ("list", "__dlpack__")),
    ):
        with pytest.raises(kind) as caught:
            ext.total_of_object(wrong)
        assert all(text in str(caught.value) for text in texts), str(caught.value)
    tensor = forged(dtype=(2, 64, 1))
    with pytest.raises(BufferError):
        ext.total_of_object(owned(tensor))
    assert tensor.deletions == 1


def test_signatures_show_element_type_rank_and_access(ext):
    assert "image: tensor[float32, 2]" in ext.total.__doc__
    assert "image: tensor[float32, 2, writable]" in ext.scale.__doc__
    assert "tensor[float32, 2, contiguous]" in ext.rows_sum.__doc__
    assert "tensor[float32, 2, on_device]" in ext.device_address.__doc__
    assert "any: tensor[int32, ...]" in ext.kind.__doc__
    assert re.search(r"tensor: tensor\) -> tensor", ext.identity.__doc__)


def test_methods_and_static_methods_refuse_arguments(ext):
    sums = ext.Sums()
    sums.add(image())
    assert sums.total == ext.Sums.of(image()) == 15
    refusal(sums.add, image(dtype=np.int8))
    refusal(ext.Sums.of, image(dtype=np.int8))


def test_errors_of_ferry_are_the_errors_of_the_protocol(ext):
    shape, argument, out_of_range = 4, 20, 19
    for code, kind in ((shape, BufferError), (argument, ValueError), (out_of_range, IndexError)):
        tensor = forged()
        with pytest.raises(kind, match="casters: 2 rows"):
            ext.fail_with(owned(tensor), code)
        assert tensor.deletions == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ZeroDivisionError])
def test_an_error_that_does_not_refuse_the_tensor_propagates(ext, error):
    def answer(**_):
        raise error("in the producer")

    for call in (ext.total, ext.kind, ext.identity, ext.same_line, ext.total_or, ext.has_tensor):
        with pytest.raises(error, match="in the producer"):
            call(Producer(answer))


def test_a_refusing_producer_rejects_the_argument(ext):
    import torch

    refusal(ext.total, torch.ones(2, 3, dtype=torch.complex64).conj())

    def answer(**_):
        raise BufferError("cannot export")

    refusal(ext.total, Producer(answer))


def test_invalid_structs_are_refused_and_released(ext):
    for wrong in (forged(version=(2, 0)), forged(shape=(-1, 3)), forged(data=None), forged(dtype=(99, 32, 1))):
        refusal(ext.total, owned(wrong))
        refusal(ext.identity, owned(wrong))
        assert wrong.deletions == 2


# Tensors


def test_a_function_owns_a_managed_tensor_argument(ext):
    tensor = forged()
    ext.keep(owned(tensor))
    assert tensor.deletions == 0
    ext.drop()
    assert tensor.deletions == 1
    ext.keep(owned(tensor))
    ext.drop_unlocked()  # R65
    assert tensor.deletions == 2


def test_a_tensor_keeps_the_memory_of_its_producer(ext):
    a = image()
    ext.keep(a)
    count = sys.getrefcount(a)
    ext.drop()
    assert sys.getrefcount(a) == count - 1


def test_a_managed_tensor_reports_type_access_and_copies(ext):
    a = image()
    assert ext.describe(a) == "float32 2 rw shared"
    a.flags.writeable = False
    assert ext.describe(a) == "float32 2 ro shared"
    assert ext.describe(Producer(lambda **k: a.__dlpack__(copy=True, **k))) == "float32 2 rw copied"
    assert ext.data(a) == a.ctypes.data
    assert "image" not in refusal(ext.describe, "text")


def test_R12_a_copy_of_the_producer_is_refused_with_noconvert(ext):
    copying = Producer(lambda **k: image().__dlpack__(copy=True, max_version=(1, 0)))
    assert ext.data(copying) != 0
    refusal(ext.data_strict, copying)


def test_None_is_for_optional_tensors(ext, nanobind):
    assert ext.has_tensor(None) is ext.has_tensor() is False
    assert ext.has_tensor(image()) is True
    refusal(ext.identity, None)
    assert nanobind.empty_or(None) is False
    assert nanobind.empty_or(image()) is True


def test_containers_of_tensors(ext):
    tensor = forged()
    assert ext.ranks([image(), image().ravel(), owned(tensor)]) == [2, 1, 2]
    assert tensor.deletions == 1
    refusal(ext.ranks, [image(), 3])


# Results


def test_a_result_supports_dlpack(ext):
    import jax
    import torch

    made = ext.ramp(2, 3)
    assert made.__dlpack_device__() == (1, 0)
    assert (made.shape, made.dtype, made.readonly) == ((2, 3), "float32", False)
    assert repr(made) == "<ferry.Tensor float32 (2, 3) on cpu:0>"
    a = np.from_dlpack(made)
    assert a.tolist() == image().tolist() and a.flags.writeable
    t, m = torch.from_dlpack(made), mt.from_dlpack(made)
    j = jax.dlpack.from_dlpack(made)
    assert t.data_ptr() == a.ctypes.data == m.data_ptr == ext.data(made)
    a[0, 0] = 9
    del made
    gc.collect()
    assert t[0, 0] == 9 and m.tolist()[0][0] == 9 and j.shape == (2, 3)


def test_a_result_supports___array__(ext):
    made = ext.ramp(2, 3)
    a = np.asarray(made)
    assert a.dtype == np.float32 and a.ctypes.data == ext.data(made)
    assert np.array(made, dtype=np.int16).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert np.array(made, copy=True).ctypes.data != ext.data(made)


def test_a_result_with_an_option_is_the_array_of_a_library(ext):
    import jax
    import torch

    assert type(ext.ramp_numpy(2, 3)) is np.ndarray
    assert ext.ramp_numpy(2, 3).tolist() == ext.ramp_torch(2, 3).tolist() == image().tolist()
    assert type(ext.ramp_torch(2, 3)) is torch.Tensor
    assert isinstance(ext.ramp_jax(2, 3), jax.Array)
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        ext.ramp_nowhere()


def test_a_result_is_an_array_of_the_library_of_an_object(ext):
    import array_api_strict
    import jax
    import torch
    import tvm_ffi

    class Derived(torch.Tensor):
        pass

    a = image()
    for like, expected in (
        (a, np.ndarray),
        (np, np.ndarray),
        (np.ndarray, np.ndarray),
        (torch.zeros(1), torch.Tensor),
        (torch.Tensor, torch.Tensor),
        (torch.nn.Parameter(torch.zeros(1)), torch.Tensor),
        (torch.zeros(1).as_subclass(Derived), torch.Tensor),
        (jax.numpy.zeros(1), jax.Array),
        (jax.dlpack, jax.Array),
        (mt.from_dlpack(a), mt.Tensor),
        (mt.Tensor, mt.Tensor),
        (tvm_ffi.from_dlpack(a), tvm_ffi.Tensor),
        (array_api_strict.asarray(a), type(array_api_strict.asarray(a))),
        (ext.ramp(1, 1), type(ext.ramp(1, 1))),
        (None, type(ext.ramp(1, 1))),
    ):
        made = ext.identity_like(a, like)
        assert isinstance(made, expected) and np.from_dlpack(made).tolist() == a.tolist(), expected
    assert ext.identity_like(a, torch).data_ptr() == a.ctypes.data
    assert type(ext.numpy_or_like(a)) is np.ndarray
    assert type(ext.numpy_or_like(a, like=torch)) is torch.Tensor


def test_a_result_is_an_array_of_the_library_of_the_argument(ext):
    for what, tensor in libraries():
        if "capsule" in what:
            with pytest.raises(TypeError, match="the library of PyCapsule has no from_dlpack: pass a module or class that has it"):
                ext.identity_of_library(tensor)
        elif "negative strides" not in what:
            assert type(ext.identity_of_library(tensor)) is type(tensor), what
    a = image()
    assert ext.identity_of_library(a).ctypes.data == a.ctypes.data
    assert "tensor: tensor) -> tensor" in ext.identity_of_library.__doc__
    refusal(ext.identity_of_library, 3)


def test_R68_a_result_that_no_library_takes_is_released(ext):
    class Unnamed:
        __module__ = 3

    class Failing:
        def __getattr__(self, name):
            raise ZeroDivisionError(name)

    class Empty:
        def __array_namespace__(self):
            return None

    class Refusing:
        @staticmethod
        def from_dlpack(x):
            raise KeyError("refused")

    class Broken:
        def __array_namespace__(self):
            raise KeyError("no namespace")

    for like, error in (
        (3, TypeError),
        (Unnamed(), TypeError),
        (Empty(), TypeError),
        (Failing(), ZeroDivisionError),
        (Refusing, KeyError),
        (Broken(), KeyError),
    ):
        tensor = forged()
        count = sys.getrefcount(like)
        with pytest.raises(error):
            ext.identity_like(owned(tensor), like)
        assert tensor.deletions == 1 and not error_is_set()
        assert sys.getrefcount(like) == count


def test_R67_a_result_that_a_library_refuses_is_released(ext):
    tensor = forged(dtype=(4, 16, 1))  # bfloat16, which NumPy does not support
    with pytest.raises((BufferError, RuntimeError), match="dtype"):
        ext.identity_numpy(owned(tensor))
    assert tensor.deletions == 1 and not error_is_set()


def test_a_returned_argument_is_shared_and_released_once(ext):
    a = image()
    assert np.from_dlpack(ext.identity(a)).ctypes.data == a.ctypes.data
    assert ext.identity_numpy(a).ctypes.data == a.ctypes.data
    a.flags.writeable = False
    assert ext.identity(a).readonly
    assert not ext.identity_numpy(a).flags.writeable
    tensor = forged()
    back = ext.identity(owned(tensor))
    seen = np.from_dlpack(back)
    del back
    assert tensor.deletions == 0
    del seen
    assert tensor.deletions == 1
    assert ext.nothing() is None


def test_R59_a_result_can_be_exported_repeatedly(ext):
    tensor = forged()
    back = ext.identity(owned(tensor))
    for _ in range(3):
        back.__dlpack__()
        back.__dlpack__(max_version=(1, 0), copy=True)
    assert tensor.deletions == 0
    del back
    assert tensor.deletions == 1


def test_the_type_of_results_cannot_be_called(ext):
    with pytest.raises(TypeError):
        type(ext.ramp(1, 1))()


# Arrays


def test_arrays_are_adopted_shared_and_returned(ext):
    a = np.arange(4, dtype=np.float32)
    back = ext.same_line(a)
    assert np.from_dlpack(back).ctypes.data == a.ctypes.data
    assert ext.line_or(a) == "line"
    assert ext.line_or(image()) == "image"
    refusal(ext.same_line, image())
    tensor = forged(shape=(6,))
    back = ext.same_line(owned(tensor))
    assert tensor.deletions == 0
    del back
    assert tensor.deletions == 1


def test_a_result_reference_that_cannot_be_shared_is_copied(ext):
    first, second = np.from_dlpack(ext.lent()), np.from_dlpack(ext.lent())
    assert first.tolist() == second.tolist() == [[0, 1], [2, 3]]
    assert first.ctypes.data != second.ctypes.data
    first[0, 0] = 5
    assert np.from_dlpack(ext.lent())[0, 0] == 0


def test_a_bound_class_is_converted_by_the_binding_library(ext):
    assert ext.bound_value(ext.Bound()) == 7
    refusal(ext.bound_value, np.zeros((), np.int32))


# Options


def test_R53_an_option_forces_or_forbids_the_copy(ext):
    a = image()
    address, is_copied = ext.copied(a)
    assert address != a.ctypes.data and is_copied
    assert ext.shared(a) == a.ctypes.data
    assert ext.rows_never(a) == a.ctypes.data
    refusal(ext.rows_never, a.T)
    asked = Producer(lambda **k: a.__dlpack__(**k))
    ext.shared(asked)
    assert asked.asked[0]["copy"] is False
    ext.copied(asked)
    assert asked.asked[-1]["copy"] is True


def test_R56_an_option_has_the_producer_copy_the_data_to_the_host(ext):
    far, a = forged(device=(2, 0)), image()

    def answer(dl_device=None, **keywords):
        return far.capsule() if dl_device is None else a.__dlpack__(copy=True, max_version=(1, 0))

    producer = Producer(answer, device=(2, 0))
    assert ext.near(producer) == 15
    assert producer.asked[-1]["dl_device"] == (1, 0)
    assert ext.near(a) == ext.near_strict(a) == 15
    refusal(ext.near_strict, producer)
    assert far.deletions == sum("dl_device" not in keywords for keywords in producer.asked)
    unable = owned(forged(device=(2, 0)), device=(2, 0))
    refusal(ext.near, unable)


def test_R43_an_option_passes_the_stream_to_the_producer(ext):
    tensor = forged(device=(2, 0))
    producer = owned(tensor, device=(2, 0))
    assert ext.on_stream(producer) == tensor.raw.tensor.data
    assert producer.asked[0]["stream"] == 0x70
    assert ext.on_stream(image()) != 0
    assert tensor.deletions == 1


# Threads


def test_functions_without_the_gil(ext):
    tensor, a = forged(), image(200, 200)
    narrow, expected, wrong = a.astype(np.float16), a.sum(dtype=np.float64), []

    def work():
        for _ in range(200):
            if ext.total_unlocked(a) != expected:
                wrong.append(1)
            refusal(ext.total_unlocked, narrow)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    ext.total_unlocked(owned(tensor))
    assert tensor.deletions == 1


def test_R66_modules_and_results_survive_the_end_of_the_interpreter(ext):
    code = f"""
import sys; sys.path.insert(0, {str(BUILT)!r})
import numpy as np, {ext.__name__} as e
kept = e.ramp(2, 3); e.keep(np.ones((2, 3), np.float32)); sys.kept = np.from_dlpack(kept), e.ramp_numpy(2, 2)
print(e.total(np.ones((2, 3), np.float32)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "6.0\n"), done.stderr


def test_both_modules_work_side_by_side():
    one, other = (importlib.import_module(f"casters_{name}") for name in ("nanobind", "pybind11"))
    made = one.ramp(2, 3)
    assert other.total(made) == one.total(other.ramp(2, 3)) == 15
    assert type(made) is not type(other.ramp(1, 1))


@pytest.mark.parametrize("example", ["nanobind", "pybind11"])
def test_the_example_runs(example):
    without_gil.need("tvm_ffi")  # its build takes the DLPack header from there
    done = subprocess.run([sys.executable, ROOT / "examples" / example / "demo.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "1. " in done.stdout and ": tensor[" in done.stdout


WRONG = """
#include <ferry/python/LIBRARY.hpp>
#include <HEADER>
using view = ferry::typed_view<float const, 2>;
void take(LIBRARY::module_& m) { m.def("f", [](std::vector<view> const&) {}); }
auto keep(LIBRARY::object o) { return LIBRARY::cast<ferry::typed_view<double const, 1>>(o); }
void give(LIBRARY::module_& m) { m.def("f", [](view v) { return v; }); }
"""


@pytest.mark.parametrize("library,header", [("nanobind", "nanobind/stl/vector.h"), ("pybind11", "pybind11/stl.h")])
def test_a_view_in_a_container_or_result_does_not_compile(library, header, tmp_path):
    source = tmp_path / "wrong.cpp"
    source.write_text(WRONG.replace("LIBRARY", library).replace("HEADER", header))
    commands = json.loads((BUILT / "compile_commands.json").read_text())
    (command,) = (entry["command"] for entry in commands if entry["file"].endswith(f"casters/{library}.cpp"))
    compiler = [part for part in shlex.split(command.split(" -o ")[0]) if not part.endswith("ccache")]
    done = subprocess.run([*compiler, "-O0", "-fsyntax-only", source], capture_output=True, text=True)
    refused = [line for line in done.stderr.splitlines() if "static assertion failed: ferry: " in line]
    assert sum("containers and" in line and "ferry::managed_tensor" in line for line in refused) >= 2
    assert any("a typed_view does not own its tensor and cannot be returned" in line for line in refused)
