"""A camera and three readers, of which one is killed: python topic.py (needs NumPy)."""

import os
import signal
import subprocess
import sys

import numpy as np

import ferry

NAME = f"example/{os.getppid() if 'reader' in sys.argv else os.getpid()}"
LAST = 50


def reader():
    # [reader]
    for frame in ferry.Subscriber(NAME):  # before or after its Publisher begins
        picture = np.asarray(frame.value)  # no copy; not written while frame.value or an array of it lives
        assert (picture == picture[0, 0]).all()
        if picture[0, 0] == LAST:
            break
        # [/reader]
        if frame.generation == 1:
            print("ready", flush=True)


def main():
    readers = [subprocess.Popen([sys.executable, __file__, "reader"], stdout=subprocess.PIPE) for _ in range(3)]
    # [publisher]
    slots = [ferry.empty((480, 640), "uint8", shared=True) for _ in range(8)]  # in memory that share does not copy
    camera = ferry.Publisher(NAME, [ferry.share(x) for x in slots])
    with camera.begin(timeout=10) as slot:  # a slot that is neither the newest nor read
        slot.tensor.fill(1)
    # published when the block ends without an error
    # [/publisher]
    for one in readers:
        one.stdout.readline()
    for n in range(2, LAST + 1):
        if n == LAST // 2:
            readers[0].kill()  # a slot that it reads is free again
        with camera.begin(timeout=10) as slot:
            slot.tensor.fill(n)
    assert [one.wait(60) for one in readers] == [-signal.SIGKILL, 0, 0]
    print(f"{camera.generation} frames; two readers saw the last one")


reader() if "reader" in sys.argv else main()
