//===- Passes.td - target-independent passes -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TRANSFORMS_PASSES_TD
#define K3_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// structured
//===----------------------------------------------------------------------===//

def ExpandModelOps : Pass<"k3-expand-model-ops", "::mlir::func::FuncOp"> {
  let summary = "replace model ops by structured ops on tensors";
  let description = [{
    Every sublayer op becomes the structured ops that its description names, each with a fresh `tensor.empty` as its
    destination. States and `!k3.seq` are read through `builtin.unrealized_conversion_cast`s, which
    `k3-materialize-states` resolves.

    * MLA is emitted in absorbed form in both phases: queries go to latent space, attention reads the latent cache as it
      is stored, the output comes back (`k3.mla.absorb`, `attend`, `expand`). Nothing is expanded per cached token.
    * The router reads the full-width input with f32 products.
    * Sums of sublayer parts are `arith.addf` on tensors, for `k3-fuse-residual`.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect"];
}

def MaterializeStates : Pass<"k3-materialize-states", "::mlir::func::FuncOp"> {
  let summary = "typed states become pool tensors, !k3.seq becomes index tensors";
  let description = [{
    | argument | becomes |
    |---|---|
    | `!k3.kda_state<H x K x V, e, row = value>` | `tensor<?xHxVxKxe>`, `k3.dims = ["S"]` |
    | `!k3.conv_state<C x taps, e>` | `tensor<?xtapsxCxe>`, `k3.dims = ["S"]` |
    | `!k3.kv_cache<L + R, e, page = p>` | `tensor<?xpx(L+R)xe>`, `k3.dims = ["P"]` |
    | `!k3.seq` | those of `cu`, `slots`, `lengths`, `page_table` that are used, as `k3.input` |

    A result that carries `k3.output` also becomes an argument: the destination of the op that makes it.
  }];
  let dependentDialects = ["::mlir::tensor::TensorDialect"];
}

//===----------------------------------------------------------------------===//
// fuse
//===----------------------------------------------------------------------===//

def FuseAttnRes : Pass<"k3-fuse-attn-res", "::mlir::func::FuncOp"> {
  let summary = "fold the norm after a residual mix into the mix";
  let description = [{
    `k3.attn_res.mix` whose only user is a `k3.rms_norm` becomes one op with `out_weight` and `out_eps`. A
    `k3.gather_rows` between them moves behind the norm, with which it commutes.
  }];
}

def FuseMoe : Pass<"k3-fuse-moe", "::mlir::func::FuncOp"> {
  let summary = "run gate, up and gated unit of the routed experts as one contraction";
  let description = [{
    Two `k3.latent_moe.grouped_contract` of the same rows and their `k3.glu` become one with `up_weight` and
    `activation`: the rows are read once, the two intermediates never reach memory.
  }];
}

def RoundInputs : Pass<"k3-round-inputs", "::mlir::func::FuncOp"> {
  let summary = "round the inputs of prefill's products to bf16";
  let description = [{
    Sets `bf16_x` on every `k3.linear`, `k3.mx.contract` and `k3.latent_moe.grouped_contract` with bf16 or MXFP4 weights and
    on every `k3.mla.attend` with a bf16 cache in prefill functions, but not on the router's product. Prefill is bound by
    arithmetic, and bf16 products run at twice the rate; decoding one sequence is bound by memory and stays as it is. With
    `decode` it does the same there, because many sequences are bound by arithmetic again.
  }];
  let options = [Option<"decode", "decode", "bool", "false", "in decode functions as well">];
}

def NarrowActivations : Pass<"k3-narrow-activations", "::mlir::func::FuncOp"> {
  let summary = "store in bf16 what is only read rounded to bf16";
  let description = [{
    The result of an op becomes bf16 if every op that reads it does so with `bf16_x`, possibly through reshapes, and if it
    goes to a buffer of its own. Nothing changes in what is computed; buffers are half as large, and products on GPUs read
    them as they lie. Runs after `k3-round-inputs`.
  }];
}

def FuseResidual : Pass<"k3-fuse-residual", "::mlir::func::FuncOp"> {
  let summary = "products add to their destination";
  let description = [{
    * `k3.attn_res.accumulate` of a product (`k3.linear`, `k3.mx.contract`, `k3.latent_moe.combine`) disappears: the
      product accumulates into its slot of the stream, or overwrites it after a snapshot (`init`, which any op that does
      not read its destination can do).
    * `k3.attn_res.accumulate` of a sum becomes two.
    * Any other `arith.addf` of a product becomes an accumulating product.

    The slot is an `extract_slice` of the stream before each product and an `insert_slice` after it, so that every
    product alone updates the stream in place. Folding (`canonicalize`) would join such pairs of successive products; it
    must not run between this pass and the forming of dispatches.
  }];
  let dependentDialects = ["::mlir::tensor::TensorDialect"];
}

def FuseProjections : Pass<"k3-fuse-projections", "::mlir::func::FuncOp"> {
  let summary = "order structured ops so that independent ones stand next to each other";
  let description = [{
    Weights keep their stored form, so projections that share an input are not joined into one matrix. They become one
    dispatch group instead, whose workgroups run side by side with one barrier and the input in cache.

    `k3-lower-to-exec` puts each dispatch into the earliest group after those it depends on; this pass brings the IR into
    that order, so that what will run together stands together and is reported. An op moves to the level after the last
    op it depends on, levels follow each other, order inside a level is kept. An op that overwrites a value also comes
    after the value's earlier readers. Reshapes, slices and `tensor.empty` follow their users.
  }];
}

//===----------------------------------------------------------------------===//
// chunk
//===----------------------------------------------------------------------===//

def ChunkKda : Pass<"k3-chunk-kda", "::mlir::func::FuncOp"> {
  let summary = "prefill: split the KDA scan into chunks";
  let description = [{
    In functions of phase prefill `k3.kda.scan` becomes `k3.kda.chunk_prepare`, parallel over chunks, and
    `k3.kda.chunk_scan`. The function gets the inputs `chunks` and `chunk_cu`.

    Exponents inside a chunk are taken relative to an anchor so that products of them are matrix products. With B the
    bound of |g| (`gate_bound`) and L rows, both factors must stay far inside the range of f32 (exp(88)), with room for
    the small values they multiply; the limit is exp(60):

    | anchor | largest exponent | chosen if |
    |---|---|---|
    | `zero` | B L | B L <= 60 |
    | `mid_row` | B L / 2 | B L / 2 <= 60 (Kimi K3 with 16 rows: 5 * 8 = 40) |
    | `tile_row` | 15 B | 15 B <= 80 (Kimi K3 with 64 rows) |
    | `pairwise` | 0 | otherwise, and without a bound (Kimi-Linear) |

    `tile_row` takes the exponents of a tile of 16 x 16 on the diagonal relative to its first row. Sums over rows that do
    not count may then come near exp(80) times the number of channels, which f32 and bf16 still hold.

    A scan without per-channel g or without the delta rule has no chunked form and stays.
  }];
  let options = [Option<"rows", "rows", "int64_t", "16", "rows of a chunk: 16, 32 or 64">,
                 Option<"matrixUnits", "matrix-units", "bool", "false",
                        "chunks of 64 rows, with bf16 from prepare to scan, where K is 64 or 128 and V a multiple of 64">,
                 Option<"fuseGate", "fuse-gate", "bool", "false",
                        "a `k3.kda.gate` that only the scan reads becomes part of prepare">];
  let dependentDialects = ["::mlir::tensor::TensorDialect"];
}

def FixOrder : Pass<"k3-fix-order", "::mlir::func::FuncOp"> {
  let summary = "decode: bits that do not depend on what shares a step";
  let description = [{
    Sets `fixed_order` on every `k3.linear`, `k3.mx.contract`, `k3.latent_moe.grouped_contract` and `k3.kda.scan` in
    functions of phase decode. What is left works on rows one by one. Such functions take any number of rows per
    sequence, and give each the bits that it has when all tokens come one by one.
  }];
}

def LowerKdaDecode : Pass<"k3-lower-kda-decode", "::mlir::func::FuncOp"> {
  let summary = "decode: the KDA scan is one recurrent step";
  let description = [{
    In functions of phase decode row n is sequence n, so `k3.kda.scan` becomes `k3.kda.recurrent_step`: one read and one
    write of each state. A scan with `fixed_order` takes any number of rows and stays.
  }];
}

def AddSampling : Pass<"k3-add-sampling", "::mlir::func::FuncOp"> {
  let summary = "a GPU chooses tokens from logits itself";
  let description = [{
    The function that makes the output `logits` also makes `ids` from it: `k3.sample` with the inputs `sampling` (what to
    do with each row) and `banned` (sets of tokens that are not to be chosen, of which rows name one), so that of a row
    that is sampled only a number leaves the device. On a CPU there is nothing to copy: the runtime samples there.
  }];
  let options = [Option<"banSets", "ban-sets", "int64_t", "16", "sets of banned tokens that a step can tell apart">];
}

def SplitMla : Pass<"k3-split-mla", "::mlir::func::FuncOp"> {
  let summary = "decode on a GPU: attention by parts of the context";
  let description = [{
    In functions of phase decode `k3.mla.attend` on a bf16 cache becomes `k3.mla.attend_partial`, which deals the cache rows
    of all sequences to as many runs as the device has room for, and `k3.mla.attend_merge`: one long sequence, or a few,
    would leave most of a GPU idle. A block works on `heads` heads of a run, so there are `blocks` by their number of runs.
  }];
  let options = [Option<"blocks", "blocks", "int64_t", "132", "blocks that run side by side">,
                 Option<"heads", "heads", "int64_t", "16", "heads that a block has">,
                 Option<"tile", "tile", "int64_t", "32", "cache rows of a tile">];
  let dependentDialects = ["::mlir::tensor::TensorDialect"];
}

def FuseKdaDecode : Pass<"k3-fuse-kda-decode", "::mlir::func::FuncOp"> {
  let summary = "decode on GPUs: a KDA layer between its projections is one op";
  let description = [{
    In functions of phase decode the three short convolutions, the gate, `k3.kda.recurrent_step` and the gated norm become
    `k3.kda.decode_step`. On a GPU every dispatch costs as much as reading some megabytes; what is fused here are six of
    them, and nothing between them is larger than a row per head.
  }];
}

def FuseExperts : Pass<"k3-fuse-experts", "::mlir::func::FuncOp"> {
  let summary = "decode on GPUs: the routed experts between their latent projections are one op";
  let description = [{
    In functions of phase decode the gated `k3.latent_moe.grouped_contract` and the one that reads its rows become
    `k3.latent_moe.expert_mlp`, and `k3.latent_moe.plan` makes the counters that it needs. As two
    kernels, each begins and ends on its own; docs/performance/gpu.md says what that takes.

    After the passes that round and narrow what the contractions read, because they know those.
  }];
  let dependentDialects = ["::mlir::tensor::TensorDialect"];
}

//===----------------------------------------------------------------------===//
// kernels
//===----------------------------------------------------------------------===//

def DecomposeStructured : Pass<"k3-decompose-structured"> {
  let summary = "replace structured ops on tensors by linalg, scf, tensor, arith and math ops";
  let description = [{
    Every structured op, or those named by `ops`, becomes what its `linalg::AggregatedOpInterface` gives: the meaning of
    the op in upstream ops, also the code path of ops without a kernel of their own. Works on whole ops and on tiles.
  }];
  let options = [ListOption<"ops", "ops", "std::string", "op names, as in k3.rms_norm; all if empty">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

//===----------------------------------------------------------------------===//
// Contracts
//===----------------------------------------------------------------------===//

def VerifyStage : Pass<"k3-verify-stage", "::mlir::ModuleOp"> {
  let summary = "check the contract of a stage";
  let description = [{
    What may exist after each stage is the table in docs/architecture.md. Also checked: the module's tables, that each
    layer kind has its functions, names, phases, and what every argument says it is.
  }];
  let options = [Option<"stage", "stage", "std::string", "", "name of the stage that has just run">];
}

#endif // K3_TRANSFORMS_PASSES_TD
