"""NumPy arrays, which ferry reads without a call of `__dlpack__`: for each array, the result equals that of the import through
`__dlpack__`, which a subclass takes, and that with NumPy 1."""

import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import sysconfig

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NUMPY_1 = ROOT / "build/numpy-1"
sys.path.insert(0, os.environ.get("FERRY_CASTERS", str(ROOT / "build/casters")))


class Subclass(np.ndarray):
    calls = 0

    def __dlpack__(self, **keywords):
        Subclass.calls += 1
        return super().__dlpack__(**keywords)


@pytest.fixture(params=["nanobind", "pybind11"])
def ext(request):
    return importlib.import_module(f"casters_{request.param}")


DTYPES = "?bhilqBHILQefdgFDG" + "U" + "O"
OTHERS = [">f4", ">i2", "<f4", "M8[s]", "m8[s]", "S3", "V4", "f4,i4"]


def layouts(a):
    yield "as it is", a
    yield "transposed", a.T
    yield "reversed", a[::-1, ::-1]
    yield "strided", a[::2, ::2]
    yield "a row", a[1]
    yield "repeated", np.broadcast_to(a[:1], a.shape)
    yield "repeated, writable", np.lib.stride_tricks.as_strided(a, a.shape, (0, a.strides[1]), writeable=True)
    yield "one element", a[:1, :1]
    yield "one row with another stride", a[::2][:1]
    yield "no element", a[:, :0]
    yield "rank 0", a[0, 0, ...]
    yield "rank 9", a.reshape((1,) * 7 + a.shape)
    yield "read-only", frozen(a)


def frozen(a):
    a = a.view()
    a.flags.writeable = False
    return a


def arrays():
    for dtype in [*DTYPES, *OTHERS]:
        for what, a in layouts(np.zeros((4, 6), dtype)):
            yield f"{dtype}, {what}", a
    memory = np.zeros(100, np.uint8)
    yield "not aligned", memory[1:97].view(np.float32).reshape(4, 6)
    record = np.zeros((4, 6), [("a", "u1"), ("b", "f4")])
    yield "a stride that is no multiple", record["b"]
    yield "warns at the first write", np.broadcast_arrays(np.zeros((1, 6), np.float32), np.zeros((4, 1), np.float32))[0]
    yield "a field", np.zeros((4, 6), [("a", "f4"), ("b", "f4")])["b"]


def outcomes(ext, view):
    """What each function does with each array: {"array, function": result}; for an address, whether the memory is the array's."""
    out = {}
    for what, a in arrays():
        for name in ("total", "kind", "writable_or_not", "host_or_device", "rows_address", "rows_address_strict", "describe", "data", "scale"):
            try:
                got = getattr(ext, name)(view(a), *([1] if name == "scale" else []))
            except TypeError:
                got = "refused"
            if name == "data" or "address" in name and got != "refused":
                got = "shared" if got == a.ctypes.data else "copied"
            out[f"{what}, {name}"] = str(got)
    return out


def test_numpy_arrays_give_the_same_as_a_subclass(ext):
    expected = outcomes(ext, lambda a: a.view(Subclass))
    assert {"refused", "writable", "read-only", "float32, 2", "shared", "copied"} <= set(expected.values())
    assert outcomes(ext, lambda a: a) == expected


def test_the_type_numpy_ndarray_is_read_without_dlpack(ext):
    a = np.ones((2, 3), np.float32)
    before = Subclass.calls
    assert ext.total(a.view(Subclass)) == 6 and Subclass.calls == before + 1
    # A method of the type itself cannot be counted, but its profile event can.
    events = []
    sys.setprofile(lambda frame, event, argument: events.append(argument))
    try:
        ext.total(a)
    finally:
        sys.setprofile(None)
    assert not any("__dlpack__" in repr(event) for event in events)


def test_an_array_is_kept_until_its_tensor_is_released(ext):
    a = np.ones((2, 3), np.float32)
    before = sys.getrefcount(a)
    assert ext.total(a) == 6 and sys.getrefcount(a) == before
    with pytest.raises(TypeError):
        ext.scale(frozen(a), 2)
    assert sys.getrefcount(a) == before
    ext.keep(a)
    assert sys.getrefcount(a) == before + 1
    ext.drop()
    assert sys.getrefcount(a) == before
    ext.during(a, lambda: [None for _ in range(1) if sys.getrefcount(a) > before])
    assert sys.getrefcount(a) == before


def test_a_type_of_the_same_name_is_another_type(ext):
    fake = type("numpy.ndarray", (), {"__dlpack__": lambda self, **_: np.ones((2, 3), np.float32).__dlpack__()})
    assert ext.total(fake()) == 6


# NumPy 1 exports no versioned capsules, so that the arrays that ferry does not read are read-only or refused there.
NOT_READ = re.compile("no element|warns|not aligned|multiple|^>|^[UOMmSVgG]|repeated, writable.*(writable|scale)|f4,i4")


def test_numpy_1_gives_the_same_as_numpy_2(ext):
    if not any(NUMPY_1.glob("numpy/core/*" + sysconfig.get_config_var("EXT_SUFFIX"))):
        pytest.skip(f"{NUMPY_1} does not exist, or has another version of CPython")
    code = f"""import sys; sys.path[:0] = [{str(NUMPY_1)!r}, {str(HERE)!r}]
import json, numpy, test_numpy_arrays as t; assert numpy.__version__ < "2"
print(json.dumps(t.outcomes(t.importlib.import_module({ext.__name__!r}), lambda a: a)))"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    got, expected = json.loads(done.stdout), outcomes(ext, lambda a: a)
    assert {k: v for k, v in got.items() if v != expected[k] and not NOT_READ.search(k)} == {}
