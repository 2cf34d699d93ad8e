"""Calls the functions on points with arrays of NumPy, PyTorch and JAX, prints the results and checks them."""

from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import points
import torch

jax.config.update("jax_enable_x64", True)
cloud = np.random.default_rng(0).normal(size=(1000, 3))

arrays = (cloud, np.asfortranarray(cloud), torch.from_numpy(cloud), jax.numpy.asarray(cloud))
with ThreadPoolExecutor(4) as threads:
    found = list(threads.map(lambda array: points.nearest(array, to=cloud[7]), arrays))
print("nearest:", found)
assert found == [7] * 4

tensor = torch.from_numpy(cloud.copy())
points.centre(tensor)
print("centred:", f"{tensor.mean().abs():.1f}")
assert tensor.mean(0).abs().max() < 1e-12

print("radius:", f"{points.radius(cloud):.3f}", f"{points.radius(cloud, weights=np.arange(1000.0)):.3f}")

kept = points.keep(tensor)
assert torch.from_dlpack(kept).data_ptr() == tensor.data_ptr()
print("kept:", repr(kept))

print("overloads:", *(points.describe(cloud.astype(kind)) for kind in (np.float32, np.float64, np.int8)), sep="\n  ")

for call, *arguments in (
    (points.nearest, cloud, [0, 0, 0]),
    (points.centre, np.broadcast_to(cloud[0], (4, 3))),
    (points.keep, cloud[0]),
    (points.describe, cloud[0]),
):
    try:
        call(*arguments)
    except TypeError as error:
        print(f"{call.__name__}:", *str(error).split("\n\nInvoked with")[0].splitlines()[1:], sep="\n")
    else:
        raise SystemExit(f"{call.__name__} accepted {arguments}: expected a TypeError")
try:
    points.nearest(cloud, cloud[0, :2])
except ValueError as error:
    print("nearest:", error)
