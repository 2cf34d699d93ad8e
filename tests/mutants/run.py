"""Builds a test against a mutated header, and fails if the test still passes.

usage: run.py MUTANT.toml --work FOLDER (--apply | [--without] --compiler COMPILER @FLAGS)
       run.py --gpu [MUTANT.toml...] --work FOLDER [--seconds N] --compiler g++ FLAG...
       run.py --gpu --apply [MUTANT.toml...] --work FOLDER
       run.py --fake [MUTANT.toml...] --work FOLDER --compiler COMPILER FLAG...
Exits with 1 when the mutant survives, with 2 when it shows nothing: it does not apply or build, or its program ends without
running its tests. --without leaves the headers as they are, and the test must pass: else all its mutants would seem killed.
--apply only writes FOLDER/include, of every mutant in its turn. --gpu takes the mutants that need a CUDA device, on a machine
that has one: all of them unless some are named; builds with the compiler, its flags and nvcc (from PATH or CUDA_HOME), on
all cores, what a mutant touches. What has not run after N seconds counts as a failure. --fake runs those of them that a fake of
CUDA's runtime can show, in some minutes, without a device. A mutant's keys:
  name     what it removes
  header   where, below include/ (ferry/…)
  find     text, found once, however it is broken into lines
  replace  what takes its place
  test     the sources below tests/ of which a test must fail (a list); linked with tests/support/*.cpp
  why      what goes wrong for a user when this line is gone
  gpu      true: only a real device shows it (optional)
  gpus     how many devices its test needs (optional, with gpu)
  seconds  after which its test hangs for sure (optional, with gpu)
  toolkit  true: needs the headers and libraries of the CUDA toolkit, and no device (optional)
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import tomllib

TESTS = pathlib.Path(__file__).resolve().parents[1]
INCLUDE = TESTS.parent / "include"
RUN_SECONDS = 60
AT_ONCE = 6  # tests that share a device: each holds its streams closed for a while, and does little
SKIPPED = 77
FAKE = ("driver", "kernels", "memory", "processes", "streams")
NOT_ON_FAKE = {"gpu/facts.cpp", "gpu/endings.cpp", "gpu/soak.cpp", "gpu/pack.cu", "gpu/resources.cu", "gpu/thrust.cu"}


def shows_nothing(why):
    print(why, file=sys.stderr)
    sys.exit(2)


def apply(mutant, work):
    target = work / "include"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(INCLUDE, target)
    header = target / mutant["header"]
    text = header.read_text(encoding="utf-8")
    found = [m.span() for m in re.finditer(r"\s*".join(map(re.escape, re.sub(r"\s+", "", mutant["find"]))), text)]
    if len(found) != 1:
        shows_nothing(f"no longer applies: {mutant['header']} holds the text to replace {len(found)} times, not once")
    begin, end = found[0]
    header.write_text(text[:begin] + mutant["replace"] + text[end:], encoding="utf-8")
    return target


def build(mutant, work, include, compiler):
    sources = [TESTS / source for source in mutant["test"]] + sorted(TESTS.glob("support/*.cpp"))
    link = []
    if mutant.get("toolkit"):
        cuda = cuda_home()
        compiler = [*compiler, "-isystem", cuda / "include"]
        link = [f"-L{cuda / 'lib64'}", f"-Wl,-rpath,{cuda / 'lib64'}", "-lcudart"]
    objects = []
    for source in sources:
        target = work / (source.stem + f"_{len(objects)}.o")
        # First on the line, so that the mutated headers hide the real ones.
        at = next(i for i, word in enumerate(compiler) if str(word).startswith(("@", "-")))
        flags = [*compiler[:at], f"-I{include}", *compiler[at:], "-O0", "-Wno-error"]
        result = subprocess.run([*flags, "-c", source, "-o", target], capture_output=True, text=True)
        if result.returncode != 0:
            shows_nothing(f"does not build: a mutant must compile\n{result.stderr}")
        objects.append(target)
    program = work / "test"
    result = subprocess.run([*compiler, *objects, *link, "-pthread", "-o", program], capture_output=True, text=True)
    if result.returncode != 0:
        shows_nothing(f"does not build: a mutant must link\n{result.stderr}")
    return program


def survives(program, seconds=RUN_SECONDS):
    try:
        result = subprocess.run([program], capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        print("killed: the test hung")
        return False
    killers = [line for line in result.stdout.splitlines() if line.startswith("TEST CASE:")]
    print(*(killers or [f"exit status {result.returncode}"]), sep="\n")
    ran = "[doctest] test cases:" in result.stdout or result.returncode < 0 or "Sanitizer" in result.stderr
    if not ran or "test cases: 0 " in " ".join(result.stdout.split()):
        shows_nothing(f"the program ran no tests:\n{result.stdout}\n{result.stderr}")
    return result.returncode == 0


def cuda_home():
    if "CUDA_HOME" in os.environ:
        return pathlib.Path(os.environ["CUDA_HOME"])
    nvcc = shutil.which("nvcc")
    found = pathlib.Path(nvcc).resolve().parents[1] if nvcc else None
    return found if found and (found / "include/cuda.h").exists() else pathlib.Path("/usr/local/cuda")


def compile_on_gpu(source, target, include, compiler):
    """One object, against the shared runtime that calls.cpp stands before."""
    target.parent.mkdir(parents=True, exist_ok=True)
    system = [word for folder in (cuda_home() / "include", cuda_home() / "include" / "cccl") for word in ("-isystem", folder)]
    flags = [f"-I{include}", f"-I{TESTS}", *system, "-std=c++20", "-O0", "-w", *compiler[1:]]
    if source.suffix == ".cu":
        flags = ["-std=c++20", "-arch=native", f"-I{TESTS}", f"-I{include}", *[word for word in compiler[1:] if word.startswith("-I")]]
        compiler = [cuda_home() / "bin" / "nvcc"]
    result = subprocess.run([compiler[0], *flags, "-c", source, "-o", target], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"does not build, and a mutant must: {target}\n{result.stderr}")
    return target


def link_on_gpu(objects, program, compiler, runtime):
    link = [f"-L{runtime.parent}", f"-Wl,-rpath,{runtime.parent}", f"-l{runtime.name}", "-ldl", "-pthread", "-o", program]
    subprocess.run([compiler[0], *objects, *link], check=True)
    return program


def fake_runtime(folder, compiler):
    """The fake as a shared library."""
    objects = [compile_on_gpu(TESTS / "fake_cuda" / f"{part}.cpp", folder / f"{part}.o", INCLUDE, [*compiler, "-fPIC", "-O1"]) for part in FAKE]
    link = ["-shared", "-Wl,-Bsymbolic-functions", "-pthread", "-o", folder / "libfake_cudart.so"]
    subprocess.run([compiler[0], *objects, *link], check=True)
    return folder / "fake_cudart"


def run_test(program, seconds, fake):
    """How a test ends, and the lines that say why: None for a hang."""
    short = {**os.environ, "FERRY_RANDOM_LAYOUTS": "150", "FERRY_GATE_SECONDS": "4"} | ({"FERRY_SHORT": "1"} if fake else {})
    try:
        result = subprocess.run([program], capture_output=True, text=True, errors="replace", timeout=seconds, env=short)
    except subprocess.TimeoutExpired:
        return None, [f"hung for {seconds} s"]
    if result.returncode == SKIPPED:
        sys.exit(f"nothing is shown, for nothing ran: {result.stdout}")
    killers = dict.fromkeys(line.removeprefix("TEST CASE:").strip() for line in result.stdout.splitlines() if line.startswith("TEST CASE:"))
    return result.returncode, [*killers] or [f"exit status {result.returncode}"], result.stdout


def mutants_for_gpu(named, fake=False):
    every = {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in named or sorted(TESTS.glob("mutants/*.toml"))}
    return {name: mutant for name, mutant in every.items() if mutant.get("gpu") and not (fake and NOT_ON_FAKE.intersection(mutant["test"]))}


def run_on_gpu(named, work, compiler, seconds, fake):
    begin = time.monotonic()
    every = mutants_for_gpu(named, fake)
    shutil.rmtree(work, ignore_errors=True)
    # Linked behind the test, whose mutated inline functions come first and so are the ones that count. What only the importer
    # calls is mutated when a mutant's test names gpu/importer.cpp, too.
    own = ["fake_cuda/gate.cpp", "fake_cuda/main.cpp"] if fake else ["gpu/gate.cu", "gpu/main.cpp"]
    common = [*own, "gpu/importer.cpp", "gpu/calls.cpp"]
    runtime = fake_runtime(work / "runtime", compiler) if fake else cuda_home() / "lib64" / "cudart"
    sources = sorted({source for mutant in every.values() for source in mutant["test"]} - set(common))

    def compile_all(names, folder, include):
        return [compile_on_gpu(TESTS / name, folder / (name.replace("/", "_") + ".o"), include, compiler) for name in names]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        plain = [pool.submit(compile_all, [name], work / "none", INCLUDE) for name in (*common, *sources)]
        built = {name: pool.submit(compile_all, mutant["test"], work / name, apply(mutant, work / name)) for name, mutant in every.items()}
        shared = {name: job.result()[0] for name, job in zip(common, plain)}
        untouched = [job.result()[0] for job in plain[len(common) :]]
        programs = {
            name: link_on_gpu([*job.result(), *(o for source, o in shared.items() if source not in every[name]["test"])], work / name / "test", compiler, runtime)
            for name, job in built.items()
        }
    print(f"built in {time.monotonic() - begin:.0f} s", flush=True)

    status, why, *said = run_test(link_on_gpu([*untouched, *shared.values()], work / "none" / "test", compiler, runtime), (10 if fake else 3) * RUN_SECONDS, fake)
    if status != 0:
        sys.exit("\n".join(["the tests fail without a mutant, and nothing is shown:", *why, *said]))
    devices = 2 if fake else sum(line.startswith("cuda:") for line in said[0].splitlines())
    print(f"without a mutant the tests pass, on {devices} device(s), after {time.monotonic() - begin:.0f} s", flush=True)

    def judge(name):
        mutant = every[name]
        if mutant.get("gpus", 1) > devices:
            return "skipped", [f"needs {mutant['gpus']} devices"]
        left = seconds - (time.monotonic() - begin) if seconds else RUN_SECONDS
        if left < 1:
            return "NOT RUN", ["no time was left"]
        status, why, *_ = run_test(programs[name], min(left, mutant.get("seconds", RUN_SECONDS)), fake)
        if status is None and left < mutant.get("seconds", RUN_SECONDS):
            return "NOT RUN", ["no time was left"]
        return ("SURVIVED", [f"{mutant['name']}: {mutant['why']}"]) if status == 0 else ("killed", why)

    counts = dict.fromkeys(("killed", "SURVIVED", "NOT RUN", "skipped"), 0)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() if fake else AT_ONCE) as pool:
        for name, (verdict, why) in zip(programs, pool.map(judge, programs)):
            counts[verdict] += 1
            more = f" (+ {len(why) - 1})" if len(why) > 1 else ""
            print(f"mutant {verdict:<9} {name:<28} {why[0]}{more}", flush=True)
    print("mutants: " + ", ".join(f"{n} {verdict.lower()}" for verdict, n in counts.items()) + f"; {time.monotonic() - begin:.0f} s")
    sys.exit(1 if counts["SURVIVED"] or counts["NOT RUN"] or not counts["killed"] else 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mutant", type=pathlib.Path, nargs="*")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--fake", action="store_true")
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--apply", action="store_true")
    parser.add_argument("--without", action="store_true")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--compiler", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()

    if arguments.gpu and arguments.apply:
        for mutant in mutants_for_gpu(arguments.mutant).values():
            apply(mutant, arguments.work)
        return
    if arguments.gpu or arguments.fake:
        run_on_gpu(arguments.mutant, arguments.work, arguments.compiler, arguments.seconds, arguments.fake)
    [path] = arguments.mutant
    mutant = tomllib.loads(path.read_text(encoding="utf-8"))
    missing = {"name", "header", "find", "replace", "test", "why"} - mutant.keys()
    if missing:
        sys.exit(f"{path}: no {', '.join(sorted(missing))}")
    arguments.work.mkdir(parents=True, exist_ok=True)
    if arguments.without:
        if not survives(build(mutant, arguments.work, INCLUDE, arguments.compiler), 3 * RUN_SECONDS):
            sys.exit("the test fails without a mutant, and nothing is shown")
        return
    include = apply(mutant, arguments.work)
    if arguments.apply:
        return
    if survives(build(mutant, arguments.work, include, arguments.compiler)):
        sys.exit(f"survived: {mutant['name']}: {mutant['why']}")


if __name__ == "__main__":
    main()
