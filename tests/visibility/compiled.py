"""Separate compilation: the library exports the engines only, and a program in which the modes are mixed does not link.

usage: compiled.py NM LIBRARY COMPILER @FLAGS
"""

import pathlib
import re
import subprocess
import sys
import tempfile

nm, library, *compiler = sys.argv[1:]
CURE = "define_FERRY_SEPARATE_COMPILATION_in_every_translation_unit_and_link_ferry_compiled"
MODE = "-DFERRY_SEPARATE_COMPILATION"
CALLER = "bool f(ferry::wire::descriptor const&);\nint main() { return f({}); }"
CALLED = "bool f(ferry::wire::descriptor const& d) { return ferry::wire::try_check(d).has_value(); }"


def link(folder, caller, called, *more):
    """Returns the errors of the linker for a caller and a called function, each with its options."""
    objects = []
    for name, options, text in (("caller", caller, CALLER), ("called", called, CALLED)):
        source, out = folder / f"{name}.cpp", folder / f"{name}.o"
        source.write_text(f"#include <ferry/wire/check.hpp>\nbool f(ferry::wire::descriptor const&);\n{text}\n")
        subprocess.run([*compiler, *options, "-c", source, "-o", out], check=True)
        objects.append(out)
    done = subprocess.run([*compiler, *objects, *more, "-o", folder / "program"], capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


listed = subprocess.run([nm, "-DC", "--defined-only", library], capture_output=True, text=True, check=True).stdout
exported = re.findall(r"^\S+ [TRDBVWu] (.*\bferry::.*)", listed, re.MULTILINE)
if not any("::wire::try_from_bytes(" in name for name in exported) or not any(CURE in name for name in exported):
    sys.exit(f"engines are not exported:\n{listed}")
strange = [name for name in exported if re.search(r"wire::detail::(writer|reader|crc)|\bferry::v0::", name)]
if strange:
    sys.exit("exported, although no engine:\n" + "\n".join(strange))

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    for caller, called, more, wanted in (
        ([MODE], [MODE], [library], ""),
        ([], [], [], ""),
        ([MODE], [MODE], [], CURE),
        ([MODE], [], [library], "FERRY_SEPARATE_COMPILATION"),
        (["-DFERRY_TERSE_ERRORS"], ["-DFERRY_TERSE_ERRORS"], [], ""),
        ([], ["-DFERRY_TERSE_ERRORS"], [], "f(ferry::v0::wire::descriptor const&)"),
        (["-DFERRY_TERSE_ERRORS"], [], [], "with_FERRY_TERSE_ERRORS"),
        ([], [MODE], [library], "f(ferry::v0::wire::descriptor const&)"),
    ):
        errors = link(folder, caller, called, *more)
        if wanted not in errors or bool(wanted) != bool(errors):
            sys.exit(f"{caller} calls {called}, with {more}: no `{wanted}` in:\n{errors}")
