"""The protocol of server and client: photographs as frames in shared slots, and lines of JSON over a Unix socket.

A slot is a shared tensor of bytes, which the server writes and the client only reads. Its descriptor is sent once; after that, a line
of a hundred bytes names the slot of each frame. The client replies with a line when it has read the slot, and only then does the server
write to it again.
"""

import json
import os
import pathlib
import socket
import struct
import sys
import tempfile
import zlib

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "main_job"))
from pictures import load  # noqa: E402

STAMP = struct.Struct("<q")  # number of the frame, before and after its pixels: two numbers in a torn frame


def default_socket():
    return os.path.join(os.environ.get("XDG_RUNTIME_DIR", tempfile.gettempdir()), f"ferry-frames-{os.getuid()}.sock")


def photographs():
    """The photographs of scikit-image as (name, pixels, checksum of the pixels)."""
    found = [(name, load(name)) for name in ("astronaut", "left", "right")]
    return [(name, np.ascontiguousarray(p), zlib.crc32(np.ascontiguousarray(p))) for name, p in found if p is not None]


def room_for(pictures):
    return max(p.nbytes for _, p, _ in pictures) + 2 * STAMP.size


def is_ours(connection):
    """Returns whether the peer runs as this user; the folder of the socket may be writable by all users."""
    return struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1] == os.getuid()


def send(socket, message):
    socket.sendall(json.dumps(message).encode() + b"\n")


class Lines:
    """Messages from a socket; EOFError when the peer has closed it, or sent nothing during the timeout of the socket."""

    def __init__(self, socket):
        self.socket, self.pending = socket, b""

    def receive(self):
        while b"\n" not in self.pending:
            try:
                more = self.socket.recv(65536)
            except (ConnectionError, TimeoutError):
                more = b""
            if not more:
                raise EOFError
            self.pending += more
        line, self.pending = self.pending.split(b"\n", 1)
        return json.loads(line)


class Report:
    """Counts frames, and prints rate and latency once a second; `time` names the latency."""

    def __init__(self, name, clock, time):
        self.name, self.clock, self.time = name, clock, time
        self.frames = self.bytes = 0
        self.latencies = []
        self.begin = self.said = clock()
        self.said_frames = self.said_bytes = 0

    def add(self, frame, size, latency):
        self.frames += 1
        self.bytes += size
        self.latencies.append(latency)
        if self.clock() - self.said >= 1:
            self.say(f"frame {frame}")

    def say(self, what):
        now = self.clock()
        seconds = max(now - self.said, 1e-9)
        rate = (self.bytes - self.said_bytes) / seconds / 1e9
        recent = sorted(self.latencies[-(self.frames - self.said_frames) :] or [0])
        print(
            f"{self.name}: {what}: {(self.frames - self.said_frames) / seconds:7.0f} frames/s {rate:6.2f} GB/s,"
            f" {self.time} {1e6 * recent[len(recent) // 2]:5.0f} µs median, {1e6 * recent[-1]:6.0f} µs at most",
            flush=True,
        )
        self.said, self.said_frames, self.said_bytes = now, self.frames, self.bytes

    def total(self):
        seconds = max(self.clock() - self.begin, 1e-9)
        recent = sorted(self.latencies or [0])
        return (
            f"{self.frames} frames, {self.bytes / 1e9:.2f} GB in {seconds:.1f} s: {self.bytes / seconds / 1e9:.2f} GB/s,"
            f" {self.time} {1e6 * recent[len(recent) // 2]:.0f} µs median, {1e6 * recent[int(len(recent) * 0.99)]:.0f} µs at 99 %"
        )
