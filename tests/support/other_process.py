"""Other Python processes with minitensor, for tests of what travels between processes."""

import signal
import subprocess
import sys

BEGIN = "import sys, json, time, os, signal\nimport minitensor as mt\nread = lambda: bytes.fromhex(sys.stdin.readline())\n"


class Process:
    """An unrelated Python process: told lines, and asked for lines."""

    def __init__(self, code, **how):
        self.popen = subprocess.Popen([sys.executable, "-c", BEGIN + code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **how)
        self.pid = self.popen.pid

    def tell(self, line=""):
        self.popen.stdin.write(line + "\n")
        self.popen.stdin.flush()

    def hear(self):
        line = self.popen.stdout.readline()
        assert line, f"the process ended with {self.popen.wait(10)}"
        return line.rstrip("\n")

    def end(self, status=0):
        self.popen.stdin.close()
        assert self.popen.wait(30) == status
        self.popen.stdout.close()

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
