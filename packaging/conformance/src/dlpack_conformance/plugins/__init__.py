"""The plug-ins of the libraries that the command finds by name, in one file each."""

FILES = {
    "numpy": "numpy_arrays.py", "torch": "torch_tensors.py", "jax": "jax_arrays.py", "tvm_ffi": "tvm_ffi_tensors.py",
    "pyarrow": "pyarrow_tensors.py", "array_api_strict": "strict_arrays.py", "minitensor": "minitensor_tensors.py",
    "nanobind": "nanobind_arrays.py", "mlx": "mlx_arrays.py", "paddle": "paddle_tensors.py", "dpnp": "dpnp_arrays.py",
    **dict.fromkeys(["torch-cuda", "cupy", "jax-cuda", "numba-cuda", "cuda-core", "minitensor-cuda"], "cuda_arrays.py"),
}  # fmt: skip
