"""Streams the photographs of scikit-image as frames to a client in another process; no pixel goes through the socket.

usage: python examples/ipc/server.py [--frames N] [--slots N] [--socket PATH]

Serves one client after the other, until one has had all frames; with --frames 0, until standard input ends. A client that is killed, or silent for long, is replaced by the
next, which goes on where the last one stopped, in slots that nobody else has.
"""

import argparse
import os
import select
import socket
import sys
import time

import numpy as np
from frames import STAMP, Lines, Report, default_socket, is_ours, photographs, room_for, send

import minitensor as mt


PATIENCE = 60.0  # seconds; who says nothing for so long may be stopped, and go on reading one day


def listen_at(path):
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
            sys.exit(f"server: there is one already at {path}: name another with --socket")
        except FileNotFoundError:
            pass
        except ConnectionRefusedError:  # left behind by one that was killed
            os.remove(path)
    listener = socket.socket(socket.AF_UNIX)
    old = os.umask(0o177)  # for this user alone
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


def stream(connection, slots, pictures, first, is_wanted, report):
    """Sends frames from number `first` on. The number of frames that clients are done with, and whether none is wanted any more."""
    lines = Lines(connection)
    count, frame, sent = len(slots.shares), first, {}
    try:
        send(connection, {"slots": [s.json() for s in slots.shares]})
        while is_wanted(frame) or sent:
            if len(sent) == count or not is_wanted(frame):  # the next slot is that of an older frame, which the client must be done with
                answer = lines.receive()
                begin, size = sent.pop(answer["frame"])
                report.add(answer["frame"], size, answer["seen"] - begin)
                continue
            name, pixels, checksum = pictures[frame % len(pictures)]
            slots.write(frame % count, frame, pixels)
            sent[frame] = (time.monotonic(), pixels.nbytes)
            send(connection, {"frame": frame, "slot": frame % count, "name": name, "shape": pixels.shape, "checksum": checksum})
            frame += 1
        send(connection, {"end": True})
        return frame, True
    except (EOFError, ConnectionError, TimeoutError):
        return frame - len(sent), False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=5000, help="0: until standard input ends")
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--socket", default=default_socket())
    options = parser.parse_args()
    pictures = photographs()
    slots = Slots(options.slots, room_for(pictures))
    listener = listen_at(options.socket)
    print(f"server: {len(pictures)} photographs, {options.slots} slots of {room_for(pictures) / 1e6:.2f} MB; waiting for a client", flush=True)
    done, clients, report = 0, 0, Report("server", time.monotonic, "latency")

    def is_wanted(frame):
        return frame < options.frames if options.frames else not select.select([sys.stdin], [], [], 0)[0]

    is_over = False
    while not is_over:
        ready, _, _ = select.select([listener] if options.frames else [listener, sys.stdin], [], [])
        if listener not in ready:
            break
        connection, _ = listener.accept()
        if not is_ours(connection):
            connection.close()
            continue
        connection.settimeout(PATIENCE)
        clients += 1
        print(f"server: client {clients} begins with frame {done}", flush=True)
        with connection:
            done, is_over = stream(connection, slots, pictures, done, is_wanted, report)
        if not is_over:
            print(f"server: client {clients} is gone after frame {done - 1}; waiting for the next", flush=True)
            slots.close()  # what it has mapped stays its own
            slots = Slots(options.slots, room_for(pictures))
    slots.close()
    os.remove(options.socket)
    print(f"server: {clients} clients, {report.total()}", flush=True)


if __name__ == "__main__":
    main()
