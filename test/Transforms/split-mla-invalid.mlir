// RUN: not k3-opt %s --k3-split-mla=blocks=0 2>&1 | FileCheck %s

// CHECK: expected at least 1 block, head and row of a tile, got 0, 16 and 32
module {}
