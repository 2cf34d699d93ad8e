"""The process in which a library runs: it is asked for cases on its standard input and answers on its standard output, in JSON.

usage: python -m dlpack_conformance.worker PLUG-IN NOTES [alone]      NOTES: a file for what is being called
"""

import json
import os
import sys
import traceback

from .case import CASES, Broken, NotApplicable, told, verdict
from .loading import LoadError, load
from .plugin import Cannot


# The cases that run for arrays that the host cannot read.
OF_THE_STRUCT = {
    "major_version_is_one", "copy_is_flagged", "shared_memory_is_not_flagged_as_copied", "unknown_flags_are_zero", "byte_offset_is_zero",
    "strides_are_not_null_if_the_version_requires_them", "data_without_elements_is_null", "arrays_without_elements_can_be_exported",
    "device_is_a_pair_and_matches_the_capsule", "unknown_device_is_a_buffer_error", "all_keywords_are_accepted",
    "positional_arguments_are_a_type_error", "unknown_keywords_are_a_type_error", "none_shares", "false_shares", "versioned_struct_is_available",
    "newer_requests_return_the_own_version", "copy_true_never_shares", "copy_true_is_supported", "capsules_have_the_right_names", "writable_is_not_flagged",
}  # fmt: skip


def outcome_of(library, key):
    """Runs a case; returns (outcome, evidence) for every behaviour other than the end of the process."""
    case = CASES[key]
    if not (library.consumes if case.role == "consumer" else library.produces):
        return "n/a", library.without or "the plug-in says that the library has no such half"
    if not library.host_cases and case.role != "handshake" and (case.role != "producer" or case.name not in OF_THE_STRUCT):
        return "n/a", "the case reads memory of the host"
    try:
        case.run(library)
    except Broken as broken:
        return verdict(key, library.standard), str(broken)
    except (NotApplicable, Cannot) as reason:
        return "n/a", str(reason)
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return "failed", f"{told(error)} ({os.path.basename(where.filename)}:{where.lineno})"
    return "kept", ""


def call_of(library):
    offered = "" if library.offered == "" else f"x: {library.offered!r}"
    made = f"x: {library.made}" if library.made else ""
    return "; ".join(part for part in (library.said, offered or made) if part)


def watch(library, notes):
    """Records each call before it is made, so that the parent process can report the call of a crash."""

    def note(self, name, value):
        object.__setattr__(self, name, value)
        if name in ("said", "offered", "made"):
            notes.seek(0)
            notes.write(call_of(self).encode()[:2000].ljust(2000))

    library.__class__ = type(type(library).__name__, (type(library),), {"__setattr__": note})


def main():
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # separates the output of libraries from the answers
    spec, notes, alone = sys.argv[1], open(sys.argv[2], "wb", buffering=0), sys.argv[3:] == ["alone"]

    def answer(**fields):
        answers.write(json.dumps(fields) + "\n")

    try:
        library = load(spec)
        watch(library, notes)
        answer(name=library.name, version=library.version(), call=library.call, standard=library.standard, by=library.by)
    except LoadError as error:
        return answer(error=str(error))
    for line in sys.stdin:
        library.said = library.offered = library.made = ""
        outcome, evidence = outcome_of(library, line.strip())
        answer(outcome=outcome, evidence=evidence, call=call_of(library))
        if alone:
            return  # the interpreter is finalised as in any program
    os._exit(0)


if __name__ == "__main__":
    main()
