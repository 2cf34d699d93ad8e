"""Calls the filters with arrays of NumPy, PyTorch and JAX, prints the results and checks them."""

import filters
import jax.numpy as jnp
import numpy as np
import torch

image = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)

print("mean:", *(f"{filters.mean(x):.2f}" for x in (image, image.T, image[::-1, ::2], torch.from_numpy(image), jnp.asarray(image))))

tensor = torch.zeros(2, 3)
filters.brighten(tensor, by=0.5)
print("brightened in place:", tensor.tolist())
assert (tensor == 0.5).all()

print("histogram:", filters.histogram(image), filters.histogram((255 * image).astype(np.uint8)))

blurred = filters.blur(torch.from_numpy(image), mask=None)
print("blurred:", type(blurred).__name__, blurred.shape, blurred.dtype)
assert type(blurred) is np.ndarray and abs(blurred - image).max() < 0.5

inverted = [filters.invert(x) for x in (image, torch.from_numpy(image), jnp.asarray(image))]
print("inverted:", *(type(x).__name__ for x in inverted))
assert type(inverted[0]) is np.ndarray and type(inverted[1]) is torch.Tensor and inverted[1][2, 3] == 0

recorder = filters.Recorder()
recorder.add(tensor)
again = torch.from_dlpack(recorder.pop())
assert again.data_ptr() == tensor.data_ptr() and recorder.pop() is None
print("recorded:", tuple(again.shape))

read_only = image.copy()
read_only.flags.writeable = False
for call, *arguments in (
    (filters.mean, image.astype(np.float64)),
    (filters.brighten, read_only, 1),
    (filters.sum_rows, image.T),
    (filters.histogram, [1, 2]),
):
    try:
        call(*arguments)
    except TypeError as error:
        print(f"{call.__name__}:", str(error).splitlines()[1].strip())
    else:
        raise SystemExit(f"{call.__name__} accepted {arguments}: expected a TypeError")
