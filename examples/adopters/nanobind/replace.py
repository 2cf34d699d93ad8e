"""Writes nanobind's nb_ndarray.cpp without the definitions that ndarray.hpp contains, and includes that file instead.

Usage: replace.py NB_NDARRAY_CPP OUTPUT
"""

import pathlib
import re
import sys

# The first line of each definition, which ends with the next line that starts with a closing brace.
REPLACED = """
struct managed_dltensor {
struct managed_dltensor_versioned {
static void mt_from_buffer_delete(
struct ndarray_handle {
static int nb_ndarray_getbuffer(
static void nb_ndarray_releasebuffer(
static PyObject *nb_ndarray_dlpack(
static PyObject *nb_ndarray_dlpack_device(
static mt_unique_ptr_t make_mt_from_buffer_protocol(
static NB_INLINE bool dtype_code_is_complex(
static ndarray_handle *ndarray_import_impl(
dlpack::dltensor *ndarray_inc_ref(
static void ndarray_dec_ref_free(
void ndarray_dec_ref(
ndarray_handle *ndarray_create(
""".strip().splitlines()
TEMPLATES = ["static void mt_from_handle_delete(", "static void capsule_delete("]


def without(text: str, start: str) -> str:
    begin = text.index("\n" + start) + 1
    end = re.compile(r"^\};?\n", re.M).search(text, begin)
    assert end, f"no end of {start}"
    return text[:begin] + text[end.end() :]


def main(source: str, output: str) -> None:
    text = pathlib.Path(source).read_text()
    for start in REPLACED:
        text = without(text, start)
    for start in TEMPLATES:
        text = re.sub(rf"^template ?<[^>]*>\n(?={re.escape(start)})", "", text, flags=re.M)
        text = without(text, start)
    text = re.sub(r"^using mt_unique_ptr_t[^;]*;\n", "", text, flags=re.M)
    text = re.sub(r"^static constexpr int32_t max_ndim[^;]*;\n", "", text, flags=re.M)
    text = text.replace('#include "nb_internals.h"\n', '#include "nb_internals.h"\n#include "ndarray.hpp"\n')
    imports = text.index("ndarray_handle *ndarray_import(")
    end, begin = "NAMESPACE_END(detail)\nNAMESPACE_END(NB_NAMESPACE)\n", "NAMESPACE_BEGIN(NB_NAMESPACE)\nNAMESPACE_BEGIN(detail)\n"
    text = f'{text[:imports]}{end}#include "ndarray_import.hpp"\n{begin}\n{text[imports:]}'
    pathlib.Path(output).write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
