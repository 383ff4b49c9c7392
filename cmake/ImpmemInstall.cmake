# Install rules: the archives, the headers, a CMake package with one component an archive, and one .pc an archive.
# Everything is found relative to the installed file itself, so a tree installed under one prefix may be moved to another.

include(CMakePackageConfigHelpers)

set(impmem_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/libimpmem")
set(impmem_pc_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    set(impmem_pc_prefix "${CMAKE_INSTALL_PREFIX}")
    set(impmem_pc_libdir "${CMAKE_INSTALL_LIBDIR}")
else()
    file(RELATIVE_PATH impmem_pc_up "/prefix/${impmem_pc_dir}" "/prefix")
    set(impmem_pc_prefix "\${pcfiledir}/${impmem_pc_up}")
    string(REGEX REPLACE "/$" "" impmem_pc_prefix "${impmem_pc_prefix}")
    set(impmem_pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
endif()
if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
    set(impmem_pc_includedir "${CMAKE_INSTALL_INCLUDEDIR}")
else()
    set(impmem_pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()

# impmem_install(TARGET COMPONENT PC_DESCRIPTION PC_REQUIRES PC_REQUIRES_PRIVATE PC_LIBS_PRIVATE)
function(impmem_install target component description requires requires_private libs_private)
    install(TARGETS ${target} EXPORT libimpmem-${component}
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT ${component})
    install(EXPORT libimpmem-${component} NAMESPACE libimpmem:: FILE libimpmem-${component}.cmake
        DESTINATION "${impmem_package_dir}" COMPONENT ${component})
    set(pc_name "lib${target}")
    set(pc_description "${description}")
    set(pc_requires "${requires}")
    set(pc_requires_private "${requires_private}")
    set(pc_libs "-L\${libdir} -l${target}")
    set(pc_libs_private "${libs_private}")
    configure_file("${PROJECT_SOURCE_DIR}/cmake/archive.pc.in" "${PROJECT_BINARY_DIR}/pc/lib${target}.pc" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/pc/lib${target}.pc" DESTINATION "${impmem_pc_dir}" COMPONENT ${component})
endfunction()

set(impmem_components "")
if(TARGET impmem)
    list(APPEND impmem_components core)
    impmem_install(impmem core "${PROJECT_DESCRIPTION}" "" "" "-pthread")
    # A component's own headers come with it; what is left is the core's.
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/impmem" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT core
        FILES_MATCHING PATTERN "*.h"
        PATTERN "model.h" EXCLUDE PATTERN "cuda.h" EXCLUDE PATTERN "residency.h" EXCLUDE PATTERN "cublaslt.h" EXCLUDE)
endif()
if(TARGET impmem_model)
    list(APPEND impmem_components model)
    impmem_install(impmem_model model "libimpmem: model descriptions into a model shape" "libimpmem" "jansson >= 2.13" "")
    install(FILES "${PROJECT_SOURCE_DIR}/include/impmem/model.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/impmem"
        COMPONENT model)
endif()
if(TARGET impmem_cuda)
    list(APPEND impmem_components cuda)
    impmem_install(impmem_cuda cuda "libimpmem: CUDA devices" "libimpmem" "" "-lcudart_static -ldl -lrt -pthread")
    install(FILES "${PROJECT_SOURCE_DIR}/include/impmem/cuda.h" "${PROJECT_SOURCE_DIR}/include/impmem/residency.h"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/impmem" COMPONENT cuda)
endif()
if(TARGET impmem_cublaslt)
    list(APPEND impmem_components cublaslt)
    impmem_install(impmem_cublaslt cublaslt "libimpmem: measuring cuBLASLt" "libimpmem_cuda" "" "-ldl")
    install(FILES "${PROJECT_SOURCE_DIR}/include/impmem/cublaslt.h"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/impmem" COMPONENT cublaslt)
endif()
if(TARGET impmem_command)
    install(TARGETS impmem_command RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT command)
endif()

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/libimpmem-config.cmake.in"
    "${PROJECT_BINARY_DIR}/libimpmem-config.cmake" INSTALL_DESTINATION "${impmem_package_dir}"
    NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/libimpmem-config-version.cmake"
    VERSION "${PROJECT_VERSION}" COMPATIBILITY SameMajorVersion)
install(FILES "${PROJECT_BINARY_DIR}/libimpmem-config.cmake" "${PROJECT_BINARY_DIR}/libimpmem-config-version.cmake"
    DESTINATION "${impmem_package_dir}" COMPONENT core)
