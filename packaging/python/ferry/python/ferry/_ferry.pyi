from collections.abc import Iterator
from types import EllipsisType
from typing import Any, SupportsIndex, TypeVar, overload

_Device = str | tuple[int, int] | Any
_Index = SupportsIndex | slice | EllipsisType
_Out = TypeVar("_Out")

class Tensor:
    """The elements of an array of any library, which it keeps alive. Immutable, apart from the elements."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
    @property
    def strides(self) -> tuple[int, ...]:
        """The steps from one element to the next in each dimension, in elements."""
    @property
    def dtype(self) -> str:
        """The name of the element type: 'float32', 'bfloat16', …"""
    @property
    def device(self) -> tuple[int, int]:
        """The device: (type, id); (1, 0) is the CPU."""
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
    def data_ptr(self) -> int:
        """The address of the first element; 0 if there is none."""
    @property
    def readonly(self) -> bool:
        """Whether the elements are read-only through this Tensor."""
    @property
    def copied(self) -> bool:
        """Whether the import that created this Tensor copied. False for all other Tensors, including views."""
    @property
    def T(self) -> Tensor:
        """A view with the dimensions in reverse order."""
    def __getitem__(self, key: _Index | tuple[_Index, ...], /) -> Tensor:
        """A view: ints, slices of any step and an ellipsis. Views of packed types start at whole bytes (else ValueError)."""
    def __len__(self) -> int:
        """The extent of the first dimension."""
    def __iter__(self) -> Iterator[Tensor]:
        """Views along the first dimension."""
    def fill(self, value: Any) -> None:
        """Set all elements to a value. ValueError if the Tensor is read-only; OverflowError if the type cannot hold the value."""
    def __array__(self, dtype: Any = None, *, copy: bool | None = None) -> Any:
        """A NumPy array that shares the memory, unless dtype or copy requires a copy."""
    def __buffer__(self, flags: int, /) -> memoryview:
        """The buffer protocol, for memory that the host accesses; BufferError for a dtype without a format, such as bfloat16."""
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule: shared when possible, copied when requested or required."""
    def __dlpack_device__(self) -> tuple[int, int]:
        """The device: (type, id)."""
    @staticmethod
    def from_dlpack(x: Any, /, *, device: _Device | None = None, copy: bool | None = None) -> Tensor:
        """The function from_dlpack of the package."""
    __dlpack_c_exchange_api__: Any

def from_dlpack(x: Any, /, *, device: _Device | None = None, copy: bool | None = None) -> Tensor:
    """The elements of an array: an object with __dlpack__ or an exchange table, a capsule, a buffer, or an Arrow array without nulls.

    Shares the memory when possible. With `copy=True`, or for another `device`, the elements are copied; with `copy=False`, an import that
    needs a copy fails with an error that is both BufferError and ValueError.
    """

@overload
def to_host(x: Any, /, *, out: None = None) -> Tensor: ...
@overload
def to_host(x: Any, /, *, out: _Out) -> _Out:
    """The elements in host memory, finished: shared where the host reads them, else copied.

    With `out`, a writable array of the same shape and dtype, they are copied into it, and it is returned.
    """

def to_device(x: Any, device: _Device, /) -> Tensor:
    """from_dlpack(x, device=device)."""
