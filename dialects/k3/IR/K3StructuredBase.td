//===- K3StructuredBase.td - base class of the structured ops -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_STRUCTURED_BASE_TD
#define K3_STRUCTURED_BASE_TD

include "mlir/Interfaces/DestinationStyleOpInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/k3/IR/K3Attrs.td"
include "dialects/k3/IR/K3Interfaces.td"

class K3_ShapedOf<list<Type> elements> : AnyTypeOf<[RankedTensorOf<elements>, MemRefOf<elements>]>;
def K3_Float : K3_ShapedOf<[F32, BF16]>;
def K3_F32 : K3_ShapedOf<[F32]>;
def K3_Int : K3_ShapedOf<[I32]>;
/// A weight in the form the checkpoint stores it: float, or bytes of packed MXFP4 codes / E8M0 scales.
def K3_Weight : K3_ShapedOf<[F32, BF16, I8]>;

/// `ins(a, b : types) [name(opt : type)]... outs(c : types) attr-dict -> results`.
class K3_DpsFormat<list<string> ins, list<string> outs, list<string> optional = []> {
  string insFormat = "`ins` `(` " # !interleave(!foreach(n, ins, "$" # n), " `,` ") # " `:` " #
                     !interleave(!foreach(n, ins, "type($" # n # ")"), " `,` ") # " `)` ";
  string optFormat = !interleave(!foreach(n, optional, "(`" # n # "` `(` $" # n # "^ `:` type($" # n # ") `)`)?"), " ");
  string outsFormat = " `outs` `(` " # !interleave(!foreach(n, outs, "$" # n), " `,` ") # " `:` " #
                      !interleave(!foreach(n, outs, "type($" # n # ")"), " `,` ") # " `)` ";
  string format = insFormat # optFormat # outsFormat # " attr-dict (`->` type($results)^)?";
}

/// table: see StructuredOpInterface::getShapeTable. readsInit: C++ expression in `initIndex`. firstInit: name of the
/// first destination operand; all operands from there on are destinations.
class K3_StructuredOp<string mnemonic, string table, string readsInit, string inits, list<Trait> traits = []>
    : K3_Op<mnemonic, !listconcat(traits, [
        DestinationStyleOpInterface,
        DeclareOpInterfaceMethods<K3_StructuredOpInterface>,
        DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
        DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>])> {
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDeclaration = [{
    ::mlir::MutableOperandRange getDpsInitsMutable() { return ::mlir::MutableOperandRange(getOperation(), }] # inits # [{); }
    /// Constraints beyond the shape table; labelled as in the op's description.
    ::llvm::LogicalResult verifyConstraints();
  }];
  let extraClassDefinition = [{
    ::llvm::StringRef $cppClass::getShapeTable() { return "}] # table # [{"; }
    ::llvm::ArrayRef<::llvm::StringRef> $cppClass::getArgumentNames() {
      static constexpr ::llvm::StringRef names[] = {"}] #
      !interleave(!foreach(i, !range(!size(arguments)), !getdagname(arguments, i)), "\", \"") # [{"};
      return names;
    }
    bool $cppClass::readsInit(unsigned initIndex) { (void)initIndex; return }] # readsInit # [{; }
    ::llvm::LogicalResult $cppClass::verify() {
      if (::mlir::failed(::mlir::k3::verifyShapeTable(getOperation()))) return ::mlir::failure();
      return verifyConstraints();
    }
    ::llvm::LogicalResult $cppClass::fold(FoldAdaptor, ::llvm::SmallVectorImpl<::mlir::OpFoldResult> &results) {
      return ::mlir::k3::foldStructuredOp(getOperation(), results);
    }
    void $cppClass::getEffects(
        ::llvm::SmallVectorImpl<::mlir::SideEffects::EffectInstance<::mlir::MemoryEffects::Effect>> &effects) {
      ::mlir::k3::getStructuredEffects(getOperation(), effects);
    }
    ::llvm::LogicalResult $cppClass::reifyResultShapes(::mlir::OpBuilder &b, ::mlir::ReifiedRankedShapedTypeDims &dims) {
      return ::mlir::k3::reifyStructuredShapes(b, getOperation(), dims);
    }
  }];
}

#endif // K3_STRUCTURED_BASE_TD
