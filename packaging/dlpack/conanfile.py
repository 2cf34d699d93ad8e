"""DLPack's header as a Conan 2 package, for remotes without DLPack 1.x: DLPACK names the folder that contains dlpack/dlpack.h."""

import os
import re

from conan import ConanFile
from conan.errors import ConanException
from conan.tools.files import copy, load


class DLPack(ConanFile):
    name = "dlpack"
    description = "The header of DLPack"
    license = "Apache-2.0"
    package_type = "header-library"
    no_copy_source = True

    def set_version(self):
        header = os.path.join(os.environ.get("DLPACK", ""), "dlpack", "dlpack.h")
        if not os.path.exists(header):
            raise ConanException("set DLPACK to the folder that contains dlpack/dlpack.h: tvm-ffi-config --dlpack-includedir prints one")
        self.version = ".".join(re.findall(r"#define DLPACK_(?:MAJOR|MINOR)_VERSION (\d+)", load(self, header)))

    def export_sources(self):
        copy(self, "dlpack/dlpack.h", os.environ["DLPACK"], os.path.join(self.export_sources_folder, "include"))

    def package(self):
        copy(self, "*", os.path.join(self.source_folder, "include"), os.path.join(self.package_folder, "include"))

    def package_id(self):
        self.info.clear()

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
