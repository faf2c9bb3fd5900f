//===- ReduceOps.cpp - reduction of IR one op at a time -*- C++ -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tools/k3-reduce/ReduceOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/DialectInterface.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Reducer/ReductionPatternInterface.h"
#include "mlir/Reducer/Tester.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace {
struct ReduceOpsPass final : PassWrapper<ReduceOpsPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ReduceOpsPass)

  ReduceOpsPass() = default;
  ReduceOpsPass(const ReduceOpsPass &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "k3-reduce-ops"; }
  StringRef getDescription() const override {
    return "erase ops, functions and results while the test finds the rest interesting";
  }

  void runOnOperation() override {
    if (script.empty()) {
      getOperation().emitError("expected 'test', a script that exits with 1 for an interesting file, got none");
      return signalPassFailure();
    }
    Tester tester(script, scriptArguments);
    if (!isInteresting(tester, getOperation())) {
      getOperation().emitError() << "expected an interesting file, but '" << script << "' does not exit with 1";
      return signalPassFailure();
    }
    RewritePatternSet patterns(&getContext());
    for (const auto &dialect : DialectInterfaceCollection<DialectReductionPatternInterface>(&getContext()))
      dialect.populateReductionPatterns(patterns);
    FrozenRewritePatternSet frozen(std::move(patterns));

    for (bool reduced = true; reduced;) {
      reduced = false;
      // Users come after what they use, so the last ops go first. Each success makes ops vanish: count anew.
      for (int64_t number = countOps(getOperation()) - 1; number > 0; --number) {
        for (auto move : {eraseUnused, applyPatterns, dropResults}) {
          OwningOpRef<ModuleOp> candidate = getOperation().clone();
          if (!move(getOp(*candidate, number), frozen) || !isInteresting(tester, *candidate))
            continue;
          getOperation().getBodyRegion().takeBody(candidate->getBodyRegion());
          reduced = true;
          number = std::min(number, countOps(getOperation()));
          break;
        }
      }
    }
  }

private:
  static int64_t countOps(ModuleOp module) {
    int64_t count = 0;
    module.walk([&](Operation *) { ++count; });
    return count;
  }

  /// Number 0 is the module.
  static Operation *getOp(ModuleOp module, int64_t number) {
    Operation *found = nullptr;
    module.walk<WalkOrder::PreOrder>([&](Operation *op) {
      found = op;
      return number-- == 0 ? WalkResult::interrupt() : WalkResult::advance();
    });
    return found;
  }

  static bool isInteresting(const Tester &tester, ModuleOp module) {
    ScopedDiagnosticHandler silence(module.getContext(), [](Diagnostic &) { return success(); });
    return succeeded(verify(module)) && tester.isInteresting(module).first == Tester::Interestingness::True;
  }

  static bool isReferenced(Operation *op) {
    auto symbol = dyn_cast<SymbolOpInterface>(op);
    if (!symbol)
      return false;
    std::optional<SymbolTable::UseRange> uses = SymbolTable::getSymbolUses(op, op->getParentOfType<ModuleOp>());
    return !uses || !uses->empty();
  }

  static bool eraseUnused(Operation *op, const FrozenRewritePatternSet &) {
    if (!op->use_empty() || op->hasTrait<OpTrait::IsTerminator>() || isReferenced(op))
      return false;
    op->erase();
    return true;
  }

  static bool applyPatterns(Operation *op, const FrozenRewritePatternSet &patterns) {
    GreedyRewriteConfig config;
    config.setStrictness(GreedyRewriteStrictness::ExistingOps).enableFolding(false).enableConstantCSE(false);
    bool changed = false;
    (void)applyOpPatternsGreedily({op}, patterns, config, &changed);
    return changed;
  }

  static bool dropResults(Operation *op, const FrozenRewritePatternSet &) {
    auto func = dyn_cast<func::FuncOp>(op);
    if (!func || func.isExternal() || func.getNumResults() == 0 || isReferenced(func))
      return false;
    func.walk([](func::ReturnOp ret) { ret->setOperands({}); });
    func.setType(FunctionType::get(func.getContext(), func.getArgumentTypes(), {}));
    func.removeResAttrsAttr();
    return true;
  }

  Option<std::string> script{*this, "test", llvm::cl::desc("script that exits with 1 for an interesting file")};
  ListOption<std::string> scriptArguments{*this, "test-arg", llvm::cl::desc("arguments of the script before the file")};
};
} // namespace

void k3::registerReduceOpsPass() { PassRegistration<ReduceOpsPass>(); }
