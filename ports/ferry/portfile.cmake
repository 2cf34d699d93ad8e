set(components "")
if("compiled" IN_LIST FEATURES)
    set(components compiled)
else()
    set(VCPKG_BUILD_TYPE release) # header-only
endif()

if(EXISTS "${CURRENT_PORT_DIR}/../../include/ferry/version.hpp")
    # An overlay port in ferry's own tree: the tree is the source.
    get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../.." ABSOLUTE)
else()
    # In a registry: the archive of the release. packaging/release writes its SHA512 into the port that it publishes.
    vcpkg_download_distfile(archive
        URLS "https://github.com/ferry/ferry/releases/download/v${VERSION}/ferry-${VERSION}.tar.gz"
        FILENAME "ferry-${VERSION}.tar.gz"
        SHA512 0
    )
    vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${archive}")
endif()

vcpkg_cmake_configure(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS
        -DFERRY_BUILD_TESTS=OFF
        -DFERRY_BUILD_EXAMPLES=OFF
        -DFERRY_BUILD_BENCH=OFF
        -DFERRY_PYTHON=OFF
        "-DFERRY_COMPONENTS=${components}"
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/ferry)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/licenses" "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
