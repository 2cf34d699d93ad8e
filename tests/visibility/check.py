"""No variable of a back end is shared with other extension modules, which another version of ferry may have built.

usage: check.py NM MODULE [cuda]
"""

import re
import subprocess
import sys


def main():
    nm, module = sys.argv[1:3]

    def symbols(*options):
        listed = subprocess.run([nm, "--defined-only", "-C", *options, module], capture_output=True, text=True, check=True).stdout
        found = re.findall(r"^\S+ (\S) (.*ferry::v[0-9]+::(?:python|cuda)::.*)", listed, re.MULTILINE)
        return [name for kind, name in found if kind in "uVvBbDdRrGgSs" and not name.startswith(("typeinfo", "vtable"))]

    expected = ["names()::cached", "detail::copy_needed", "methods<", "column_methods<", "exchange_table<", "tensor_object<"]
    expected += ["producer_cache::known()::cache"]
    if "cuda" in sys.argv[3:]:
        expected += ["cuda_interface_of<", "driver()::api", "idle_events::all()::one", "deferred_frees::all()::one", "thread_events::of_this_thread()::mine", "::primaries"]
    missing = [name for name in expected if not any(name in symbol for symbol in symbols())]
    if missing:
        sys.exit(f"the module holds no {', '.join(missing)}: nothing is shown")
    shared = symbols("-D")
    if shared:
        sys.exit("shared with other modules (FERRY_HIDDEN is missing):\n" + "\n".join(shared))


if __name__ == "__main__":
    main()
