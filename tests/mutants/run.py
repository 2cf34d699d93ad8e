"""Builds a test against a mutated header, and fails if the test still passes.

usage: run.py NAME --work FOLDER (--apply | [--without] --compiler COMPILER @FLAGS)
       run.py --list | --check | --select REVISION [--most N]
       run.py --gpu [NAME...] --work FOLDER [--seconds N] --compiler g++ FLAG...
       run.py --gpu --apply [NAME...] --work FOLDER
       run.py --fake [NAME...] --work FOLDER --compiler COMPILER FLAG...

Mutants are tables of the *.toml beside this file, one file a folder of include/ferry. A mutant's keys:
  header   the header that it changes, below include/ferry
  code     the text that it changes, which occurs once in the header; white space is ignored
  after    a text that occurs once; then `code` is the first one behind it
  what     what it removes
  why      the failure that a user would observe without this code
  test     sources below tests/, of which a test must fail (a list); linked with tests/support/*.cpp
  swap     pairs of texts: the first, which occurs once in `code`, is replaced by the second
  with     replacement of `code`; without `swap` and `with` it is removed
  gpu      true: only detected on a real device
  gpus     number of devices that its test needs (with gpu)
  seconds  time after which its test certainly hangs (with gpu)
  toolkit  true: needs the headers and libraries of the CUDA toolkit, and no device

Exits with 1 when the mutant survives, with 2 when the result is invalid: it does not apply or build, or its program ends without
running its tests. --without does not change the headers, and the test must pass: otherwise all its mutants would seem killed.
--apply only writes FOLDER/include. --list prints `NAME toolkit|- TEST...` for each that needs no device. --check: each mutant
applies. --select prints the names of those without a device whose header, or one of whose tests,
differs from a git revision: at most N (15, about two minutes on two cores), spread evenly over their sorted names.
--gpu runs the mutants that need a CUDA device, on a machine with one: all of them unless some are named; builds the sources that a
mutant changes with the compiler, its flags and nvcc (from PATH or CUDA_HOME), on all cores. A mutant that has not run after N
seconds counts as a failure. --fake runs those of them that a fake CUDA runtime can detect, in some minutes, without a device.
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
AT_ONCE = 6  # concurrent tests on one device: each mostly waits with closed streams
SKIPPED = 77
FAKE = ("driver", "kernels", "memory", "processes", "streams")
NOT_ON_FAKE = {"gpu/facts.cpp", "gpu/endings.cpp", "gpu/soak.cpp", "gpu/pack.cu", "gpu/resources.cu", "gpu/thrust.cu"}


def shows_nothing(why):
    print(why, file=sys.stderr)
    sys.exit(2)


def read_all():
    found = {}
    for path in sorted(TESTS.glob("mutants/*.toml")):
        for name, mutant in tomllib.loads(path.read_text(encoding="utf-8")).items():
            missing = {"header", "code", "what", "why", "test"} - mutant.keys()
            if missing or name in found:
                sys.exit(f"{path.name}: {name}: " + (f"no {', '.join(sorted(missing))}" if missing else "there is one already"))
            found[name] = mutant
    return found


def find(wanted, text, begin=0):
    """The places of a text in another one, whatever white space each has."""
    return [m.span() for m in re.compile(r"\s*".join(map(re.escape, re.sub(r"\s+", "", wanted)))).finditer(text, begin)]


def find_once(name, wanted, text):
    found = find(wanted, text)
    if len(found) != 1:
        shows_nothing(f"{name} no longer applies: {wanted!r} occurs {len(found)} times, not once")
    return found[0]


def mutate(name, mutant):
    """The header that a mutant changes, below include/, and its changed text."""
    header = pathlib.Path("ferry", mutant["header"])
    if not (INCLUDE / header).exists():
        shows_nothing(f"{name} no longer applies: there is no {header}")
    text = (INCLUDE / header).read_text(encoding="utf-8")
    if "after" in mutant:
        _, behind = find_once(name, mutant["after"], text)
        begin, end = next(iter(find(mutant["code"], text, behind)), None) or find_once(name, mutant["code"], "")
    else:
        begin, end = find_once(name, mutant["code"], text)
    changed = mutant.get("with", text[begin:end] if "swap" in mutant else "")
    for old, new in mutant.get("swap", []):
        first, last = find_once(name, old, changed)
        changed = changed[:first] + new + changed[last:]
    return header, text[:begin] + changed + text[end:]


def apply(name, mutant, work):
    target = work / "include"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(INCLUDE, target)
    header, text = mutate(name, mutant)
    (target / header).write_text(text, encoding="utf-8")
    return target


def check(every):
    for name, mutant in every.items():
        mutate(name, mutant)
    print(f"{len(every)} mutants")


def select(every, revision, most):
    """Prints the mutants whose header or tests have changed since `revision`."""
    done = subprocess.run(["git", "diff", "--name-only", revision, "--"], cwd=TESTS, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shows_nothing(done.stderr)
    changed = set(done.stdout.split())
    touched = [
        name for name, mutant in sorted(every.items())
        if not mutant.get("gpu") and changed & {f"include/{mutate(name, mutant)[0]}", *(f"tests/{source}" for source in mutant["test"])}
    ]  # fmt: skip
    some = touched if len(touched) <= most else [touched[i * len(touched) // most] for i in range(most)]
    if len(some) < len(touched):
        print(f"{len(touched)} mutants are touched, of which {len(some)} run", file=sys.stderr)
    print(*some, sep="\n")


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
    """Compiles one object for the shared CUDA runtime, whose functions calls.cpp wraps."""
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
    """The exit status of a test, and the lines with the reason; None for a hang."""
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
    return {
        name: mutant for name, mutant in read_all().items()
        if mutant.get("gpu") and (not named or name in named) and not (fake and NOT_ON_FAKE.intersection(mutant["test"]))
    }  # fmt: skip


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
        built = {name: pool.submit(compile_all, mutant["test"], work / name, apply(name, mutant, work / name)) for name, mutant in every.items()}
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
        return ("SURVIVED", [f"{mutant['what']}: {mutant['why']}"]) if status == 0 else ("killed", why)

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
    parser.add_argument("mutant", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--select", metavar="REVISION")
    parser.add_argument("--most", type=int, default=15)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--fake", action="store_true")
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--apply", action="store_true")
    parser.add_argument("--without", action="store_true")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--compiler", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()

    every = read_all()
    if unknown := set(arguments.mutant) - every.keys():
        sys.exit(f"no mutant {', '.join(sorted(unknown))}")
    if arguments.check:
        return check(every)
    if arguments.select:
        return select(every, arguments.select, arguments.most)
    if arguments.list:
        for name, mutant in every.items():
            if not mutant.get("gpu"):
                print(name, "toolkit" if mutant.get("toolkit") else "-", *mutant["test"])
        return
    if arguments.work is None:
        parser.error("--work is missing")
    if arguments.gpu and arguments.apply:
        for name, mutant in mutants_for_gpu(arguments.mutant).items():
            apply(name, mutant, arguments.work)
        return
    if arguments.gpu or arguments.fake:
        run_on_gpu(arguments.mutant, arguments.work, arguments.compiler, arguments.seconds, arguments.fake)
    [name] = arguments.mutant
    mutant = every[name]
    arguments.work.mkdir(parents=True, exist_ok=True)
    if arguments.without:
        if not survives(build(mutant, arguments.work, INCLUDE, arguments.compiler), 3 * RUN_SECONDS):
            sys.exit("the test fails without a mutant, and nothing is shown")
        return
    include = apply(name, mutant, arguments.work)
    if arguments.apply:
        return
    if survives(build(mutant, arguments.work, include, arguments.compiler)):
        sys.exit(f"survived: {mutant['what']}: {mutant['why']}")


if __name__ == "__main__":
    main()
