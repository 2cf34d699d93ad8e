# The dependencies of ferry's components. Used by ferry's build and by its installed package.
set(ferry_components ferry arrow ipc cuda kernels python conformance compiled)

# Sets `missing` to the reason why the compiler is not supported, or to an empty string.
function(ferry_check_compiler missing)
    set(${missing} "" PARENT_SCOPE)
    foreach(known IN ITEMS GNU=12 Clang=16)
        string(REPLACE "=" ";" known ${known})
        list(GET known 0 id)
        list(GET known 1 oldest)
        if(CMAKE_CXX_COMPILER_ID STREQUAL id AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS oldest)
            set(${missing}
                "ferry requires GCC 12 or Clang 16, or newer, but ${CMAKE_CXX_COMPILER} is ${id} ${CMAKE_CXX_COMPILER_VERSION}. \
Set CMAKE_CXX_COMPILER to a newer one."
                PARENT_SCOPE
            )
        endif()
    endforeach()
endfunction()

# Finds the dependencies of a component. Sets `libraries` to the libraries that the component links in addition to
# ferry::ferry, and `missing` to the reason why the component is not available, or to an empty string.
function(ferry_find_component name libraries missing)
    set(found "")
    set(why "")
    if(name STREQUAL "ipc")
        find_package(Threads QUIET)
        set(found Threads::Threads)
        if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
            set(why "it requires Linux (pidfd, memfd, sockets that pass descriptors), but the target system is ${CMAKE_SYSTEM_NAME}")
        elseif(NOT TARGET Threads::Threads)
            set(why "find_package(Threads) failed: call enable_language(C) or enable_language(CXX) first")
        endif()
    elseif(name MATCHES "^(cuda|kernels)$")
        find_package(CUDAToolkit 12.6 QUIET)
        # The runtime that nvcc would link: static, unless the property CUDA_RUNTIME_LIBRARY of the target is Shared.
        set(shared $<STREQUAL:$<UPPER_CASE:$<TARGET_PROPERTY:CUDA_RUNTIME_LIBRARY>>,SHARED>)
        set(found $<IF:${shared},CUDA::cudart,CUDA::cudart_static> Threads::Threads)
        find_package(Threads QUIET)
        if(NOT CUDAToolkit_FOUND OR NOT TARGET CUDA::cudart)
            set(why "find_package(CUDAToolkit 12.6) failed: install the CUDA Toolkit, 12.6 or newer, or set CUDAToolkit_ROOT")
        elseif(name STREQUAL "kernels" AND NOT CMAKE_CUDA_COMPILER)
            set(why "nvcc is required: use project(... LANGUAGES CXX CUDA), or call enable_language(CUDA) first")
        elseif(name STREQUAL "kernels" AND CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13.0)
            set(why "it requires nvcc 13.0 or newer, but ${CMAKE_CUDA_COMPILER} is ${CMAKE_CUDA_COMPILER_VERSION}")
        endif()
    elseif(name STREQUAL "python")
        if(NOT TARGET Python::Module AND NOT TARGET Python3::Module)
            find_package(Python3 3.9 QUIET COMPONENTS Interpreter Development.Module)
        endif()
        if(TARGET Python::Module)
            set(found Python::Module)
        elseif(TARGET Python3::Module)
            set(found Python3::Module)
        else()
            set(why
                "find_package(Python3 3.9 COMPONENTS Development.Module) failed: install CPython's headers (Debian: \
python3-dev), or set Python3_EXECUTABLE"
            )
        endif()
    elseif(name STREQUAL "compiled" AND COMMAND ferry_add_compiled)
        # The build of ferry defines the target.
    elseif(name STREQUAL "compiled" AND NOT TARGET ferry::compiled)
        set(why "the package contains headers only: install ferry with FERRY_COMPONENTS=compiled")
    elseif(NOT name IN_LIST ferry_components)
        list(JOIN ferry_components ", " all)
        set(why "unknown component; expected one of ${all}")
    endif()
    if(why)
        set(why "ferry: component ${name} is not available: ${why}.")
    endif()
    set(${libraries} "${found}" PARENT_SCOPE)
    set(${missing} "${why}" PARENT_SCOPE)
endfunction()

# Compiles CUDA sources of the target as C++20; the default of nvcc is C++17.
function(ferry_use_kernels target)
    if(cuda_std_20 IN_LIST CMAKE_CUDA_COMPILE_FEATURES)
        target_compile_features(${target} INTERFACE cuda_std_20)
    else() # older versions of CMake do not support this feature for nvcc
        target_compile_options(${target} INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
    endif()
endfunction()

# Defines the target of a component that was not requested, so that linking it causes an error that states the fix.
function(ferry_explain_component name fix)
    if(NOT TARGET ferry::${name})
        add_library(ferry::${name} INTERFACE IMPORTED ${ARGN})
        set_target_properties(
            ferry::${name}
            PROPERTIES FERRY_NOT_REQUESTED TRUE INTERFACE_LINK_LIBRARIES "ferry::${name} requires ${fix}"
        )
    endif()
endfunction()
