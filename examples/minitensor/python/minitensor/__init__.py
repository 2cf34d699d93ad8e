"""minitensor: a small array library, an example of ferry."""

from ._minitensor import (
    Column,
    Shared,
    Tensor,
    arange,
    asarray,
    cuda_available,
    current_stream,
    device_count,
    empty,
    ipc_attach,
    ipc_share,
    live_bytes,
    stream,
    synchronize,
    zeros,
)

__version__ = "0.1.0"

__all__ = [
    "Column",
    "Shared",
    "Tensor",
    "arange",
    "asarray",
    "cuda_available",
    "current_stream",
    "device_count",
    "empty",
    "from_dlpack",
    "ipc_attach",
    "ipc_share",
    "live_bytes",
    "stream",
    "synchronize",
    "zeros",
]

from_dlpack = Tensor.from_dlpack
