"""The server and the client of examples/ipc."""

import pathlib
import subprocess
import sys

import without_gil

DEMO = pathlib.Path(__file__).resolve().parents[2] / "examples" / "ipc" / "demo.py"


def test_the_stream_continues_after_the_client_is_killed_and_started_again():
    """examples/ipc/demo.py: every byte is right after any client was killed."""
    without_gil.need("imageio")
    done = subprocess.run([sys.executable, str(DEMO), "--frames", "500"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the stream continued after every kill" in done.stdout
    assert "GB/s" in done.stdout and "latency" in done.stdout
