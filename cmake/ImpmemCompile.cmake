# How every target of the project is compiled.

include(CheckCSourceCompiles)

set(impmem_warning_flags
    -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
    -Wcast-qual -Wundef -Wswitch-enum)

# A sanitizer that was asked for and isn't there must stop the configuration, or its lane would pass by testing nothing.
set(impmem_sanitize_flags "")
if(IMPMEM_SANITIZE STREQUAL "address")
    set(impmem_sanitize_flags -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(IMPMEM_SANITIZE STREQUAL "thread")
    set(impmem_sanitize_flags -fsanitize=thread -fno-omit-frame-pointer)
elseif(NOT IMPMEM_SANITIZE STREQUAL "")
    message(FATAL_ERROR "IMPMEM_SANITIZE is \"${IMPMEM_SANITIZE}\": expected address, thread or nothing")
endif()
if(impmem_sanitize_flags)
    list(JOIN impmem_sanitize_flags " " CMAKE_REQUIRED_FLAGS)
    check_c_source_compiles("int main(void) { return 0; }" IMPMEM_SANITIZE_${IMPMEM_SANITIZE}_WORKS)
    unset(CMAKE_REQUIRED_FLAGS)
    if(NOT IMPMEM_SANITIZE_${IMPMEM_SANITIZE}_WORKS)
        message(FATAL_ERROR "IMPMEM_SANITIZE=${IMPMEM_SANITIZE}: ${CMAKE_C_COMPILER} can't compile and link with it")
    endif()
endif()

# impmem_glob(OUT FOLDER...): the .c files of src/FOLDER..., sorted; a missing folder adds nothing.
function(impmem_glob out)
    set(found "")
    foreach(folder IN LISTS ARGN)
        file(GLOB files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${folder}/*.c")
        list(APPEND found ${files})
    endforeach()
    set(${out} ${found} PARENT_SCOPE)
endfunction()

# impmem_compile_rules(TARGET): dialect, warnings, sanitizer. Private, so that a consumer inherits none of it.
function(impmem_compile_rules target)
    set_target_properties(${target} PROPERTIES
        C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF C_VISIBILITY_PRESET hidden)
    target_compile_options(${target} PRIVATE
        $<$<COMPILE_LANGUAGE:C>:${impmem_warning_flags}> $<$<BOOL:${IMPMEM_WERROR}>:-Werror> ${impmem_sanitize_flags})
    target_link_options(${target} PRIVATE ${impmem_sanitize_flags})
endfunction()

# impmem_archive(TARGET COMPONENT): a static library that is installed as component COMPONENT.
function(impmem_archive target component)
    impmem_compile_rules(${target})
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${component} POSITION_INDEPENDENT_CODE ON)
    target_include_directories(${target}
        PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>"
        PRIVATE "${PROJECT_SOURCE_DIR}/src")
    if(impmem_sanitize_flags)
        target_link_options(${target} INTERFACE ${impmem_sanitize_flags})
    endif()
    add_library(libimpmem::${component} ALIAS ${target})
    set_property(GLOBAL APPEND PROPERTY impmem_archives ${target})
endfunction()
