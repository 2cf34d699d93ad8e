"""Writes the pages of the public names, one page for each header, grouped by layer, from the comments that doxygen reads."""

import collections
import dataclasses
import pathlib
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET

# The layers in the order of docs/design.md, each in a few words.
LAYERS = {
    "base": "regular value types: errors, data types, devices, flags, shapes, stream tokens",
    "tensor": "one tensor: validation, views, element access, ownership",
    "space": "memory spaces, buffers and copies",
    "exchange": "the protocol: the decision to share, copy or refuse, and the ordering of streams",
    "column": "columns of data frames, in Arrow's layouts",
    "lease": "tensors whose device memory makes room, and tensors that are copied when written",
    "wire": "descriptors of memory that is shared between processes",
    "arrow": "import and export through Arrow's C interfaces",
    "ipc": "tensors and columns shared between processes",
    "adapters": "adapters for array libraries, one header each",
    "conformance": "tests of an adapter against the rules of the exchange",
    "cuda": "the CUDA back end",
    "python": "CPython: the protocol for Python types",
    "abi": "the structs of DLPack, and definitions that older DLPack headers lack",
}
DOXYFILE = """
INPUT = {include}/ferry
FILE_PATTERNS = *.hpp *.cuh
EXTENSION_MAPPING = cuh=C++
RECURSIVE = YES
STRIP_FROM_PATH = {include}
OUTPUT_DIRECTORY = {out}
GENERATE_XML = YES
GENERATE_HTML = NO
GENERATE_LATEX = NO
XML_PROGRAMLISTING = NO
EXTRACT_ALL = YES
EXTRACT_STATIC = YES
EXCLUDE_SYMBOLS = *::detail *::detail::*
ENABLE_PREPROCESSING = YES
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = "FERRY_DELETED(x)== delete" "FERRY_DELETED_BOTH(...)=" "FERRY_DELETED_BRACED(...)=" "FERRY_DELETED_REQUEST(...)=" FERRY_COLD= FERRY_NOINLINE= FERRY_LIFETIME_BOUND= FERRY_HIDDEN= FERRY_ALWAYS_INLINE=inline FERRY_INLINE=inline __GNUC__=12 __cplusplus=202002L FERRY_HAS_EXCEPTIONS=1 {macros}
INPUT_FILTER = "sed -E 's/FERRY_NAMESPACE/ferry/'"
AUTOLINK_SUPPORT = NO
BUILTIN_STL_SUPPORT = NO
HAVE_DOT = NO
CLASS_GRAPH = NO
INCLUDE_GRAPH = NO
INCLUDED_BY_GRAPH = NO
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
WARN_IF_INCOMPLETE_DOC = NO
"""
WIDTH = 84


@dataclasses.dataclass
class Entity:
    """A function, variable, type, …: its declaration as text, and its comment as Markdown."""

    name: str  # with its namespace and class
    kind: str
    declaration: str
    text: str
    file: str
    line: int
    members: list = dataclasses.field(default_factory=list)
    enumerators: list = dataclasses.field(default_factory=list)
    bare_params: list = dataclasses.field(default_factory=list)  # parameters of a function that its comment does not name


def gather_headers(root, out):
    """Copies the headers of the library and those of the conformance kit to out/include, as a package has them; returns the folder."""
    for tree in ("include", "packaging/conformance/include"):
        shutil.copytree(root / tree, out / "include", dirs_exist_ok=True)
    return out / "include"


def run_doxygen(include, out, macros=""):
    """Runs doxygen on the headers; returns the folder of the XML. `out` must exist."""
    (out / "Doxyfile").write_text(DOXYFILE.format(include=include, out=out, macros=macros), encoding="utf-8")
    subprocess.run(["doxygen", out / "Doxyfile"], check=True, cwd=include, stderr=subprocess.DEVNULL)
    return out / "xml"


def plain(element):
    """The text of an element without its markup; empty without an element."""
    return re.sub(r"\s+", " ", "".join(element.itertext())).strip() if element is not None else ""


def escaped(text):
    return re.sub(r"([\\`*_<>\[\]{}$#|~])", r"\\\1", text or "")


def inline(element):
    """The text of a paragraph, without its blocks."""
    out = [escaped(element.text)]
    for child in element:
        if child.tag == "computeroutput":
            out.append(f"`{plain(child)}`")
        elif child.tag in ("bold", "emphasis"):
            out.append(f"*{inline(child)}*")
        elif child.tag in ("ndash", "mdash"):
            out.append("–")
        elif child.tag not in ("parameterlist", "simplesect", "itemizedlist", "orderedlist", "programlisting", "verbatim", "table"):
            out.append(inline(child))
        out.append(escaped(child.tail))
    return re.sub(r"\s+", " ", "".join(out)).strip()


def blocks(element):
    """An element's paragraphs and lists as Markdown blocks."""
    out = []
    for para in element.findall("para"):
        if words := inline(para):
            out.append(words)
        for child in para:
            if child.tag in ("itemizedlist", "orderedlist"):
                items = [" ".join(blocks(item)) for item in child.findall("listitem")]
                out.append("\n".join(f"- {item}" for item in items))
            elif child.tag == "parameterlist":
                label = {"exception": "Throws", "param": "Parameter", "templateparam": "Template parameter"}.get(child.get("kind"), "")
                for item in child.findall("parameteritem"):
                    names = ", ".join(f"`{plain(n)}`" for n in item.iter("parametername"))
                    out.append(f"**{label}** {names}: {' '.join(blocks(item.find('parameterdescription')))}")
            elif child.tag == "simplesect":
                label = {"return": "Returns", "pre": "Precondition", "post": "Postcondition"}.get(child.get("kind"), "Note")
                out.append(f"**{label}** {' '.join(blocks(child))}")
            elif child.tag == "programlisting":
                lines = [code_of(line) for line in child.findall("codeline")]
                out.append("```cpp\n" + "\n".join(lines) + "\n```")
            elif child.tag == "verbatim":
                out.append("```text\n" + (child.text or "").strip("\n") + "\n```")
    return out


def code_of(element):
    out = element.text or ""
    for child in element:
        out += " " if child.tag == "sp" else code_of(child)
        out += child.tail or ""
    return out


def comment(element):
    parts = [element.find(tag) for tag in ("briefdescription", "detaileddescription")]
    return "\n\n".join(block for part in parts if part is not None for block in blocks(part))


def spaced(text):
    """Converts doxygen's spelling of types to that of the headers."""
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r"< (?=\S)", "<", text)
    text = re.sub(r"(?<=[^\s&|=]) >", ">", text)
    text = re.sub(r"\s+([&*]+)(?=[\s,)>]|$)", r"\1", text)
    return re.sub(r"\s+([&*]+)(\w)", r"\1 \2", text)


def template_head(element):
    params = element.find("templateparamlist")
    if params is None:
        return ""
    out = []
    for param in params.findall("param"):
        words = " ".join(filter(None, (plain(param.find("type")), plain(param.find("declname")))))
        default = plain(param.find("defval"))
        out.append(spaced(words) + (f" = {spaced(default)}" if default else ""))
    line = f"template <{', '.join(out)}>"
    return (line if len(line) <= WIDTH else "template <\n        " + ",\n        ".join(out) + ">") + "\n"


def requires_of(element):
    clause = spaced(plain(element.find("requiresclause")))
    return f"    requires {clause}\n" if clause else ""


def wrapped(head, params, tail):
    """A function's declaration, with one parameter on each line if one line is too short."""
    line = f"{head}({', '.join(params)}){tail}"
    if len(line) <= WIDTH or not params:
        return line
    indent = ",\n" + " " * 8
    return f"{head}(\n{' ' * 8}{indent.join(params)}){tail}"


def parameter(param):
    kind, name, default = (spaced(plain(param.find(tag))) for tag in ("type", "declname", "defval"))
    if name == "...":
        kind, name = kind + "...", ""
    words = f"{kind[:-2]}(&{name}){plain(param.find('array'))}" if kind.endswith("(&)") else f"{kind} {name}".strip() + plain(param.find("array"))
    return words + (f" = {default}" if default else "")


def declaration_of(member):
    name, kind = plain(member.find("name")), member.get("kind")
    head = template_head(member) + requires_of(member)
    kind_of_value = spaced(plain(member.find("type")))
    if kind == "function":
        before = " ".join(filter(None, ("static" if member.get("static") == "yes" else "", "explicit" if member.get("explicit") == "yes" else "", kind_of_value)))
        before = before.replace("static static", "static")
        rest = plain(member.find("argsstring"))
        tail = rest[rest.rindex(")") + 1 :].replace("=", " = ").replace("  ", " ") if ")" in rest else ""
        tail = re.sub(r"^(?=\w)", " ", tail.rstrip())
        if "noexcept" in rest and "noexcept" not in tail:
            tail = rest[re.search(r"\)\s*(const)?\s*&{0,2}\s*noexcept", rest).start() + 1 :]
            tail = " " + tail.strip()
        tail = re.sub(r"\bconst ?(&+) ?", r"const\1 ", tail).rstrip()
        return head + wrapped(f"{before} {name}".strip(), [parameter(p) for p in member.findall("param")], tail)
    if kind == "typedef":
        return head + (f"using {name} = {kind_of_value}" if "using" in plain(member.find("definition")) else plain(member.find("definition")))
    if kind == "enum":
        base = plain(member.find("type"))
        return f"enum class {name}" + (f" : {base}" if base else "")
    if kind == "friend":
        args = spaced(plain(member.find("argsstring")))
        return head + spaced(f"friend {kind_of_value} {name}{args}").replace("friend friend", "friend")
    value = plain(member.find("initializer"))
    value = spaced(value) if len(value) <= 60 else "= /* … */"
    static = "static " if member.get("static") == "yes" and "static" not in kind_of_value else ""
    between = "" if value.startswith("{") else " "
    return head + f"{static}{kind_of_value} {name}{plain(member.find('argsstring'))}{between}{value}".strip()


def entity_of(member, scope):
    place = member.find("location")
    found = Entity(
        f"{scope}::{plain(member.find('name'))}", member.get("kind"), declaration_of(member), comment(member), place.get("file"), int(place.get("line"))
    )
    if found.kind in ("function", "friend"):
        explained = {plain(name) for name in member.iter("parametername")}
        found.bare_params = [name for param in member.findall("param") if (name := plain(param.find("declname"))) and name not in explained]
    for value in member.findall("enumvalue"):
        found.enumerators.append((plain(value.find("name")), plain(value.find("initializer")), comment(value)))
    if found.enumerators and not any(text for _, _, text in found.enumerators):
        found.declaration += " { " + ", ".join(f"{name} {value}".strip() for name, value, _ in found.enumerators) + " }"
    return found


def public_members(compound, scope):
    """The public members of a class."""
    members = []
    for section in compound.findall("sectiondef"):
        for member in section.findall("memberdef"):
            if member.get("prot") == "public" and not (member.get("kind") == "friend" and plain(member.find("type")).split()[-1:] in (["class"], ["struct"])):
                members.append(entity_of(member, scope))
    members = [m for m in members if "(" in m.declaration or not m.declaration.startswith("friend")]
    return sorted(members, key=lambda m: m.line)


def read(xml):
    """All public entities of namespace scope, and nested classes, by their header."""
    by_file = collections.defaultdict(list)
    for compound in ET.parse(xml / "index.xml").getroot().findall("compound"):
        name, kind = compound.findtext("name"), compound.get("kind")
        if kind not in ("namespace", "class", "struct", "union", "concept") or not re.match(r"ferry\b", name) or "detail" in re.split(r"::|<| ", name):
            continue
        body = ET.parse(xml / f"{compound.get('refid')}.xml").getroot().find("compounddef")
        if body.get("prot") == "private":
            continue
        if kind == "namespace":
            found = [entity_of(member, name) for member in body.iter("memberdef")]
            constants, text = [e for e in found if e.kind == "variable"], comment(body)
            if text and found and len(constants) == len(found):  # a list of constants, under one comment
                whole = Entity(name, "namespace", f"namespace {short_name(name)}", text, found[0].file, found[0].line - 1, found)
                by_file[whole.file].append(whole)
                continue
            for entity in found:
                by_file[entity.file].append(entity)
            continue
        place = body.find("location")
        short = short_name(name)
        if kind == "concept":
            code = plain_code(body.find("initializer"))
            declaration = code
        else:
            bases = ", ".join(spaced(plain(b)) for b in body.findall("basecompoundref") if b.get("prot") == "public")
            declaration = template_head(body) + requires_of(body) + f"{kind} {short}" + (f" : {bases}" if bases else "")
        entity = Entity(name, kind, declaration, comment(body), place.get("file"), int(place.get("line")), public_members(body, name))
        by_file[entity.file].append(entity)
    for entities in by_file.values():
        share_comments(entities)
    return by_file


def share_comments(entities):
    """Applies a comment to all names of a declaration, to aliases and constants in the lines right below it, to `try_f` after `f`, and to
    `try_make` after a constructor."""
    ordered = sorted(entities, key=lambda e: e.line)
    commented = {}
    for before, entity in zip(ordered, ordered[1:]):
        if before.text:
            of, name = before.name.split("::")[-2:]
            commented["try_make" if name == of else "try_" + name] = before
        if not entity.text and entity.kind in ("variable", "typedef") and before.kind == entity.kind and entity.line - before.line <= 1:
            entity.text = before.text
        if not entity.text and (throwing := commented.get(entity.name.split("::")[-1])):
            entity.text, entity.bare_params = throwing.text, throwing.bare_params
    for entity in ordered:
        share_comments(entity.members)


def short_name(name):
    """The name as in its declaration."""
    return spaced(re.sub(r"^ferry::(?:\w+::)*(?=\w+(?: ?<|$))", "", name))


def plain_code(element):
    """The code of a concept, with its line breaks."""
    lines = [line.rstrip() for line in "".join(element.itertext()).splitlines()] if element is not None else []
    return "\n".join(lines).strip().rstrip(";")


def anchor(name, header):
    """The anchor of a name on the page of its header; unique in the site, because several headers may have functions with the same name."""
    return re.sub(r"[^a-z0-9]+", "-", f"{header.removeprefix('ferry/')} {operator_words(name)}".lower()).strip("-")


def operator_words(name):
    for sign, word in {"~": "not", "|": "or", "&": "and", "=": "is", "+": "plus", "-": "minus", "<": "less", ">": "more", "!": "no", "*": "star"}.items():
        name = name.replace(sign, f"-{word}-") if "operator" in name else name
    return name


def code_block(declarations):
    return "```cpp\n" + "\n".join(d.rstrip(";") + ";" for d in declarations) + "\n```"


def overloads(entities):
    """Blocks of code and prose. An entity without a comment is in one block with its neighbours."""
    out, bare = [], []
    for entity in entities:
        if entity.text or entity.enumerators:
            if bare:
                out.append(code_block(bare))
                bare = []
            out += [code_block([entity.declaration]), entity.text]
            out += enumerators(entity)
        else:
            bare.append(entity.declaration)
    if bare:
        out.append(code_block(bare))
    return [block for block in out if block]


def enumerators(entity):
    if not entity.enumerators:
        return []
    if not any(text for _, _, text in entity.enumerators):
        return []  # the declaration has their names
    rows = [f"| `{name}`{f' `{value}`' if value else ''} | {text.replace(chr(10), ' ')} |" for name, value, text in entity.enumerators]
    return ["| value | meaning |\n|---|---|\n" + "\n".join(rows)]


def sections(entities):
    """A heading for each name of namespace scope, with all entities of this name in the header."""
    groups = collections.OrderedDict()
    for entity in sorted(entities, key=lambda e: e.line):
        groups.setdefault(entity.name, []).append(entity)
    out = []
    for name, group in groups.items():
        short = spaced(re.sub(r"^ferry::", "", name))
        out.append(f"({anchor(name, group[0].file)})=\n## {escaped(short)}")
        for entity in group:
            if entity.kind in ("class", "struct", "union", "namespace"):
                out.append(code_block([entity.declaration]))
                out.append(entity.text)
                if entity.members:
                    out += [":::::{container} members", *overloads(entity.members), ":::::"]
            else:
                out += overloads([entity])
    return [block for block in out if block]


def lead(header):
    """The sentence at the top of a header, which describes it."""
    lines = []
    for line in header.read_text(encoding="utf-8").splitlines():
        if not line.startswith("//") or line.startswith("// length:"):
            break
        lines.append(line.removeprefix("//").strip())
    text = " ".join(lines).removeprefix("ferry: ")
    return escaped(text[:1].upper() + text[1:])


def write_pages(include, by_file, out):
    """Writes one page for each header and each layer, and a list of the layers; returns {name: page#anchor}."""
    where = {}
    headers = sorted(p.relative_to(include).as_posix() for p in include.rglob("*") if p.suffix in (".hpp", ".cuh"))
    for layer, words in LAYERS.items():
        pages = []
        folder = out / layer
        folder.mkdir(parents=True, exist_ok=True)
        for header in headers:
            if not header.startswith(f"ferry/{layer}/") or header not in by_file:
                continue
            stem = header.removeprefix(f"ferry/{layer}/").replace("/", "-").replace(".", "-").removesuffix("-hpp")
            title = escaped(header.removeprefix("ferry/"))
            # Not in the tree of contents, which would put hundreds of headers beside each page: the layer's page lists them.
            body = ["---\norphan: true\n---", f"# {title}", f"[Reference](../index.md) / [{layer}](index.md)", lead(include / header), f"```cpp\n#include <{header}>\n```", *sections(by_file[header])]
            (folder / f"{stem}.md").write_text("\n\n".join(filter(None, body)) + "\n", encoding="utf-8")
            pages.append(stem)
            for entity in by_file[header]:
                where.setdefault(entity.name, f"api/{layer}/{stem}#{anchor(entity.name, header)}")
        listing = []
        for stem in pages:
            header = next(h for h in headers if h.removeprefix(f"ferry/{layer}/").replace("/", "-").replace(".", "-").removesuffix("-hpp") == stem)
            names = sorted({e.name.removeprefix("ferry::") for e in by_file[header] if "<" not in e.name and "operator" not in e.name})
            listing.append(f"| [{stem}]({stem}.md) | {lead(include / header)} | {', '.join(f'`{n}`' for n in names)} |")
        text = f"# {layer}\n\n{words[:1].upper() + words[1:]}.\n\n| header | | names |\n|---|---|---|\n" + "\n".join(listing)
        (folder / "index.md").write_text(f"{text}\n", encoding="utf-8")
    rows = "\n".join(f"| [{layer}]({layer}/index.md) | {words} |" for layer, words in LAYERS.items())
    toc = "\n".join(f"{layer}/index" for layer in LAYERS)
    umbrellas = "\n".join(f"| `<ferry/{h.name}>` | {lead(h)} |" for h in sorted((include / "ferry").glob("*.hpp")))
    (out / "index.md").write_text(
        "# Reference\n\nEvery public name, by layer and header. A folder includes only folders above it in "
        f"[this list](../design.md#layers).\n\n| layer | |\n|---|---|\n{rows}\n\n"
        f"Headers outside the folders:\n\n| header | |\n|---|---|\n{umbrellas}\n\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n",
        encoding="utf-8",
    )
    return where


def unread(include, by_file):
    """Signs that doxygen misread the headers: a layer without names, a name of fwd.hpp without a page."""
    names = {entity.name for entities in by_file.values() for entity in entities}
    for layer in LAYERS:
        if not any(file.startswith(f"ferry/{layer}/") for file in by_file):
            yield f"no public name in {layer}/"
    for name in re.findall(r"^(?:class|struct|enum class) (\w+)", (include / "ferry/fwd.hpp").read_text(encoding="utf-8"), re.M):
        if f"ferry::{name}" not in names:
            yield f"fwd.hpp declares {name}, and no page has it"


def undocumented(by_file):
    """Public names of namespace scope without a comment. The comment of a template also applies to its specialisations."""
    texts = collections.defaultdict(list)
    for entities in by_file.values():
        for entity in entities:
            texts[entity.name].append(entity)
    for name, entities in sorted(texts.items()):
        if not any(e.text for e in entities) and "<" not in name:
            yield f"{entities[0].file}:{entities[0].line}: {name} has no comment"


# The `try_` forms that are not named after the function that throws.
TRY_FORMS = {
    "ferry::borrowed_tensor::borrowed_tensor": "ferry::try_borrow",
    "ferry::device_of_t::operator()": "ferry::try_device_of",
    "ferry::view_of_t::operator()": "ferry::try_view_of",
    "ferry::host_back_end::allocate": "ferry::buffer::try_allocate",
    "ferry::destination::allocate": "ferry::buffer::try_allocate",
    "ferry::host_space::allocate": "ferry::buffer::try_allocate",
}


def without_try(entities, names):
    """The functions whose comment has \\throws, and of which `names` contains no `try_` form."""
    for entity in (member for e in entities for member in (e, *e.members)):
        scope, _, name = entity.name.rpartition("::")
        throws = entity.kind == "function" and "**Throws**" in entity.text and not name.startswith("try_")
        if not throws or re.match(r"ferry::result\b", scope):
            continue
        if name == scope.rpartition("::")[2]:
            forms = [f"{scope}::try_make", f"{scope}::try_allocate"]
        else:
            forms = [f"{scope}::try_at" if name.startswith("operator") else f"{scope}::try_{name}"]
        if not names.intersection([*forms, TRY_FORMS.get(entity.name)]):
            yield entity


def without_param(entities):
    """(function, parameter) of each parameter without \\param; docs/errors.md describes `where`. Overloads without a comment share the comment of a neighbour."""
    commented = {member.name for e in entities for member in (e, *e.members) if member.text}
    for entity in (member for e in entities for member in (e, *e.members)):
        trivial = re.search(r"= (delete|default)$|\boperator ?(==|!=|<=>|=)", entity.declaration)
        if not trivial and (entity.text or entity.name not in commented):
            yield from ((entity, parameter) for parameter in entity.bare_params if parameter != "where")
