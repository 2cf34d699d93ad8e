# Adds a library that contains the engines: the functions that are inline unless FERRY_SEPARATE_COMPILATION is defined.
# Static or shared as add_library decides, unless the arguments name the type.
function(ferry_add_compiled name)
    set(source ${PROJECT_BINARY_DIR}/package/ferry.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include <ferry/src.hpp>\n")
    add_library(${name} ${ARGN} ${source})
    target_link_libraries(${name} PUBLIC ferry)
    target_compile_definitions(${name} PUBLIC FERRY_SEPARATE_COMPILATION)
    get_target_property(type ${name} TYPE)
    if(type STREQUAL "SHARED_LIBRARY")
        target_compile_definitions(${name} PUBLIC FERRY_SHARED)
    endif()
    set(version ${PROJECT_VERSION_MAJOR})
    if(version EQUAL 0) # as in ferry-config-version.cmake
        string(APPEND version .${PROJECT_VERSION_MINOR})
    endif()
    set_target_properties(
        ${name}
        PROPERTIES
            EXPORT_NAME compiled
            CXX_VISIBILITY_PRESET hidden
            VISIBILITY_INLINES_HIDDEN ON
            WINDOWS_EXPORT_ALL_SYMBOLS ON
            POSITION_INDEPENDENT_CODE ON # a module may contain the static library
            VERSION ${PROJECT_VERSION}
            SOVERSION ${version}
    )
endfunction()
