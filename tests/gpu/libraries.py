"""The libraries that exchange arrays with minitensor on the GPU, with a common interface, so that one test covers all of them.

What differs is said here and nowhere else: whether a library's exports order streams, which layouts it takes, what it does with READ_ONLY.
"""

import contextlib
import functools

import pytest
from gates import cp, np, own_stream

import minitensor as mt

VALUES = [[6 * i + j for j in range(6)] for i in range(4)]
LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.T,
    "stepped": lambda x: x[::2, 1::3],
    "reversed": lambda x: x[::-1, ::-2],
    "offset": lambda x: x[1:, 2:],
    "empty": lambda x: x[:0],
    "one": lambda x: x[1, 2],
}


def seen(address, shape, dtype, strides, owner):
    """CuPy's view of memory of another library; `strides` in bytes. Nothing waits for anything."""
    memory = cp.cuda.UnownedMemory(address, 1, owner, 0)
    return cp.ndarray(shape, dtype, cp.cuda.MemoryPointer(memory, 0), strides)


def on_the_host(x):
    cp.cuda.Device().synchronize()
    return cp.asnumpy(x).tolist()


class Library:
    """Arrays that can be written. `on` gives it a stream of its own; what it queues from there on runs on that one."""

    orders = True  # its exports make the consumer's stream wait
    has_current_stream = True  # it waits, as a consumer, on a stream that it was given; else on whatever stream the tensor says
    is_immutable = False  # its arrays come in read-only
    read_only = "ignored"  # what it makes of a read-only tensor: copied, flagged, or ignored
    no_views = ()  # the layouts that it has no views for
    refuses = ()  # the layouts that it does not take
    small_floats = ()
    copies = host = None  # how it takes a copy on its device, and on the host

    def stream(self):
        """A non-blocking stream for `on`."""
        return own_stream()

    def on(self, stream):
        return stream

    def view(self, layout):
        return LAYOUTS[layout](self.make())

    def is_read_only(self, x):
        return False

    def is_pending(self, x, stream):
        """Whether the work that made x, on that stream, is not done."""
        return not stream.done


class CuPy(Library):
    name = "cupy"
    small_floats = ("bfloat16",)
    take = staticmethod(cp.from_dlpack)

    def make(self, dtype="float32"):
        if dtype in self.small_floats:
            import ml_dtypes  # noqa: F401: NumPy then knows the name

        return cp.asarray(np.asarray(VALUES).astype(dtype))

    def copies(self, t):
        return cp.from_dlpack(t, copy=True)

    def pointer(self, x):
        return x.data.ptr

    def values(self, x):
        return on_the_host(x)

    def filled(self, x, value):
        x.fill(value)
        return x

    def plus_one(self, x):
        return x + 1


class Torch(Library):
    name = "torch"
    no_views = refuses = ("reversed",)  # some versions abort
    small_floats = ("bfloat16", "float8_e4m3fn", "float8_e5m2")

    def __init__(self):
        self.m = pytest.importorskip("torch")
        self.take = self.m.from_dlpack

    def make(self, dtype="float32"):
        return self.m.tensor(VALUES).to(getattr(self.m, dtype)).cuda()

    def on(self, stream):
        return self.m.cuda.stream(self.m.cuda.ExternalStream(stream.ptr))

    def copies(self, t):
        return self.m.from_dlpack(t, copy=True)

    def host(self, t):
        return self.m.from_dlpack(t, device="cpu")

    def pointer(self, x):
        return x.data_ptr()

    def values(self, x):
        self.m.cuda.synchronize()
        return (x.double() if str(x.dtype)[6:] in self.small_floats else x).cpu().tolist()

    def filled(self, x, value):
        return x.fill_(value)

    def plus_one(self, x):
        return x + 1


class Jax(Library):
    """It has no argument for a stream: it waits and works on its own streams. Its work is held back by its input, a tensor
    that is ready on the stream of `on`. Its arrays are immutable; it asks for the legacy struct, in which read-only data travels as a copy alone (R15)."""

    name = "jax"
    is_immutable = True
    read_only = "copied"
    refuses = ("stepped", "reversed", "offset")  # what is not compact in some order
    small_floats = ("bfloat16", "float8_e4m3fn", "float8_e5m2")

    def __init__(self):
        self.m = pytest.importorskip("jax")
        self.m.config.update("jax_enable_x64", True)
        try:
            self.gpu = self.m.devices("gpu")[0]
        except RuntimeError as e:
            pytest.skip(f"jax has no GPU: {e}")
        cp.cuda.Device(0).use()  # the first use of JAX makes the last GPU current
        self.take = self.m.dlpack.from_dlpack
        self.ready_on = None

    def make(self, dtype="float32"):
        return self.m.device_put(np.asarray(VALUES).astype(getattr(self.m.numpy, dtype)), self.gpu).block_until_ready()

    @contextlib.contextmanager
    def on(self, stream):
        before, self.ready_on = self.ready_on, stream
        try:
            yield
        finally:
            self.ready_on = before

    def host(self, t):
        return self.take(t, device=self.m.devices("cpu")[0])

    def pointer(self, x):
        return x.unsafe_buffer_pointer()

    def values(self, x):
        found = np.asarray(x)
        return (found.astype("float64") if str(found.dtype) in self.small_floats else found).tolist()

    def filled(self, x, value):
        with mt.stream(self.ready_on):
            t = mt.zeros(x.shape, "float32", "cuda")
            t.fill(value)
            return self.take(t) + 0

    def plus_one(self, x):
        return x + 1

    def is_pending(self, x, stream):
        return not x.is_ready()


class Numba(Library):
    """Its arrays say, in __cuda_array_interface__, the stream that they were made on (`external_stream`); what it takes it leaves on the
    stream that the tensor says, as that protocol wants it. Kernels of CuPy do its work."""

    name = "numba"
    has_current_stream = False

    def __init__(self):
        try:
            from numba import cuda
        except (ImportError, AttributeError) as e:  # numba-cuda breaks on a NumPy that is newer than it knows
            pytest.skip(f"numba.cuda: {e}")
        self.m, self.own = cuda, 0

    @contextlib.contextmanager
    def on(self, stream):
        before, self.own = self.own, self.m.external_stream(stream.ptr)
        try:
            with stream:
                yield
        finally:
            self.own = before

    def make(self, dtype="float32"):
        return self.m.to_device(np.asarray(VALUES).astype(dtype), stream=self.own)

    def view(self, layout):
        return self.m.as_cuda_array(LAYOUTS[layout](cp.asarray(np.asarray(VALUES, "float32"))))

    def take(self, t):
        return self.m.as_cuda_array(t, sync=False)

    def seen(self, x):
        if isinstance(x, cp.ndarray) or x.size == 0:
            return x if isinstance(x, cp.ndarray) else cp.zeros(x.shape, x.dtype)
        return seen(self.pointer(x), x.shape, x.dtype, x.strides, x)

    def pointer(self, x):
        return x.__cuda_array_interface__["data"][0]

    def values(self, x):
        return on_the_host(self.seen(x))

    def filled(self, x, value):
        self.seen(x).fill(value)
        return x

    def plus_one(self, x):
        self.used = cp.cuda.ExternalStream(int(x.stream))
        with self.used:
            return self.seen(x) + 1

    def is_pending(self, x, stream):
        return not self.used.done


class CudaCore(Library):
    """Its buffers, as StridedMemoryView. It is told a stream when it takes a tensor (one of Device().create_stream), and leaves unread the
    one that it is passed when it exports one: consumers of its views work on the stream on which they are ready. Its work runs CuPy kernels."""

    name = "cuda.core"
    orders = False
    read_only = "flagged"

    def __init__(self):
        pytest.importorskip("cuda.core")
        try:
            from cuda.core import Device
            from cuda.core.utils import StridedMemoryView
        except ImportError:
            from cuda.core.experimental import Device
            from cuda.core.experimental.utils import StridedMemoryView
        self.place, self.views, self.own, self.kept = Device(0), StridedMemoryView, None, {}
        self.place.set_current()

    def stream(self):
        made = self.place.create_stream()  # non-blocking, unless it is said otherwise
        self.kept[int(made.handle)] = made
        return cp.cuda.ExternalStream(int(made.handle))

    @contextlib.contextmanager
    def on(self, stream):
        before, self.own = self.own, self.kept[stream.ptr]
        try:
            with stream:
                yield
        finally:
            self.own = before

    def make(self, dtype="float32", **how):
        values = np.asarray(VALUES).astype(dtype)
        buffer = self.place.allocate(values.nbytes, stream=self.own or self.place.default_stream)
        seen(int(buffer.handle), values.shape, values.dtype, None, buffer).set(values)
        return self.views.from_buffer(buffer, values.shape, dtype=values.dtype, **how)

    def view(self, layout):
        if layout == "empty":
            buffer = self.place.allocate(64, stream=self.place.default_stream)
            return self.views.from_buffer(buffer, (0, 6), dtype=np.dtype("float32"))
        x = LAYOUTS[layout](cp.asarray(np.asarray(VALUES, "float32")))
        return self.views.from_cuda_array_interface(x, stream_ptr=-1)

    def take(self, t):
        make = getattr(self.views, "from_dlpack", self.views)
        return make(t, stream_ptr=int(self.own.handle) if self.own else 1)

    def seen(self, x):
        if isinstance(x, cp.ndarray):
            return x
        if 0 in x.shape:
            return cp.zeros(x.shape, x.dtype)
        strides = None if x.strides is None else tuple(s * x.dtype.itemsize for s in x.strides)
        return seen(x.ptr, x.shape, x.dtype, strides, x)

    def pointer(self, x):
        return x.ptr

    def values(self, x):
        return on_the_host(self.seen(x))

    def filled(self, x, value):
        self.seen(x).fill(value)
        return x

    def plus_one(self, x):
        return self.seen(x) + 1

    def is_read_only(self, x):
        return x.readonly


CLASSES = {kind.name: kind for kind in (CuPy, Torch, Jax, Numba, CudaCore)}
made = functools.cache(lambda name: CLASSES[name]())
EVERY = pytest.mark.parametrize("library", CLASSES, indirect=True)


def those_that(fits):
    return pytest.mark.parametrize("library", [name for name, kind in CLASSES.items() if fits(kind)], indirect=True)


@pytest.fixture
def library(request):
    return made(request.param)
