// RUN: not k3-opt %s --k3-chunk-kda=rows=24 2>&1 | FileCheck %s

// CHECK: error: expected chunks of 16, 32 or 64 rows, got 24
