"""Checks that the seeds of a target produce the error codes of errors.toml.

    errors.py TARGET LOG            LOG: what the target wrote with FERRY_FUZZ_ERRORS set
    errors.py TARGET --add BINARY FOLDER    adds to the seeds the smallest input of FOLDER that comes to each code which no seed reaches
"""

import os
import pathlib
import re
import subprocess
import sys
import tomllib

import seeds

HERE = pathlib.Path(__file__).parent
INCLUDE = HERE.parent.parent / "include/ferry"


def codes(text):
    return {code for line in re.findall(r"^errc:(.*)$", text, re.M) for code in line.split()} - {"ok"}


def named(headers):
    """The codes that these headers name outside of comments."""
    files = [p for h in headers for p in INCLUDE.glob(h + ".?pp")]
    if len(files) < len(headers):
        sys.exit(f"errors.toml names a header that is not there: {headers}")
    return {c for p in files for line in p.read_text().splitlines() for c in re.findall(r"errc::(\w+)", line.split("//")[0])} - {"ok"}


def check(target, log):
    with (HERE / "errors.toml").open("rb") as file:
        said = tomllib.load(file)[target]
    reached, never, elsewhere = set(said["reached"]), set(said.get("never", {})), set(said.get("elsewhere", []))
    got, known = codes(log), named(said["headers"])
    wrong = []
    for what, names in (("the seeds do not reach", reached - got), ("the seeds reach, and errors.toml does not say it:", got - reached),
                        ("said never to come, and reached:", never & got),
                        ("named by the headers, neither reached nor explained in errors.toml:", known - reached - never),
                        ("in errors.toml, and no header names it:", (reached | never) - known - elsewhere)):
        if names:
            wrong.append(f"{what} {' '.join(sorted(names))}")
    return wrong


def replay(binary, *inputs):
    env = os.environ | {"FERRY_FUZZ_ERRORS": "1", "PYTHONMALLOC": "malloc", "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0"}
    done = subprocess.run([binary, "-runs=0", *map(str, inputs)], env=env, stderr=subprocess.PIPE, text=True, errors="replace", check=True)
    return codes(done.stderr)


def add(target, binary, folder):
    seeds.unpack(HERE.parents[1] / "build/fuzz/seeds", target)
    have, new = replay(binary, HERE.parents[1] / "build/fuzz/seeds" / target), seeds.read(target)
    for path in sorted(pathlib.Path(folder).iterdir(), key=lambda p: p.stat().st_size):
        for code in sorted(replay(binary, path) - have):
            new[f"error_{code}"] = path.read_bytes()
            have.add(code)
            print(f"{target}: {code}: {path.stat().st_size} bytes")
    seeds.write(target, new)


if __name__ == "__main__":
    if sys.argv[2] == "--add":
        add(sys.argv[1], *sys.argv[3:])
    else:
        found = check(sys.argv[1], pathlib.Path(sys.argv[2]).read_text(errors="replace"))
        print(*found, sep="\n", end="\n" if found else "")
        sys.exit(bool(found))
