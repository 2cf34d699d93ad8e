"""A module on ferry and one with nanobind's own code, in one process."""

import subprocess
import sys

import pytest

SCRIPT = """
import numpy as np
import {0} as first, {1} as second

owner = object()
arrays = [m.to_object(owner) for m in (first, second)]
for x in arrays:
    assert x.__dlpack_device__() == (1, 0)
    assert np.from_dlpack(x).tolist() == memoryview(x).tolist() == [[1, 2, 3], [4, 5, 6]]
    for m in (first, second):
        m.typed(x)
"""


@pytest.mark.parametrize("order", [("measured", "by_hand.measured"), ("by_hand.measured", "measured")])
def test_modules_share_no_arrays_of_another_layout(order):
    subprocess.run([sys.executable, "-c", SCRIPT.format(*order)], check=True)
