from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from socket import socket as Socket
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

class Column:
    """An Arrow column of any type, nested or not. Immutable; shares its memory with slices, children and exports. Created by from_arrow."""

    @staticmethod
    def from_arrow(x: Any, /) -> Column:
        """The column of an object with __arrow_c_array__, __arrow_c_device_array__ or __arrow_c_stream__.

        The memory is shared; several chunks of a stream are joined into a copy, and batches and tables become a struct column.
        """
    @property
    def type(self) -> str:
        """Arrow's format string; for a dictionary column, the format of its indices; for an extension type, of its storage."""
    @property
    def dictionary(self) -> Column | None:
        """The values of the dictionary."""
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
        """The child Columns as they are stored: the offset of this Column is not applied."""
    @property
    def device(self) -> tuple[int, int]:
        """The device: (type, id)."""
    def __len__(self) -> int:
        """The number of items."""
    def __getitem__(self, key: slice, /) -> Column:
        """A slice of step 1, on the same buffers."""
    def validate(self, full: bool = False) -> None:
        """Raise a ValueError if the column is invalid. Checks its structure and, with `full`, also its values."""
    def to(self, device: _Device) -> Column:
        """The column on another device, or the column itself if it is on that device."""
    def __arrow_c_schema__(self) -> Any:
        """A capsule 'arrow_schema' of the type."""
    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """A pair of capsules, 'arrow_schema' and 'arrow_array', that share the memory. Nothing is cast."""
    def __arrow_c_device_array__(self, requested_schema: Any = None, **kwargs: None) -> tuple[Any, Any]:
        """A pair of capsules, 'arrow_schema' and 'arrow_device_array', that share the memory. Nothing is cast."""
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule: numbers and times without nulls are shared, read-only; booleans are copied; BufferError for everything else."""
    def __dlpack_device__(self) -> tuple[int, int]:
        """The device: (type, id)."""

_Memory = Tensor | Column | list[Tensor | Column]

def empty(shape: SupportsIndex | Sequence[int], dtype: str, *, device: _Device = "cpu", shared: bool = False) -> Tensor:
    """A Tensor whose elements are not initialised. With `shared`, in memory that share does not copy."""

class Shared:
    """An array, a table or a list of them that other processes can attach. Created by share; closed when it is deleted.

    A Publisher or a Registry takes a share; afterwards its members are a ValueError. A share cannot be pickled: send its descriptor.
    """

    @property
    def descriptor(self) -> bytes:
        """The descriptor for attach."""
    def json(self) -> str:
        """The descriptor as JSON, for readers without ferry."""
    @property
    def tensor(self) -> _Memory:
        """The shared memory in this process: that of the argument, or its copy."""
    @property
    def copied(self) -> bool:
        """Whether the memory is a copy of the argument, made by share."""
    def close(self) -> None:
        """Refuse new attaches in every process; existing ones stay valid. No effect if it is closed."""
    def wait_for_readers(self, timeout: float | None = None) -> bool:
        """Wait until no other process has the memory; False after `timeout` seconds."""
    def __enter__(self) -> Shared:
        """This share."""
    def __exit__(self, *args: object) -> None:
        """Close it."""

def share(x: Any, /, *, copy: bool | None = None) -> Shared:
    """Share an array, a table or a list of them with other processes of this user, until the result is closed or deleted.

    Memory that is not shared yet is copied once; `copy=False` refuses that, and `copy=True` always copies.
    """

def attach(descriptor: Any, *, device: _Device | None = None) -> Any:
    """Attach what another process shares, without a copy: a Tensor, a Column, or a list of them.

    ValueError for an invalid descriptor, OSError if the exporter has closed the share or has exited.
    """

class Slot:
    """A slot of a Publisher, while its block runs."""

    @property
    def tensor(self) -> Any:
        """The memory of the slot: a Tensor or a Column."""
    def __enter__(self) -> Slot:
        """Take a slot that no process reads. TimeoutError if readers have all slots."""
    def __exit__(self, type: type[BaseException] | None, value: BaseException | None, trace: Any, /) -> None:
        """Publish the slot, unless the block has raised an error."""

class Publisher:
    """Publishes frames under a name, in slots of shared memory, to any number of Subscribers of this user. Ends when it is deleted."""

    def __init__(self, name: str, slots: Iterable[Shared], *, directory: str | PathLike[str] | None = None) -> None:
        """`slots`: 2 to 252 shares, which the Publisher takes. OSError if the name has a publisher."""
    def begin(self, timeout: float | None = None) -> Slot:
        """A context manager for one frame: its block writes a slot, and publishes it when it ends without an error."""
    @property
    def generation(self) -> int:
        """The number of the newest frame; 0: nothing has been published."""

class Frame:
    """A frame of a topic."""

    @property
    def value(self) -> Any:
        """The Tensor or Column. While it exists, the slot is not written."""
    @property
    def generation(self) -> int:
        """The number of the frame. Missing numbers are frames that were missed."""

class Subscriber:
    """Follows the frames of a name: before it has a Publisher, and from one to the next. An iterator without an end."""

    def __init__(self, name: str, *, directory: str | PathLike[str] | None = None) -> None:
        """Does not require that the name has a Publisher."""
    def next(self, timeout: float | None = None) -> Frame:
        """The newest Frame that this Subscriber has not returned yet; waits for one. TimeoutError after `timeout` seconds."""
    def __iter__(self) -> Subscriber:
        """This subscriber."""
    def __next__(self) -> Frame:
        """next without a timeout."""

class Registry:
    """Publishes arrays and tables under names. The newest of a name wins; the entries end with the Registry."""

    def __init__(self, name: str, *, most_bytes: int | None = None, directory: str | PathLike[str] | None = None) -> None:
        """OSError if the name has an owner."""
    def put(self, name: str, x: Any) -> None:
        """Publish a share, an array or a table, in place of the former entry of this name.

        Entries that no process reads are dropped for it if all would have more than `most_bytes`; OSError if that is not enough.
        """
    def drop(self, name: str) -> bool:
        """Remove an entry; readers keep what they have. False: no such entry."""
    def __iter__(self) -> Iterator[str]:
        """The names of the entries."""
    def __len__(self) -> int:
        """The number of entries."""

def find(registry: str, name: str, *, directory: str | PathLike[str] | None = None) -> Any:
    """The Tensor or Column that a Registry of any process of this user has under a name; None: no such entry."""

def send(socket: Socket, share: Shared) -> None:
    """Send a share, its descriptor and its files, over a connected Unix socket, whose timeout holds."""

def receive(socket: Socket) -> Any:
    """Receive and attach what `send` has sent over a connected Unix socket."""
