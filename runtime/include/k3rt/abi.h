/*===- abi.h - kernel ABI and artifact header, shared by compiler and runtime -*- C -*-===*/
/* Part of k3c, under the Apache License v2.0 with LLVM Exceptions. */
/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/*===----------------------------------------------------------------------===*/
/*
 * Everything here is a format: change it only together with K3_ABI_VERSION. C11 and C++17, little-endian hosts.
 */
#ifndef K3RT_ABI_H
#define K3RT_ABI_H

#include <stdint.h>

#ifdef __cplusplus
#define K3_STATIC_ASSERT static_assert
extern "C" {
#else
#define K3_STATIC_ASSERT _Static_assert
#endif

#define K3_ABI_VERSION 1u

/*--- CPU kernels ----------------------------------------------------------------------------------------------------*/

/* Kernels never allocate and never call out, and a frame of theirs takes at most this much stack. */
#define K3_KERNEL_STACK_BYTES 65536u

/* What a kernel call works on. */
typedef struct k3_kernel_args {
  /* One pointer per buffer parameter, in the order of the kernel's signature. A parameter that is an expert group gets
   * the address of an array with one pointer per expert. */
  void *const *bindings;
  /* One value per scalar parameter: the dynamic dimensions of the buffers in order, then the explicit scalars. */
  const int64_t *scalars;
} k3_kernel_args;

/* One point of the grid, and the per-thread scratch memory the kernel asked for (64-byte aligned, contents undefined). */
typedef struct k3_workgroup {
  uint32_t id[3];
  uint32_t count[3];
  void *scratch;
  uint64_t scratch_bytes;
} k3_workgroup;

/* Returns 0, or a nonzero code that fails the step. */
typedef int32_t (*k3_kernel_fn)(const k3_kernel_args *args, const k3_workgroup *workgroup);

/* What the shared object of a CPU executable exports under K3_EXECUTABLE_SYMBOL: kernels by ordinal. */
typedef struct k3_executable {
  uint32_t abi_version;
  uint32_t kernel_count;
  const k3_kernel_fn *kernels;
} k3_executable;

#define K3_EXECUTABLE_SYMBOL "k3_executable_v1"

K3_STATIC_ASSERT(sizeof(k3_kernel_args) == 16, "ABI");
K3_STATIC_ASSERT(sizeof(k3_workgroup) == 40, "ABI");
K3_STATIC_ASSERT(sizeof(k3_executable) == 16, "ABI");

/*--- Artifact file --------------------------------------------------------------------------------------------------*/
/*
 *   0        k3_artifact_header
 *   64       index: a FlatBuffer (runtime/schemas/k3_artifact.fbs)
 *   ...      blobs, each at a multiple of K3_BLOB_ALIGNMENT: ELF objects, tokenizer, embedded weights
 *            (every weight at a multiple of K3_WEIGHT_ALIGNMENT)
 *
 * Offsets are from the start of the artifact. In a self-contained executable the artifact starts at a page boundary
 * behind the program and the file ends with a k3_trailer.
 */
#define K3_ARTIFACT_MAGIC "K3A1"
#define K3_TRAILER_MAGIC "K3EXE1\0"
#define K3_BLOB_ALIGNMENT 4096u
#define K3_WEIGHT_ALIGNMENT 64u

typedef struct k3_artifact_header {
  char magic[4]; /* K3_ARTIFACT_MAGIC */
  uint32_t abi_version;
  uint64_t file_length; /* of the whole artifact */
  uint64_t index_offset;
  uint64_t index_length;
  uint64_t index_hash;  /* XXH3-64 of the index */
  uint64_t reserved[2]; /* zero */
  uint64_t header_hash; /* XXH3-64 of the bytes before this field */
} k3_artifact_header;

typedef struct k3_trailer {
  uint64_t artifact_offset;
  uint64_t artifact_length;
  char magic[8]; /* K3_TRAILER_MAGIC */
} k3_trailer;

K3_STATIC_ASSERT(sizeof(k3_artifact_header) == 64, "artifact format");
K3_STATIC_ASSERT(sizeof(k3_trailer) == 24, "artifact format");

#ifdef __cplusplus
}
#endif

#endif /* K3RT_ABI_H */
