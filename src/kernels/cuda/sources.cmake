# The CUDA backend, or a stub that says that it was not built.
if(WEIR_CUDA)
  include(${CMAKE_CURRENT_LIST_DIR}/kernels.cmake)
else()
  target_sources(weir_kernels PRIVATE cuda/stub.cpp)
endif()
