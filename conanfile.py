"""ferry as a Conan 2 package: headers, CMake files and the licence, and ferry::compiled with header_only=False. The version is that of version.hpp."""

import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain
from conan.tools.files import copy, load, rmdir
from conan.tools.scm import Version

required_conan_version = ">=2.0"


class Ferry(ConanFile):
    name = "ferry"
    description = "Tensors and columns carried between libraries, devices and processes: DLPack in C++20"
    license = "Apache-2.0"
    topics = ("dlpack", "tensor", "arrow", "cuda", "zero-copy", "header-only")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"header_only": [True, False], "shared": [True, False]}
    default_options = {"header_only": True, "shared": False}
    implements = ["auto_header_only"]
    exports_sources = "CMakeLists.txt", "cmake/ferry*", "include/*", "packaging/conformance/include/*", "LICENSE"
    no_copy_source = True

    def set_version(self):
        text = load(self, os.path.join(self.recipe_folder, "include", "ferry", "version.hpp"))
        self.version = ".".join(re.findall(r"#define FERRY_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text))

    def export(self):
        copy(self, "include/ferry/version.hpp", self.recipe_folder, self.export_folder)  # where set_version reads

    def requirements(self):
        self.requires("dlpack/[>=1.0 <2]", transitive_headers=True)

    def validate(self):
        if self.settings.get_safe("compiler.cppstd"):
            check_min_cppstd(self, 20)
        oldest = {"gcc": "12", "clang": "16", "msvc": "194"}.get(str(self.settings.compiler))
        if oldest and Version(self.settings.compiler.version) < oldest:
            raise ConanInvalidConfiguration(
                f"ferry needs GCC 12, Clang 16 or Visual Studio 2022 17.10, or newer, not {self.settings.compiler} {self.settings.compiler.version}"
            )

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("TESTS", "EXAMPLES", "BENCH"):
            toolchain.cache_variables[f"FERRY_BUILD_{part}"] = False
        if not self.options.header_only:
            toolchain.cache_variables["FERRY_COMPONENTS"] = "compiled"
            CMakeDeps(self).generate()
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        rmdir(self, os.path.join(self.package_folder, "share", "licenses"))

    def package_info(self):
        self.cpp_info.bindirs = []
        if self.options.header_only:
            self.cpp_info.libdirs = []
        else:
            self.cpp_info.libs = ["ferry_compiled"]
        # find_package finds ferry's own configuration, which knows the components and says what they miss.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("share", "cmake", "ferry")]
