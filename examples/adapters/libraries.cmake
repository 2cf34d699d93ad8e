# Defines a target ferry_with_NAME for each array library that has an adapter; FERRY_ADAPTERS_FOUND lists the names.
#   FERRY_ADAPTERS  AUTO: the libraries that are found;  ON: a missing library is an error;  OFF: none
include_guard(GLOBAL)
set(FERRY_ADAPTERS AUTO CACHE STRING "Build the programs that use Eigen, OpenCV, xtensor and PyTorch: ON, OFF, or AUTO (for the libraries that are found)")
set_property(CACHE FERRY_ADAPTERS PROPERTY STRINGS AUTO ON OFF)
set(FERRY_ADAPTERS_FOUND std CACHE INTERNAL "")
add_library(ferry_with_std INTERFACE)

# ferry_adapter(NAME PACKAGE INCLUDE_DIR [LIBRARY...]): the library is missing if INCLUDE_DIR or a LIBRARY is NOTFOUND.
function(ferry_adapter name package)
    if(FERRY_ADAPTERS STREQUAL "OFF")
        return()
    endif()
    if("${ARGN}" MATCHES "NOTFOUND")
        if(FERRY_ADAPTERS STREQUAL "ON")
            message(FATAL_ERROR "ferry: ${name} was not found: install ${package}, or configure with -DFERRY_ADAPTERS=AUTO")
        endif()
        message(STATUS "SKIPPED: adapters/${name}.hpp: install ${package}")
        return()
    endif()
    list(POP_FRONT ARGN includes)
    add_library(ferry_with_${name} INTERFACE)
    target_include_directories(ferry_with_${name} SYSTEM INTERFACE ${includes})
    target_link_libraries(ferry_with_${name} INTERFACE ${ARGN})
    set(FERRY_ADAPTERS_FOUND ${FERRY_ADAPTERS_FOUND} ${name} CACHE INTERNAL "")
endfunction()

find_path(FERRY_EIGEN_DIR unsupported/Eigen/CXX11/Tensor PATH_SUFFIXES eigen3)
ferry_adapter(eigen libeigen3-dev ${FERRY_EIGEN_DIR})

find_path(FERRY_OPENCV_DIR opencv2/core/mat.hpp PATH_SUFFIXES opencv4)
find_library(FERRY_OPENCV_CORE opencv_core)
ferry_adapter(opencv libopencv-core-dev ${FERRY_OPENCV_DIR} ${FERRY_OPENCV_CORE})

find_path(FERRY_XTENSOR_DIR xtensor/xarray.hpp)
ferry_adapter(xtensor libxtensor-dev ${FERRY_XTENSOR_DIR})
if(TARGET ferry_with_xtensor AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 19)
    # In releases before 0.25, partial specialisations are ambiguous under Clang 19's rules for template template
    # arguments.
    target_compile_options(
        ferry_with_xtensor INTERFACE -fno-relaxed-template-template-args -Wno-deprecated-no-relaxed-template-template-args
    )
endif()

# Sets a variable that is not set to the folder of an installed Python package.
function(ferry_find_package_folder variable package)
    if(NOT ${variable} AND Python3_EXECUTABLE)
        execute_process(
            COMMAND ${Python3_EXECUTABLE} -c "import importlib.util as u; print(*u.find_spec('${package}').submodule_search_locations)"
            OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
        )
        set(${variable} "${folder}" PARENT_SCOPE)
    endif()
endfunction()

# The wheel of PyTorch contains its C++ library.
ferry_find_package_folder(FERRY_TORCH_DIR torch)
find_path(FERRY_TORCH_HEADERS ATen/core/Tensor.h HINTS ${FERRY_TORCH_DIR}/include NO_DEFAULT_PATH)
find_library(FERRY_TORCH_C10 c10 HINTS ${FERRY_TORCH_DIR}/lib NO_DEFAULT_PATH)
find_library(FERRY_TORCH_CPU torch_cpu HINTS ${FERRY_TORCH_DIR}/lib NO_DEFAULT_PATH)
ferry_adapter(torch "PyTorch (pip install torch)" ${FERRY_TORCH_HEADERS} ${FERRY_TORCH_CPU} ${FERRY_TORCH_C10})
