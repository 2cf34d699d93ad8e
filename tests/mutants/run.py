"""Builds a test against a mutated header, and fails if the test still passes.

usage: run.py MUTANT.toml --work FOLDER (--apply | --compiler COMPILER @FLAGS)
       run.py --gpu [MUTANT.toml...] --work FOLDER --compiler g++ FLAG...
--apply only writes FOLDER/include. --gpu runs the mutants that need a CUDA device, on a machine that has one: all of them
unless some are named; builds with the compiler, its flags and nvcc (from PATH or CUDA_HOME). A mutant's keys:
  name     what it removes
  header   where, below include/ (ferry/…)
  find     exact text, found once
  replace  what takes its place
  test     the sources below tests/ of which a test must fail (a list); linked with tests/support/*.cpp
  why      what goes wrong for a user when this line is gone
  gpu      true: only a real device shows it (optional)
"""

import argparse
import os
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


def cuda_home():
    if "CUDA_HOME" in os.environ:
        return pathlib.Path(os.environ["CUDA_HOME"])
    nvcc = shutil.which("nvcc")
    found = pathlib.Path(nvcc).resolve().parents[1] if nvcc else None
    return found if found and (found / "include/cuda.h").exists() else pathlib.Path("/usr/local/cuda")


def build_on_gpu(mutant, work, include, compiler, gate):
    """The named tests, with the main and the gates of tests/gpu, against the shared runtime that calls.cpp stands before."""
    cuda = cuda_home()
    sources = [TESTS / source for source in [*mutant["test"], "gpu/main.cpp", "gpu/calls.cpp"]]
    flags = [compiler[0], f"-I{include}", f"-I{TESTS}", "-isystem", cuda / "include", "-std=c++20", "-O0", "-w", *compiler[1:]]
    builds = []
    for source in sources:
        target = work / (source.stem + ".o")
        builds.append((target, subprocess.Popen([*flags, "-c", source, "-o", target], stderr=subprocess.PIPE, text=True)))
    for target, started in builds:
        _, said = started.communicate()
        if started.returncode != 0:
            sys.exit(f"does not build: a mutant must compile\n{said}")
    program = work / "test"
    libraries = cuda / "lib64"
    objects = [target for target, _ in builds]
    link = [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lcudart", "-ldl", "-pthread", "-o", program]
    subprocess.run([compiler[0], *objects, gate, *link], check=True)
    return program


def run_on_gpu(mutants, work, compiler):
    every = {path: tomllib.loads(path.read_text(encoding="utf-8")) for path in mutants or sorted(TESTS.glob("mutants/*.toml"))}
    every = {path: mutant for path, mutant in every.items() if mutant.get("gpu")}
    work.mkdir(parents=True, exist_ok=True)
    gate = work / "gate.o"
    includes = [f"-I{TESTS}", f"-I{INCLUDE}", *[flag for flag in compiler[1:] if flag.startswith("-I")]]
    nvcc = [cuda_home() / "bin" / "nvcc", "-std=c++20", "-arch=native", *includes, "-c", TESTS / "gpu/gate.cu", "-o", gate]
    subprocess.run(nvcc, check=True)
    programs = {}
    for name, mutant in [("none", {**next(iter(every.values())), "test": sorted({s for m in every.values() for s in m["test"]})}), *((p.stem, m) for p, m in every.items())]:
        folder = work / name
        folder.mkdir(parents=True, exist_ok=True)
        include = INCLUDE if name == "none" else apply(mutant, folder)
        programs[name] = build_on_gpu(mutant, folder, include, compiler, gate)
    print("without a mutant", flush=True)
    if not survives(programs.pop("none")):
        sys.exit("the tests fail, or skip, without a mutant: nothing is shown")
    left = []
    for name, program in programs.items():
        print(f"== {name}", flush=True)
        if survives(program):
            left.append(name)
    print(f"{len(programs) - len(left)} killed, {len(left)} survived: {' '.join(left)}")
    sys.exit(1 if left else 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mutant", type=pathlib.Path, nargs="*")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--apply", action="store_true")
    parser.add_argument("--compiler", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()

    if arguments.gpu:
        run_on_gpu(arguments.mutant, arguments.work, arguments.compiler)
    [path] = arguments.mutant
    mutant = tomllib.loads(path.read_text(encoding="utf-8"))
    missing = {"name", "header", "find", "replace", "test", "why"} - mutant.keys()
    if missing:
        sys.exit(f"{path}: no {', '.join(sorted(missing))}")
    arguments.work.mkdir(parents=True, exist_ok=True)
    include = apply(mutant, arguments.work)
    if arguments.apply:
        return
    if survives(build(mutant, arguments.work, include, arguments.compiler)):
        sys.exit(f"survived: {mutant['name']}: {mutant['why']}")


if __name__ == "__main__":
    main()
