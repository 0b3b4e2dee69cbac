# CUDA for the directory that includes this, and weir_cuda_target(<target>) for targets with .cu files.

enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)

# CMake 3.25 does not know that nvcc 13 has C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")

# Hopper machine code only; the runtime is linked in, so that the program runs wherever the driver does.
function(weir_cuda_target target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-O3 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a
                               -Xcompiler=-Wall,-Wextra>)
  set_target_properties(${target} PROPERTIES CUDA_RUNTIME_LIBRARY Static CUDA_ARCHITECTURES OFF
                                             CUDA_STANDARD 20)
  target_link_libraries(${target} PUBLIC CUDA::cudart_static)
endfunction()
