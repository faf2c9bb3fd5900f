//===- Passes.td - from layer functions to programs -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TRANSFORMS_PROGRAM_PASSES_TD
#define K3_TRANSFORMS_PROGRAM_PASSES_TD

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// dispatch
//===----------------------------------------------------------------------===//

def FormDispatches : Pass<"k3-form-dispatches", "::mlir::ModuleOp"> {
  let summary = "outline one kernel per structured op; layer functions become calls";
  let description = [{
    Each structured op of a function with `k3.phase` becomes a private function `{k3.kernel}`:

    * arguments: the tensors it reads in operand order, index values that the kernel cannot compute, its destinations;
      results: the destinations;
    * reshapes and slices on the way to an operand move into the kernel, also those of a destination, whose
      `insert_slice` back into the whole tensor then disappears;
    * constants are copied, dynamic sizes are read from the kernel's own arguments.

    The caller is left with calls on its own arguments, on `tensor.empty`s and on results of other calls. A tensor that
    was passed as a destination must not be used afterwards except through the call's result: then no copy is needed,
    and what would need one is reported at the call.

    With `separate-phases` kernels carry their phase (`k3.phase`), so that `configure` may choose by it; those of the two
    phases are not merged until then.
  }];
  let options = [Option<"separatePhases", "separate-phases", "bool", "false", "kernels know which phase calls them">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect", "::mlir::tensor::TensorDialect"];
}

def DedupKernels : Pass<"k3-dedup-kernels", "::mlir::ModuleOp"> {
  let summary = "merge equal kernels of all layer kinds and phases";
  let description = [{
    Kernels that differ only in their name are one: its callers may be layers of any kind, in both phases.
  }];
}

//===----------------------------------------------------------------------===//
// kernels
//===----------------------------------------------------------------------===//

def LowerToExec : Pass<"k3-lower-to-exec", "::mlir::ModuleOp"> {
  let summary = "layer functions become k3.exec programs";
  let description = [{
    Calls become dispatches: the grid from the loops of the kernel's root op and the tiles of its `kernel_config`, one
    binding per tensor argument, scalars from the dynamic dimensions of the tensors and from the index arguments. Sizes
    are traced to the names in `k3.dims`, so every one is a `#k3.term`.

    A dispatch joins the earliest group after all dispatches it depends on through a buffer or a state (read after
    write, write after read, write after write).
  }];
  let options = [
    Option<"maxTokens", "max-tokens", "int64_t", "512", "rows of the largest prefill step">,
    Option<"maxSequences", "max-sequences", "int64_t", "16", "sequences of the largest step">,
    Option<"maxLogitRows", "max-logit-rows", "int64_t", "0",
           "rows of logits of the largest step; 0 = as many as fit 64 MiB, at least 8 and at most 512">,
    Option<"exact", "exact", "bool", "false", "decode takes any rows, see k3-fix-order">];
}

def OutlineExecutable : Pass<"k3-outline-executable", "::mlir::ModuleOp"> {
  let summary = "move the kernels that programs use to a module of their own";
  let description = [{
    The kernels go to `builtin.module @cpu`, which carries the target and becomes an executable of the same name when
    its code is emitted. A `k3.exec.kernel` with the next ordinal stands for each; kernels that no program uses are dropped, unless the module
    has no program.
  }];
  let options = [Option<"executable", "name", "std::string", "\"cpu\"", "name of the module">];
}

//===----------------------------------------------------------------------===//
// plan
//===----------------------------------------------------------------------===//

def PlanBuffers : Pass<"k3-plan-buffers", "::mlir::ModuleOp"> {
  let summary = "place the buffers of every program in one arena";
  let description = [{
    Buffers that live through the whole step come first. Behind them every section (prologue, layer kind, epilogue) has
    the same space for its own buffers: two of them share bytes only if no group uses both and neither is needed later.
    Largest first, each buffer takes the smallest gap that fits. The plan is checked by `verifyBufferPlan`, which shares
    no code with it.
  }];
  let options = [Option<"checkOnly", "check-only", "bool", "false", "check the plan that is there">];
}

#endif // K3_TRANSFORMS_PROGRAM_PASSES_TD
