import sys

sys.path.insert(0, "build")
import numpy as np
from brightest import brightest

pixels = np.arange(6, dtype=np.float32).reshape(2, 3)
print(brightest(pixels))
print(brightest(pixels[::-1, ::2]))  # a view with a negative stride: also shared
try:
    brightest(pixels.astype(np.float64))
except BufferError as error:
    print(error)
