"""minitensor: a small array library, the example that comes with ferry."""

from ._minitensor import Tensor, arange, asarray, empty, live_bytes, zeros

__version__ = "0.1.0"

__all__ = [
    "Tensor",
    "arange",
    "asarray",
    "empty",
    "from_dlpack",
    "live_bytes",
    "zeros",
]

from_dlpack = Tensor.from_dlpack
