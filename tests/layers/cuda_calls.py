"""Checks that whatever the headers call of CUDA is counted, and can be made to fail, by tests/gpu/calls.cpp, and nothing else is.

usage: cuda_calls.py [--self-test]
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# They say what has failed, and cannot fail.
SPEAKING = {"cudaGetErrorName", "cudaGetErrorString", "cudaGetLastError"}
# What the tests ask whether ferry ever calls it.
FORBIDDEN = {"cudaDeviceSynchronize"}
COMMENT = re.compile(r"//.*")
RUNTIME = re.compile(r"\bcuda[A-Z]\w*?(?=(?:_v\d)?\()")  # tests/support/toolkit.hpp gives functions of CUDA 12 their names of CUDA 13
DRIVER = re.compile(r'find_driver_function\(\s*\w+,\s*"(cu\w+)"')
COUNTED = re.compile(r"^COUNTED(?:_DRIVER)?\(\w+,\s*(\w+)|^COUNTED_WAIT\((\w+)|^(cudaGetDriverEntryPointByVersion)\(", re.MULTILINE)
HANDED_OUT = re.compile(r"^\s+HAND_OUT\((\w+)\)", re.MULTILINE)


def called(text):
    plain = COMMENT.sub("", text)
    return set(RUNTIME.findall(plain)) | set(DRIVER.findall(plain))


def counted(text):
    return {next(filter(None, found)) for found in COUNTED.findall(text)}


def faults(made, text):
    seen = counted(text)
    for name in sorted(made - seen - SPEAKING):
        yield f"{name} is called, and tests/gpu/calls.cpp does not count it"
    for name in sorted(seen - made - FORBIDDEN):
        yield f"{name} is counted, and no header calls it"
    looked_up = {name for name in seen if not name.startswith("cuda")}
    for name in sorted(looked_up ^ set(HANDED_OUT.findall(text))):
        yield f"{name} is wrapped or handed out, and not both"


def self_test():
    header = 'check(cudaMalloc(&p, n), "cudaMalloc");  // not cudaFree(p)\nfind_driver_function(f, "cuCtxGetId");\ncudaGetLastError();'
    assert called(header) == {"cudaMalloc", "cuCtxGetId", "cudaGetLastError"}
    good = "COUNTED(allocate, cudaMalloc, (a), (b))\nCOUNTED_DRIVER(advice, cuCtxGetId, (c), (d))\n    HAND_OUT(cuCtxGetId)\n"
    assert not list(faults(called(header), good))
    assert list(faults(called(header), good.replace("cudaMalloc,", "cudaFree,"))) == [
        "cudaMalloc is called, and tests/gpu/calls.cpp does not count it",
        "cudaFree is counted, and no header calls it",
    ]
    assert list(faults(called(header), good.replace("HAND_OUT(cuCtxGetId)", ""))) == ["cuCtxGetId is wrapped or handed out, and not both"]
    assert counted("COUNTED_WAIT(cudaEventSynchronize, (e), (e))\ncudaGetDriverEntryPointByVersion(char") == {
        "cudaEventSynchronize",
        "cudaGetDriverEntryPointByVersion",
    }


def main():
    if "--self-test" in sys.argv:
        return self_test()
    headers = [path for path in (ROOT / "include").rglob("*") if path.suffix in (".hpp", ".cuh")]
    made = set().union(*(called(path.read_text(encoding="utf-8")) for path in headers))
    found = list(faults(made, (ROOT / "tests/gpu/calls.cpp").read_text(encoding="utf-8")))
    for fault in found:
        print(fault)
    print(f"{len(made)} functions of CUDA are called, {len(found)} faults")
    return 1 if found or len(made) < 50 else 0


sys.exit(main())
