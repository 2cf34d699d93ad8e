"""Checks that comments, strings and pages are in plain technical English.

usage: language.py [--xml FOLDER] [--self-test]

Finds the words of language.toml, the parameters of public functions without a \\param, and the public functions with \\throws that
have no `try_` form. --xml is the output of doxygen, if it has run already.
The subjects of the commits that follow the one that added this file have at most 72 characters.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
TREE = ["include", "packaging", "README.md", "docs", "examples", "tests"]
RESULTS = ["base", "tensor", "space", "exchange", "column", "wire"]
STRING = r'"(?:\\.|[^"\\\n])*"'
PROSE = {
    "cpp": re.compile(rf"//[^\n]*|/\*.*?\*/|R\"(\w*)\(.*?\)\1\"|{STRING}|'(?:\\.|[^'\\\n])'", re.S),
    "hash": re.compile(rf'""".*?"""|#[^\n]*|{STRING}|\'(?:\\.|[^\'\\\n])*\'', re.S),
}
FENCED = re.compile(r"^```.*?^```$", re.M | re.S)  # a copy of a file, which is counted there
CPP, HASH = {".hpp", ".ipp", ".cuh", ".cpp", ".cu", ".h", ".mjs"}, {".py", ".pyi", ".sh", ".cmake", ".toml", ""}
SUBJECT = 72


def prose_of(path, text):
    """The comments and strings of a source, or a page without its blocks of code; each line keeps its number."""
    if path.suffix == ".md":
        return FENCED.sub(lambda block: "\n" * block[0].count("\n"), text)
    kept, at = [], 0
    for match in PROSE["cpp" if path.suffix in CPP else "hash"].finditer(text):
        kept += ["\n" * text.count("\n", at, match.start()) or " ", match[0]]
        at = match.end()
    return "".join(kept)


def words_in(path, text, words):
    """(line, word, what to write instead) of each forbidden word."""
    for kind, searched in (("prose", prose_of(path, text)), ("anywhere", text)):
        edge = r"\b(?i:{})\b" if kind == "prose" else r"(?<![A-Za-z0-9])(?:{})(?![A-Za-z0-9])"
        for expression, instead in words[kind].items():
            for match in re.finditer(edge.format(expression), searched):
                yield searched.count("\n", 0, match.start()) + 1, match[0], instead


def forbidden_words():
    words = tomllib.loads((ROOT / "tests/docs/language.toml").read_text(encoding="utf-8"))
    listed = subprocess.run(["git", "ls-files", "-z", "--", *TREE], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for path in map(pathlib.Path, filter(None, listed.split("\0"))):
        if (path.suffix in CPP | HASH | {".md"} or path.name == "CMakeLists.txt") and path.stem != "language" and (ROOT / path).is_file():
            for line, word, instead in words_in(path, (ROOT / path).read_text(encoding="utf-8"), words):
                yield f"{path}:{line}: `{word}`: {instead}"


def undocumented(xml):
    sys.path.insert(0, str(ROOT / "docs/site"))
    import api

    with tempfile.TemporaryDirectory() as out:
        by_file = api.read(xml or api.run_doxygen(api.gather_headers(ROOT, pathlib.Path(out)), pathlib.Path(out)))
    names = {member.name for entities in by_file.values() for e in entities for member in (e, *e.members)}
    for file, entities in sorted(by_file.items()):
        for entity, parameter in api.without_param(entities):
            if not entity.name.endswith("::fields"):  # visitors of the encoders
                yield f"include/{file}:{entity.line}: {entity.name}: no \\param {parameter}"
        if file.split("/")[1] in RESULTS:
            for entity in api.without_try(entities, names):
                yield f"include/{file}:{entity.line}: {entity.name}: no `try_` form (D17)"


def long_subjects():
    """Subjects that are too long, of the commits since the one that added this file, or since the oldest commit of a shallow clone."""

    def git(*arguments):
        return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()

    for base in git("log", "--diff-filter=A", "--format=%H", "--", "tests/docs/language.py"):
        for line in git("log", "--no-walk", "--format=%h %s", base) + git("log", "--ancestry-path", "--format=%h %s", f"{base}..HEAD"):
            commit, _, subject = line.partition(" ")
            if len(subject) > SUBJECT:
                yield f"commit {commit}: a subject of {len(subject)} characters, at most {SUBJECT} are allowed: {subject}"


def check(xml):
    errors = [*forbidden_words(), *undocumented(xml), *long_subjects()]
    print(*errors, sep="\n", end="\n" if errors else "")
    print(f"{len(errors)} errors")
    return bool(errors)


def self_test():
    words = {"prose": {"who": "it"}, "anywhere": {"guests": "tensors"}}

    def lines(name, text):
        return [(line, word) for line, word, _ in words_in(pathlib.Path(name), text, words)]

    assert lines("a.hpp", "int who;\nint a = '\"';  // Who\nchar b[] = \"who\";\nint the_guests_;\n") == [(2, "Who"), (3, "who"), (4, "guests")]
    assert lines("a.py", "who = 1\nb = 'who'  # whose\n\"\"\"\nwho\"\"\"\n") == [(2, "who"), (4, "who")]
    assert lines("a.md", "a\n```cpp\nwho\n```\nwho\n") == [(5, "who")]
    return False


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--xml", type=pathlib.Path)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    sys.exit(self_test() if arguments.self_test else check(arguments.xml))
