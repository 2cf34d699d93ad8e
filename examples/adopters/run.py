"""Builds nanobind and Arrow with their DLPack code on ferry, and runs their own tests: python examples/adopters/run.py

Needs the environment of `ferry_setup` (cmake/setup); downloads nanobind's source package. A test that fails must be listed, with
the reason, in the file deviations.txt of the library, and a listed test must fail. The last line is `N passed, N failed, N skipped`.
"""

import os
import pathlib
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as xml

import pyarrow

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parents[1] / "build/adopters"
NANOBIND = "nanobind-3.1.0"
ARROW = pathlib.Path(pyarrow.__file__).parent


def dlpack_folder() -> str:
    return subprocess.run([sys.executable, "-m", "tvm_ffi.config", "--dlpack-includedir"], check=True, text=True, capture_output=True).stdout.strip()


def download_nanobind() -> pathlib.Path:
    source = BUILD / NANOBIND
    if not source.exists():
        print(f"Downloading {NANOBIND}.tar.gz", flush=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
        subprocess.run([*pip, "--no-binary", "nanobind", "-d", BUILD, NANOBIND.replace("-", "==")], check=True)
        with tarfile.open(BUILD / f"{NANOBIND}.tar.gz") as archive:
            archive.extractall(BUILD, filter="data")
    return source


def build(name: str, *options: str) -> pathlib.Path:
    folder = BUILD / name
    defined = [f"-DPython_EXECUTABLE={sys.executable}", f"-DFERRY_DLPACK_INCLUDE_DIR={dlpack_folder()}", "-DFERRY_INSTALL=OFF", *options]
    subprocess.run(["cmake", "-G", "Ninja", "-S", HERE / name, "-B", folder, *defined], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", folder], check=True)
    return folder


def test(name: str, folder: pathlib.Path, tests: list[pathlib.Path], environment: dict[str, str]) -> tuple[int, int, int]:
    """Runs copies of the tests in the build folder; returns the numbers of passed, failed and skipped tests."""
    for file in tests:
        (folder / file.name).write_bytes(file.read_bytes())
    report = folder / "tests.xml"
    report.unlink(missing_ok=True)
    files = [folder / file.name for file in tests if file.name.startswith("test_")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", report, *files]
    subprocess.run(command, cwd=folder, env=os.environ | environment)
    lines = (HERE / name / "deviations.txt").read_text().splitlines()
    expected = {line.split()[0] for line in lines if line and not line.startswith("#")}
    passed = failed = skipped = 0
    for case in xml.parse(report).iter("testcase"):
        fails = case.find("failure") is not None or case.find("error") is not None
        if case.find("skipped") is not None:
            skipped += 1
        elif fails == (case.get("name") in expected):
            passed += 1
            expected.discard(case.get("name"))
        else:
            failed += 1
            print(f"{name}: {case.get('name')} {'failed' if fails else 'passed, but is listed in deviations.txt'}")
    for missing in expected:
        failed += 1
        print(f"{name}: {missing} is listed in deviations.txt and does not exist")
    return passed, failed, skipped


def main() -> int:
    BUILD.mkdir(parents=True, exist_ok=True)
    source = download_nanobind()
    tests = source / "tests"
    folder = build("nanobind", f"-DADOPTER_SOURCE={source}")
    files = [*(tests / name for name in ("test_ndarray.py", "common.py", "conftest.py")), *(HERE / "nanobind").glob("test_*.py")]
    counts = [test("nanobind", folder, files, {})]
    folder = build("arrow", f"-DADOPTER_ARROW={ARROW}")
    library = {"LD_PRELOAD": str(folder / "libdlpack_on_ferry.so")}
    counts.append(test("arrow", folder, [ARROW / "tests/test_dlpack.py", HERE / "arrow/test_read_only.py"], library))
    subprocess.run([folder / "measure", next(ARROW.glob("libarrow.so.*")), *library.values(), "1"], check=True)
    passed, failed, skipped = map(sum, zip(*counts))
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
