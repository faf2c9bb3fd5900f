// RUN: k3-opt %s --allow-unregistered-dialect --split-input-file --verify-diagnostics

// expected-error @+1 {{expected at least 1 in a grid's dimension, got 0}}
"test.op"() {a = #k3.grid_dim<T / 0>} : () -> ()

// -----

// expected-error @+1 {{expected at most 3 dimensions of a grid, got 4}}
"test.op"() {a = #k3.kernel_config<tiles = [], strategy = "s", grid = [1, 2, 3, 4], threads = 32>} : () -> ()

// -----

// expected-error @+1 {{expected whole warps of at most 1024 threads, got 33}}
"test.op"() {a = #k3.kernel_config<tiles = [], strategy = "s", threads = 33>} : () -> ()

// -----

// expected-error @+1 {{expected a cluster of 1 to 16 workgroups, got 17}}
"test.op"() {a = #k3.kernel_config<tiles = [], strategy = "s", threads = 32, cluster = 17>} : () -> ()

// -----

// expected-error @+1 {{expected threads with shared_bytes, cluster or tensor_maps}}
"test.op"() {a = #k3.kernel_config<tiles = [], strategy = "s", shared_bytes = 4>} : () -> ()

// -----

// expected-error @+1 {{expected a swizzle of 0, 32, 64 or 128 bytes, got 16}}
"test.op"() {a = #k3.kernel_config<tiles = [], strategy = "s", threads = 32, tensor_maps = [<0, box = [8], swizzle = 16>]>} : () -> ()

// -----

// expected-error @+1 {{expected a box of one to three sizes from 1 to 256}}
"test.op"() {a = #k3.kernel_config<tiles = [], strategy = "s", threads = 32, tensor_maps = [<0, box = [257], swizzle = 0>]>} : () -> ()

// -----

// expected-error @+1 {{expected grid, threads, shared_bytes, cluster or tensor_maps, got warps}}
"test.op"() {a = #k3.kernel_config<tiles = [], strategy = "s", warps = 4>} : () -> ()
