//===- AggregatedOpInterfaceImpl.cpp - decomposition of the structured ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/Interfaces/Decompose.h"
#include "dialects/k3/Interfaces/Interfaces.h"
#include "dialects/k3/Interfaces/StructuredOpList.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

using namespace mlir;
using namespace mlir::k3;

namespace {
template <typename OpTy>
struct StructuredDecomposition
    : public linalg::AggregatedOpInterface::ExternalModel<StructuredDecomposition<OpTy>, OpTy> {
  FailureOr<SmallVector<Value>> decomposeOperation(Operation *op, OpBuilder &builder) const {
    if (op->getNumResults() == 0)
      return op->emitError("expected tensor operands to decompose, got memrefs");
    TensorBuilder b(op->getLoc(), builder);
    b.setInsertionPoint(op);
    return decompose(cast<OpTy>(op), b);
  }
};
} // namespace

void k3::registerAggregatedOpInterfaceExternalModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, K3Dialect *) {
    forEachStructuredOp(
        [&]<typename OpTy>() { OpTy::template attachInterface<StructuredDecomposition<OpTy>>(*context); });
  });
}
