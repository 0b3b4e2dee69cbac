# Programs that check and time the CUDA backend on a machine with a GPU; bench/device.sh runs them.
include(WeirCuda)

foreach(program check bench)
  add_executable(weir_device_${program} device/${program}_main.cpp device/random_weights.cpp)
  target_include_directories(weir_device_${program} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(weir_device_${program} PRIVATE weir_models)
endforeach()
target_link_libraries(weir_device_check PRIVATE weir_generate)
target_sources(weir_device_check PRIVATE device/check_choices.cpp device/check_models.cpp device/check_sequences.cpp
                                         device/check_steps.cpp device/comparison.cpp)
target_sources(weir_device_bench PRIVATE device/ablations.cpp device/expand_copy.cu device/launch_floor.cu device/step_bench.cpp)
weir_cuda_target(weir_device_bench)
