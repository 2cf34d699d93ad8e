"""The examples of tables that another process reads."""

import os
import pathlib
import struct
import subprocess
import sys

import without_gil

import minitensor as mt

TABLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "ipc" / "table.py"


def test_a_table_is_read_in_another_process():
    without_gil.need("pyarrow")
    done = subprocess.run([sys.executable, str(TABLE)], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "3 rows; the mean price is 3.0\n"), done.stderr


def test_a_table_is_found_by_its_name(tmp_path):
    without_gil.need("pyarrow")
    import pyarrow as pa

    folder = tmp_path / "ferry" / "results.names"
    folder.mkdir(parents=True)
    with mt.ipc_share(mt.Column.from_arrow(pa.table({"score": [0.25, 0.5]}))) as shared:
        record = struct.pack("<QQIIII", 1, 1, len(shared.descriptor), 0, 0, 0)  # as ferry::ipc::registry writes it
        (folder / "scores!2026-11").write_bytes(record + shared.descriptor)
        command = [sys.executable, str(TABLE.with_name("find.py")), "results", "scores/2026-11"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)})
    assert (done.returncode, done.stdout) == (0, "{'score': [0.25, 0.5]}\n"), done.stderr
