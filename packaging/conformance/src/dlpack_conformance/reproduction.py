"""Extracts a self-contained script that runs one case on one library."""

import ast
import functools
import pathlib
import subprocess
import sys
import textwrap

from . import plugin
from .case import CASES
from .loading import class_of, file_of

TAIL = '''
library = {kind}()
try:
    {case}(library)
except Broken as broken:
    print("broken:", broken)
    print("  call:", library.said, library.offered or library.made)
    sys.exit(1)
except (NotApplicable, Cannot) as reason:
    sys.exit(f"not applicable: {{reason}}")
print("kept")
'''


class Module:
    """The definitions of a file by name, and the modules of its imports."""

    def __init__(self, path):
        self.source = pathlib.Path(path).read_text(encoding="utf-8")
        self.definitions, self.imports, self.foreign = {}, {}, {}
        for node in ast.parse(self.source).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                self.definitions[node.name] = node
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    for name in ast.walk(target):
                        if isinstance(name, ast.Name):
                            self.definitions[name.id] = node
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    self.imports[alias.asname or alias.name] = ast.unparse(ast.Import([alias]))
            elif isinstance(node, ast.ImportFrom):
                own = node.level or (node.module or "").startswith("dlpack_conformance")
                for alias in node.names:
                    if own:
                        self.foreign[alias.asname or alias.name] = (node.module or "").rpartition(".")[2]
                    else:
                        self.imports[alias.asname or alias.name] = f"from {node.module} import {ast.unparse(alias)}"

    def text(self, node, attributes=None):
        """Returns the source of a definition without the package's decorators; of a plug-in only the methods that are called."""
        lines = self.source.splitlines()
        decorators = getattr(node, "decorator_list", [])
        ours = [d for d in decorators if isinstance(d, ast.Call) and getattr(d.func, "id", "") == "case"]
        first = node.lineno if not decorators or ours else min(d.lineno for d in decorators)
        if attributes is None or not isinstance(node, ast.ClassDef):
            return "\n".join(lines[first - 1 : node.end_lineno])
        kept = lines[first - 1 : node.body[0].lineno - 1]
        for part in node.body:
            name = getattr(part, "name", None)
            if name is None or name in attributes or name.startswith("__"):
                kept += lines[part.lineno - 1 : part.end_lineno] + [""] * isinstance(part, ast.FunctionDef)
        return "\n".join(kept).rstrip()


module_of = functools.cache(Module)


@functools.cache
def names_in(text):
    found, attributes = set(), set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            attributes.add(node.attr)
    return found, attributes


def script(key, spec, observed=""):
    """Returns a program that runs one case; it prints the evidence and exits with 1 if the rule is broken. `observed`: where, and the evidence."""
    kind, (path, _) = class_of(spec), file_of(spec)
    here = pathlib.Path(__file__).parent
    files = {p.stem: p for p in (*here.glob("*.py"), *(here / "plugins").glob("*.py"))}
    modules = {name: module_of(p) for name, p in files.items()}
    modules["the plug-in"] = module_of(path)
    home = CASES[key].run.__module__.rpartition(".")[2]
    layouts = {"as_" + name for name in plugin.LAYOUTS}
    # Adds the plug-in's methods that the collected source calls, until there are no more.
    attributes = set()
    while True:
        wanted = [(home, CASES[key].run.__name__), ("the plug-in", kind.__name__)]
        wanted += [("case", n) for n in ("Broken", "NotApplicable")] + [("plugin", "Cannot")]
        seen, parts, imports, called = set(), {}, {"sys": "import sys"}, set()
        while wanted:
            where, name = wanted.pop()
            module = modules[where]
            if name in module.foreign:
                where = module.foreign[name]
                module = modules[where]
            if name in module.imports:
                imports[name] = module.imports[name]
            node = module.definitions.get(name)
            if node is None or (where, node.lineno) in seen:
                continue
            seen.add((where, node.lineno))
            is_plugin = where in ("plugin", "the plug-in") or (where in files and files[where].parent.name == "plugins")
            text = module.text(node, attributes if is_plugin else None)
            parts[where, node.lineno] = text
            names, used = names_in(text)
            called |= used
            wanted += [(where, n) for n in names]
        called |= layouts if "array" in called else set()
        if called <= attributes:
            break
        attributes |= called
    order = {"dlpack": 0, "plugin": 1, "case": 2, "the plug-in": 4, home: 5}
    inner = sorted(parts, key=lambda at: (order.get(at[0], 3), at[1]))
    case = CASES[key]
    title = f"{kind.name}: {case.name.replace('_', ' ')} ({case.role})"
    parts_of_head = [title, case.says, observed, "This script needs only the library. It prints what is broken, and exits with status 1."]
    head = "\n\n".join(textwrap.fill(part, 100, break_on_hyphens=False) for part in parts_of_head if part)
    head = f'"""{head.translate({92: "/", 34: 39})}\n"""'
    body = "\n\n\n".join(parts[at] for at in inner)
    tail = TAIL.format(kind=kind.__name__, case=case.name)
    return f"{head}\n\n{grouped(imports.values())}\n\n\n{body}\n\n{tail}"


def grouped(imports):
    """Returns import statements, one per module."""
    plain = sorted({line for line in imports if line.startswith("import ")})
    names = {}
    for line in imports:
        if line.startswith("from "):
            _, module, _, name = line.split(" ", 3)
            names.setdefault(module, set()).add(name)
    return "\n".join(plain + [f"from {module} import {', '.join(sorted(of))}" for module, of in sorted(names.items())])


def confirms(key, spec, timeout=120.0):
    """Runs the script; returns how it shows the break (evidence, hang or signal), otherwise nothing."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", script(key, spec)], capture_output=True, text=True, errors="replace", timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return "timeout"
    if done.returncode == 1 and done.stdout.startswith("broken:"):
        return done.stdout.splitlines()[0]
    if done.returncode < 0:
        return f"the process was terminated by signal {-done.returncode}"
    return ""


