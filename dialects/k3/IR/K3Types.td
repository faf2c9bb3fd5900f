//===- K3Types.td - state types of the k3 dialect -*- tablegen -*-===//
// Part of k3c, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef K3_TYPES_TD
#define K3_TYPES_TD

include "dialects/k3/IR/K3Enums.td"

def K3_KdaStateType : K3_Type<"KdaState", "kda_state"> {
  let summary = "recurrent matrix of one KDA layer, per sequence";
  let description = [{
    `!k3.kda_state<heads x key x value, element, row = value>`: `row` fixes which index is the memory row, so that two
    kernels that disagree on the layout do not verify. Stored as a pool `[slots, heads, value, key]` for row = value.
  }];
  let parameters = (ins "int64_t":$heads, "int64_t":$key, "int64_t":$value, "::mlir::Type":$elementType,
                        EnumParameter<K3_StateRow>:$row);
  let assemblyFormat = "`<` $heads `x` $key `x` $value `,` $elementType `,` `row` `=` $row `>`";
  let genVerifyDecl = 1;
}

def K3_ConvStateType : K3_Type<"ConvState", "conv_state"> {
  let summary = "raw projections of the last `taps` tokens of one short convolution, oldest first";
  let parameters = (ins "int64_t":$channels, "int64_t":$taps, "::mlir::Type":$elementType);
  let assemblyFormat = "`<` $channels `x` $taps `,` $elementType `>`";
  let genVerifyDecl = 1;
}

def K3_KvCacheType : K3_Type<"KvCache", "kv_cache"> {
  let summary = "paged latent cache of one MLA layer: normed latent, then the shared unrotated key part";
  let parameters = (ins "int64_t":$latent, "int64_t":$rope, "::mlir::Type":$elementType, "int64_t":$page);
  let assemblyFormat = "`<` $latent `+` $rope `,` $elementType `,` `page` `=` $page `>`";
  let genVerifyDecl = 1;
}

def K3_SeqType : K3_Type<"Seq", "seq"> {
  let summary = "bookkeeping of the sequences in a step";
  let description = [{
    Becomes the index tensors `cu[N+1]`, `slots[N]`, `lengths[N]`, `page_table[N, M]`, `chunks[C, 2]`,
    `chunk_cu[N+1]` (all i32) when states are materialised.
  }];
}

#endif // K3_TYPES_TD
