"""Builds the site: build.py [--out FOLDER]. Needs doxygen, and the packages of requirements.txt beside this file.

Collects the pages of docs/, the READMEs of the examples and the pages generated from headers and tests in FOLDER/source,
replaces links that leave docs/ by links to copies of their targets, and calls Sphinx with warnings as errors. Then it
checks the HTML: every internal link must have an existing page and anchor, every external link must be a URL, and every
public name must have a comment and be on a page. The last line is `N passed, N failed, N skipped`.
"""

import argparse
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

import api
import draw

SITE = pathlib.Path(__file__).resolve().parent
DOCS = SITE.parent
ROOT = DOCS.parent
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)#\s]+)(#[^)]*)?(?=\))")
NAMED = re.compile(r"\[[\w./-]+\.md\](?=\((?!https?:)([^)#\s]+\.md)(?:#[^)]*)?\))")  # a link whose text is the name of its page
CODE = re.compile(r"^(```|:::).*?^\1\s*$", re.M | re.S)
LANGUAGES = {".hpp": "cpp", ".cpp": "cpp", ".cuh": "cpp", ".py": "python", ".json": "json", ".cmake": "cmake", ".sh": "sh"}
PICTURE = re.compile(r"^!\[(?P<alt>[^\]]*)\]\((?P<path>[^)\s]+\.svg)\)$", re.M)


def pages():
    """{file in the tree: page in the site}"""
    found = {p: p.relative_to(DOCS) for p in DOCS.rglob("*.md") if SITE not in p.parents}
    found[ROOT / "README.md"] = pathlib.Path("readme.md")
    for readme in (ROOT / "examples").rglob("README.md"):
        name = "-".join(readme.parent.relative_to(ROOT / "examples").parts) or "index"
        found[readme] = pathlib.Path("examples") / f"{name}.md"
    return found


class Gathering:
    def __init__(self, source):
        self.source, self.pages, self.files = source, pages(), {}

    def place_of(self, target):
        """The page of a file of the tree in the site; None for a file outside the tree."""
        if target.is_dir():
            target = target / "README.md" if (target / "README.md").exists() else target
        if target in self.pages:
            return self.pages[target]
        if not target.is_file() or ROOT not in target.parents:
            return None
        if target.suffix in (".png", ".svg"):
            self.files[target] = target.relative_to(DOCS if DOCS in target.parents else ROOT)
        else:
            name = target.relative_to(ROOT).as_posix()
            self.files[target] = pathlib.Path("files") / f"{name.replace('.', '-')}.md"
        return self.files[target]

    def with_links(self, text, file, page):
        """The page, with links that lead to the positions of their targets in the site."""

        def renewed(match):
            target = (file.parent / match[1]).resolve()
            place = self.place_of(target)
            if place is None:
                return match[0]  # Sphinx reports it
            return os.path.relpath(place, page.parent).replace(os.sep, "/") + (match[2] or "")

        def titled(match):
            target = (file.parent / match[1]).resolve()
            return f"[{re.search(r'^# (.*)$', target.read_text(encoding='utf-8'), re.M)[1]}]" if target.is_file() else match[0]

        parts, at = [], 0
        for code in CODE.finditer(text):
            parts += [LINK.sub(renewed, NAMED.sub(titled, text[at : code.start()])), code[0]]
            at = code.end()
        return "".join(parts) + LINK.sub(renewed, NAMED.sub(titled, text[at:]))

    def write(self, page, text):
        path = self.source / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run(self):
        for file, page in self.pages.items():
            text = PICTURE.sub(lambda m: drawing(file.parent / m["path"], m["alt"]), file.read_text(encoding="utf-8"))
            if DOCS not in file.parents:
                text = f"---\norphan: true\n---\n{text}"
            self.write(page, self.with_links(text, file, page))
        for file, page in list(self.files.items()):
            if page.suffix != ".md":
                (self.source / page).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, self.source / page)
                continue
            name = file.relative_to(ROOT).as_posix()
            language = LANGUAGES.get(file.suffix, "cmake" if file.name == "CMakeLists.txt" else "text")
            code = file.read_text(encoding="utf-8")
            self.write(page, f"---\norphan: true\nnosearch: true\n---\n# {api.escaped(name)}\n\n````{language}\n{code}````\n")


def html_text(text):
    return text.replace("&", "&amp;").replace('"', "&quot;")


def drawing(path, alt):
    """The SVG as inline HTML, so that the colours of the theme apply to it. Plots are drawn from their figures."""
    text = draw.PLOTS[path.stem]() if path.stem in draw.PLOTS else path.read_text(encoding="utf-8")
    text = text.replace("<svg ", f'<svg class="picture" role="img" aria-label="{html_text(alt)}" ', 1)
    return '```{raw} html\n<div class="scroll">' + re.sub(r"\n\s*\n", "\n", text).strip() + "</div>\n```"


def held_rules():
    """The page that lists for each rule the headers that implement it and the tests that cover it."""
    sys.path.insert(0, str(ROOT / "tests" / "rules"))
    import report

    known = report.kinds((ROOT / "tests/rules/rules.txt").read_text(encoding="utf-8"))
    headers, tests = report.scan_headers(report.HEADERS, known), report.scan_tests(report.TESTS, known)
    words = dict(re.findall(r"^\| (R\d+) \| \w \| (.*?) \| [^|]* \|$", (DOCS / "rules.md").read_text(encoding="utf-8"), re.M))
    kind = {"host": "on any machine", "cuda": "on a GPU only"}
    out = [
        "# Headers and tests of each rule",
        "This page is generated from the headers and tests. A header implements the rules that its comments name. A test covers the rules that "
        "the name of its case, its docstring or the comment at the top of its file names. The text is from [the rules](rules.md).",
    ]

    def listed(label, base, names):
        return f"{label}: " + (", ".join(f"[{n}]({base}/{n})" for n in names) if names else "none") + "."

    for rule in known:
        out.append(f"## {rule}\n\n{words.get(rule, '')}\n\nTested {kind[known[rule]]}." if known[rule] != "info" else f"## {rule}\n\n{words.get(rule, '')}\n\nInformational: ferry implements no behaviour for this rule.")
        out.append(listed("Headers", "../include/ferry", headers[rule]) + "\n\n" + listed("Tests", "../tests", tests[rule]))
    return "\n\n".join(out) + "\n"


class Page(html.parser.HTMLParser):
    """The anchors of a page, and the targets of its links."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for key, value in attributes:
            if key == "id":
                self.ids.add(value)
            elif key in ("href", "src") and value is not None:
                self.links.append(value)


def wrong_links(site):
    """The broken links, and the number of links that were followed."""
    read = {p: Page(p.read_text(encoding="utf-8")) for p in site.rglob("*.html")}
    errors, followed = set(), 0
    for path, page in read.items():
        for link in page.links:
            url = urllib.parse.urlsplit(link)
            followed += 1
            if url.scheme in ("http", "https"):
                if not re.fullmatch(r"[\w-]+(\.[\w-]+)+(:\d+)?", url.netloc):
                    errors.add(f"{path.relative_to(site)}: {link} is not a URL")
                continue
            if url.scheme in ("mailto", "data"):
                continue
            target = (path.parent / urllib.parse.unquote(url.path)).resolve() if url.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                errors.add(f"{path.relative_to(site)}: the link to {link} has no target")
            elif url.fragment and target in read and urllib.parse.unquote(url.fragment) not in read[target].ids:
                errors.add(f"{path.relative_to(site)}: the link to {link} has no such anchor")
    return sorted(errors), followed


def names_without_page(site, names):
    """Public names whose anchor is on no page."""
    read = {}
    for name, place in sorted(names.items()):
        page, anchor = place.split("#")
        path = site / f"{page}.html"
        if path not in read:
            read[path] = Page(path.read_text(encoding="utf-8")).ids if path.exists() else set()
        if anchor not in read[path]:
            yield f"{name}: not on {page}.html"


def build(out):
    source, site = out / "source", out / "html"
    for folder in (source, site, out / "doxygen", out / "include"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    include = api.gather_headers(ROOT, out)
    by_file = api.read(api.run_doxygen(include, out / "doxygen"))
    names = api.write_pages(include, by_file, source / "api")
    gathering = Gathering(source)
    held = pathlib.Path("rules-held.md")
    gathering.write(held, gathering.with_links(held_rules(), DOCS / held, held))
    gathering.run()
    (out / "names.json").write_text(json.dumps(names, indent=1))
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-c", SITE, "-d", out / "doctrees", "-W", "--keep-going", "-q", "-j", "auto"]
    status = subprocess.run([*map(str, command), str(source), str(site)], env=os.environ | {"FERRY_NAMES": str(out / "names.json")}, check=False).returncode
    wrong, followed = wrong_links(site)
    bare = [*api.unread(include, by_file), *api.undocumented(by_file)]
    lost = list(names_without_page(site, names))
    print(*wrong, *bare, *lost, sep="\n")
    built = len(list(site.rglob("*.html")))
    print(f"{built} pages, {len(names)} public names, {followed} links; Sphinx {'warns' if status else 'has no warning'}")
    failed = len(wrong) + len(bare) + len(lost) + bool(status)
    print(f"{built + len(names) + followed - failed} passed, {failed} failed, 0 skipped")
    return bool(failed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "docs")
    sys.exit(build(parser.parse_args().out.resolve()))
