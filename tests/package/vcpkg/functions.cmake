# Runs a portfile with the functions that vcpkg gives it, as far as ferry's port uses them, and holds the package to what vcpkg
# checks after a build: cmake -D PORT_DIR=... -D ROOT=... -D FEATURES=... -P functions.cmake
cmake_minimum_required(VERSION 3.25)

file(READ "${PORT_DIR}/vcpkg.json" manifest)
string(JSON PORT GET "${manifest}" name)
string(JSON VERSION GET "${manifest}" version)
set(CURRENT_PORT_DIR "${PORT_DIR}")
set(TARGET_TRIPLET x64-linux)
set(CURRENT_PACKAGES_DIR "${ROOT}/packages/${PORT}_${TARGET_TRIPLET}")
set(CURRENT_BUILDTREES_DIR "${ROOT}/buildtrees/${PORT}")
set(CURRENT_INSTALLED_DIR "${ROOT}/installed/${TARGET_TRIPLET}")
file(MAKE_DIRECTORY "${CURRENT_BUILDTREES_DIR}" "${CURRENT_PACKAGES_DIR}")

function(run)
    execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# VCPKG_TEST_ARCHIVE is the archive of the release; its checksum must be that of the port.
function(vcpkg_download_distfile out)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "URLS;FILENAME;SHA512" "")
    file(SHA512 "$ENV{VCPKG_TEST_ARCHIVE}" checksum)
    if(arg_UNPARSED_ARGUMENTS OR NOT arg_URLS MATCHES "^https://.*/v${VERSION}/${arg_FILENAME}$" OR NOT arg_SHA512 STREQUAL checksum)
        message(FATAL_ERROR "vcpkg_download_distfile(${ARGV})")
    endif()
    set(${out} "$ENV{VCPKG_TEST_ARCHIVE}" PARENT_SCOPE)
endfunction()

# vcpkg leaves out the first folder of the paths in the archive.
function(vcpkg_extract_source_archive out)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "ARCHIVE" "")
    file(ARCHIVE_EXTRACT INPUT "${arg_ARCHIVE}" DESTINATION "${CURRENT_BUILDTREES_DIR}/src")
    file(GLOB source "${CURRENT_BUILDTREES_DIR}/src/*")
    set(${out} "${source}" PARENT_SCOPE)
endfunction()

function(vcpkg_cmake_configure)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
    if(arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "vcpkg_cmake_configure(${ARGN})")
    endif()
    run(${CMAKE_COMMAND} -G Ninja -S "${arg_SOURCE_PATH}" -B "${CURRENT_BUILDTREES_DIR}/${TARGET_TRIPLET}-rel"
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR} -DCMAKE_PREFIX_PATH=${CURRENT_INSTALLED_DIR}
        -DBUILD_SHARED_LIBS=OFF -DFETCHCONTENT_FULLY_DISCONNECTED=ON ${arg_OPTIONS}
    )
endfunction()

function(vcpkg_cmake_install)
    run(${CMAKE_COMMAND} --build "${CURRENT_BUILDTREES_DIR}/${TARGET_TRIPLET}-rel" --target install)
endfunction()

# Moves the CMake files to share/PORT, and lets them find the prefix from there.
function(vcpkg_cmake_config_fixup)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "CONFIG_PATH;PACKAGE_NAME" "")
    file(GLOB files "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/*")
    file(COPY ${files} DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
    file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}")
    cmake_path(GET arg_CONFIG_PATH PARENT_PATH parent)
    file(GLOB left "${CURRENT_PACKAGES_DIR}/${parent}/*")
    if(NOT left)
        file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/${parent}")
    endif()
    file(GLOB files "${CURRENT_PACKAGES_DIR}/share/${PORT}/*.cmake")
    foreach(file IN LISTS files)
        file(READ "${file}" text)
        string(REGEX REPLACE
            "get_filename_component\\(_IMPORT_PREFIX \"\\\${CMAKE_CURRENT_LIST_FILE}\" PATH\\)(\nget_filename_component\\(_IMPORT_PREFIX \"\\\${_IMPORT_PREFIX}\" PATH\\))*"
            "get_filename_component(_IMPORT_PREFIX \"\${CMAKE_CURRENT_LIST_DIR}/../..\" ABSOLUTE)" text "${text}"
        )
        file(WRITE "${file}" "${text}")
    endforeach()
endfunction()

# vcpkg writes where the prefix is, seen from the file.
function(vcpkg_fixup_pkgconfig)
    file(GLOB files "${CURRENT_PACKAGES_DIR}/share/pkgconfig/*.pc" "${CURRENT_PACKAGES_DIR}/lib/pkgconfig/*.pc")
    foreach(file IN LISTS files)
        file(READ "${file}" text)
        string(REGEX REPLACE "(^|\n)prefix[ \t]*=[^\n]*" "" text "${text}")
        file(WRITE "${file}" "prefix=\${pcfiledir}/../..\n${text}")
    endforeach()
endfunction()

function(vcpkg_install_copyright)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "COMMENT" "FILE_LIST")
    file(COPY_FILE ${arg_FILE_LIST} "${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright")
endfunction()

set(CMAKE_CURRENT_LIST_DIR "${PORT_DIR}")
include("${PORT_DIR}/portfile.cmake")

# After the build.
file(GLOB_RECURSE entries LIST_DIRECTORIES true RELATIVE "${CURRENT_PACKAGES_DIR}" "${CURRENT_PACKAGES_DIR}/*")
foreach(needed IN ITEMS share/${PORT}/copyright share/${PORT}/usage share/${PORT}/${PORT}-config.cmake include)
    if(NOT needed IN_LIST entries)
        message(FATAL_ERROR "the port installed no ${needed}")
    endif()
endforeach()
foreach(entry IN LISTS entries)
    if(IS_DIRECTORY "${CURRENT_PACKAGES_DIR}/${entry}")
        file(GLOB within "${CURRENT_PACKAGES_DIR}/${entry}/*")
        if(NOT within)
            message(FATAL_ERROR "the port left ${entry} empty")
        endif()
        if(entry MATCHES "^(debug|bin|share/cmake|share/man|share/doc)(/|$)" OR (NOT FEATURES AND entry MATCHES "^lib(/|$)"))
            message(FATAL_ERROR "the port installed ${entry}, where a header-only one has nothing")
        endif()
    elseif(NOT entry MATCHES "^include/|\\.a$")
        file(READ "${CURRENT_PACKAGES_DIR}/${entry}" text)
        foreach(path IN ITEMS "${ROOT}" "${SOURCE_PATH}")
            string(FIND "${text}" "${path}" at)
            if(NOT at EQUAL -1)
                message(FATAL_ERROR "${entry} names ${path}: the package cannot be moved")
            endif()
        endforeach()
    endif()
endforeach()
