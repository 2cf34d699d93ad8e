"""Arrays of any library as ferry.Tensor: python arrays.py (needs NumPy)."""

# [arrays]
import ferry
import numpy as np

picture = np.zeros((2, 3), "float32")
t = ferry.from_dlpack(picture)  # shares the memory; from PyTorch, JAX, bytearray, array.array, … in the same way
t[:, 1].fill(7)  # views: ints, slices and an ellipsis
assert picture[0, 1] == 7 and np.asarray(t) is not picture
into = bytearray(24)
ferry.to_host(t, out=memoryview(into).cast("f", (2, 3)))  # copies into memory that exists
# [/arrays]

assert np.frombuffer(into, "float32").tolist() == [0, 7, 0, 0, 7, 0]
try:
    ferry.from_dlpack(picture, device="cuda", copy=False)
except BufferError as error:
    print(error)
