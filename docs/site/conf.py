"""Settings of Sphinx. build.py collects the pages and calls Sphinx on them."""

import json
import os
import pathlib
import re

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

HERE = pathlib.Path(__file__).resolve().parent
VERSION = re.findall(r"#define FERRY_VERSION_\w+ (\d+)", (HERE.parents[1] / "include/ferry/version.hpp").read_text(encoding="utf-8"))

RULES = set(re.findall(r"^R\d+", (HERE.parents[1] / "tests/rules/rules.txt").read_text(encoding="utf-8"), re.M))

project = "ferry"
author = "the authors of ferry"
copyright = "the authors of ferry, Apache-2.0"  # noqa: A001: Sphinx's name
version = release = ".".join(VERSION)
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "attrs_block"]
myst_heading_anchors = 4
myst_ref_domains = []
root_doc = "index"
html_theme = "furo"
html_title = f"ferry {release}"
html_static_path = [str(HERE / "static")]
html_css_files = ["ferry.css"]
html_favicon = str(HERE / "static" / "icon.svg")
html_use_index = False
html_show_sphinx = False
html_copy_source = False
pygments_style = "tango"
pygments_dark_style = "monokai"
ferry_names = json.loads(pathlib.Path(os.environ["FERRY_NAMES"]).read_text(encoding="utf-8"))  # {name: page#anchor}
highlight_language = "text"
suppress_warnings = ["myst.header"]


class LinkNames(SphinxPostTransform):
    """Turns code in running text that is a public name into a link to the page of the name."""

    default_priority = 500

    def run(self, **_):
        names = self.app.config.ferry_names
        for literal in list(self.document.findall(nodes.literal)):
            name = re.sub(r"[<({].*$", "", literal.astext())
            # In the reference, short names are also links, except for those of enumerators, which are in tables.
            is_short = self.env.docname.startswith("api/") and (self.env.docname.endswith("index") or literal.parent.parent.tagname != "entry")
            target = names.get(name) or names.get(f"ferry::{name}" if "::" in name or is_short else "")
            if target is None or isinstance(literal.parent, nodes.reference) or literal.parent.tagname in ("title", "pending_xref"):
                continue
            page, anchor = target.split("#")
            if page == self.env.docname:
                continue
            literal.replace_self(make_refnode(self.app.builder, self.env.docname, page, anchor, literal.deepcopy()))


class LinkRules(SphinxPostTransform):
    """Turns R24 in running text into a link to the text of the rule, and to its headers and tests."""

    default_priority = 501

    def run(self, **_):
        if self.env.docname in ("rules-held", "rules", "conformance"):
            return
        for text in list(self.document.findall(nodes.Text)):
            if isinstance(text.parent, (nodes.literal, nodes.reference, nodes.title, nodes.literal_block, nodes.raw)):
                continue
            parts, at = [], 0
            for match in re.finditer(r"\bR\d+\b", text):
                if match[0] in RULES:
                    rule = make_refnode(self.app.builder, self.env.docname, "rules-held", match[0].lower(), nodes.Text(match[0]))
                    parts += [nodes.Text(text[at : match.start()]), rule]
                    at = match.end()
            if parts:
                text.parent.replace(text, [*parts, nodes.Text(text[at:])])


def setup(app):
    app.add_post_transform(LinkRules)
    app.add_config_value("ferry_names", {}, "env")
    app.add_post_transform(LinkNames)

