"""Uses the extension module of test_stable_abi.py: use.py MODULE CASE. Runs in each CPython that can load it."""

import array
import gc
import importlib.util
import sys
import threading
import types

import numpy as np

spec = importlib.util.spec_from_file_location("stable_abi", sys.argv[1])
m = importlib.util.module_from_spec(spec)
spec.loader.exec_module(m)


def raises(error, text, call):
    try:
        call()
    except error as e:
        assert text in str(e), f"{text!r} is not in {e}"
    else:
        raise AssertionError(f"no {error.__name__}")


class Legacy:
    """A producer from before version 1, of an object of the module."""

    def __init__(self, of):
        self.of = of

    def __dlpack__(self, stream=None):
        return self.of.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


def exports():
    a = m.samples(4)
    one, two = np.from_dlpack(a), np.from_dlpack(a)
    one[0] = 7
    assert two.tolist() == [7, 1, 2, 3]
    copy = np.from_dlpack(a, copy=True)
    copy[0] = 8
    assert one[0] == 7
    del a
    gc.collect()
    assert one.tolist() == [7, 1, 2, 3]
    a = m.samples(2)
    assert a.__dlpack_device__() == (1, 0)
    assert '"dltensor"' in repr(a.__dlpack__())
    assert '"dltensor_versioned"' in repr(a.__dlpack__(max_version=[1, 0], stream=None, dl_device=(1, 0), copy=False))
    raises(TypeError, "does not accept positional arguments", lambda: a.__dlpack__(None))
    raises(TypeError, "unexpected keyword argument 'streams'", lambda: a.__dlpack__(streams=None))
    raises(ValueError, "CPU memory has no streams", lambda: a.__dlpack__(stream=1))
    raises(TypeError, "max_version must be None", lambda: a.__dlpack__(max_version=1))


def imports():
    x = np.arange(3.0)
    for _ in range(20):  # the cache knows the static type after the first
        a = m.Samples.from_dlpack(x)
        assert np.shares_memory(np.from_dlpack(a), x)
    assert np.from_dlpack(m.Samples.from_dlpack(x, copy=True, device="cpu")).tolist() == [0, 1, 2]
    assert np.from_dlpack(m.Samples.from_dlpack(m.samples(3))).tolist() == [0, 1, 2]  # through the exchange table
    assert np.from_dlpack(m.Samples.from_dlpack(m.samples(3).__dlpack__())).tolist() == [0, 1, 2]

    class Derived(np.ndarray):  # a heap type, whose attributes can change
        pass

    derived = np.arange(3.0).view(Derived)
    assert np.from_dlpack(m.Samples.from_dlpack(derived)).tolist() == [0, 1, 2]
    Derived.__dlpack__ = lambda self, **keywords: 1 // 0
    raises(ZeroDivisionError, "", lambda: m.Samples.from_dlpack(derived))

    class Later:
        pass

    later = Later()
    for _ in range(3):
        raises(TypeError, "expects an object with __dlpack__ or a DLPack capsule, got", lambda: m.Samples.from_dlpack(later))
    later.__dlpack__ = lambda **keywords: m.samples(3).__dlpack__()
    assert np.from_dlpack(m.Samples.from_dlpack(later)).tolist() == [0, 1, 2]
    for other in (3, "text", None, [], b"bytes", int):
        for _ in range(3):
            assert m.code_of(other) == "argument", other
    assert m.code_of(x) is None
    assert m.code_of(Derived) == "argument"
    assert m.code_of(derived) == "foreign_exception"
    assert m.sum(x) == 3 and m.sum(x[::2]) == 2 and m.sum(3) is None and m.sum(np.arange(3)) is None


def legacy():
    old = Legacy(m.samples(3))
    assert not np.from_dlpack(m.Samples.from_dlpack(old)).flags.writeable
    assert np.from_dlpack(m.import_writable(old)).flags.writeable
    assert np.from_dlpack(m.import_writable(old.of.__dlpack__())).flags.writeable


def torch():
    """The base class of PyTorch's tensors is recognised without its name, once its module has been imported."""

    class TensorBase:
        requires_grad = True

        def __dlpack__(self, **keywords):
            raise AssertionError("a tensor that requires a gradient is exported")

    class Tensor(TensorBase):
        pass

    m.code_of(Tensor())  # before the import
    sys.modules["torch._C"] = types.SimpleNamespace(TensorBase=TensorBase)
    raises(BufferError, "requires a gradient", lambda: m.Samples.from_dlpack(Tensor()))


def results():
    t = m.result(3)
    assert repr(t) == "<ferry.Tensor float64 (3,) on cpu:0>"
    assert (t.shape, t.dtype, t.readonly) == ((3,), "float64", False)
    assert np.asarray(t).tolist() == [0, 1, 2] and np.asarray(t, dtype="f4").dtype == "f4"
    assert m.Samples.from_dlpack(t).__dlpack_device__() == (1, 0)
    raises(TypeError, "cannot create", type(t))


def columns():
    c = m.column(3)
    schema, data = c.__arrow_c_array__()
    again = m.Column.from_arrow(types.SimpleNamespace(__arrow_c_array__=lambda requested_schema=None: (schema, data)))
    assert np.from_dlpack(again).tolist() == [0, 1, 2]
    assert np.from_dlpack(m.Column.from_arrow(c)).tolist() == [0, 1, 2]
    raises(TypeError, "got int", lambda: m.Column.from_arrow(3))
    raises(TypeError, "unexpected keyword argument 'schema'", lambda: c.__arrow_c_array__(schema=None))


def buffers():
    a = m.from_buffer(array.array("d", [1, 2]))
    assert np.from_dlpack(a).tolist() == [1, 2]
    with memoryview(m.samples(3)) as view:
        assert (view.format, view.tolist(), view.readonly) == ("d", [0, 1, 2], False)
    raises(BufferError, "big-endian", lambda: m.from_buffer(np.arange(2, dtype=">f8")))


def threads():
    """Capsules and columns that other threads release."""
    held = [m.Samples.from_dlpack(np.arange(3.0)) for _ in range(100)] + [m.Column.from_arrow(m.column(3)) for _ in range(100)]
    workers = [threading.Thread(target=lambda: [held.pop() for _ in range(50)]) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not held


def finalisation():
    """The interpreter ends while a thread imports."""
    old = Legacy(m.samples(3))

    def loop():
        while True:
            m.Samples.from_dlpack(old)

    for _ in range(3):
        threading.Thread(target=loop, daemon=True).start()
    sys.held = m.from_buffer(bytearray(8)), m.column(3), m.result(3)


globals()[sys.argv[2]]()
