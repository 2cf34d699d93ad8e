"""Writes docs/conformance.md: runs every rule on every library that is installed here, and reproduces each violation separately.

usage: publish.py [--gpu]    from an environment with the libraries and with dlpack-conformance installed

--gpu writes docs/conformance-gpu.md instead: stream synchronisation and structs of GPU memory. Needs a GPU.
"""

import datetime
import pathlib
import platform
import re
import subprocess
import sys

LIBRARIES = ["numpy", "torch", "jax", "tvm_ffi", "nanobind", "pyarrow", "mlx", "paddle", "dpnp", "array_api_strict", "minitensor"]
ON_GPU = ["torch-cuda", "cupy", "jax-cuda", "numba-cuda", "cuda-core", "minitensor-cuda"]
DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
HEAD = """# Conformance of libraries

`python packaging/conformance/publish.py` generated this page on {date}, on {system} with Python {python} and without a GPU ([results with a
GPU](conformance-gpu.md)). Every violation was also reproduced by the script that `dlpack-conformance --reproduce` prints, which needs only the
library.

<!-- run by: tests/conformance/tests/test_command.py -->
```sh
pip install ./packaging/conformance
dlpack-conformance numpy torch jax tvm_ffi pyarrow array_api_strict minitensor
dlpack-conformance ./my_library.py                # a custom library: a class derived from Library
dlpack-conformance --only R24,R28 --json numpy    # or --markdown; --list prints the cases of each rule
dlpack-conformance --reproduce R5:jax             # prints a script that reproduces a violation
dlpack-conformance --scripts found numpy          # writes such a script for each violation to a folder
```

The exit status is 0 if no rule is broken, 1 if a rule is broken, and 2 for a usage error or a failure of a plug-in.
[plugin.py](../packaging/conformance/src/dlpack_conformance/plugin.py) documents how to write a plug-in, which adds a library;
[numpy_arrays.py](../packaging/conformance/src/dlpack_conformance/plugins/numpy_arrays.py) is an example.

A cell shows the worst result of the cases of its [rule](rules.md):

- **kept**: the library follows the rule.
- **broken**: the library violates a sentence of the DLPack header, of its Python specification or of the array API standard, which the list below
  quotes.
- **departs**: the library deviates from a recommendation, or from a behaviour that several libraries share but no specification requires. For a
  library that implements DLPack without the array API standard, the sentences of the standard are recommendations.
- empty: the rule does not apply, because the library has no arrays of the required kind or is allowed to refuse the operation.

nanobind is tested with a function that takes and returns `nb::ndarray`; tvm_ffi, pyarrow and nanobind with memory of NumPy. The arrays of dpnp are in
memory of a SYCL device (here the CPU), so only the cases that read no elements are run. cuda-core and numba-cuda need a GPU.

In R69 to R77, "the table" is the function table of the C exchange API, `__dlpack_c_exchange_api__`.

"""


GPU_HEAD = """# Conformance of libraries on a GPU

`python packaging/conformance/publish.py --gpu` generated this page on {date}, on {system} with Python {python} and a CUDA device. It covers the
rules about stream synchronisation, the contents of structs, and the signatures of functions. For the rules that are tested on the host, and an
explanation of the results, see [conformance.md](conformance.md). cuda-core is tested with its buffers, which are one-dimensional arrays of bytes, so
only the cases that do not require a particular shape or type are run. In the column *what*, "handshake" marks a case that tests stream
synchronisation between producer and consumer.

"""


def main():
    on_gpu = sys.argv[1:] == ["--gpu"]
    if sys.argv[1:] and not on_gpu:
        sys.exit(__doc__)
    command = [sys.executable, "-m", "dlpack_conformance", "--verify", "--markdown", "--jobs", "6", *(ON_GPU if on_gpu else LIBRARIES)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode == 2:
        sys.exit("a plug-in failed; no page was written:\n" + done.stdout)
    text = done.stdout
    if on_gpu:  # most rules are tested on the host only
        text = "\n".join(line for line in text.splitlines() if not re.fullmatch(r"\| R\d+ \|[^|]*\|( *(n/a *)?\|)+", line)) + "\n"
    date = datetime.date.today().isoformat()
    system = f"{platform.system()} {platform.machine()}"
    target = DOCS / ("conformance-gpu.md" if on_gpu else "conformance.md")
    target.write_text((GPU_HEAD if on_gpu else HEAD).format(date=date, system=system, python=platform.python_version()) + text, encoding="utf-8")
    print(f"wrote docs/{target.name}")


if __name__ == "__main__":
    main()
