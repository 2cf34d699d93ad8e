"""Checks the size of a file that exports one array type and can only share (D14).

usage: export_size.py COMPILER

Compiles export_size.cpp at -O2. The headers of DLPack are found through FERRY_DLPACK_INCLUDE_DIR.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BUDGET = 12_000  # bytes of code and data, which design.md states

with tempfile.TemporaryDirectory() as folder:
    command = [sys.argv[1], "-std=c++20", "-O2", "-c", f"-I{HERE.parent.parent / 'include'}", "-isystem", os.environ["FERRY_DLPACK_INCLUDE_DIR"]]
    subprocess.run([*command, str(HERE / "export_size.cpp"), "-o", f"{folder}/object"], check=True)
    listed = subprocess.run(["size", f"{folder}/object"], capture_output=True, text=True, check=True).stdout
found = int(listed.splitlines()[1].split()[3])
if not 0 < found <= BUDGET:
    sys.exit(f"{found} bytes of code and data, expected at most {BUDGET}\n{listed}")
