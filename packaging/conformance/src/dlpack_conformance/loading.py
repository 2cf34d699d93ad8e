"""Finds the plug-in of a command-line argument: a name, or a file with a class."""

import importlib.util
import pathlib

from . import consumer, handshake, producer, table  # noqa: F401: registers their cases
from .case import told
from .plugin import Library
from .plugins import FILES


class LoadError(Exception):
    """Raised when the plug-in or its library cannot be loaded; the text contains the name and the reason."""


def file_of(spec):
    """Returns the file of a plug-in, and its class if it is named."""
    if spec in FILES:
        return pathlib.Path(__file__).with_name("plugins") / FILES[spec], None
    path, _, name = spec.partition(".py:")
    if name:
        path += ".py"
    return pathlib.Path(path), name or None


def class_of(spec):
    path, name = file_of(spec)
    if not path.is_file():
        known = ", ".join(FILES)
        raise LoadError(f"there is no plug-in {spec!r}: neither one of {known}, nor a file FILE.py or FILE.py:CLASS")
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(f"plugin_{path.stem}", path))
    try:
        module.__spec__.loader.exec_module(module)
    except BaseException as error:
        raise LoadError(f"{path.name} cannot be imported: {told(error)}") from error
    own = [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, Library) and c.__module__ == module.__name__]
    found = [c for c in own if c.__name__ == name or c.name == name] if name else own
    if spec in FILES:
        found = [c for c in own if c.name == spec]
    if len(found) != 1:
        raise LoadError(f"{path.name} has {len(found)} classes {name or 'derived from Library'}; say FILE.py:CLASS")
    return found[0]


def load(spec):
    found = class_of(spec)
    try:
        return found()
    except BaseException as error:
        raise LoadError(f"{found.name or spec}: {told(error)}") from error
