"""Holds the JSON of descriptors to docs/schema/descriptor-2.json: every document that ferry writes is valid, and its checksum and
canonical form are those of another implementation.

usage: check.py PROGRAM   (tests/schema/documents.cpp, built)
Exits with 77, which CTest counts as skipped, where Python has no jsonschema.
"""

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


def canonical(document):
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def checksum(document):
    return crc32c(canonical({key: value for key, value in document.items() if key != "checksum"}).encode())
# [/checksum]


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
    assert len(lines) >= 15
    for line in lines:
        name, text = line.split("\t")
        document = json.loads(text)
        validator.validate(document)
        assert text == canonical(document) and document["checksum"] == checksum(document), name
    print(f"{len(lines)} documents are valid")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
