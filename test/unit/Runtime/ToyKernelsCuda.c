/*===- ToyKernelsCuda.c - the toy model's kernels for a real GPU -*- C -*-===*/
/* Part of k3c, under the Apache License v2.0 with LLVM Exceptions. */
/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/*===----------------------------------------------------------------------===*/
/* The same functions behind CUDA entries: the first thread of a block is a
 * workgroup. Compiled for nvptx64, so that the runtime's tests of engines can
 * run on a GPU and its driver (K3_TOY_CUBIN). */
#define K3_TOY_FUNCTIONS_ONLY
#include "ToyKernels.c"

extern __attribute__((address_space(3), aligned(16))) char dynamicShared[];

static void run(k3_kernel_fn function, void *const *bindings, const int64_t *scalars) {
  if (__nvvm_read_ptx_sreg_tid_x() != 0)
    return;
  k3_kernel_args args = {bindings, scalars};
  k3_workgroup group = {{(uint32_t)__nvvm_read_ptx_sreg_ctaid_x(), (uint32_t)__nvvm_read_ptx_sreg_ctaid_y(),
                         (uint32_t)__nvvm_read_ptx_sreg_ctaid_z()},
                        {(uint32_t)__nvvm_read_ptx_sreg_nctaid_x(), (uint32_t)__nvvm_read_ptx_sreg_nctaid_y(),
                         (uint32_t)__nvvm_read_ptx_sreg_nctaid_z()},
                        (void *)dynamicShared,
                        1 << 16}; /* no less than what was asked for */
  if (function(&args, &group) != 0)
    __builtin_trap();
}

#define ENTRY(entry, function, parameters, pointers, numbers)                                                          \
  __attribute__((device_kernel)) void toy_##entry parameters {                                                         \
    void *const bindings[] = pointers;                                                                                 \
    const int64_t scalars[] = numbers;                                                                                 \
    run(function, bindings, scalars);                                                                                  \
  }
#define LIST(...) {__VA_ARGS__}
#define POINTERS3 void *a, void *b, void *c
#define POINTERS4 POINTERS3, void *d
#define POINTERS5 POINTERS4, void *e
#define POINTERS6 POINTERS5, void *f
#define NUMBERS2 int64_t p, int64_t q
#define NUMBERS3 NUMBERS2, int64_t r
#define NUMBERS4 NUMBERS3, int64_t s
#define NUMBERS7 NUMBERS4, int64_t t, int64_t u, int64_t v

ENTRY(embed, embed, (POINTERS3, NUMBERS3), LIST(a, b, c), LIST(p, q, r))
ENTRY(conv, conv, (POINTERS5, NUMBERS4), LIST(a, b, c, d, e), LIST(p, q, r, s))
ENTRY(chunk_sums, chunkSums, (POINTERS4, NUMBERS4), LIST(a, b, c, d), LIST(p, q, r, s))
ENTRY(chunk_scan, chunkScan, (POINTERS6, NUMBERS2), LIST(a, b, c, d, e, f), LIST(p, q))
ENTRY(chunk_apply, chunkApply, (POINTERS5, NUMBERS4), LIST(a, b, c, d, e), LIST(p, q, r, s))
ENTRY(recurrent_step, recurrentStep, (POINTERS5, NUMBERS4), LIST(a, b, c, d, e), LIST(p, q, r, s))
ENTRY(append, append, (POINTERS5, NUMBERS7), LIST(a, b, c, d, e), LIST(p, q, r, s, t, u, v))
ENTRY(attend, attend, (POINTERS6, NUMBERS7), LIST(a, b, c, d, e, f), LIST(p, q, r, s, t, u, v))
ENTRY(head, head, (POINTERS3, NUMBERS4), LIST(a, b, c), LIST(p, q, r, s))
ENTRY(sample, sample, (POINTERS4, NUMBERS3), LIST(a, b, c, d), LIST(p, q, r))
