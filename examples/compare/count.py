"""Counts the statements of each task in the programs of this folder, and checks the table of docs/comparison.md.

usage: count.py [--write]

A statement is a semicolon in the part of a program between `// [task]` and `// [/task]`. --write updates the table. The exit
status is 1 if the table is out of date, or if another library needs fewer statements than ferry for a task that is not in
FEWER.
"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "comparison.md"
LIBRARIES = {"ferry": "ferry.cpp", "PyTorch": "torch.cpp", "tvm-ffi": "tvm_ffi.cpp", "nanobind": "nanobind.cpp", "CCCL": "cccl.cpp"}
TASKS = {
    "import": "import float32 of rank 2 on the host, and read an element",
    "unknown": "import float32, float64 or int32, and call a function template",
    "owned": "export an object that is moved into the tensor",
    "shared": "export an object that a `std::shared_ptr` owns",
    "borrowed": "export an object for the duration of a call",
    "copies": "export a copy with IS_COPIED, and export without a copy",
    "read-only": "export a const object with READ_ONLY",
    "legacy": "export the legacy struct",
    "bfloat": "import bfloat16, and read an element",
    "every-second": "export `[:, ::2]` of an object",
    "stream": "export, and make the consumer's stream wait for the producer's stream",
    "host": "import from a device, copy to the host, and read an element",
}
FEWER = {"import", "bfloat"}  # docs/comparison.md has the reasons
TABLE = re.compile(r"(?<=<!-- statements -->\n).*?(?=<!-- /statements -->\n)", re.S)


def statements(program, task):
    """The number of statements of a task, or None if the program does not have it."""
    parts = re.findall(rf"^ *// \[{task}\]\n(.*?)^ *// \[/{task}\]$", program, re.M | re.S)
    if len(parts) > 1:
        raise ValueError(f"[{task}] is there {len(parts)} times, expected once")
    code = [re.sub(r'"[^"]*"|//.*', "", part) for part in parts]
    return code[0].count(";") if code else None


def main():
    programs = {name: (HERE / file).read_text() for name, file in LIBRARIES.items()}
    lines = ["| task | " + " | ".join(LIBRARIES) + " |", "|---" * (len(LIBRARIES) + 1) + "|"]
    errors = []
    for task, text in TASKS.items():
        counts = {name: statements(program, task) for name, program in programs.items()}
        lines.append(f"| {text} | " + " | ".join("–" if n is None else str(n) for n in counts.values()) + " |")
        least = min(n for n in counts.values() if n is not None)
        if counts["ferry"] != least and task not in FEWER:
            errors.append(f"{task}: ferry needs {counts['ferry']} statements, another library {least}")
    page = PAGE.read_text()
    table = "\n".join(lines) + "\n"
    if "--write" in sys.argv[1:]:
        PAGE.write_text(TABLE.sub(lambda _: table, page))
    elif TABLE.findall(page) != [table]:
        errors.append(f"{PAGE.name}: the table is out of date: run {pathlib.Path(__file__).name} --write")
    print("\n".join(errors) if errors else table, end="\n" if errors else "")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
