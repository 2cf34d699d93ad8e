"""The array libraries of the main job: how each imports an array, and where the library reports its memory."""

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Memory:
    """Where an array is. Strides are in elements; `writes` is "rw", "ro", or "-" for a library without read-only arrays."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    writes: str
    where: str = "cpu"

    @property
    def is_compact(self):
        """Whether the elements are dense, in row-major order or with their dimensions transposed."""
        step = 1
        for stride, extent in sorted(zip(self.strides, self.shape)):
            if extent != 1 and stride != step:
                return False
            step *= extent
        return True


class Library:
    """The base class. `refuses` and `copies` return the reason why the library cannot import an array, or copies it; None if it
    shares."""

    name: str
    module: Any
    can_copy = True
    on_host = True

    def take(self, x):
        raise NotImplementedError

    def take_copy(self, x):
        """Imports an array that `take` refuses, or imports a copy. Only if `can_copy`."""
        raise NotImplementedError

    def memory(self, a) -> Memory:
        raise NotImplementedError

    def refuses(self, offered: Memory) -> str | None:
        return None

    def copies(self, offered: Memory) -> str | None:
        return None

    def values(self, a):
        """Returns the array as a NumPy array, without DLPack; its bytes are hashed."""
        memory = self.memory(a)
        dtype = np.dtype(memory.dtype)
        described = type("Described", (), {})()
        described.owner = a
        described.__array_interface__ = {
            "version": 3,
            "data": (memory.address, True),
            "shape": memory.shape,
            "strides": tuple(s * dtype.itemsize for s in memory.strides),
            "typestr": dtype.str,
        }
        return np.asarray(described)


class NumPy(Library):
    name = "numpy"

    def __init__(self):
        self.module = np
        self.take = np.from_dlpack

    def take_copy(self, x):
        return np.from_dlpack(x, copy=True)

    def memory(self, a):
        strides = tuple(s // a.itemsize for s in a.strides)
        return Memory(a.__array_interface__["data"][0], a.shape, strides, str(a.dtype), "rw" if a.flags.writeable else "ro")


class Minitensor(Library):
    name = "minitensor"

    def __init__(self):
        self.module = importlib.import_module("minitensor")
        self.take = self.module.from_dlpack

    def take_copy(self, x):
        return self.module.from_dlpack(x, copy=True)

    def memory(self, a):
        return Memory(a.data_ptr, a.shape, a.strides, a.dtype, "ro" if a.readonly else "rw")


class Torch(Library):
    name = "torch"

    def __init__(self):
        self.module = importlib.import_module("torch")
        self.take = self.module.from_dlpack

    def take_copy(self, x):
        return self.module.from_dlpack(x, copy=True)

    def memory(self, a):
        return Memory(a.data_ptr(), tuple(a.shape), a.stride(), str(a.dtype).removeprefix("torch."), "-")

    def refuses(self, offered):
        # torch 2.13 does not raise an exception: it aborts the process.
        return "torch has no negative strides" if any(s < 0 for s in offered.strides) else None


class Jax(Library):
    name = "jax"

    def __init__(self):
        self.module = importlib.import_module("jax")
        self.module.config.update("jax_platforms", "cpu")
        self.module.config.update("jax_enable_x64", True)  # otherwise int64 and float64 become 32 bits wide
        self.take = self.module.dlpack.from_dlpack

    def take_copy(self, x):
        # With copy=True, JAX supports no more strides than with copy=None, so the producer copies first.
        return self.take(x.from_dlpack(x, copy=True) if hasattr(x, "from_dlpack") else x.copy())

    def memory(self, a):
        values = np.asarray(a)
        strides = tuple(s // values.itemsize for s in values.strides)
        return Memory(a.unsafe_buffer_pointer(), a.shape, strides, str(a.dtype), "ro")

    def values(self, a):
        return np.asarray(a)

    def refuses(self, offered):
        if offered.writes != "ro" and not offered.is_compact:
            return "JAX supports only compact strides, in any order"
        return None

    def copies(self, offered):
        if offered.writes == "ro":
            return "the legacy struct of JAX has no read-only flag"
        if offered.address % 64 != 0:
            return "JAX requires 64-byte alignment"
        return None


class TvmFfi(Library):
    name = "tvm_ffi"
    can_copy = False

    def __init__(self):
        self.module = importlib.import_module("tvm_ffi")
        self.take = self.module.from_dlpack

    def memory(self, a):
        return Memory(a.data_ptr(), tuple(a.shape), tuple(a.strides), str(a.dtype), "-")


class PyArrow(Library):
    name = "pyarrow"
    can_copy = False
    _dtypes = {"float": "float32", "double": "float64"}

    def __init__(self):
        self.module = importlib.import_module("pyarrow")
        if not hasattr(self.module.Array, "from_dlpack"):
            raise ImportError(f"pyarrow {self.module.__version__} has no Array.from_dlpack")
        self.take = self.module.Array.from_dlpack

    def memory(self, a):
        itemsize = a.type.bit_width // 8
        address = a.buffers()[1].address + a.offset * itemsize
        return Memory(address, (len(a),), (1,), self._dtypes.get(str(a.type), str(a.type)), "ro")

    def refuses(self, offered):
        if offered.dtype == "bool":
            return "booleans are bits in Arrow and bytes in DLPack"
        if len(offered.shape) != 1 or not offered.is_compact:
            return "an Arrow array is one-dimensional and contiguous"
        return None


LIBRARIES = {library.name: library for library in (NumPy, Torch, Jax, TvmFfi, PyArrow)}


class OnGpu:
    """The base class for arrays on a GPU: each library copies its own arrays to the host, to be hashed."""

    on_host = False

    def copies(self, offered):
        return "the GPU reads only its own memory" if offered.where == "cpu" else None


class MinitensorOnGpu(OnGpu, Minitensor):
    def __init__(self):
        super().__init__()
        self.take = lambda x: self.module.from_dlpack(x, device="cuda")

    def take_copy(self, x):
        return self.module.from_dlpack(x, device="cuda", copy=True)

    def memory(self, a):
        return Memory(a.data_ptr, a.shape, a.strides, a.dtype, "ro" if a.readonly else "rw", "cuda")

    def values(self, a):
        return Minitensor().values(a.copy("cpu"))


class TorchOnGpu(OnGpu, Torch):
    def memory(self, a):
        return Memory(a.data_ptr(), tuple(a.shape), a.stride(), str(a.dtype).removeprefix("torch."), "-", "cuda")

    def values(self, a):
        return a.cpu().numpy()


class CuPy(OnGpu, Library):
    name = "cupy"

    def __init__(self):
        self.module = importlib.import_module("cupy")
        self.take = self.module.from_dlpack

    def take_copy(self, x):
        return self.module.from_dlpack(x, copy=True)

    def memory(self, a):
        return Memory(a.data.ptr, a.shape, tuple(s // a.itemsize for s in a.strides), str(a.dtype), "-", "cuda")

    def values(self, a):
        return self.module.asnumpy(a)


class FromGpu(NumPy):
    """NumPy, which requests a copy of a GPU array on the host."""

    def __init__(self):
        super().__init__()
        self.take = lambda x: np.from_dlpack(x, device="cpu")

    def copies(self, offered):
        return "the host cannot read a GPU" if offered.where != "cpu" else None


ON_GPU = {"mt cuda": MinitensorOnGpu, "torch cuda": TorchOnGpu, "cupy": CuPy, "numpy cpu": FromGpu}
