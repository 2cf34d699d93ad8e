"""Runs server and client, and kills clients while they read.

usage: python examples/ipc/demo.py [--frames N] [--kills N]      N frames for the client that is not killed

The exit status is 1 if a frame was wrong, or the stream did not continue after a kill.
"""

import argparse
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


@contextlib.contextmanager
def started(name, *arguments):
    """Runs a script beside this one; kills it at the end of the `with` block, unless it has exited already."""
    process = subprocess.Popen([sys.executable, str(HERE / name), *arguments], stdout=subprocess.PIPE, text=True)
    with process:
        try:
            yield process
        finally:
            process.kill()


def print_until(process, text):
    """Prints the output of the process until a line contains the text."""
    for line in process.stdout:
        print(line, end="", flush=True)
        if text in line:
            return
    sys.exit(f"FAILED: {process.args[1]} ended with status {process.wait()} without printing: {text}")


def end(process):
    """Waits for the process, which must end with status 0."""
    if status := process.wait():
        sys.exit(f"FAILED: {process.args[1]} ended with status {status}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=5000)
    parser.add_argument("--kills", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "frames.sock")
        with started("server.py", "--socket", path) as server:
            print_until(server, "waiting for a client")
            for _ in range(options.kills):
                with started("client.py", "--socket", path, "--frames", "0") as client:  # without a limit
                    print_until(client, "100 frames checked, 0 bad")
                # Kills the client at an arbitrary point.
                print_until(server, "waiting for the next")
            with started("client.py", "--socket", path, "--frames", str(options.frames)) as client:
                print_until(client, "checked byte by byte, 0 bad")
                end(client)
            print_until(server, f"server: {options.kills + 1} clients")
            end(server)
    print("the stream continued after every kill, and every byte was right")


if __name__ == "__main__":
    main()
