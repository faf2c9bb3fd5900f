# Finds LLVM/MLIR 22 and sets up its CMake functions, include paths, flags and the shared precompiled header.
find_package(MLIR REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
set(LLVM_RUNTIME_OUTPUT_INTDIR ${CMAKE_BINARY_DIR}/bin)
set(LLVM_LIBRARY_OUTPUT_INTDIR ${CMAKE_BINARY_DIR}/lib)
set(MLIR_BINARY_DIR ${CMAKE_BINARY_DIR})
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
separate_arguments(K3_LLVM_DEFINITIONS NATIVE_COMMAND "${LLVM_DEFINITIONS}")
add_definitions(${K3_LLVM_DEFINITIONS})
set(CMAKE_CXX_STANDARD 20)
include(TableGen)
include(AddLLVM)
include(AddMLIR)
include(HandleLLVMOptions)
if(K3_ENABLE_ASSERTIONS)
  add_compile_options(-UNDEBUG)
endif()
add_compile_options(-Werror=deprecated-declarations)
# A precompiled header without its timestamp can be found again by ccache.
add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,Clang>:SHELL:-Xclang -fno-pch-timestamp>")
include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})

file(WRITE ${CMAKE_BINARY_DIR}/pch/K3PCH.cpp "")
add_library(K3PCH STATIC ${CMAKE_BINARY_DIR}/pch/K3PCH.cpp)
llvm_update_compile_flags(K3PCH)
target_precompile_headers(K3PCH PRIVATE
  <mlir/IR/Builders.h> <mlir/IR/BuiltinOps.h> <mlir/IR/BuiltinTypes.h> <mlir/IR/PatternMatch.h>
  <mlir/Pass/Pass.h> <mlir/Pass/PassManager.h> <mlir/Transforms/DialectConversion.h>
  <mlir/Dialect/Arith/IR/Arith.h> <mlir/Dialect/Func/IR/FuncOps.h> <mlir/Dialect/Linalg/IR/Linalg.h>
  <mlir/Dialect/MemRef/IR/MemRef.h> <mlir/Dialect/SCF/IR/SCF.h> <mlir/Dialect/Tensor/IR/Tensor.h>
  <mlir/Dialect/Vector/IR/VectorOps.h> <mlir/Dialect/LLVMIR/LLVMDialect.h>
  <mlir/Interfaces/TilingInterface.h> <llvm/ADT/TypeSwitch.h>)
