# The driver room, src/cuda. A few of its files need the CUDA toolkit, and the archives that hold them are built only with it:
#   libimpmem_cuda.a       the room with its driver table filled from the toolkit
#   libimpmem_cublaslt.a   measuring what cuBLASLt reserves; opens that library at run time
# Everything else of the room is plain C and is compiled everywhere, as impmem_cuda_room, with a table that says "no driver": the
# tests of the room put a table of their own in, and the command answers that there is no driver.

if(NOT IMPMEM_CUDA MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "IMPMEM_CUDA is \"${IMPMEM_CUDA}\": expected AUTO, ON or OFF")
endif()

impmem_glob(cuda_sources cuda)
set(cuda_real_sources ${cuda_sources})
list(FILTER cuda_real_sources INCLUDE REGEX "/(driver|management|nvtx)_cuda\\.c$")
set(cuda_blas_sources ${cuda_sources})
list(FILTER cuda_blas_sources INCLUDE REGEX "/cublaslt[^/]*\\.c$")
set(cuda_room_sources ${cuda_sources})
list(FILTER cuda_room_sources EXCLUDE REGEX "/(driver_cuda|management_cuda|nvtx_cuda|cublaslt[^/]*)\\.c$")
set(cuda_blas_real_sources ${cuda_blas_sources})
list(FILTER cuda_blas_real_sources INCLUDE REGEX "_cuda\\.c$")
set(cuda_blas_room_sources ${cuda_blas_sources})
list(FILTER cuda_blas_room_sources EXCLUDE REGEX "_cuda\\.c$")

set(impmem_cuda_enabled OFF)
if(NOT IMPMEM_CUDA STREQUAL "OFF")
    find_package(CUDAToolkit QUIET)
    if(CUDAToolkit_FOUND)
        set(impmem_cuda_enabled ON)
        add_library(impmem_cuda STATIC ${cuda_room_sources} ${cuda_real_sources})
        impmem_archive(impmem_cuda cuda)
        target_include_directories(impmem_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
        target_link_libraries(impmem_cuda PUBLIC impmem PRIVATE CUDA::cudart_static ${CMAKE_DL_LIBS})
        if(cuda_blas_real_sources)
            add_library(impmem_cublaslt STATIC ${cuda_blas_sources})
            impmem_archive(impmem_cublaslt cublaslt)
            target_include_directories(impmem_cublaslt SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
            target_link_libraries(impmem_cublaslt PUBLIC impmem_cuda PRIVATE ${CMAKE_DL_LIBS})
        endif()
    elseif(IMPMEM_CUDA STREQUAL "ON")
        message(FATAL_ERROR "IMPMEM_CUDA=ON: no CUDA toolkit found")
    endif()
endif()

# For this build's own tests and command; never installed.
file(GLOB cuda_none_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/cuda/none/*.c")
add_library(impmem_cuda_room STATIC ${cuda_room_sources} ${cuda_blas_room_sources} ${cuda_none_sources})
impmem_compile_rules(impmem_cuda_room)
target_include_directories(impmem_cuda_room
    PUBLIC "${PROJECT_SOURCE_DIR}/include" PRIVATE "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(impmem_cuda_room PUBLIC impmem)
