"""Streams the photographs of scikit-image as frames to a client in another process, through shared memory.

usage: python examples/ipc/server.py [--slots N] [--socket PATH]

Serves one client after another, until one reports that it has received enough frames. After a client has been killed, or has sent nothing
for a long time, the next client continues with the next frame, in new slots.
"""

import argparse
import os
import socket
import sys
import time

import numpy as np
from frames import STAMP, Lines, Report, default_socket, is_ours, photographs, room_for, send

import minitensor as mt


PATIENCE = 60.0  # seconds without a reply; a stopped client may continue to read, so its slots are not written again


def listen_at(path):
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
            sys.exit(f"server: there is one already at {path}: name another with --socket")
        except FileNotFoundError:
            pass
        except ConnectionRefusedError:  # left by a server that was killed
            os.remove(path)
    listener = socket.socket(socket.AF_UNIX)
    old = os.umask(0o177)  # accessible to this user only
    listener.bind(path)
    os.umask(old)
    listener.listen()
    return listener


class Slots:
    """Shared tensors of bytes, used in turn."""

    def __init__(self, count, size):
        self.shares = [mt.ipc_share(mt.zeros(size, "uint8")) for _ in range(count)]
        self.arrays = [np.from_dlpack(s.tensor) for s in self.shares]

    def write(self, at, frame, pixels):
        memory = self.arrays[at]
        end = STAMP.size + pixels.nbytes
        memory[: STAMP.size] = np.frombuffer(STAMP.pack(frame), np.uint8)
        memory[STAMP.size : end] = pixels.reshape(-1)
        memory[end : end + STAMP.size] = memory[: STAMP.size]

    def close(self):
        for share in self.shares:
            share.close()


def stream(connection, slots, pictures, frame, report):
    """Sends frames until the client has enough. Returns the number of the next frame, and whether the client has enough."""
    lines = Lines(connection)
    count, done, enough, sent = len(slots.shares), frame, False, {}
    try:
        send(connection, {"slots": [s.json() for s in slots.shares]})
        while not enough or done < frame:
            if enough or frame == done + count:  # the next slot has an older frame, which the client may still read
                answer = lines.receive()
                begin, size = sent.pop(answer["frame"])
                done, enough = answer["frame"] + 1, enough or answer["enough"]
                report.add(answer["frame"], size, answer["seen"] - begin)
                continue
            name, pixels, checksum = pictures[frame % len(pictures)]
            slots.write(frame % count, frame, pixels)
            sent[frame] = (time.monotonic(), pixels.nbytes)
            send(connection, {"frame": frame, "slot": frame % count, "name": name, "shape": pixels.shape, "checksum": checksum})
            frame += 1
        send(connection, {"end": True})
        return done, True
    except (EOFError, ConnectionError, TimeoutError):
        return done, False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--socket", default=default_socket())
    options = parser.parse_args()
    pictures = photographs()
    slots = Slots(options.slots, room_for(pictures))
    listener = listen_at(options.socket)
    print(f"server: {len(pictures)} photographs, {options.slots} slots of {room_for(pictures) / 1e6:.2f} MB; waiting for a client", flush=True)
    frame, enough, clients, report = 0, False, 0, Report("server", time.monotonic, "latency")
    while not enough:
        connection, _ = listener.accept()
        if not is_ours(connection):
            connection.close()
            continue
        connection.settimeout(PATIENCE)
        clients += 1
        print(f"server: client {clients} begins with frame {frame}", flush=True)
        with connection:
            frame, enough = stream(connection, slots, pictures, frame, report)
        if not enough:
            print(f"server: client {clients} is gone after frame {frame - 1}; waiting for the next", flush=True)
            slots.close()  # the client keeps its mappings
            slots = Slots(options.slots, room_for(pictures))
    slots.close()
    os.remove(options.socket)
    print(f"server: {clients} clients, {report.total()}", flush=True)


if __name__ == "__main__":
    main()
