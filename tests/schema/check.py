"""Holds the JSON of descriptors to docs/schema/descriptor-2.json: every document that ferry writes is valid, what the schema refuses
ferry refuses too, and the checksum and the canonical form are those of another implementation.

usage: check.py PROGRAM   (tests/schema/documents.cpp, built)
Exits with 77, which CTest counts as skipped, where Python has no jsonschema.
"""

import copy
import json
import pathlib
import subprocess
import sys

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "docs" / "schema" / "descriptor-2.json"


# [checksum]
def table_entry(byte):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


TABLE = [table_entry(byte) for byte in range(256)]


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def checksum(document):
    rest = {key: value for key, value in document.items() if key != "checksum"}
    return crc32c(json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())
# [/checksum]


def sealed(document):
    return {**document, "checksum": checksum(document)}


def paths(value, here=()):
    if here:
        yield here
    if isinstance(value, dict):
        items = list(value.items())
    else:
        items = list(enumerate(value))[:2] if isinstance(value, list) else []
    for key, member in items:
        yield from paths(member, (*here, key))


def mutations(document):
    """The document with each member removed, and with each replaced by values of other kinds and at the ends of ranges."""
    others = [None, "", "x", "7", True, -1, 0, 256, 2**31, 2**53 + 1, 0.5, [], {}]
    for path in paths(document):
        for other in [..., *others]:
            changed = copy.deepcopy(document)
            parent = changed
            for key in path[:-1]:
                parent = parent[key]
            if other is ...:
                del parent[path[-1]]
            else:
                parent[path[-1]] = other
            if path != ("checksum",):
                changed = sealed(changed)
            yield changed


def answers(program, documents):
    text = "".join(json.dumps(document) + "\n" for document in documents)
    result = subprocess.run([program, "read"], input=text, stdout=subprocess.PIPE, text=True, check=True)
    lines = result.stdout.splitlines()
    assert len(lines) == len(documents), (len(lines), len(documents))
    return lines


def main(program):
    try:
        from jsonschema import Draft202012Validator
    except ImportError:
        print("SKIPPED: no jsonschema in this Python: pip install jsonschema")
        return 77
    assert crc32c(b"123456789") == 0xE3069283
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)

    lines = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    samples = {name: json.loads(text) for name, text in (line.split("\t") for line in lines)}
    assert len(samples) >= 15
    for name, document in samples.items():
        validator.validate(document)
        assert document["checksum"] == checksum(document), name
    turned = [dict(reversed(document.items())) for document in samples.values()]
    for document, answer in zip(samples.values(), answers(program, turned)):
        assert json.loads(answer) == document, answer

    # A schema may let pass what ferry refuses (a bound, a wrong checksum), never the other way round.
    refused = accepted = 0
    for name, document in samples.items():
        changed = list(mutations(document))
        for one, answer in zip(changed, answers(program, changed)):
            valid = validator.is_valid(one)
            read = not answer.startswith("error: ")
            if read and not valid:
                why = next(validator.iter_errors(one)).message
                raise AssertionError(f"{name}: ferry reads what the schema refuses: {why}: {json.dumps(one)}")
            refused += not valid
            accepted += read
    assert refused > 1000 and accepted > 100, (refused, accepted)
    print(f"{len(samples)} documents are valid; of their changes the schema refuses {refused}, ferry reads {accepted}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
