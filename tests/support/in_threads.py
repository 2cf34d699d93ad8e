"""Tests that do one thing in many threads."""

import sys
import threading


def in_threads(work, count=8):
    """Runs work(i) in many threads at once, and brings back what they raise."""
    errors, start = [], threading.Barrier(count)

    def run(i):
        try:
            start.wait()
            work(i)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(before)
    assert errors == []
