"""ferry: arrays and tables of any library, shared with other processes by handle."""

from ._ferry import Tensor, from_dlpack, to_device, to_host

__version__ = "0.1.0"

__all__ = ["Tensor", "from_dlpack", "to_device", "to_host"]
