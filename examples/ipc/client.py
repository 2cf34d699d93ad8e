"""Reads the frames of examples/ipc/server.py in place, and checks every byte.

usage: python examples/ipc/client.py [--frames N] [--socket PATH] [--wait SECONDS] [--out FOLDER]

After N frames, reports that it has enough; with 0, never. If the client is killed and started again, the server continues with the
next frame. The exit status is 1 if a frame is wrong.
"""

import argparse
import pathlib
import socket
import sys
import time
import zlib

import numpy as np
from frames import STAMP, Lines, Report, default_socket, is_ours, send

import minitensor as mt


def connect(path, patience):
    end = time.monotonic() + patience
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(path)
            if not is_ours(connection):
                sys.exit(f"client: another user serves at {path}")
            return connection
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            if time.monotonic() > end:
                sys.exit(f"client: there is no server at {path}")
            time.sleep(0.05)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=5000, help="number of frames; 0: until it is killed")
    parser.add_argument("--socket", default=default_socket())
    parser.add_argument("--wait", type=float, default=60.0, help="seconds to wait for a server")
    parser.add_argument("--out", type=pathlib.Path, help="write the last frame of each photograph here")
    options = parser.parse_args()
    connection = connect(options.socket, options.wait)
    lines = Lines(connection)
    bad, kept, expected = 0, {}, None
    report = Report("client", time.monotonic, "checked in")
    try:
        slots = [np.from_dlpack(mt.ipc_attach(text)) for text in lines.receive()["slots"]]
        while "end" not in (message := lines.receive()):
            seen = time.monotonic()
            frame, shape = message["frame"], message["shape"]
            size = int(np.prod(shape))
            memory = slots[message["slot"]][: size + 2 * STAMP.size]
            pixels = memory[STAMP.size : -STAMP.size].reshape(shape)
            stamps = STAMP.unpack(memory[: STAMP.size]) + STAMP.unpack(memory[-STAMP.size :])
            if stamps != (frame, frame) or zlib.crc32(pixels) != message["checksum"] or frame != (expected or frame):
                bad += 1
                print(f"client: frame {frame} is not what was sent: its stamps are {stamps}", flush=True)
            expected = frame + 1
            if options.out is not None:
                kept[message["name"]] = pixels.copy()
            report.add(frame, size, time.monotonic() - seen)
            if report.frames == 100:
                print(f"client: 100 frames checked, {bad} bad; the last is frame {frame}", flush=True)
            send(connection, {"frame": frame, "seen": seen, "enough": report.frames == options.frames})
    except (EOFError, ConnectionError):
        print("client: the server is gone", flush=True)
        bad += 1
    if options.out is not None:
        from pictures import save

        for name, pixels in kept.items():
            print(f"client: wrote {save(options.out, name, pixels)}")
    print(f"client: {report.frames} frames checked byte by byte, {bad} bad", flush=True)
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
