# The CPU kernels. Included by src/kernels/CMakeLists.txt after weir_kernels exists.
#
# WEIR_CPU_ISA_SOURCES are compiled once for each instruction set, with WEIR_ISA naming their namespace; what
# they may include is said in simd.h. AMX has a source of its own and takes the rest from AVX-512 VNNI.
# WEIR_CPU_SOURCES are ordinary.
set(WEIR_CPU_ISA_SOURCES
    attention_kernels.cpp
    delta_rule_kernels.cpp
    head_kernels.cpp
    kernel_table.cpp
    linear_float_kernels.cpp
    linear_int8_kernels.cpp
    row_kernels.cpp)
set(WEIR_CPU_SOURCES
    activations.cpp
    attention.cpp
    cpu_diffusion_steps.cpp
    cpu_steps.cpp
    delta_rule.cpp
    embedding.cpp
    expected_embeddings.cpp
    experts.cpp
    head.cpp
    linear.cpp
    memory.cpp
    pack.cpp
    products.cpp
    row_belief.cpp
    shared_pages.cpp
    top_tokens.cpp
    vocabulary.cpp
    window_attention.cpp)

set(weir_avx2 -mavx2 -mfma -mf16c)
# GCC 12 takes the deliberately undefined operands inside its own AVX-512 intrinsics for a bug (PR 105593).
set(weir_avx512 ${weir_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl
    $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)

# GCC 12 moves the sums of unrolled products behind all of the products and spills them. With byte products of
# one instruction it does not.
set(weir_in_order $<$<CXX_COMPILER_ID:GNU>:-fno-tree-ter> $<$<CXX_COMPILER_ID:GNU>:-fno-tree-reassoc>)

function(weir_cpu_isa isa)
  add_library(weir_cpu_${isa} OBJECT ${WEIR_CPU_ISA_PATHS})
  target_link_libraries(weir_cpu_${isa} PRIVATE weir_options)
  target_compile_definitions(weir_cpu_${isa} PRIVATE WEIR_ISA=${isa})
  target_compile_options(weir_cpu_${isa} PRIVATE -fno-math-errno ${ARGN})
  target_sources(weir_kernels PRIVATE $<TARGET_OBJECTS:weir_cpu_${isa}>)
endfunction()

list(TRANSFORM WEIR_CPU_ISA_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/ OUTPUT_VARIABLE WEIR_CPU_ISA_PATHS)
list(TRANSFORM WEIR_CPU_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/ OUTPUT_VARIABLE WEIR_CPU_PATHS)
target_sources(weir_kernels PRIVATE ${WEIR_CPU_PATHS})

weir_cpu_isa(portable)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  weir_cpu_isa(avx2 ${weir_avx2} ${weir_in_order})
  weir_cpu_isa(avx512 ${weir_avx512} ${weir_in_order})
  weir_cpu_isa(avx512_vnni ${weir_avx512} -mavx512vnni)
  set(WEIR_CPU_ISA_PATHS ${CMAKE_CURRENT_LIST_DIR}/linear_amx_kernels.cpp)
  weir_cpu_isa(avx512_amx ${weir_avx512} -mavx512vnni -mamx-tile -mamx-int8)
endif()
