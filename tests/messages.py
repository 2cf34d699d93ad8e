"""Prints the error messages that the unit tests provoke, so that all of them can be read at once.

usage: messages.py BUILD [FOLDER...]

Runs the programs unit_FOLDER of a build, by default those of all folders, and prints each message once, without regard to its numbers.
Then it names the error codes that the headers of a folder name, and no call of `support::fails` provokes. `support::fails` requires that
each message states a fix.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

INCLUDE = pathlib.Path(__file__).resolve().parents[1] / "include/ferry"


def named(folder):
    """The codes that the headers of a folder name outside of comments."""
    sources = [path.read_text(encoding="utf-8") for path in (INCLUDE / folder).rglob("*.hpp") if path != INCLUDE / "base/error.hpp"]
    return {code for text in sources for line in text.splitlines() for code in re.findall(r"errc::(\w+)", line.split("//")[0])} - {"ok"}


def provoked(program):
    """(code, function, text) of each error."""
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run([program], env=os.environ | {"FERRY_MESSAGES": file.name}, stdout=subprocess.DEVNULL, check=False)
        lines = pathlib.Path(file.name).read_text(encoding="utf-8", errors="replace").splitlines()
    return {tuple(line.split("\t", 2)) for line in lines if line.count("\t") >= 2}


def main(build, *folders):
    programs = {path.name.removeprefix("unit_"): path for path in sorted((pathlib.Path(build) / "tests").glob("unit_*")) if path.is_file()}
    for folder in folders or [name for name in programs if (INCLUDE / name).is_dir()]:
        errors = provoked(programs[folder])
        forms = {(code, api, re.sub(r"\d+", "0", text)): text for code, api, text in sorted(errors) if api.startswith("ferry::")}
        print(f"{folder}: {len(forms)} messages")
        print(*(f"  {code}: {api}: {text}" for (code, api, _), text in sorted(forms.items())), sep="\n")
        print(f"  not provoked: {' '.join(sorted(named(folder) - {code for code, _, _ in errors})) or 'none'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
