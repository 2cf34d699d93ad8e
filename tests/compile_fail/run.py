"""Compiles each case of a file twice: with FERRY_COMPILE_FAIL it must fail with the messages that the file expects; without, it must
compile. A line `// next case` ends a case; each case is a translation unit of its own.

usage: run.py FILE COMPILER [FLAG...]
The file's first lines are `// expect: REGEX`; each must match the output of the compiler. The first one is the cure: it must
match one of the first five lines, counted from the first error, without the lines of the include stack. nvcc's output is not
counted. `// lines: NUMBER` limits the lines of the whole output. A line `// with: FLAG...` after them has flags for the first
compilation; then the first error must match the first line. A line `// also: try_NAME` repeats the first compilation with
try_NAME in place of NAME.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

SCREEN = 5  # lines


def compile_file(source, command):
    # nvcc checks the calls of host code when it splits the source.
    front_end = ["-cuda", "-o", "/dev/null"] if source.endswith(".cu") else ["-fsyntax-only"]
    result = subprocess.run(
        [*command, *front_end, source], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return result.returncode, result.stdout


def expectations(text):
    found = []
    for line in text.splitlines():
        if not line.startswith("// expect: "):
            break
        found.append(line.removeprefix("// expect: "))
    return found


def first_error(output):
    return next((line for line in output.splitlines() if "error:" in line), "")


def first_screen(output):
    """Returns the lines from the first error on, without `In file included from` and its continuation."""
    lines = [line for line in output.splitlines() if not re.match(r"In file included from | +from ", line)]
    first = next((i for i, line in enumerate(lines) if "error:" in line), 0)
    return lines[first:]


def main():
    source, *command = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        text = file.read()
    expected = expectations(text)
    if not expected:
        sys.exit(f"{source}: the first line must be `// expect: REGEX`")
    cases = re.split(r"^// next case\n", text, flags=re.MULTILINE)
    failures = check(source, text, command, expected) if len(cases) == 1 else []
    for number, case in enumerate(cases if len(cases) > 1 else [], 1):
        with tempfile.NamedTemporaryFile("w", suffix=pathlib.Path(source).suffix, encoding="utf-8") as file:
            file.write(case)
            file.flush()
            failures += [f"case {number}: {failure}" for failure in check(file.name, case, command, expected)]
    if failures:
        sys.exit(f"{source}:\n" + "\n".join(failures))


def check(source, text, command, expected):
    """Returns the failures of one case."""
    failures = []
    given = re.search(r"^// with: (.*)", text, re.MULTILINE)
    flags = given[1].split() if given else []
    limit = re.search(r"^// lines: (\d+)$", text, re.MULTILINE)
    code, output = compile_file(source, command)
    if code != 0:
        failures.append(f"the twin (without FERRY_COMPILE_FAIL) does not compile:\n{output}")
    outcomes = [compile_file(source, [*command, *flags, "-DFERRY_COMPILE_FAIL"])]
    if also := re.search(r"^// also: try_(\w+)$", text, re.MULTILINE):
        with tempfile.NamedTemporaryFile("w", suffix=".cpp", encoding="utf-8") as file:
            file.write(re.sub(rf"(ferry::|\.)(?={also[1]}[<(])", r"\1try_", text))
            file.flush()
            outcomes.append(compile_file(file.name, [*command, *flags, "-DFERRY_COMPILE_FAIL"]))
    for code, output in outcomes:
        if code == 0:
            failures.append("compiles with FERRY_COMPILE_FAIL, and must not")
            continue
        if flags and not re.search(expected[0], first := first_error(output)):
            failures.append(f"the first error is another one: {first}")
        missing = [pattern for pattern in expected if not re.search(pattern, output)]
        failures += [f"the compiler did not say: {pattern}" for pattern in missing]
        screen = first_screen(output)
        at = next((i for i, line in enumerate(screen, 1) if re.search(expected[0], line)), None)
        if not source.endswith(".cu") and at is not None and at > SCREEN:
            failures.append(f"the cure is on line {at} after the first error, expected at most {SCREEN}: {expected[0]}")
            missing.append(expected[0])
        if limit and len(output.splitlines()) > int(limit[1]):
            failures.append(f"the compiler printed {len(output.splitlines())} lines, expected at most {limit[1]}")
            missing.append(expected[0])
        if missing:
            failures.append(output)
    return failures


if __name__ == "__main__":
    main()
