"""Server and client side by side, and clients that are killed in the middle.

usage: python examples/ipc/demo.py [--frames N] [--kills N]

The server sends until it is told to stop, which is when the last client has checked N frames. Exits with 1 when a frame came out wrong, or the stream did not go on after a kill.
"""

import argparse
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def start(name, *arguments):
    return subprocess.Popen([sys.executable, str(HERE / name), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def hear(process, text):
    """Repeats what it says, until a line holds the text."""
    for line in process.stdout:
        print(line, end="", flush=True)
        if text in line:
            return True
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=5000)
    parser.add_argument("--kills", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "frames.sock")
        server = start("server.py", "--socket", path, "--frames", "0")
        good = hear(server, "waiting for a client")
        for _ in range(options.kills):
            client = start("client.py", "--socket", path, "--mark", "10")
            good = good and hear(server, "begins with") and hear(client, "10 frames so far")
            client.send_signal(signal.SIGKILL)
            client.wait()
            client.stdout.close()
            good = good and hear(server, "waiting for the next")
        client = start("client.py", "--socket", path, "--mark", str(options.frames))
        good = hear(client, "frames so far") and good
        server.stdin.close()
        good = hear(client, "checked byte by byte, 0 bad") and good
        good = client.wait() == 0 and good
        good = hear(server, "server: " + str(options.kills + 1) + " clients") and good
        good = server.wait() == 0 and good
    print("the stream went on after every kill, and every byte was right" if good else "FAILED")
    sys.exit(not good)


if __name__ == "__main__":
    main()
