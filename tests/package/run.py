"""Builds one small program against ferry in each way that a user would: installed and moved, as a subdirectory, through
FetchContent, and with a copy of include/. The installed package builds the quickstart too.

usage: run.py --compiler COMPILER --dlpack INCLUDE_DIR
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
QUICKSTART = SOURCE / "examples" / "quickstart"
CONSUMER = SOURCE / "tests" / "package" / "consumer"


def run(*command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{result.stdout}")


def build(folder, *options):
    run("cmake", "-G", "Ninja", "-S", CONSUMER, "-B", folder, *options)
    run("cmake", "--build", folder)
    run(folder / "consumer")


def installed(work, options):
    off = [f"-DFERRY_BUILD_{part}=OFF" for part in ("TESTS", "EXAMPLES", "BENCH")]
    run("cmake", "-G", "Ninja", "-S", SOURCE, "-B", work / "ferry", f"-DCMAKE_INSTALL_PREFIX={work}/first", *off, *options)
    run("cmake", "--install", work / "ferry")
    moved = pathlib.Path(shutil.move(work / "first", work / "moved"))
    for file in moved.rglob("*.cmake"):
        for path in (SOURCE, work):
            if str(path) in file.read_text(encoding="utf-8"):
                raise RuntimeError(f"{file.name} names {path}: the package cannot be moved")
    headers = {file.relative_to(SOURCE) for file in (SOURCE / "include").rglob("*.?pp")}
    missing = headers - {file.relative_to(moved) for file in moved.rglob("*.?pp")}
    if missing:
        raise RuntimeError(f"not installed: {sorted(map(str, missing))}")
    build(work / "build", f"-DCMAKE_PREFIX_PATH={moved}", *options)
    run("cmake", "-G", "Ninja", "-S", QUICKSTART, "-B", work / "quickstart", f"-DCMAKE_PREFIX_PATH={moved}", *options)
    run("cmake", "--build", work / "quickstart")
    run(work / "quickstart" / "quickstart")


def as_source(how):
    def check(work, options):
        build(work / "build", f"-DFERRY_HOW={how}", f"-DFERRY_SOURCE={SOURCE}", *options)

    return check


def fetched_dlpack(work, options):
    """Where no DLPack header is to be found the pinned release is fetched; here its source tree stands ready instead."""
    compiler, dlpack = (option.split("=", 1)[1] for option in options)
    shutil.copytree(pathlib.Path(dlpack) / "dlpack", work / "release" / "include" / "dlpack")
    build(work / "build", "-DFERRY_HOW=add_subdirectory", f"-DFERRY_SOURCE={SOURCE}", f"-DCMAKE_CXX_COMPILER={compiler}",
          "-DCMAKE_DISABLE_FIND_PACKAGE_dlpack=ON", f"-DFETCHCONTENT_SOURCE_DIR_DLPACK={work}/release")
    if str(work / "release" / "include") not in (work / "build" / "build.ninja").read_text(encoding="utf-8"):
        raise RuntimeError("another DLPack header than the fetched one was built against")


def copied(work, options):
    shutil.copytree(SOURCE / "include", work / "include")
    compiler, dlpack = (option.split("=", 1)[1] for option in options)
    flags = ["-std=c++20", f"-I{work}/include", "-isystem", dlpack]
    run(compiler, *flags, CONSUMER / "main.cpp", "-o", work / "consumer")
    run(work / "consumer")


WAYS = {
    "find_package from a moved prefix": installed,
    "add_subdirectory": as_source("add_subdirectory"),
    "FetchContent": as_source("FetchContent"),
    "a fetched DLPack": fetched_dlpack,
    "a copy of include/": copied,
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--dlpack", required=True)
    arguments = parser.parse_args()
    options = [f"-DCMAKE_CXX_COMPILER={arguments.compiler}", f"-DFERRY_DLPACK_INCLUDE_DIR={arguments.dlpack}"]

    failed = 0
    for way, check in WAYS.items():
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(pathlib.Path(folder), options)
                print(f"passed: {way}")
            except RuntimeError as error:
                failed += 1
                print(f"failed: {way}\n{error}")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
