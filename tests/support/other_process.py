"""Starts Python processes with minitensor, for tests of sharing between processes."""

import os
import select
import signal
import subprocess
import sys

HANGS = 120  # seconds; deadline for the answer of a process
BEGIN = "import sys, json, time, os, signal\nimport minitensor as mt\nread = lambda: bytes.fromhex(sys.stdin.readline())\n"


class Process:
    """An unrelated Python process, which exchanges lines with the test."""

    def __init__(self, code, **how):
        self.popen = subprocess.Popen([sys.executable, "-c", BEGIN + code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **how)
        self.pid = self.popen.pid
        self._pending = b""

    def tell(self, line=""):
        self.popen.stdin.write(line.encode() + b"\n")
        self.popen.stdin.flush()

    def hear(self):
        """Returns the next line that the process prints."""
        output = self.popen.stdout.fileno()
        while b"\n" not in self._pending:
            assert select.select([output], [], [], HANGS)[0], f"waited {HANGS} s for a line of the process"
            more = os.read(output, 1 << 16)
            assert more, f"waited for a line, and the process ended with {self.popen.wait(HANGS)}"
            self._pending += more
        line, _, self._pending = self._pending.partition(b"\n")
        return line.decode()

    def end(self, status=0):
        """Closes the input of the process, and waits for its end."""
        self.popen.stdin.close()
        assert self.popen.wait(HANGS) == status
        self.popen.stdout.close()

    def stop(self):
        """Stops the process, and returns when it has stopped."""
        self.popen.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def kill(self):
        self.popen.kill()
        self.end(-signal.SIGKILL)


def elsewhere(code, *lines):
    """Returns the output of a process for these lines of input."""
    process = Process(code)
    for line in lines:
        process.tell(line)
    heard = process.hear()
    process.end()
    return heard
