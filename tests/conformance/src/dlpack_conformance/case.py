"""What a case is: a function of one library that returns when the rule is kept."""

import gc
import textwrap
from dataclasses import dataclass
from typing import Any, Callable


class Broken(Exception):
    """The library breaks the rule; the text is the evidence."""


class NotApplicable(Exception):
    """The library has nothing that the rule speaks of; the text is the reason."""


@dataclass(frozen=True)
class Case:
    rule: str
    who: str  # producer, consumer, table, or handshake (needs a device)
    name: str
    says: str  # where the demand is written down
    force: str  # must, or should: what a source only recommends, or what several libraries hold and no text demands
    alone: bool  # a process of its own
    run: Callable[[Any], None]

    @property
    def key(self):
        return f"{self.rule}/{self.who}/{self.name}"


CASES = {}


def case(rule, who, says, force="must", alone=False):
    def register(function):
        made = Case(rule, who, function.__name__, says, force, alone, function)
        assert made.key not in CASES
        CASES[made.key] = made
        return function

    return register


def require(condition, evidence):
    if not condition:
        raise Broken(evidence)


def told(error):
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {textwrap.shorten(lines[0], 160, placeholder=' …')}" if lines else type(error).__name__


def spelled(arguments):
    return ", ".join(f"{k}={v!r}" for k, v in arguments.items())


def export(library, x, **arguments):
    """A capsule; a refusal is evidence."""
    library.said = f"x.__dlpack__({spelled(arguments)})"
    try:
        return x.__dlpack__(**arguments)
    except Exception as error:
        raise Broken(f"it raised {told(error)}") from error


def refused_export(library, x, **arguments):
    """The error of an export that must not work."""
    library.said = f"x.__dlpack__({spelled(arguments)})"
    try:
        x.__dlpack__(**arguments)
    except Exception as error:
        return error
    raise Broken("it raised nothing and returned a capsule")


def accept(library, offered, **how):
    """The array that an import returns; a refusal is evidence."""
    library.said = f"{library.call}(x{', ' if how else ''}{spelled(how)})"
    library.offered = offered
    try:
        return library.take(offered, **how)
    except Exception as error:
        text = told(error)
    gc.collect()
    raise Broken(f"it refused: {text}")


def refuse(library, offered, **how):
    """The text of the error of an import that must not work."""
    library.said = f"{library.call}(x{', ' if how else ''}{spelled(how)})"
    library.offered = offered
    try:
        array = library.take(offered, **how)
    except SystemError as error:
        raise Broken(f"it left Python's error indicator in disorder: {told(error)}") from error
    except Exception as error:
        return told(error)
    raise Broken(f"it accepted it as {library.described(array)}")


def try_import(library, offered, **how):
    """The array, or None and the text of the refusal."""
    library.said = f"{library.call}(x{', ' if how else ''}{spelled(how)})"
    library.offered = offered
    try:
        return library.take(offered, **how), None
    except SystemError as error:
        raise Broken(f"it left Python's error indicator in disorder: {told(error)}") from error
    except Exception as error:
        return None, told(error)
