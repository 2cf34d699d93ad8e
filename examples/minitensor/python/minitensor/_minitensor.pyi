from collections.abc import Iterator, Sequence
from types import EllipsisType
from typing import Any, SupportsIndex

_Device = str | tuple[int, int] | Any
_Shape = SupportsIndex | Sequence[SupportsIndex]
_Index = SupportsIndex | slice | EllipsisType

class Tensor:
    """A strided array on a device. Created by asarray, empty, zeros, arange and from_dlpack."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
    @property
    def strides(self) -> tuple[int, ...]:
        """The steps from one element to the next in each dimension, in elements."""
    @property
    def ndim(self) -> int:
        """The number of dimensions."""
    @property
    def size(self) -> int:
        """The number of elements."""
    @property
    def nbytes(self) -> int:
        """The size in bytes of the elements in a contiguous layout, also for packed types."""
    @property
    def dtype(self) -> str:
        """The name of the element type: 'float32', 'bfloat16', …"""
    @property
    def device(self) -> tuple[int, int]:
        """The device: (type, id); (1, 0) is the CPU."""
    @property
    def data_ptr(self) -> int:
        """The address of the first element; 0 if there is none."""
    @property
    def readonly(self) -> bool:
        """Whether the elements are read-only through this Tensor."""
    @property
    def copied(self) -> bool:
        """Whether the import that created this Tensor copied. False for all other Tensors, including views."""
    def __getitem__(self, key: _Index | tuple[_Index, ...], /) -> Tensor:
        """A view: ints, slices of any step and an ellipsis. Views of packed types start at byte boundaries (else ValueError)."""
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    @property
    def T(self) -> Tensor:
        """A view with the dimensions in reverse order."""
    def transpose(self, *axes: SupportsIndex | Sequence[SupportsIndex]) -> Tensor:
        """A view with the dimensions in the order of `axes` (ints, or one sequence of them); without `axes`, reversed."""
    def broadcast_to(self, shape: _Shape) -> Tensor:
        """A read-only view, repeated to `shape` by zero strides."""
    def as_readonly(self) -> Tensor:
        """A read-only view of the same elements."""
    def copy(self, device: _Device | None = None) -> Tensor:
        """A contiguous row-major copy, on the same device unless another is given."""
    def fill(self, value: complex) -> None:
        """Set all elements to a value. ValueError if the Tensor is read-only; OverflowError if an integer type cannot hold the value."""
    def tolist(self) -> Any:
        """Nested lists of Python numbers, for every dtype."""
    def item(self) -> bool | int | float | complex:
        """The value of a Tensor of one element."""
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule that shares the elements, or holds a copy of them."""
    def __dlpack_device__(self) -> tuple[int, int]:
        """The device: (type, id)."""
    __dlpack_c_exchange_api__: Any
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3; only for memory of GPUs, else AttributeError."""
    @staticmethod
    def from_dlpack(x: Any, /, *, device: _Device | None = None, copy: bool | None = None) -> Tensor:
        """A Tensor on the memory of another library's array (an object with __dlpack__, or a raw capsule).

        copy=True always copies, and None copies if needed. With False, a required copy raises an error that is both a
        BufferError and a ValueError.
        """

class Column:
    """An Arrow column of any type, nested or not. Immutable; each slice, child and export keeps the memory alive."""

    @staticmethod
    def from_arrow(x: Any, /) -> Column:
        """A Column on the memory of another library's array: an object with __arrow_c_array__, __arrow_c_device_array__ or __arrow_c_stream__.

        Several chunks of a stream are concatenated into a copy; batches and tables become a struct column.
        """
    @staticmethod
    def chunks_from_arrow(x: Any) -> tuple[Column, ...]:
        """Columns on the chunks of an object with __arrow_c_stream__ or __arrow_c_device_stream__. Nothing is joined; an array is one chunk."""
    @staticmethod
    def from_dlpack(x: Any, *, fixed_shape_tensor: bool = False) -> Column:
        """A Column on the memory of a tensor of numbers, which must not be written any more.

        Each dimension after the first becomes fixed-size lists, or all of them Arrow's extension type arrow.fixed_shape_tensor.
        """
    @property
    def type(self) -> str:
        """Arrow's format string: 'i', 'u', '+l', …; for a dictionary column, the format of its indices; for an
        extension type, the format of its storage."""
    @property
    def dictionary(self) -> Column | None:
        """The values of the dictionary, or None."""
    @property
    def metadata(self) -> dict[bytes, bytes]:
        """The metadata of the schema; the first value of a repeated key."""
    @property
    def name(self) -> str:
        """The name in the schema; '' if it has none."""
    @property
    def nullable(self) -> bool:
        """Whether the schema allows nulls."""
    @property
    def length(self) -> int:
        """The number of items."""
    @property
    def null_count(self) -> int:
        """The number of null items; counted if it is unknown."""
    @property
    def offset(self) -> int:
        """The number of items before the first one, in every buffer."""
    @property
    def children(self) -> tuple[Column, ...]:
        """The child Columns, as they are stored: the offset of this Column is not applied."""
    @property
    def device(self) -> tuple[int, int]:
        """The device: (type, id)."""
    def __len__(self) -> int: ...
    def __getitem__(self, key: slice, /) -> Column:
        """A slice of step 1, on the same buffers."""
    def validate(self, full: bool = False) -> None:
        """Raise a ValueError if the column is invalid. Checks its structure and, with `full`, also its values."""
    def to(self, device: _Device) -> Column:
        """Return a compacted copy of the column on another device, or the column itself if it is on that device."""
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3, with the validity as the mask; only for numbers in memory of GPUs, else AttributeError."""
    def __arrow_c_schema__(self) -> Any:
        """A capsule 'arrow_schema' of the type."""
    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """A pair of capsules, 'arrow_schema' and 'arrow_array', that share the memory. What requested_schema asks for is converted if no value changes."""
    def __arrow_c_device_array__(self, requested_schema: Any = None, **kwargs: None) -> tuple[Any, Any]:
        """A pair of capsules, 'arrow_schema' and 'arrow_device_array', that share the memory. What requested_schema asks for is converted if no value changes."""
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """A capsule 'arrow_array_stream' of one chunk that shares the memory. What requested_schema asks for is converted if no value changes."""
    def __arrow_c_device_stream__(self, requested_schema: Any = None, **kwargs: None) -> Any:
        """A capsule 'arrow_device_array_stream' of one chunk that shares the memory. What requested_schema asks for is converted if no value changes."""
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule: numbers and times without nulls, and fixed-size lists of them, are shared, read-only; booleans are copied; BufferError for everything else."""
    def __dlpack_device__(self) -> tuple[int, int]:
        """The device: (type, id)."""

def asarray(obj: Any, dtype: str | None = None, device: _Device = "cpu") -> Tensor:
    """A new Tensor with the values of nested sequences, of a number, or of any object with the buffer protocol. Always copies.

    Without a dtype: the type of the buffer, or bool, int64, float64 or complex128 for Python numbers. ValueError for
    ragged sequences and for buffers of other types or without native byte order; OverflowError for integers that do not fit.
    """

def empty(shape: _Shape, dtype: str = "float32", device: _Device = "cpu") -> Tensor:
    """A new Tensor whose elements are not initialised. `shape`: an int or a sequence of ints."""

def zeros(shape: _Shape, dtype: str = "float32", device: _Device = "cpu") -> Tensor:
    """A new Tensor of zeros (of NaN in float8_e8m0fnu, which has no zero)."""

def arange(n: int, dtype: str = "int64", device: _Device = "cpu") -> Tensor:
    """A new Tensor of 0, 1, …, n − 1. OverflowError if the dtype cannot hold n − 1."""

class Shared:
    """A Tensor, a Column or a list of them that other processes can attach. Created by ipc_share; closed when it is deleted."""

    @property
    def descriptor(self) -> bytes:
        """The descriptor for ipc_attach, as bytes."""
    def json(self) -> str:
        """The descriptor as JSON in a str, for readers without minitensor."""
    @property
    def tensor(self) -> Tensor | Column | list[Tensor | Column]:
        """The shared memory in this process: the memory of the argument, or its copy."""
    @property
    def copied(self) -> bool:
        """Whether the memory is a copy of the argument, made by ipc_share."""
    def close(self) -> None:
        """Refuse new attaches in every process; existing ones stay valid. No effect if it is closed."""
    def __enter__(self) -> Shared: ...
    def __exit__(self, *args: object) -> None: ...

def ipc_share(x: Tensor | Column | Sequence[Tensor | Column]) -> Shared:
    """Share a Tensor, a Column or a list of them with other processes of this user, until the result is closed or deleted.

    Host memory that is not shared yet is copied once.
    """

def ipc_attach(source: bytes | bytearray | memoryview, device: _Device | None = None) -> Tensor | Column | list[Tensor | Column]:
    """Attach the Tensor, Column or list that another process shares, without a copy, by its descriptor in bytes or JSON.

    ValueError for an invalid descriptor or an unknown device, OSError if the exporter has closed the share or has exited.
    """

class stream:
    """Makes a CUDA stream the current stream of this thread: `with stream(s): ...`"""

    def __init__(self, s: Any) -> None:
        """An int (1: the legacy default stream, 2: the per-thread default stream, else a cudaStream_t that outlives the work queued on it), or an
        object with __cuda_stream__, cuda_stream or ptr, which is kept alive as long as it is needed."""
    def __enter__(self) -> stream: ...
    def __exit__(self, *args: object) -> None: ...
    @property
    def ptr(self) -> int:
        """The handle of the stream."""

def current_stream(device: _Device | None = None) -> int:
    """The handle of the current stream of this thread for a device: 1 is the legacy default stream."""

def cuda_available() -> bool:
    """Whether there is a GPU that minitensor can use."""

def device_count() -> int:
    """The number of GPUs."""

def synchronize(device: _Device | int | None = None) -> None:
    """Wait for all work on a GPU: the GPU of the current stream, unless another is given."""

def live_bytes() -> int:
    """The number of bytes that minitensor has allocated and not freed."""
