# weir_library(<name> SOURCES ... [DEPENDS ...]): one static library for one folder of src/.
function(weir_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC weir_options ${ARG_DEPENDS})
endfunction()

# weir_test(<name> SOURCES ... [DEPENDS ...]): one GoogleTest program; each of its tests is known to CTest.
# It runs in the project's root, where models/ and tests/data/ are.
function(weir_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE weir_options ${ARG_DEPENDS} GTest::gtest GTest::gtest_main)
  # What is tested is optimised; the tests themselves compile a fifth faster without.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  if(ARG_TIMEOUT)
    # Those that take longest begin first, so that no core waits for them in the end.
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} COST ${ARG_TIMEOUT})
  endif()
endfunction()

# weir_fuzzer(<name> SOURCES ... [DEPENDS ...]): one libFuzzer program, only in the fuzz preset; the target "fuzzers"
# builds them all.
function(weir_fuzzer name)
  if(NOT WEIR_FUZZ)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE weir_options ${ARG_DEPENDS} -fsanitize=fuzzer)
  if(NOT TARGET fuzzers)
    add_custom_target(fuzzers)
  endif()
  add_dependencies(fuzzers ${name})
endfunction()
