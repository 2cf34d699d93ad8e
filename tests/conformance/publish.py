"""Writes docs/conformance.md: runs every rule on every library that is installed here, and each break once more by itself.

usage: publish.py [--gpu]    from an environment with the libraries and with dlpack-conformance installed

--gpu writes docs/conformance-gpu.md instead: the handshake, and what a struct says of memory of a GPU. It needs one.
"""

import datetime
import pathlib
import platform
import re
import subprocess
import sys

LIBRARIES = ["numpy", "torch", "jax", "tvm_ffi", "pyarrow", "array_api_strict", "minitensor"]
ON_GPU = ["torch-cuda", "cupy", "jax-cuda", "numba-cuda", "cuda-core", "minitensor-cuda"]
DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
HEAD = """# Which library keeps which rule

`python tests/conformance/publish.py` made this page on {date}, on {system} with Python {python}, and without a GPU ([with one](conformance-gpu.md)). Every break was
seen twice: by the command, and by the script that `dlpack-conformance --reproduce RULE:LIBRARY` prints, which needs nothing but
the library.

<!-- run by: tests/conformance/tests/test_command.py -->
```sh
pip install ./tests/conformance
dlpack-conformance numpy torch jax tvm_ffi pyarrow array_api_strict minitensor
dlpack-conformance ./my_library.py                # a library of yours, by one class derived from Library
dlpack-conformance --only R24,R28 --json numpy    # --markdown; --list says what each rule's cases are
dlpack-conformance --reproduce R5:jax             # a script that shows a break
```

A case is **kept**, or **broken**, where the DLPack header, its Python specification or the array API standard demands what the
library does not do; or the library **departs** from what a source only recommends, or from what no text demands and several
libraries hold. Nothing stands where a rule does not apply: the library has no such arrays, or refuses, as it may, what the rule is about.
A cell is the worst of its rule's cases. [rules.md](rules.md) has the whole text of the rules;
[plugin.py](../tests/conformance/src/dlpack_conformance/plugin.py) says how a library is made known, and
[numpy_arrays.py](../tests/conformance/src/dlpack_conformance/plugins/numpy_arrays.py) is one that is.

The status is 0 when nothing is broken, 1 when something is, 2 for a usage error or a plug-in that failed. Each library runs in a
process of its own. What crashes or hangs there is run once more alone, and what it does alone is reported.

"""


GPU_HEAD = """# Which library keeps which rule on a GPU

`python tests/conformance/publish.py --gpu` made this page on {date}, on {system} with Python {python} and a CUDA device. It looks at the
handshake, by gates that hold a stream back, and at what structs and signatures say; [conformance.md](conformance.md) has the other rules, on
the host, and what the words mean. Every break was seen twice: by the command, and by the script that
`dlpack-conformance --reproduce RULE:LIBRARY` prints. Of cuda-core its buffers are looked at, which are bytes in a row: the cases run that any array
will do for.

"""


def main():
    on_gpu = sys.argv[1:] == ["--gpu"]
    if sys.argv[1:] and not on_gpu:
        sys.exit(__doc__)
    command = [sys.executable, "-m", "dlpack_conformance", "--verify", "--markdown", *(ON_GPU if on_gpu else LIBRARIES)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode == 2:
        sys.exit("something failed, and nothing was written:\n" + done.stdout)
    text = done.stdout
    if on_gpu:  # most rules are looked at on the host only
        text = "\n".join(line for line in text.splitlines() if not re.fullmatch(r"\| R\d+ \|[^|]*\|( *(n/a *)?\|)+", line)) + "\n"
    date = datetime.date.today().isoformat()
    system = f"{platform.system()} {platform.machine()}"
    target = DOCS / ("conformance-gpu.md" if on_gpu else "conformance.md")
    target.write_text((GPU_HEAD if on_gpu else HEAD).format(date=date, system=system, python=platform.python_version()) + text, encoding="utf-8")
    print(f"wrote docs/{target.name}")


if __name__ == "__main__":
    main()
