# Hopper machine code only; the runtime is linked in, so that the program runs wherever the driver does.
set(CMAKE_CUDA_ARCHITECTURES OFF)
enable_language(CUDA)
# CMake 3.25 does not know that nvcc 13 has C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
find_package(CUDAToolkit REQUIRED)
target_sources(weir_kernels PRIVATE
  cuda/attention_few.cu
  cuda/attention_many.cu
  cuda/cuda_steps.cpp
  cuda/delta_few.cu
  cuda/delta_many.cu
  cuda/device_memory.cpp
  cuda/experts_few.cu
  cuda/experts_group.cu
  cuda/greedy.cu
  cuda/launch_queue.cpp
  cuda/linear_few.cu
  cuda/linear_many.cu
  cuda/pack.cpp
  cuda/pass_table.cpp
  cuda/repack.cu
  cuda/route.cu
  cuda/rows.cu
  cuda/scratch.cpp)
target_compile_options(weir_kernels PRIVATE
  $<$<COMPILE_LANGUAGE:CUDA>:-O3 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a
                             -Xcompiler=-Wall,-Wextra>)
target_link_libraries(weir_kernels PUBLIC CUDA::cudart_static)
set_target_properties(weir_kernels PROPERTIES CUDA_RUNTIME_LIBRARY Static CUDA_ARCHITECTURES OFF
                                              CUDA_STANDARD 20)
