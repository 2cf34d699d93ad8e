# Creates the target dlpack::dlpack for DLPack 1.0 or newer. If DLPack is not found, sets `missing` to a message for the
# user. ferry's build and its installed package search in this order: an existing target, FERRY_DLPACK_INCLUDE_DIR, an
# installed package, a header on the search path, the header in the wheel of apache-tvm-ffi and, with
# FERRY_FETCH_DLPACK, the release pinned below.
function(ferry_find_dlpack missing)
    set(${missing} "" PARENT_SCOPE)
    set(cure
        "Set FERRY_DLPACK_INCLUDE_DIR to the folder that contains dlpack/dlpack.h (`pip install apache-tvm-ffi` installs one: \
`tvm-ffi-config --dlpack-includedir`), install DLPack 1.x, or set FERRY_FETCH_DLPACK=ON to download it."
    )
    if(FERRY_DLPACK_INCLUDE_DIR AND NOT EXISTS "${FERRY_DLPACK_INCLUDE_DIR}/dlpack/dlpack.h")
        set(${missing} "ferry: FERRY_DLPACK_INCLUDE_DIR (${FERRY_DLPACK_INCLUDE_DIR}) does not contain dlpack/dlpack.h. ${cure}" PARENT_SCOPE)
        return()
    endif()
    if(NOT TARGET dlpack::dlpack AND NOT FERRY_DLPACK_INCLUDE_DIR)
        find_package(dlpack 1.0 CONFIG QUIET)
    endif()
    if(TARGET dlpack::dlpack)
        return()
    endif()

    # A header that is too old, such as that of Debian's libdlpack-dev, does not end the search, unless
    # FERRY_DLPACK_INCLUDE_DIR names it.
    set(old "")
    if(FERRY_DLPACK_INCLUDE_DIR) # has precedence over every search path
        get_filename_component(found "${FERRY_DLPACK_INCLUDE_DIR}" ABSOLUTE)
    else()
        find_path(found dlpack/dlpack.h NO_CACHE)
    endif()
    if(found)
        file(STRINGS "${found}/dlpack/dlpack.h" modern REGEX "define DLPACK_MAJOR_VERSION [1-9]")
        if(NOT modern)
            set(old "${found}")
            unset(found)
        endif()
    endif()
    foreach(python IN ITEMS "${Python_EXECUTABLE}" "${Python3_EXECUTABLE}")
        if(NOT found AND NOT FERRY_DLPACK_INCLUDE_DIR AND python)
            execute_process(
                COMMAND
                    "${python}" -c
                    "import importlib.util as u; print(*u.find_spec('tvm_ffi').submodule_search_locations, sep=';', end='')"
                OUTPUT_VARIABLE wheel
                ERROR_QUIET
            )
            find_path(found dlpack/dlpack.h HINTS ${wheel} PATH_SUFFIXES include 3rdparty/dlpack/include NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH NO_CACHE)
        endif()
    endforeach()
    if(NOT found AND NOT FERRY_DLPACK_INCLUDE_DIR AND FERRY_FETCH_DLPACK)
        message(STATUS "ferry: fetching DLPack 1.3, since no header was found. ${cure}")
        include(FetchContent)
        FetchContent_Declare(
            dlpack
            GIT_REPOSITORY https://github.com/dmlc/dlpack
            GIT_TAG 84d107bf416c6bab9ae68ad285876600d230490d # v1.3
            SOURCE_SUBDIR only-the-header-is-used
        )
        FetchContent_MakeAvailable(dlpack)
        set(found ${dlpack_SOURCE_DIR}/include)
    endif()

    if(NOT found AND old)
        set(${missing} "ferry requires DLPack 1.0 or newer, but ${old}/dlpack/dlpack.h is older. ${cure}" PARENT_SCOPE)
        return()
    elseif(NOT found)
        set(${missing} "ferry: dlpack/dlpack.h was not found. ${cure}" PARENT_SCOPE)
        return()
    endif()
    add_library(dlpack::dlpack INTERFACE IMPORTED GLOBAL)
    set_target_properties(dlpack::dlpack PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${found}")
endfunction()
