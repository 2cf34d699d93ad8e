"""Follows the five-minute pages to the letter: each alone, in an empty folder, with an empty environment.

usage: five_minutes.py [PAGE...]

The folder holds ferry's tree as `ferry`, which is what a page says that its reader has, and nothing else. Block after block:
commands are run by bash under `env -i` with PATH and HOME alone, and with PIP_INDEX_URL where that is set, for packages that this
machine has already; a block of code becomes the file that the sentence before it names; `text` must be what the commands before it
print. Whatever a page forgets to say is therefore missing.
The last line is `N passed, N failed, N skipped`.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ["docs/start/library.md", "docs/start/application.md", "docs/start/pipeline.md"]
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.M | re.S)
COMMANDS, OUTPUT = "sh", "text"
KEPT = ("PATH", "HOME", "PIP_INDEX_URL")


def steps(text):
    """(kind, name, code) for each block of a page; a file is called as the last sentence before it calls it."""
    at = 0
    for block in BLOCK.finditer(text):
        before, at = re.sub(r"<!--.*?-->", "", text[at : block.start()]), block.end()
        if block["language"] in (COMMANDS, OUTPUT):
            yield block["language"], None, block["code"]
        else:
            names = re.findall(r"`([\w./-]+\.\w+)`", before.strip().split("\n\n")[-1])
            yield "file", names[0] if names else None, block["code"]


def follow(page, folder):
    """Why a reader of the page is stuck; nothing when all went as it says."""
    printed = ""
    for kind, name, code in steps((ROOT / page).read_text(encoding="utf-8")):
        if kind == COMMANDS:
            environment = ["env", "-i", *(f"{name}={os.environ[name]}" for name in KEPT if name in os.environ)]
            ran = subprocess.run(
                [*environment, "bash", "-euo", "pipefail", "-c", code], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=500, check=False
            )
            if ran.returncode != 0:
                return f"status {ran.returncode} of\n{code}{ran.stdout}"
            printed = ran.stdout
        elif kind == OUTPUT:
            if printed != code:
                return f"the page promises\n{code}and what comes is\n{printed}"
        elif name is None:
            return f"no sentence says what file this is:\n{code}"
        else:
            (folder / name).write_text(code, encoding="utf-8")
    return ""


def copy_tree(to):
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    for name in listed.decode().split("\0"):
        if name and (ROOT / name).is_file() and not name.startswith("tests/"):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, to / name)


def main(pages):
    failed = 0
    for page in pages:
        with tempfile.TemporaryDirectory(prefix="ferry-") as folder:
            folder = pathlib.Path(folder)
            copy_tree(folder / "ferry")
            stuck = follow(page, folder)
            failed += bool(stuck)
            print(f"{page}: {stuck or 'as it says'}", flush=True)
    print(f"{len(pages) - failed} passed, {failed} failed, 0 skipped")
    return bool(failed)


def self_test():
    page = "Do:\n```sh\nls\n```\nand `a.txt`, in `b.c`:\n\nThis is `main.cpp`:\n\n<!-- from: x.cpp -->\n```cpp\nint x;\n```\n```text\nout\n```\n"
    assert list(steps(page)) == [("sh", None, "ls\n"), ("file", "main.cpp", "int x;\n"), ("text", None, "out\n")]
    assert list(steps("It:\n\n```cpp\nint x;\n```\n")) == [("file", None, "int x;\n")]


if __name__ == "__main__":
    self_test()
    sys.exit(main(sys.argv[1:] or PAGES))
