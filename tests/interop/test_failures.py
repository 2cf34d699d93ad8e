"""Every allocation fails once: each time there is one error, one deleter call for an imported tensor, and no leak (R62, R67, R68)."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import without_gil
from test_casters import BUILT

HERE = pathlib.Path(__file__).parent
PATHS = [
    "import", "import_legacy", "import_copy", "import_legacy_copy", "import_padded", "import_from_producer",
    "import_from_old_producer", "result", "result_refused", "export", "export_legacy", "export_copy", "export_legacy_copy",
    "export_refused", "export_bad_argument",
]  # fmt: skip


STREAM_PATHS = ["stream", "stream_refused", "joined"]
COLUMN_PATHS = [
    *STREAM_PATHS, "import", "import_device", "import_refused", "array", "device_array", "requested", "schema", "numbers", "numbers_legacy",
    "bits", "refused_nulls", "slice", "children", "dictionary", "metadata", "name", "validate",
]  # fmt: skip


@pytest.fixture(scope="session")
def probe(tmp_path_factory):
    library = tmp_path_factory.mktemp("probe") / "allocations.so"
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++")
    subprocess.run([compiler, "-std=c++20", "-O1", "-shared", "-fPIC", HERE / "probe/allocations.cpp", "-o", library], check=True)
    return library


def failures(probe, script, path, bits):
    done = subprocess.run(
        [sys.executable, HERE / script, path, str(bits)],
        env={
            **os.environ, "LD_PRELOAD": str(probe), "FERRY_CASTERS": str(BUILT),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")])),
        },
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-3000:]
    return int(done.stdout)


@pytest.mark.parametrize("kind, bits", [("of_cxx", 1), ("of_python", 2)])
@pytest.mark.parametrize("path", PATHS)
def test_R62_R68_a_failed_allocation(probe, path, kind, bits):
    if without_gil.WITHOUT_GIL and (path, kind) == ("import_from_old_producer", "of_python"):
        pytest.skip("CPython 3.13 without the GIL crashes if PyList_New, for a TypeError about keywords, cannot allocate the items")
    assert failures(probe, "failing.py", path, bits) > 0 or "refused" in path or path == "export_bad_argument"


# The streams themselves are Python's.
@pytest.mark.parametrize("path, bits", [(p, 1) for p in COLUMN_PATHS] + [(p, 2) for p in COLUMN_PATHS if p not in STREAM_PATHS])
def test_a_failed_allocation_of_a_column(probe, path, bits):
    """Each struct that was taken is released once, each that was not is as it was."""
    failures(probe, "failing_columns.py", path, bits)
