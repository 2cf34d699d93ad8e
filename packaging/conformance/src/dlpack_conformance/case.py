"""Cases: functions of a library that check one rule, and return when it is kept."""

import gc
from dataclasses import dataclass
from typing import Any, Callable


class Broken(Exception):
    """Raised when the library breaks the rule; the text is the evidence."""


class NotApplicable(Exception):
    """Raised when the rule does not apply to the library; the text is the reason."""


@dataclass(frozen=True)
class Case:
    rule: str
    role: str  # producer, consumer, table, or handshake (needs a device)
    name: str
    says: str  # the source of the rule; for `must` the sentence that requires it
    force: str  # must; or should, for recommendations and for conventions of several libraries without a text
    alone: bool  # runs in a separate process
    run: Callable[[Any], None]

    @property
    def key(self):
        return f"{self.rule}/{self.role}/{self.name}"


CASES = {}


def case(rule, role, says, force="must", alone=False):
    def register(function):
        made = Case(rule, role, function.__name__, says, force, alone, function)
        assert made.key not in CASES
        CASES[made.key] = made
        return function

    return register


def verdict(key, standard):
    """What a violation is: a recommendation has no force, nor has a sentence of the array API for a library that does not follow it."""
    case = CASES[key]
    return "broken" if case.force == "must" and (standard or not case.says.startswith("array API")) else "departs"


def require(condition, evidence):
    if not condition:
        raise Broken(evidence)


def told(error):
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {' '.join(lines[0].split())}" if lines else type(error).__name__


def spelled(arguments):
    return ", ".join(f"{k}={v!r}" for k, v in arguments.items())


def export(library, x, **arguments):
    """Exports a capsule; an error of the library breaks the rule."""
    library.said = f"x.__dlpack__({spelled(arguments)})"
    try:
        return x.__dlpack__(**arguments)
    except Exception as error:
        raise Broken(f"it raised {told(error)}") from error


def refused_export(library, x, **arguments):
    """Returns the error of an export that must fail."""
    library.said = f"x.__dlpack__({spelled(arguments)})"
    try:
        x.__dlpack__(**arguments)
    except Exception as error:
        return error
    raise Broken("it raised nothing and returned a capsule")


def accept(library, offered, **how):
    """Imports an array; an error of the library breaks the rule."""
    library.said = f"{library.call}(x{', ' if how else ''}{spelled(how)})"
    library.offered = offered
    try:
        return library.take(offered, **how)
    except Exception as error:
        text = told(error)
    gc.collect()
    raise Broken(f"it refused the tensor: {text}")


def refuse(library, offered, **how):
    """Returns the text of the error of an import that must fail."""
    library.said = f"{library.call}(x{', ' if how else ''}{spelled(how)})"
    library.offered = offered
    try:
        array = library.take(offered, **how)
    except SystemError as error:
        raise Broken(f"it left an inconsistent Python error indicator: {told(error)}") from error
    except Exception as error:
        return told(error)
    raise Broken(f"it accepted the tensor as {library.described(array)}")


def try_import(library, offered, **how):
    """Returns the array, or None and the text of the error."""
    library.said = f"{library.call}(x{', ' if how else ''}{spelled(how)})"
    library.offered = offered
    try:
        return library.take(offered, **how), None
    except SystemError as error:
        raise Broken(f"it left an inconsistent Python error indicator: {told(error)}") from error
    except Exception as error:
        return None, told(error)
