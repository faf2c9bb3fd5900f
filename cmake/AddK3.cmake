# add_k3_unittest(NAME src... LIBS lib...): a GoogleTest binary in <build>/test/unit, found and run by lit.
function(add_k3_unittest name)
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test/unit/bin)
  target_compile_definitions(${name} PRIVATE K3_SOURCE_DIR="${PROJECT_SOURCE_DIR}" K3_BINARY_DIR="${CMAKE_BINARY_DIR}")
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gtest GTest::gtest_main)
  set_property(GLOBAL APPEND PROPERTY K3_TEST_TARGETS ${name})
endfunction()

# add_k3_tool(NAME src... LIBS lib...): a tool that links no LLVM.
function(add_k3_tool name)
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS})
  set_property(GLOBAL APPEND PROPERTY K3_TEST_TARGETS ${name})
endfunction()

# add_k3_mlir_library(NAME src... DEPENDS tgt... LIBS lib...): a compiler library, with the shared precompiled header.
function(add_k3_mlir_library name)
  cmake_parse_arguments(ARG "NO_PCH" "" "DEPENDS;LIBS" ${ARGN})
  add_mlir_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS} EXCLUDE_FROM_LIBMLIR DISABLE_INSTALL
    DEPENDS ${ARG_DEPENDS} LINK_LIBS PUBLIC ${ARG_LIBS} MLIR)
  if(NOT ARG_NO_PCH)
    target_precompile_headers(${name} REUSE_FROM K3PCH)
    add_dependencies(${name} K3PCH)
  endif()
endfunction()

# add_k3_mlir_tool(NAME src... LIBS lib...)
function(add_k3_mlir_tool name)
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  add_llvm_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} MLIR)
  set_property(GLOBAL APPEND PROPERTY K3_TEST_TARGETS ${name})
endfunction()
