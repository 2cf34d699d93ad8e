"""Checks each value of the frames that examples/ipc/topic_reader.py yields, when they arrive and before they are dropped.

usage: topic.py NAME FRAMES
"""

import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "ipc"))
from topic_reader import frames  # noqa: E402

last, count = 0, int(sys.argv[2])


def check(generation, array):
    values = array if array.shape == (3, 5000) else array.T  # a transposed view
    assert array.dtype == np.float64 and values.shape == (3, 5000), (array.dtype, array.shape)
    assert np.array_equal(values, 1e6 * generation + np.arange(15000.0).reshape(3, 5000)), f"frame {generation} is torn"


for n, (generation, array) in enumerate(frames(sys.argv[1]), 1):
    assert generation > last, f"generation {generation} after {last}"
    last = generation
    check(generation, array)
    if n in (count // 2, count):
        print("frames", flush=True)
    if n == count:
        break
    if n == count // 2:
        sys.stdin.readline()  # until the next publisher has the name
    check(generation, array)
