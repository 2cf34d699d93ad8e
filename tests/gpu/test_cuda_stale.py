"""No import and no export reads what is still pending: the producer's stream is held closed, the data is made behind the gate, and the
copy shows what is there when the gate has opened. Each type, each library, each way in which an import makes a copy (R42, R43, R56)."""

import functools

import pytest
from gates import Gate, cp, np, own_stream
from libraries import made

import minitensor as mt

COUNT = 6000
STANDARD = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
            "float16", "float32", "float64", "complex64", "complex128")  # fmt: skip
SMALL = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
WAYS = [{"copy": True}, {"device": "cuda_host"}, {"device": "cuda_managed"}, {"device": "cuda_managed", "copy": True}, {"device": "cpu"}]


def torch_pending(torch, stream, dtype):
    """A function that queues ones on `stream` into a tensor that holds zeros, and the tensor."""
    kind = getattr(torch, dtype)
    x, ones = torch.zeros(COUNT, device="cuda").to(kind), torch.ones(COUNT, device="cuda").to(kind)
    torch.cuda.synchronize()

    def write():
        with torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
            x.copy_(ones)

    return x, write


def cupy_pending(_, stream, dtype):
    if dtype in SMALL:
        import ml_dtypes  # noqa: F401: NumPy then knows the names
    x, ones = cp.asarray(np.zeros(COUNT).astype(dtype)), cp.asarray(np.ones(COUNT).astype(dtype))
    cp.cuda.Device().synchronize()

    def write():
        cp.cuda.runtime.memcpyAsync(x.data.ptr, ones.data.ptr, x.nbytes, cp.cuda.runtime.memcpyDeviceToDevice, stream.ptr)

    return x, write


PENDING = {"torch": torch_pending, "cupy": cupy_pending}


@functools.cache
def warm(name, dtype, way):
    """What is loaded or allocated once must not meet a closed gate. Skips what the library does not export, before any gate is closed."""
    library, theirs, ours = made(name), own_stream(), own_stream()
    try:
        x, write = PENDING[name](getattr(library, "m", None), theirs, dtype)
        x.__dlpack__(stream=ours.ptr)
    except (BufferError, TypeError, ValueError, AttributeError) as e:
        return f"{name} does not export {dtype}: {type(e).__name__}: {e}"
    with library.on(theirs), mt.stream(ours):
        write()
        for _ in range(2):
            mt.from_dlpack(x, **dict(way)).tolist()
    cp.cuda.Device().synchronize()
    return None


@pytest.mark.parametrize("how", WAYS, ids=str)
@pytest.mark.parametrize("dtype", STANDARD + SMALL)
@pytest.mark.parametrize("name", PENDING)
def test_R43_R56_a_copy_of_what_is_pending_is_never_stale(name, dtype, how):
    library = made(name)
    if reason := warm(name, dtype, tuple(how.items())):
        assert dtype in SMALL, reason
        pytest.skip(reason)
    theirs, ours = own_stream(), own_stream()
    x, write = PENDING[name](getattr(library, "m", None), theirs, dtype)
    expected = [mt.asarray([1], dtype).tolist()[0]] * COUNT
    with Gate(theirs.ptr) as gate:
        with library.on(theirs):
            write()
            assert gate.is_closed, "the library's own work waited"
            with mt.stream(ours):
                if how.get("device") == "cpu":
                    gate.open_soon()
                    t = mt.from_dlpack(x, **how)  # returns with the data, so that the gate must be open by now
                    assert not gate.is_closed
                else:
                    t = mt.from_dlpack(x, **how)
                    assert gate.is_closed, "the import waited for its producer"
        gate.open()
        ours.synchronize()
        found = t.tolist()
    assert t.dtype == dtype and found == expected


@pytest.mark.parametrize("how", WAYS, ids=str)
@pytest.mark.parametrize("dtype", STANDARD + SMALL)
def test_R43_R56_a_copy_of_what_jax_has_pending_is_never_stale(dtype, how):
    """JAX has no argument for a stream: its input, a tensor that is ready after the gate, holds its work back. Without a
    stream that could be held closed, all that can be seen of the import is its value. JAX waits for the event on the host in some versions:
    the gate is opened by another thread."""
    jax = made("jax").m
    theirs, ours = own_stream(), own_stream()
    with mt.stream(theirs):
        source = mt.zeros(COUNT, dtype, "cuda")
        try:
            mt.from_dlpack(jax.dlpack.from_dlpack(source), **how).tolist()
        except (BufferError, TypeError, ValueError, RuntimeError) as e:
            assert dtype in SMALL, e
            pytest.skip(f"jax does not exchange {dtype}: {type(e).__name__}: {e}")
    mt.synchronize()
    expected = mt.asarray([1], dtype).tolist() * COUNT
    with Gate(theirs.ptr) as gate:
        with mt.stream(theirs):
            source.fill(1)
            assert gate.is_closed
            gate.open_soon()
            x = jax.dlpack.from_dlpack(source)
        with mt.stream(ours):
            t = mt.from_dlpack(x, **how)
        gate.open()
        assert t.tolist() == expected
    del x


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("name", PENDING)
def test_R43_a_tensor_that_goes_on_to_another_stream_takes_its_wait_along(name, dtype):
    """Imported on one stream while its data is pending, exported to another before the gate opens: the second waits, too."""
    library = made(name)
    theirs, ours, next_ = own_stream(), own_stream(), own_stream()
    x, write = PENDING[name](getattr(library, "m", None), theirs, dtype)
    y, ones = cp.zeros(COUNT, dtype), np.ones(COUNT, dtype)
    with next_:
        y += cp.from_dlpack(mt.from_dlpack(x))
        y.fill(0)
    cp.cuda.Device().synchronize()
    with Gate(theirs.ptr) as gate:
        with library.on(theirs):
            write()
            with mt.stream(ours):
                t = mt.from_dlpack(x)
        with next_:
            z = cp.from_dlpack(t)  # asks with stream=next_
            cp.cuda.runtime.memcpyAsync(y.data.ptr, z.data.ptr, y.nbytes, cp.cuda.runtime.memcpyDeviceToDevice, next_.ptr)
        assert gate.is_closed and not next_.done
        gate.open()
        next_.synchronize()
        assert (cp.asnumpy(y) == ones).all()
    del z


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("name", PENDING)
def test_R43_a_tensor_copied_on_another_stream_takes_its_wait_along(name, dtype):
    """The same within minitensor: the stream of the import orders what a later stream does."""
    library = made(name)
    assert warm(name, dtype, (("copy", True),)) is None
    theirs, ours, next_ = own_stream(), own_stream(), own_stream()
    x, write = PENDING[name](getattr(library, "m", None), theirs, dtype)
    with mt.stream(next_):
        mt.from_dlpack(x).copy().tolist()
    mt.synchronize()
    with Gate(theirs.ptr) as gate:
        with library.on(theirs):
            write()
            with mt.stream(ours):
                t = mt.from_dlpack(x)
        with mt.stream(next_):
            u = t.copy()
        assert gate.is_closed and not next_.done
        gate.open()
        assert u.tolist() == [1] * COUNT
