# Programs that check and time the CUDA backend on a machine with a GPU; bench/device.sh runs them.
foreach(program check bench)
  add_executable(weir_device_${program} device/${program}_main.cpp device/random_weights.cpp)
  target_include_directories(weir_device_${program} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(weir_device_${program} PRIVATE weir_models)
endforeach()
target_sources(weir_device_check PRIVATE device/check_models.cpp device/check_steps.cpp)
target_sources(weir_device_bench PRIVATE device/launch_floor.cu device/step_bench.cpp)
set_target_properties(weir_device_bench PROPERTIES CUDA_ARCHITECTURES OFF CUDA_STANDARD 20)
target_compile_options(weir_device_bench PRIVATE
  $<$<COMPILE_LANGUAGE:CUDA>:-O3 --expt-relaxed-constexpr -gencode=arch=compute_90a,code=sm_90a>)
