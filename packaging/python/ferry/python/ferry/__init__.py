"""ferry: arrays and tables of any library, shared with other processes by handle."""

from ._ferry import (
    Column,
    Frame,
    Publisher,
    Registry,
    Shared,
    Slot,
    Subscriber,
    Tensor,
    attach,
    empty,
    find,
    from_dlpack,
    receive,
    send,
    share,
    to_device,
    to_host,
)

__version__ = "0.1.0"

__all__ = [
    "Column",
    "Frame",
    "Publisher",
    "Registry",
    "Shared",
    "Slot",
    "Subscriber",
    "Tensor",
    "attach",
    "empty",
    "find",
    "from_dlpack",
    "receive",
    "send",
    "share",
    "to_device",
    "to_host",
]
