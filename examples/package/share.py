"""Two processes share a NumPy array: python share.py (needs NumPy)."""

import subprocess
import sys

import numpy as np

import ferry


def other():
    # [attach]
    x = np.asarray(ferry.attach(sys.stdin.buffer.read()))  # no copy
    x *= 2  # visible to the first process
    # [/attach]


def main():
    # [share]
    picture = np.arange(6.0).reshape(2, 3)
    with ferry.share(picture) as s:  # copies the array once, into shared memory
        subprocess.run([sys.executable, __file__, "other"], input=s.descriptor, check=True)
        assert np.asarray(s.tensor).tolist() == (picture * 2).tolist()
    # [/share]


other() if sys.argv[1:] == ["other"] else main()
