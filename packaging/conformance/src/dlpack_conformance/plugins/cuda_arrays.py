"""Libraries whose arrays are on a GPU. Written without one at hand: each refuses by name where there is no device."""

import contextlib
import ctypes
import importlib.metadata
import math

from dlpack_conformance.handshake import driver
from dlpack_conformance.plugin import Cannot, Library


class OnCuda(Library):
    """Of a library on a GPU only the handshake is looked at, and what a struct says: no case of these reads through a pointer."""

    device = (2, 0)
    host_cases = False

    def __init__(self):
        try:
            driver()
        except Exception as error:
            raise RuntimeError(f"{error}, and {self.name} needs one") from error
        super().__init__()

    def work(self, x):
        """Queues work on the current stream: every element becomes 7."""
        x.fill(7)

    def worked(self, x):
        return [[7] * 6 for _ in range(4)]


class TorchCuda(OnCuda):
    name, module, call = "torch-cuda", "torch", "torch.from_dlpack"

    def make(self, dtype, shape):
        return self.m.arange(math.prod(shape), device="cuda").to(getattr(self.m, dtype)).reshape(shape)

    def as_reversed(self, x):
        raise Cannot("it has no negative strides")

    def on(self, stream):
        return self.m.cuda.stream(self.m.cuda.ExternalStream(stream))

    def work(self, x):
        x.fill_(7)


class CuPy(OnCuda):
    name, module, call = "cupy", "cupy", "cupy.from_dlpack"

    def make(self, dtype, shape):
        return self.m.arange(math.prod(shape)).astype(dtype).reshape(shape)

    def on(self, stream):
        return self.m.cuda.ExternalStream(stream)


class JaxCuda(OnCuda):
    """The library does not support the choice of a stream."""

    name, module, call = "jax-cuda", "jax", "jax.dlpack.from_dlpack"

    def make(self, dtype, shape):
        return self.m.device_put(self.m.numpy.arange(math.prod(shape)).astype(dtype).reshape(shape), self.m.devices("cuda")[0])

    def as_reversed(self, x):
        raise Cannot("its slices are copies")

    def take(self, x, **how):
        return self.m.dlpack.from_dlpack(x, **how)


class NumbaCuda(OnCuda):
    """Its arrays have __cuda_array_interface__; where they have no __dlpack__, it is no producer."""

    name, module, call = "numba-cuda", "numba.cuda", "numba.cuda.from_dlpack"
    without = "its arrays have __cuda_array_interface__ but not __dlpack__, and the library has no from_dlpack"

    def __init__(self):
        super().__init__()
        self.produces = hasattr(type(self.m.device_array(1)), "__dlpack__")
        self.consumes = hasattr(self.m, "from_dlpack")

    def version(self):
        return importlib.metadata.version("numba-cuda")  # the module is a part of numba and has no version

    def make(self, dtype, shape):
        import numpy

        return self.m.to_device(numpy.arange(math.prod(shape)).astype(dtype).reshape(shape))


class CudaCore(OnCuda):
    """Its Buffer is a row of bytes, and knows no stream; what it takes are views, which it hands on with the stream unread."""

    name, module, call = "cuda-core", "cuda.core", "cuda.core.utils.StridedMemoryView"
    consumes = False
    without = "it takes tensors as views of a stream that is said, and has no from_dlpack"
    plain, dtypes = ("int8", (24,)), ["int8"]

    def __init__(self):
        super().__init__()
        self.place = self.m.Device()
        self.place.set_current()

    def make(self, dtype, shape):
        if (dtype, shape) != self.plain:
            raise Cannot("its buffers are bytes in a row")
        made = self.place.allocate(shape[0], stream=self.place.default_stream)
        assert driver().cuMemcpyHtoD_v2(ctypes.c_uint64(int(made.handle)), bytes(range(shape[0])), ctypes.c_size_t(shape[0])) == 0
        return made


class MinitensorCuda(OnCuda):
    name, module, call = "minitensor-cuda", "minitensor", "minitensor.from_dlpack"

    def make(self, dtype, shape):
        n = math.prod(shape)
        if len(shape) == 1:
            return self.m.arange(n, dtype, "cuda")
        if n == 0:
            return self.m.empty(shape, dtype, "cuda")
        nested = list(range(n))
        for extent in reversed(shape[1:]):
            nested = [nested[i : i + extent] for i in range(0, len(nested), extent)]
        return self.m.asarray(nested, dtype, "cuda")

    @contextlib.contextmanager
    def on(self, stream):
        with self.m.stream(stream):
            yield
