"""Exports and imports that can only share contain no function that copies.

usage: share.py NM OBJECT
"""

import re
import subprocess
import sys

listed = subprocess.run([sys.argv[1], "--defined-only", sys.argv[2]], capture_output=True, text=True, check=True).stdout
functions = re.findall(r"^\S+ \S (_ZNK?5ferry2v0\S*)", listed, re.MULTILINE)
for call in ("to_dlpackI7numbers", "from_dlpackINS0_14managed_tensor", "from_dlpackI5bytes", "from_dlpackI5plain"):
    if not any(call in name for name in functions):
        sys.exit(f"the object does not contain {call}")
copies = [name for name in functions if re.search(r"copy_plan|copy_into|on_host|6bufferI", name)]
if copies:
    sys.exit("functions of the copy engine:\n" + "\n".join(copies))
