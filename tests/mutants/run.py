"""Builds a test against a mutated header, and fails if the test still passes.

usage: run.py MUTANT.toml --work FOLDER (--apply | --compiler COMPILER @FLAGS)
--apply only writes FOLDER/include. A mutant's keys:
  name     what it removes
  header   where, below include/ (ferry/…)
  find     exact text, found once
  replace  what takes its place
  test     the sources below tests/ of which a test must fail (a list); linked with tests/support/*.cpp
  why      what goes wrong for a user when this line is gone
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tomllib

TESTS = pathlib.Path(__file__).resolve().parents[1]
INCLUDE = TESTS.parent / "include"
RUN_SECONDS = 60


def apply(mutant, work):
    target = work / "include"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(INCLUDE, target)
    header = target / mutant["header"]
    text = header.read_text(encoding="utf-8")
    found = text.count(mutant["find"])
    if found != 1:
        sys.exit(f"no longer applies: {mutant['header']} holds the text to replace {found} times, not once")
    header.write_text(text.replace(mutant["find"], mutant["replace"]), encoding="utf-8")
    return target


def build(mutant, work, include, compiler):
    sources = [TESTS / source for source in mutant["test"]] + sorted(TESTS.glob("support/*.cpp"))
    objects = []
    for source in sources:
        target = work / (source.stem + f"_{len(objects)}.o")
        # First on the line, so that the mutated headers hide the real ones.
        flags = [*compiler[:-1], f"-I{include}", compiler[-1], "-O0", "-Wno-error"]
        result = subprocess.run([*flags, "-c", source, "-o", target], capture_output=True, text=True)
        if result.returncode != 0:
            sys.exit(f"does not build: a mutant must compile\n{result.stderr}")
        objects.append(target)
    program = work / "test"
    subprocess.run([*compiler, *objects, "-pthread", "-o", program], check=True)
    return program


def survives(program):
    try:
        result = subprocess.run([program], capture_output=True, text=True, timeout=RUN_SECONDS)
    except subprocess.TimeoutExpired:
        print("killed: the test hung")
        return False
    killers = [line for line in result.stdout.splitlines() if line.startswith("TEST CASE:")]
    print(*(killers or [f"exit status {result.returncode}"]), sep="\n")
    return result.returncode == 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mutant", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--apply", action="store_true")
    parser.add_argument("--compiler", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()

    mutant = tomllib.loads(arguments.mutant.read_text(encoding="utf-8"))
    missing = {"name", "header", "find", "replace", "test", "why"} - mutant.keys()
    if missing:
        sys.exit(f"{arguments.mutant}: no {', '.join(sorted(missing))}")
    arguments.work.mkdir(parents=True, exist_ok=True)
    include = apply(mutant, arguments.work)
    if arguments.apply:
        return
    if survives(build(mutant, arguments.work, include, arguments.compiler)):
        sys.exit(f"survived: {mutant['name']}: {mutant['why']}")


if __name__ == "__main__":
    main()
