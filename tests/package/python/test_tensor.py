"""ferry.Tensor, from_dlpack, to_host and to_device: each docstring states what the test checks."""

import array
import ast
import ctypes
import gc
import inspect
import os
import pathlib
import random
import subprocess
import sys
import weakref

import numpy as np
import pytest
from forge import IS_COPIED, READ_ONLY, look

import ferry

FORMATS = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


def both(error):
    return isinstance(error, BufferError) and isinstance(error, ValueError)


def refusal(kind, call, *args, **options):
    """The text of the error, which names no C++."""
    with pytest.raises(kind) as caught:
        call(*args, **options)
    text = str(caught.value)
    assert "::" not in text and "(R" not in text
    return text


# What goes in


def test_the_signatures_are_those_of_the_page():
    assert str(inspect.signature(ferry.from_dlpack)) == "(x, /, *, device=None, copy=None)"
    assert [n for n in dir(ferry) if not n.startswith("_")] == sorted(ferry.__all__)


def test_dlpack_shares_numpy_torch_and_jax():
    torch, jnp = pytest.importorskip("torch"), pytest.importorskip("jax.numpy")
    for x, pointer in ((a := np.arange(6.0).reshape(2, 3), a.ctypes.data), (t := torch.ones(2, 3), t.data_ptr())):
        y = ferry.from_dlpack(x)
        assert y.data_ptr == pointer and y.shape == (2, 3) and y.strides == (3, 1) and not y.copied and not y.readonly
    j = ferry.from_dlpack(jnp.ones((2, 3)))
    assert j.dtype == "float32" and j.readonly and np.asarray(j).sum() == 6
    assert ferry.from_dlpack(torch.ones(3, dtype=torch.bfloat16)).dtype == "bfloat16"
    raw = np.ones(3).__dlpack__()
    assert ferry.from_dlpack(raw).size == 3
    refusal(ValueError, ferry.from_dlpack, raw)


def test_buffers_and_arrow_columns_are_shared():
    pa = pytest.importorskip("pyarrow")
    memory = bytearray(b"abc")
    t = ferry.from_dlpack(memory)
    t.fill(1)
    assert memory == b"\1\1\1" and not t.readonly
    assert ferry.from_dlpack(b"abc").readonly and ferry.from_dlpack(memoryview(memory)[::2]).strides == (2,)
    assert np.asarray(ferry.from_dlpack(array.array("d", [1, 2]))).tolist() == [1, 2]

    class Arrow:
        def __init__(self, held):
            self.__arrow_c_array__ = held.__arrow_c_array__

    numbers = ferry.from_dlpack(Arrow(pa.array([1, 2, 3], pa.int16())))
    assert numbers.dtype == "int16" and memoryview(numbers).tolist() == [1, 2, 3] and numbers.readonly
    assert "fill the nulls" in refusal(BufferError, ferry.from_dlpack, Arrow(pa.array([1, None])))


def test_other_objects_are_a_type_error():
    assert "expected an array" in refusal(TypeError, ferry.from_dlpack, 3)
    refusal(TypeError, ferry.from_dlpack, np.ndarray)
    refusal(TypeError, ferry.from_dlpack)
    refusal(TypeError, ferry.from_dlpack, np.ones(1), stream=3)


def test_the_cure_is_in_the_words_of_the_library():
    torch = pytest.importorskip("torch")
    with_gradient = torch.ones(2, requires_grad=True)
    assert ".detach()" in refusal(BufferError, ferry.from_dlpack, with_gradient)
    assert "resolve_conj()" in refusal(BufferError, ferry.from_dlpack, torch.ones(2, dtype=torch.complex64).conj())
    assert "resolve_neg()" in refusal(BufferError, ferry.from_dlpack, torch.ones(2, dtype=torch.complex64).conj().imag)
    assert "to_dense()" in refusal(BufferError, ferry.from_dlpack, torch.ones(2, 2).to_sparse())


def test_copy():
    x = np.arange(4)
    y = ferry.from_dlpack(x, copy=True)
    assert y.copied and y.data_ptr != x.ctypes.data and not y[:2].copied and not y.T.copied
    assert ferry.from_dlpack(x, copy=False).data_ptr == x.ctypes.data
    with pytest.raises(ValueError, match="None, True or False"):
        ferry.from_dlpack(x, copy=3)


def test_a_device_that_is_not_there_is_a_buffer_error():
    for call in (lambda: ferry.to_device(np.ones(2), "cuda"), lambda: ferry.from_dlpack(b"ab", device=(2, 0))):
        assert "pass device='cpu'" in refusal(BufferError, call)
    assert ferry.to_device(np.ones(2), "cpu").device == (1, 0)
    refusal(ValueError, ferry.to_device, np.ones(2), "gpu")


# ferry.Tensor


def test_attributes():
    x = np.zeros((2, 0, 3), "f4")
    t = ferry.from_dlpack(x)
    assert (t.ndim, t.size, t.nbytes, t.data_ptr, t.device, len(t)) == (3, 0, 0, 0, (1, 0), 2)
    assert repr(ferry.from_dlpack(np.ones((2, 1)))) == "<ferry.Tensor float64 (2, 1) on cpu>"
    assert repr(ferry.from_dlpack(b"abc")) == "<ferry.Tensor uint8 (3,) on cpu, read-only>"
    assert weakref.ref(t)() is t
    refusal(TypeError, len, ferry.from_dlpack(np.array(1.0)))
    with pytest.raises(TypeError):
        ferry.Tensor()


def test_views_are_those_of_numpy():
    draw = random.Random(5)
    for _ in range(400):
        shape = [draw.randrange(4) for _ in range(draw.randrange(5))]
        x = np.arange(int(np.prod(shape))).reshape(shape)
        if draw.random() < 0.5:
            x = x.T
        key = []
        for extent in x.shape[: draw.randrange(len(shape) + 1)]:
            whole = slice(*(draw.choice([None, *range(-5, 6)]) for _ in range(2)), draw.choice([None, 1, 2, 3, -1, -2]))
            key.append(draw.randrange(-extent, extent) if extent and draw.random() < 0.4 else whole)
        if draw.random() < 0.4:
            key.insert(draw.randrange(len(key) + 1), ...)
        key = key[0] if len(key) == 1 else tuple(key)
        try:
            y = x[key]
        except IndexError:
            refusal(IndexError, ferry.from_dlpack(x).__getitem__, key)
            continue
        t = ferry.from_dlpack(x)[key]
        assert t.shape == np.shape(y) and np.asarray(t).tolist() == np.asarray(y).tolist(), (shape, key)
        assert t.T.shape == np.shape(y.T) and np.asarray(t.T).tolist() == y.T.tolist()
    assert [np.asarray(row).tolist() for row in ferry.from_dlpack(np.eye(2))] == [[1, 0], [0, 1]]


def test_what_no_index_selects():
    t = ferry.from_dlpack(np.ones((2, 3)))
    for key in ((0, 0, 0), (..., ...), 2, -3, (0, 3)):
        refusal(IndexError, t.__getitem__, key)
    for key in (1.0, None, True, [0]):
        refusal(TypeError, t.__getitem__, key)
    refusal(ValueError, t.__getitem__, slice(None, None, 0))


def test_a_view_of_a_packed_type_begins_at_a_whole_byte():
    ml_dtypes, torch = pytest.importorskip("ml_dtypes"), pytest.importorskip("torch")
    assert ml_dtypes
    packed = torch.zeros(4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    try:
        t = ferry.from_dlpack(packed)
    except BufferError:
        pytest.skip("this torch does not export packed types")
    assert t.nbytes == 4
    if t.shape == (8,):
        assert t[2:].data_ptr == t.data_ptr + 1
        refusal(ValueError, t.__getitem__, slice(1, None))


@pytest.mark.parametrize("format", FORMATS)
def test_numpy_and_memoryview_read_numbers(format):
    x = np.arange(6).reshape(2, 3).astype(format)
    t = ferry.from_dlpack(x)
    assert memoryview(t).shape == (2, 3) and np.frombuffer(memoryview(t), format).tolist() == x.ravel().tolist()
    y = np.asarray(t)
    assert y.dtype == x.dtype and y.tolist() == x.tolist() and y.ctypes.data == x.ctypes.data
    assert np.array(t, "f8" if format[0] != "c" else "c16", copy=True).tolist() == x.tolist()
    assert np.asarray(np.lib.stride_tricks.as_strided(x, (2,), (0,))).tolist() == np.asarray(ferry.from_dlpack(np.broadcast_to(x[0, 0], 2))).tolist()


def test_a_type_that_no_buffer_has_is_refused():
    torch = pytest.importorskip("torch")
    t = ferry.from_dlpack(torch.ones(2, dtype=torch.bfloat16))
    for call in (memoryview, np.asarray, lambda t: t.fill(1)):
        with pytest.raises(BufferError, match="bfloat16"):
            call(t)
    assert torch.equal(torch.from_dlpack(t), torch.ones(2, dtype=torch.bfloat16))


@pytest.mark.parametrize("format", FORMATS)
def test_fill(format):
    x = np.zeros((3, 4), format)
    ferry.from_dlpack(x)[::2, 1].fill(1)
    assert x.sum() == 2 and x[0, 1] == x[2, 1] == 1
    if format[0] in "iu":
        refusal(OverflowError, ferry.from_dlpack(x).fill, 1 << 70)
        refusal(TypeError, ferry.from_dlpack(x).fill, 1.5)
    if format != "?":
        refusal(TypeError, ferry.from_dlpack(x).fill, None)


def test_read_only_is_kept():
    x = np.zeros(3)
    x.flags.writeable = False
    t = ferry.from_dlpack(x)
    assert t.readonly and t[1:].readonly and memoryview(t).readonly and not np.asarray(t).flags.writeable
    assert look(t.__dlpack__(max_version=(1, 3))).flags & READ_ONLY
    assert "copy=True" in refusal(ValueError, t.fill, 1)
    assert not ferry.from_dlpack(t, copy=True).readonly


def test_exports():
    torch, jnp = pytest.importorskip("torch"), pytest.importorskip("jax.numpy")
    x = np.arange(6.0, dtype="f4").reshape(2, 3)
    t = ferry.from_dlpack(x)
    assert torch.from_dlpack(t).data_ptr() == x.ctypes.data and jnp.from_dlpack(t).tolist() == x.tolist()
    assert np.from_dlpack(t[:, ::-1]).tolist() == x[:, ::-1].tolist() and t.__dlpack_device__() == (1, 0)
    assert look(t.__dlpack__(max_version=(1, 3), copy=True)).flags & IS_COPIED
    assert ferry.from_dlpack(t).data_ptr == t.data_ptr
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    assert name(ferry.Tensor.__dlpack_c_exchange_api__) == b"dlpack_exchange_api"
    refusal(ValueError, t.__dlpack__, stream=1)


def test_the_array_lives_as_long_as_what_is_made_of_it():
    class Array(np.ndarray):
        pass

    x = np.arange(3).view(Array)
    gone = weakref.ref(x)
    y = np.asarray(ferry.from_dlpack(x)[1:])
    del x
    gc.collect()
    assert gone() is not None and y.tolist() == [1, 2]
    del y
    gc.collect()
    assert gone() is None


# to_host


def test_to_host_shares_or_fills():
    x = np.arange(6.0).reshape(2, 3)
    t = ferry.to_host(x)
    assert t.data_ptr == x.ctypes.data and ferry.to_host(t) is t
    out = np.zeros((3, 2)).T
    assert ferry.to_host(t, out=out) is out and (out == x).all()
    assert ferry.to_host(b"ab", out=(memory := bytearray(2))) is memory == b"ab"
    refusal(BufferError, ferry.to_host, x, out=np.zeros((3, 2)))
    refusal(BufferError, ferry.to_host, x, out=np.zeros((2, 3), "f4"))
    out.flags.writeable = False
    refusal(BufferError, ferry.to_host, x, out=out)


# The package


def test_the_stub_names_what_the_module_has():
    stub = pathlib.Path(ferry.__file__).with_name("_ferry.pyi")
    tree = ast.parse(stub.read_text())
    classes = {c.name: {n.name if isinstance(n, ast.FunctionDef) else n.target.id for n in c.body if not isinstance(n, ast.Expr)}
               for c in tree.body if isinstance(c, ast.ClassDef)}  # fmt: skip
    functions = {f.name for f in tree.body if isinstance(f, ast.FunctionDef)}
    assert functions | classes.keys() == set(ferry.__all__)
    for name, members in classes.items():
        own = {m for m in vars(getattr(ferry, name)) if not m.startswith("__")}
        assert own == {m for m in members if not m.startswith("__")}, name
        assert {m for m in members if not hasattr(getattr(ferry, name), m)} <= {"__buffer__"}  # of CPython 3.12
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not any(getattr(d, "id", "") == "overload" for d in getattr(node, "decorator_list", [])):
            assert ast.get_docstring(node), node.name


EMPTY = os.environ.get("FERRY_EMPTY_PYTHON")


@pytest.mark.skipif(EMPTY is None, reason="FERRY_EMPTY_PYTHON names no environment with this package alone")
def test_an_empty_environment_imports_it_without_other_packages():
    program = (
        "import sys, time; begin = time.process_time(); import ferry; t = ferry.from_dlpack(bytearray(2)); took = time.process_time() - begin\n"
        "t.fill(7); assert bytes(t) == bytes([7, 7]) and 'numpy' not in sys.modules and took < 0.05, took"
    )
    subprocess.run([EMPTY, "-I", "-c", program], check=True)


def test_a_sub_interpreter_is_refused_and_the_main_one_works_on():
    program = (
        "import ferry; t = ferry.from_dlpack(bytearray(2))\n"
        "interpreters = __import__('_xxsubinterpreters')\n"
        "try: interpreters.run_string(interpreters.create(), 'import ferry')\n"
        "except Exception as error: assert 'ImportError' in str(error), error\n"
        "else: raise AssertionError\n"
        "t.fill(7); assert bytes(ferry.from_dlpack(t)[:1]) == bytes([7])"
    )
    if sys.version_info[:2] != (3, 11):
        pytest.skip("the module of sub-interpreters has another name")
    subprocess.run([sys.executable, "-c", program], check=True)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))


def test_to_host_copies_between_parts_of_one_array_as_numpy_does():
    for part, out in ((np.s_[::-1], np.s_[:]), (np.s_[1:], np.s_[:-1]), (np.s_[:-1], np.s_[1:]), (np.s_[::2], np.s_[:5]), (np.s_[:0], np.s_[:0])):
        a, b = np.arange(10), np.arange(10)
        ferry.to_host(a[part], out=a[out])
        b[out] = b[part].copy()
        assert a.tolist() == b.tolist()
    m = np.arange(9).reshape(3, 3)
    ferry.to_host(m.T, out=m)
    assert m.tolist() == np.arange(9).reshape(3, 3).T.tolist()
