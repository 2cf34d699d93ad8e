# What ferry's components need beyond its headers: ferry's build and its installed package ask here.
set(ferry_components ferry arrow ipc cuda kernels python)

# Says in `missing` what stands in the way of a compiler; empty: nothing.
function(ferry_check_compiler missing)
    set(${missing} "" PARENT_SCOPE)
    foreach(known IN ITEMS GNU=12 Clang=16)
        string(REPLACE "=" ";" known ${known})
        list(GET known 0 id)
        list(GET known 1 oldest)
        if(CMAKE_CXX_COMPILER_ID STREQUAL id AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS oldest)
            set(${missing}
                "ferry needs GCC 12 or Clang 16, or newer, and ${CMAKE_CXX_COMPILER} is ${id} ${CMAKE_CXX_COMPILER_VERSION}. \
Set CMAKE_CXX_COMPILER to a newer one."
                PARENT_SCOPE
            )
        endif()
    endforeach()
endfunction()

# Finds what a component needs. `libraries`: what it links beside ferry::ferry. `missing`: the reason why it is not available, or empty.
function(ferry_find_component name libraries missing)
    set(found "")
    set(why "")
    if(name STREQUAL "ipc")
        find_package(Threads QUIET)
        set(found Threads::Threads)
        if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
            set(why "it is for Linux (pidfd, memfd, sockets that pass descriptors), and this is ${CMAKE_SYSTEM_NAME}")
        elseif(NOT TARGET Threads::Threads)
            set(why "find_package(Threads) found none: enable_language(C) or CXX first")
        endif()
    elseif(name MATCHES "^(cuda|kernels)$")
        find_package(CUDAToolkit 13.0 QUIET)
        # The runtime that nvcc would choose: static, unless the target's property CUDA_RUNTIME_LIBRARY says Shared.
        set(shared $<STREQUAL:$<UPPER_CASE:$<TARGET_PROPERTY:CUDA_RUNTIME_LIBRARY>>,SHARED>)
        set(found $<IF:${shared},CUDA::cudart,CUDA::cudart_static> Threads::Threads)
        find_package(Threads QUIET)
        if(NOT CUDAToolkit_FOUND OR NOT TARGET CUDA::cudart)
            set(why "find_package(CUDAToolkit 13.0) found none: install the CUDA Toolkit, 13.0 or newer, or set CUDAToolkit_ROOT")
        elseif(name STREQUAL "kernels" AND NOT CMAKE_CUDA_COMPILER)
            set(why "nvcc compiles them: project(... LANGUAGES CXX CUDA), or enable_language(CUDA), comes first")
        elseif(name STREQUAL "kernels" AND CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13.0)
            set(why "it needs nvcc 13.0 or newer, and ${CMAKE_CUDA_COMPILER} is ${CMAKE_CUDA_COMPILER_VERSION}")
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
                "find_package(Python3 3.9 COMPONENTS Development.Module) found none: install CPython's headers (Debian: \
python3-dev), or set Python3_EXECUTABLE"
            )
        endif()
    elseif(NOT name IN_LIST ferry_components)
        list(JOIN ferry_components ", " all)
        set(why "there is none of this name; there are ${all}")
    endif()
    if(why)
        set(why "ferry: component ${name} is not available: ${why}.")
    endif()
    set(${libraries} "${found}" PARENT_SCOPE)
    set(${missing} "${why}" PARENT_SCOPE)
endfunction()

# nvcc's own default is C++17.
function(ferry_use_kernels target)
    if(cuda_std_20 IN_LIST CMAKE_CUDA_COMPILE_FEATURES)
        target_compile_features(${target} INTERFACE cuda_std_20)
    else() # not every CMake knows that nvcc can
        target_compile_options(${target} INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
    endif()
endfunction()
