"""Other Python processes with minitensor, for tests of what travels between processes."""

import os
import select
import signal
import subprocess
import sys

HANGS = 120  # seconds, after which what says nothing is taken to hang
BEGIN = "import sys, json, time, os, signal\nimport minitensor as mt\nread = lambda: bytes.fromhex(sys.stdin.readline())\n"


class Process:
    """An unrelated Python process: told lines, and asked for lines."""

    def __init__(self, code, **how):
        self.popen = subprocess.Popen([sys.executable, "-c", BEGIN + code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **how)
        self.pid = self.popen.pid
        self._pending = b""

    def tell(self, line=""):
        self.popen.stdin.write(line.encode() + b"\n")
        self.popen.stdin.flush()

    def hear(self):
        """The next line that it prints."""
        output = self.popen.stdout.fileno()
        while b"\n" not in self._pending:
            assert select.select([output], [], [], HANGS)[0], f"waited {HANGS} s for a line of the process"
            more = os.read(output, 1 << 16)
            assert more, f"waited for a line, and the process ended with {self.popen.wait(HANGS)}"
            self._pending += more
        line, _, self._pending = self._pending.partition(b"\n")
        return line.decode()

    def end(self, status=0):
        """Closes its input, and waits until it ends."""
        self.popen.stdin.close()
        assert self.popen.wait(HANGS) == status
        self.popen.stdout.close()

    def stop(self):
        """Returns once it stands still."""
        self.popen.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def kill(self):
        self.popen.kill()
        self.end(-signal.SIGKILL)


def elsewhere(code, *lines):
    """What a process prints that is told these lines."""
    process = Process(code)
    for line in lines:
        process.tell(line)
    heard = process.hear()
    process.end()
    return heard
