"""Checks the documentation: blocks are copies of files that run, links are valid, every error code is explained.

usage: check.py [--fix | --self-test]

A block names its source in the line before it, a whole file or a marked part of one:

    <!-- from: examples/quickstart/main.cpp [receive] -->

The part is between the lines `// [receive]` and `// [/receive]` (`#` instead of `//` outside C++); its indentation is
removed. --fix updates the blocks from their sources. A block of commands may instead name the script that runs it:

    <!-- run by: tests/docs/five_minutes.py -->

That script contains the name of the document, whose blocks it runs, or each of the commands. A block that is neither compiled
nor run has the language `text`: output, a diagram, a sketch.
"""

import argparse
import importlib.util
import json
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = {"text"}
COMMANDS = {"sh", "bash"}
MARK = re.compile(r"^\s*(?://|#)\s*\[/?[a-z][a-z_-]*\]\s*$")
BLOCK = re.compile(
    r"(?:^<!-- (?:from: (?P<path>\S+?)(?: \[(?P<part>[^\]]+)\])?|run by: (?P<runner>\S+)) -->\n)?"
    r"^```(?P<language>[^\n]*)\n(?P<code>.*?)^```$",
    re.M | re.S,
)
TOCTREE = "{toctree}"  # Sphinx's own
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)")


def part_of(text, part):
    """The code of a file, or of one part of it, without the marks."""
    lines = text.splitlines()
    if part is not None:
        begin, end = (
            [i for i, line in enumerate(lines) if re.fullmatch(rf"\s*(?://|#)\s*\[{slash}{re.escape(part)}\]\s*", line)]
            for slash in ("", "/")
        )
        if len(begin) != 1 or len(end) != 1 or end[0] < begin[0]:
            raise ValueError(f"expected part [{part}] exactly once")
        lines = lines[begin[0] + 1 : end[0]]
    return textwrap.dedent("\n".join(line for line in lines if not MARK.match(line))).strip("\n") + "\n"


def check_blocks(document, text, read):
    """Returns the errors, and the text with every block replaced by its source."""
    errors = []

    def renewed(block):
        where = f"{document}:{text[: block.start()].count(chr(10)) + 1}"
        path, part, code = block["path"], block["part"], block["code"]
        language = block["language"].strip()
        if block["runner"] is not None:
            errors.extend(f"{where}: {e}" for e in not_run(document, language, code, block["runner"], read))
            return block[0]
        if path is None:
            if language not in DATA and language != TOCTREE:
                errors.append(f"{where}: a block of {language or 'no language'} without `<!-- from: FILE [part] -->` before it")
            return block[0]
        try:
            source = part_of(read(path), part)
        except (OSError, ValueError) as error:
            errors.append(f"{where}: {path}: {error}")
            return block[0]
        if source != code:
            errors.append(f"{where}: differs from {path}{f' [{part}]' if part else ''}: run check.py --fix")
        head = block[0][: block.start("code") - block.start()]
        return f"{head}{source}```"

    return BLOCK.sub(renewed, text), errors


def commands_of(code):
    """Returns the commands of a block without comments and with single spaces."""
    whole = re.sub(r"\\\n", " ", re.sub(r"(?m)(^|\s)#.*$", "", code))
    return [" ".join(line.split()) for line in whole.splitlines() if line.strip()]


def not_run(document, language, code, runner, read):
    """Returns the reasons why the script does not run the block."""
    if language not in COMMANDS:
        return [f"a block of {language or 'no language'} must be from a file, not run by {runner}"]
    try:
        script = read(runner)
    except OSError as error:
        return [f"{runner}: {error}"]
    if f'"{document}"' in script:  # the script reads the page itself
        return []
    known = " ".join(commands_of(script))  # comments run nothing
    return [f"{runner} does not run `{command}`" for command in commands_of(code) if command not in known and command != f"bash {runner}"]


def check_links(document, text):
    for target in LINK.findall(text):
        if not (document.parent / target).exists():
            yield f"{document.relative_to(ROOT)}: the link to {target} has no target"


def check_rules(tested, text):
    """Checks that docs/rules.md and the list of tested rules have the same numbers."""
    numbers, rows = (set(re.findall(pattern, source, re.M)) for pattern, source in ((r"^(R\d+) ", tested), (r"^\| (R\d+) \|", text)))
    for number in sorted(numbers ^ rows):
        yield f"docs/rules.md and tests/rules/rules.txt: {number} is only in one of them"


def check_codes(header, text):
    """Checks that the rows are exactly the enumerators of errc."""
    body = re.search(r"enum class errc : int \{(.*?)\};", header, re.S)[1]
    codes = {c for c in re.findall(r"^\s*([a-z_]+)\s*(?:=\s*0\s*)?,", body, re.M)} - {"ok"}
    rows = re.findall(r"^\| `([a-z_]+)` \|", text, re.M)
    for code in sorted(codes - set(rows)):
        yield f"docs/errors.md: errc::{code} has no row"
    for code in sorted(set(rows) - codes):
        yield f"docs/errors.md: errc::{code} does not exist"


def check_figures(text, read):
    """Checks that the page that a measured row of the README names has a line with the same numbers."""
    rows = re.findall(r"^\|[^|\n]*\|((?:[^|\n]*\|)+) \[[^\]]*\]\(([^)#]+)[^)]*\) \|$", text, re.M)
    if not rows:
        yield "README.md: no figure with a source"
    for figures, page in rows:
        numbers = set(re.findall(r"\d+(?:\.\d+)?", figures))
        if not any(numbers <= set(re.findall(r"\d+(?:\.\d+)?", line)) for line in read(page).splitlines()):
            yield f"README.md: no line of {page} has {', '.join(sorted(numbers))}"


def check_parts(text, measured):
    """Checks the lines and seconds of each part in the README against performance.json."""
    for part in measured["parts"]["rows"]:
        row = next((line for line in text.splitlines() if f"`ferry/{part['header']}`" in line and line.startswith("|")), "")
        if f"| {part['lines']} | {part['seconds']:.2f} s |" not in row:
            yield f"README.md: ferry/{part['header']} has {part['lines']} lines and takes {part['seconds']:.2f} s in docs/performance.json"


def check_performance(text, measured, page):
    """Checks that docs/performance.md is the output of bench/report.py for performance.json."""
    if text != page(measured["rows"], measured["facts"], measured["parts"]):
        yield "docs/performance.md differs from the output of bench/report.py --page"


def check_adopters(text, page):
    """Checks that the tables of docs/adopters.md are the output of bench/adopters/report.py for adopters.json."""
    if text != page(text):
        yield "docs/adopters.md differs from the output of bench/adopters/report.py --page"


def check_adapter(code):
    """Checks that the adapter of minitensor has at most 20 lines of at most 100 columns."""
    lines = code.splitlines()
    if len(lines) > 20:
        yield f"the adapter of minitensor has {len(lines)} lines, expected at most 20"
    yield from (f"the adapter of minitensor has a line of {len(line)} columns, expected at most 100" for line in lines if len(line) > 100)


def check(fix):
    errors = []
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("README.md"))]
    for document in documents:
        text = document.read_text(encoding="utf-8")
        name = document.relative_to(ROOT)
        fresh, wrong = check_blocks(name, text, lambda path: (ROOT / path).read_text(encoding="utf-8"))
        if fix and fresh != text:
            document.write_text(fresh, encoding="utf-8")
            print(f"updated: {name}")
            wrong = check_blocks(name, fresh, lambda path: (ROOT / path).read_text(encoding="utf-8"))[1]
        errors += wrong
        errors += check_links(document, text)
    header = (ROOT / "include/ferry/base/error.hpp").read_text(encoding="utf-8")
    errors += check_codes(header, (ROOT / "docs/errors.md").read_text(encoding="utf-8"))
    errors += check_rules((ROOT / "tests/rules/rules.txt").read_text(), (ROOT / "docs/rules.md").read_text(encoding="utf-8"))
    measured = json.loads((ROOT / "docs/performance.json").read_text(encoding="utf-8"))
    errors += check_parts((ROOT / "README.md").read_text(encoding="utf-8"), measured)
    sys.path.insert(0, str(ROOT / "bench"))
    import report

    errors += check_performance((ROOT / "docs/performance.md").read_text(encoding="utf-8"), measured, report.page)
    adopters = importlib.util.spec_from_file_location("adopters_report", ROOT / "bench/adopters/report.py")
    of_adopters = importlib.util.module_from_spec(adopters)
    adopters.loader.exec_module(of_adopters)
    errors += check_adopters((ROOT / "docs/adopters.md").read_text(encoding="utf-8"), of_adopters.page)
    errors += check_figures((ROOT / "README.md").read_text(encoding="utf-8"), lambda page: (ROOT / page).read_text(encoding="utf-8"))
    errors += check_adapter((ROOT / "examples/minitensor/minitensor_ferry.hpp").read_text(encoding="utf-8"))
    print(*errors, sep="\n", end="\n" if errors else "")
    print(f"{len(documents)} documents, {len(errors)} errors")
    return bool(errors)


def self_test():
    source = "int a;\n    // [x]\n    int b;\n    // [y]\n    int c;\n    // [/y]\n    // [/x]\n"
    assert part_of(source, "x") == "int b;\nint c;\n"
    good = "<!-- from: f.cpp [y] -->\n```cpp\nint c;\n```\n"
    read = {"f.cpp": source}.__getitem__
    assert check_blocks("d", good, read) == (good, [])
    for bad in (good.replace("int c", "int d"), good.replace("[y]", "[z]"), good[good.index("```") :]):
        assert len(check_blocks("d", bad, read)[1]) == 1, bad
    assert check_blocks("d", good.replace("int c", "int d"), read)[0] == good
    assert check_blocks("d", "```text\nls\n```\n", read)[1] == []
    for language in ("sh", "cpp", "python", ""):
        assert len(check_blocks("d", f"```{language}\nls\n```\n", read)[1]) == 1, language
    scripts = {"a.sh": "set -e\nmake  all \\\n    there\n", "b.py": 'PAGES = ["d"]', "c.sh": "# d has it\nls  # make all there\n"}.__getitem__
    commands = "<!-- run by: {} -->\n```sh\nmake all there  # all\n{}```\n"
    for runner, more, wrong in (("a.sh", "", 0), ("a.sh", "ls\n", 1), ("b.py", "ls\n", 0), ("c.sh", "", 1)):
        assert len(check_blocks("d", commands.format(runner, more), scripts)[1]) == wrong, (runner, more)
    assert len(check_blocks("d", commands.format("a.sh", "").replace("```sh", "```cpp"), scripts)[1]) == 1
    header = "enum class errc : int {\n    ok = 0,\n    version,  ///< a\n};"
    assert list(check_codes(header, "| `version` | x |\n")) == []
    assert len(list(check_codes(header, "| `other` | x |\n"))) == 2
    assert list(check_rules("R1 host\nR2 info\n", "| R1 | B |\n| R2 | P |\n")) == []
    assert len(list(check_rules("R1 host\n", "| R2 | P |\n"))) == 2
    figure = "| a 1 | 26 ns | 1.5 x | [p](p.md#x) |\n"
    assert list(check_figures(figure, {"p.md": "| 26 ns | 1.5 |"}.__getitem__)) == []
    assert len(list(check_figures(figure, {"p.md": "| 27 ns | 1.52 |"}.__getitem__))) == 1
    assert len(list(check_figures(figure, {"p.md": "| 26 ns | 1.52 |\n| 27 ns | 1.5 |"}.__getitem__))) == 1
    parts = {"parts": {"rows": [{"header": "a.hpp", "lines": 120, "seconds": 0.251}]}}
    assert list(check_parts("| a | `ferry/a.hpp` | x | 120 | 0.25 s | y |\n", parts)) == []
    assert len(list(check_parts("| a | `ferry/a.hpp` | x | 130 | 0.25 s | y |\n", parts))) == 1
    assert len(list(check_parts("", parts))) == 1
    known = {"rows": 1, "facts": 2, "parts": 3}
    assert list(check_performance("123", known, lambda *all: "".join(map(str, all)))) == []
    assert len(list(check_performance("12", known, lambda *all: "".join(map(str, all))))) == 1
    assert list(check_adopters("12", lambda text: "12")) == []
    assert len(list(check_adopters("12", lambda text: "34"))) == 1
    assert len(list(check_figures("", None))) == 1
    assert list(check_adapter("x" * 100 + "\n")) == []
    assert len(list(check_adapter("x" * 101 + "\n" * 20))) == 1
    assert len(list(check_adapter("\n" * 21))) == 1
    return False


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fix", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    sys.exit(self_test() if arguments.self_test else check(arguments.fix))
