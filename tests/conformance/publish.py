"""Writes docs/conformance.md: runs every rule on every library that is installed here, and each break once more by itself.

usage: publish.py            from an environment with the libraries and with dlpack-conformance installed
"""

import datetime
import pathlib
import platform
import subprocess
import sys

LIBRARIES = ["numpy", "torch", "jax", "tvm_ffi", "pyarrow", "array_api_strict", "minitensor"]
TARGET = pathlib.Path(__file__).resolve().parents[2] / "docs" / "conformance.md"
HEAD = """# Which library keeps which rule

`python tests/conformance/publish.py` made this page on {date}, on {system} with Python {python}, and without a GPU. Every break was
seen twice: by the command, and by the script that `dlpack-conformance --reproduce RULE:LIBRARY` prints, which needs nothing but
the library.

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


def main():
    command = [sys.executable, "-m", "dlpack_conformance", "--verify", "--markdown", *LIBRARIES]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode == 2:
        sys.exit("something failed, and nothing was written:\n" + done.stdout)
    date = datetime.date.today().isoformat()
    system = f"{platform.system()} {platform.machine()}"
    TARGET.write_text(HEAD.format(date=date, system=system, python=platform.python_version()) + done.stdout, encoding="utf-8")
    print(f"wrote docs/{TARGET.name}")


if __name__ == "__main__":
    main()
