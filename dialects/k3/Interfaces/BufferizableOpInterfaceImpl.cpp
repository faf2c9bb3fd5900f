//===- BufferizableOpInterfaceImpl.cpp - bufferization of the structured ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "dialects/k3/Interfaces/Interfaces.h"
#include "dialects/k3/Interfaces/StructuredOpList.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/IR/DstBufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"

using namespace mlir;
using namespace mlir::k3;
using namespace mlir::bufferization;

namespace {
template <typename OpTy>
struct StructuredBufferization : public DstBufferizableOpInterfaceExternalModel<StructuredBufferization<OpTy>, OpTy> {
  bool bufferizesToMemoryRead(Operation *op, OpOperand &operand, const AnalysisState &) const {
    auto dps = cast<DestinationStyleOpInterface>(op);
    if (!dps.isDpsInit(&operand))
      return true;
    unsigned initIndex = operand.getOperandNumber() - dps.getDpsInitOperand(0)->getOperandNumber();
    return cast<StructuredOpInterface>(op).readsInit(initIndex);
  }

  LogicalResult bufferize(Operation *op, RewriterBase &rewriter, const BufferizationOptions &options,
                          BufferizationState &state) const {
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPoint(op);
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      if (!isa<TensorType>(operand.getType())) {
        operands.push_back(operand);
        continue;
      }
      FailureOr<Value> buffer = getBuffer(rewriter, operand, options, state);
      if (failed(buffer))
        return failure();
      operands.push_back(*buffer);
    }
    mlir::clone(rewriter, op, TypeRange{}, operands);
    SmallVector<Value> replacements;
    for (OpOperand &init : cast<DestinationStyleOpInterface>(op).getDpsInitsMutable())
      replacements.push_back(operands[init.getOperandNumber()]);
    replaceOpWithBufferizedValues(rewriter, op, replacements);
    return success();
  }
};
} // namespace

void k3::registerBufferizableOpInterfaceExternalModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, K3Dialect *) {
    forEachStructuredOp(
        [&]<typename OpTy>() { OpTy::template attachInterface<StructuredBufferization<OpTy>>(*context); });
  });
}
