//===- RuntimeOpVerification.cpp - run-time checks of the structured ops -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
//
// What the verifier cannot see: sizes that are dynamic, and the values of ids, boundaries, slots and page tables. The
// upstream pass generate-runtime-verification puts these checks before the ops; wrong values abort with a message.
//
//===----------------------------------------------------------------------===//
#include "dialects/k3/Interfaces/Interfaces.h"
#include "dialects/k3/Interfaces/StructuredOpList.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/RuntimeVerifiableOpInterface.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::k3;

namespace {
/// Emits assertions about one op. Messages say what was expected.
class Checks : public ImplicitLocOpBuilder {
public:
  using Message = llvm::function_ref<std::string(Operation *, StringRef)>;

  Checks(Operation *op, OpBuilder &builder, Location loc, Message message)
      : ImplicitLocOpBuilder(loc, builder), op(op), message(message) {}

  Value index(int64_t value) { return arith::ConstantIndexOp::create(*this, value); }
  Value dim(StringRef name) { return getValueOrCreateConstantIndexOp(*this, getLoc(), getNamedDim(*this, op, name)); }
  Value add(Value a, Value b) { return createOrFold<arith::AddIOp>(a, b); }
  Value mul(Value a, Value b) { return createOrFold<arith::MulIOp>(a, b); }

  Value load(Value from, ValueRange indices) {
    Value element = isa<TensorType>(from.getType()) ? Value(tensor::ExtractOp::create(*this, from, indices))
                                                    : Value(memref::LoadOp::create(*this, from, indices));
    return arith::IndexCastOp::create(*this, getIndexType(), element);
  }

  void assertThat(arith::CmpIPredicate predicate, Value a, Value b, const Twine &expected) {
    Value holds = arith::CmpIOp::create(*this, predicate, a, b);
    cf::AssertOp::create(*this, holds, message(op, ("expected " + expected).str()));
  }
  /// low <= value < high
  void assertInRange(Value value, Value low, Value high, const Twine &expected) {
    Value holds = arith::AndIOp::create(*this, arith::CmpIOp::create(*this, arith::CmpIPredicate::sge, value, low),
                                        arith::CmpIOp::create(*this, arith::CmpIPredicate::slt, value, high));
    cf::AssertOp::create(*this, holds, message(op, ("expected " + expected).str()));
  }

  void forEach(Value begin, Value end, llvm::function_ref<void(Value)> body) {
    auto loop = scf::ForOp::create(*this, begin, end, index(1));
    OpBuilder::InsertionGuard guard(*this);
    setInsertionPointToStart(loop.getBody());
    body(loop.getInductionVar());
  }

  //===--- what several ops share ---===//

  /// Equal names have equal sizes, where the verifier could not see it.
  void namedDims() {
    llvm::StringMap<std::pair<unsigned, int64_t>> first;
    for (OpOperand &operand : op->getOpOperands()) {
      auto type = dyn_cast<ShapedType>(operand.get().getType());
      if (!type)
        continue;
      unsigned number = operand.getOperandNumber();
      for (auto [index, name] : llvm::enumerate(getDimNames(op, number))) {
        int64_t position = index;
        auto [it, inserted] = first.try_emplace(name.name, number, position);
        auto [seen, seenPosition] = it->second;
        auto seenType = cast<ShapedType>(op->getOperand(seen).getType());
        if (inserted || (!type.isDynamicDim(position) && !seenType.isDynamicDim(seenPosition)))
          continue;
        assertThat(name.atLeast ? arith::CmpIPredicate::sge : arith::CmpIPredicate::eq, size(operand.get(), position),
                   size(op->getOperand(seen), seenPosition),
                   Twine(name.atLeast ? "at least the size" : "equal sizes") + " of '" + name.name + "' in '" +
                       getOperandName(op, number) + "' and '" + getOperandName(op, seen) + "'");
      }
    }
  }

  /// `boundaries` start at 0, never fall and end at `last`.
  void boundaries(StringRef name, Value boundaries, StringRef counted, Value last, StringRef lastName) {
    Value zero = index(0), one = index(1), count = dim(counted);
    assertThat(arith::CmpIPredicate::eq, size(boundaries, 0), add(count, one),
               "'" + name + "' of size " + counted + " + 1");
    assertThat(arith::CmpIPredicate::eq, load(boundaries, zero), zero, "'" + name + "' to start at 0");
    forEach(zero, count, [&](Value i) {
      assertThat(arith::CmpIPredicate::sle, load(boundaries, i), load(boundaries, add(i, one)),
                 "'" + name + "' never to fall");
    });
    assertThat(arith::CmpIPredicate::eq, load(boundaries, count), last, "'" + name + "' to end at " + lastName);
  }

  /// Every element of `ids` of any rank is in [0, end).
  void ids(StringRef name, Value ids, Value end, StringRef endName) {
    SmallVector<Value> indices;
    nest(ids, indices,
         [&] { assertInRange(load(ids, indices), index(0), end, "'" + name + "' in [0, " + endName + ")"); });
  }

  /// Slots are in the pool, and no two sequences share one.
  void slots(Value slots) {
    ids("slots", slots, dim("S"), "S");
    Value count = size(slots, 0);
    forEach(index(0), count, [&](Value i) {
      forEach(add(i, index(1)), count, [&](Value j) {
        assertThat(arith::CmpIPredicate::ne, load(slots, i), load(slots, j), "distinct 'slots'");
      });
    });
  }

  /// Chunks lie inside the T rows and have at most L.
  void chunks(Value chunks) {
    Value zero = index(0), one = index(1), longest = add(dim("L"), one), end = add(dim("T"), one);
    forEach(zero, dim("C"), [&](Value c) {
      Value begin = load(chunks, {c, zero}), rows = load(chunks, {c, one});
      assertInRange(rows, zero, longest, "'chunks' of at most L rows");
      assertInRange(begin, zero, end, "'chunks' to begin in [0, T]");
      assertInRange(add(begin, rows), zero, end, "'chunks' to end in [0, T]");
    });
  }

  /// Lengths are not negative, and the pages of every position up to the sequence's last row of this step exist. Without
  /// `cu` every sequence has one row.
  void pages(Value cu, Value lengths, Value pageTable) {
    Value zero = index(0), one = index(1), page = dim("page");
    forEach(zero, dim("N"), [&](Value n) {
      Value length = load(lengths, n);
      assertThat(arith::CmpIPredicate::sge, length, zero, "'lengths' >= 0");
      Value rows = cu ? arith::SubIOp::create(*this, load(cu, add(n, one)), load(cu, n)).getResult() : one;
      Value used = createOrFold<arith::CeilDivUIOp>(add(length, rows), page);
      assertThat(arith::CmpIPredicate::sle, used, dim("M"), "'page_table' with a page for every position");
      forEach(zero, used,
              [&](Value p) { assertInRange(load(pageTable, {n, p}), zero, dim("P"), "'page_table' in [0, P)"); });
    });
  }

private:
  Value size(Value value, int64_t dim) {
    if (isa<TensorType>(value.getType()))
      return createOrFold<tensor::DimOp>(value, dim);
    return createOrFold<memref::DimOp>(value, dim);
  }

  void nest(Value value, SmallVectorImpl<Value> &indices, llvm::function_ref<void()> body) {
    int64_t depth = indices.size();
    if (depth == cast<ShapedType>(value.getType()).getRank())
      return body();
    forEach(index(0), size(value, depth), [&](Value i) {
      indices.push_back(i);
      nest(value, indices, body);
      indices.pop_back();
    });
  }

  Operation *op;
  Message message;
};
} // namespace

/// Ops without values to check.
template <typename OpTy> static void check(OpTy, Checks &) {}

static void check(GatherRowsOp op, Checks &c) { c.ids("ids", op.getIds(), c.dim("V"), "V"); }

static void check(AttnResMixOp op, Checks &c) {
  c.assertInRange(op.getSources(), c.index(1), c.add(c.dim("R"), c.index(1)), "1 <= 'sources' <= R");
}

static void check(AttnResAccumulateOp op, Checks &c) {
  c.assertInRange(op.getSlot(), c.index(0), c.dim("R"), "'slot' in [0, R)");
}

static void check(KdaShortConvOp op, Checks &c) {
  c.boundaries("cu", op.getCu(), "N", c.dim("T"), "T");
  c.slots(op.getSlots());
}

static void check(KdaScanOp op, Checks &c) {
  c.boundaries("cu", op.getCu(), "N", c.dim("T"), "T");
  c.slots(op.getSlots());
}

static void check(KdaRecurrentStepOp op, Checks &c) { c.slots(op.getSlots()); }

static void check(KdaDecodeStepOp op, Checks &c) { c.slots(op.getSlots()); }

static void check(KdaChunkPrepareOp op, Checks &c) { c.chunks(op.getChunks()); }

static void check(KdaChunkScanOp op, Checks &c) {
  c.chunks(op.getChunks());
  c.boundaries("chunk_cu", op.getChunkCu(), "N", c.dim("C"), "C");
  c.slots(op.getSlots());
}

static void check(MoePlanOp op, Checks &c) {
  Value experts = arith::SubIOp::create(c, c.dim("E1"), c.index(1));
  c.ids("ids", op.getIds(), experts, "E");
}

template <typename OpTy> static void checkPlan(OpTy op, Checks &c) {
  Value slots = c.mul(c.dim("T"), c.dim("k"));
  c.boundaries("offsets", op.getOffsets(), "E", slots, "T k");
  c.ids("perm", op.getPerm(), slots, "T k");
}
static void check(MoeGroupedContractOp op, Checks &c) { checkPlan(op, c); }
static void check(MoeExpertMlpOp op, Checks &c) { checkPlan(op, c); }

static void check(MlaAppendOp op, Checks &c) {
  c.boundaries("cu", op.getCu(), "N", c.dim("T"), "T");
  c.pages(op.getCu(), op.getLengths(), op.getPageTable());
}

static void check(MlaAttendOp op, Checks &c) {
  c.boundaries("cu", op.getCu(), "N", c.dim("T"), "T");
  c.pages(op.getCu(), op.getLengths(), op.getPageTable());
}

static void check(MlaAttendPartialOp op, Checks &c) { c.pages(Value(), op.getLengths(), op.getPageTable()); }

namespace {
template <typename OpTy>
struct StructuredRuntimeVerification
    : public RuntimeVerifiableOpInterface::ExternalModel<StructuredRuntimeVerification<OpTy>, OpTy> {
  void generateRuntimeVerification(Operation *op, OpBuilder &builder, Location loc,
                                   function_ref<std::string(Operation *, StringRef)> generateErrorMessage) const {
    Checks checks(op, builder, loc, generateErrorMessage);
    checks.namedDims();
    check(cast<OpTy>(op), checks);
  }
};
} // namespace

void k3::registerRuntimeVerifiableOpInterfaceExternalModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, K3Dialect *) {
    forEachStructuredOp(
        [&]<typename OpTy>() { OpTy::template attachInterface<StructuredRuntimeVerification<OpTy>>(*context); });
    context->loadDialect<arith::ArithDialect, cf::ControlFlowDialect, memref::MemRefDialect, scf::SCFDialect,
                         tensor::TensorDialect>();
  });
}
