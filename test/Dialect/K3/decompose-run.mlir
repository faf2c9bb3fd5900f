// Decompositions run: results that are exact. Random values are compared with lib/Reference elsewhere.
// RUN: k3-opt %s --k3-decompose-structured --convert-elementwise-to-linalg --canonicalize \
// RUN:   --one-shot-bufferize="bufferize-function-boundaries function-boundary-type-conversion=identity-layout-map" \
// RUN:   --canonicalize --convert-linalg-to-loops --expand-strided-metadata --lower-affine --convert-scf-to-cf \
// RUN:   --convert-math-to-libm --convert-to-llvm --reconcile-unrealized-casts \
// RUN:   | mlir-runner -e main --entry-point-result=void \
// RUN:     --shared-libs=%mlir_lib_dir/libmlir_runner_utils.so,%mlir_lib_dir/libmlir_c_runner_utils.so | FileCheck %s

func.func private @printMemrefI32(tensor<*xi32>)

// All 16 codes of E2M1, in both nibbles, times 2^-127 (subnormal in f32), 2^-126, 1 and 2^123: bit patterns.
func.func @mx_contract() {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<32x32xf32>
  %x = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      outs(%empty : tensor<32x32xf32>) {
  ^bb0(%old: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %same = arith.cmpi eq, %i, %j : index
    %one = arith.constant 1.0 : f32
    %element = arith.select %same, %one, %zero : f32
    linalg.yield %element : f32
  } -> tensor<32x32xf32>
  %weight = arith.constant dense<[[-16, -31, -46, -61, -76, -91, -106, -121, 120, 105, 90, 75, 60, 45, 30, 15],
                                 [-16, -31, -46, -61, -76, -91, -106, -121, 120, 105, 90, 75, 60, 45, 30, 15],
                                 [-16, -31, -46, -61, -76, -91, -106, -121, 120, 105, 90, 75, 60, 45, 30, 15],
                                 [-16, -31, -46, -61, -76, -91, -106, -121, 120, 105, 90, 75, 60, 45, 30, 15]]> : tensor<4x16xi8>
  %scale = arith.constant dense<[[0], [1], [127], [-6]]> : tensor<4x1xi8>
  %out = tensor.empty() : tensor<32x4xf32>
  %0 = k3.mx.contract ins(%x, %weight, %scale : tensor<32x32xf32>, tensor<4x16xi8>, tensor<4x1xi8>)
      outs(%out : tensor<32x4xf32>) -> tensor<32x4xf32>
  %bits = arith.bitcast %0 : tensor<32x4xf32> to tensor<32x4xi32>
  %any = tensor.cast %bits : tensor<32x4xi32> to tensor<*xi32>
  call @printMemrefI32(%any) : (tensor<*xi32>) -> ()
  return
}
// CHECK: sizes = [32, 4]
// CHECK-NEXT: [{{ *}}0, {{ *}}0, {{ *}}0, {{ *}}0{{ *}}]
// CHECK-NEXT: [{{ *}}-2126512128, {{ *}}-2118123520, {{ *}}-1061158912, {{ *}}-29360128{{ *}}]
// CHECK-NEXT: [{{ *}}2097152, {{ *}}4194304, {{ *}}1056964608, {{ *}}2088763392{{ *}}]
// CHECK-NEXT: [{{ *}}-2130706432, {{ *}}-2122317824, {{ *}}-1065353216, {{ *}}-33554432{{ *}}]
// CHECK-NEXT: [{{ *}}4194304, {{ *}}8388608, {{ *}}1065353216, {{ *}}2097152000{{ *}}]
// CHECK-NEXT: [{{ *}}-2134900736, {{ *}}-2126512128, {{ *}}-1069547520, {{ *}}-37748736{{ *}}]
// CHECK-NEXT: [{{ *}}6291456, {{ *}}12582912, {{ *}}1069547520, {{ *}}2101346304{{ *}}]
// CHECK-NEXT: [{{ *}}-2139095040, {{ *}}-2130706432, {{ *}}-1073741824, {{ *}}-41943040{{ *}}]
// CHECK-NEXT: [{{ *}}8388608, {{ *}}16777216, {{ *}}1073741824, {{ *}}2105540608{{ *}}]
// CHECK-NEXT: [{{ *}}-2141192192, {{ *}}-2134900736, {{ *}}-1077936128, {{ *}}-46137344{{ *}}]
// CHECK-NEXT: [{{ *}}12582912, {{ *}}20971520, {{ *}}1077936128, {{ *}}2109734912{{ *}}]
// CHECK-NEXT: [{{ *}}-2143289344, {{ *}}-2139095040, {{ *}}-1082130432, {{ *}}-50331648{{ *}}]
// CHECK-NEXT: [{{ *}}16777216, {{ *}}25165824, {{ *}}1082130432, {{ *}}2113929216{{ *}}]
// CHECK-NEXT: [{{ *}}-2145386496, {{ *}}-2143289344, {{ *}}-1090519040, {{ *}}-58720256{{ *}}]
// CHECK-NEXT: [{{ *}}20971520, {{ *}}29360128, {{ *}}1086324736, {{ *}}2118123520{{ *}}]
// CHECK-NEXT: [{{ *}}0, {{ *}}0, {{ *}}0, {{ *}}0{{ *}}]
// CHECK-NEXT: [{{ *}}0, {{ *}}0, {{ *}}0, {{ *}}0{{ *}}]
// CHECK-NEXT: [{{ *}}20971520, {{ *}}29360128, {{ *}}1086324736, {{ *}}2118123520{{ *}}]
// CHECK-NEXT: [{{ *}}-2145386496, {{ *}}-2143289344, {{ *}}-1090519040, {{ *}}-58720256{{ *}}]
// CHECK-NEXT: [{{ *}}16777216, {{ *}}25165824, {{ *}}1082130432, {{ *}}2113929216{{ *}}]
// CHECK-NEXT: [{{ *}}-2143289344, {{ *}}-2139095040, {{ *}}-1082130432, {{ *}}-50331648{{ *}}]
// CHECK-NEXT: [{{ *}}12582912, {{ *}}20971520, {{ *}}1077936128, {{ *}}2109734912{{ *}}]
// CHECK-NEXT: [{{ *}}-2141192192, {{ *}}-2134900736, {{ *}}-1077936128, {{ *}}-46137344{{ *}}]
// CHECK-NEXT: [{{ *}}8388608, {{ *}}16777216, {{ *}}1073741824, {{ *}}2105540608{{ *}}]
// CHECK-NEXT: [{{ *}}-2139095040, {{ *}}-2130706432, {{ *}}-1073741824, {{ *}}-41943040{{ *}}]
// CHECK-NEXT: [{{ *}}6291456, {{ *}}12582912, {{ *}}1069547520, {{ *}}2101346304{{ *}}]
// CHECK-NEXT: [{{ *}}-2134900736, {{ *}}-2126512128, {{ *}}-1069547520, {{ *}}-37748736{{ *}}]
// CHECK-NEXT: [{{ *}}4194304, {{ *}}8388608, {{ *}}1065353216, {{ *}}2097152000{{ *}}]
// CHECK-NEXT: [{{ *}}-2130706432, {{ *}}-2122317824, {{ *}}-1065353216, {{ *}}-33554432{{ *}}]
// CHECK-NEXT: [{{ *}}2097152, {{ *}}4194304, {{ *}}1056964608, {{ *}}2088763392{{ *}}]
// CHECK-NEXT: [{{ *}}-2126512128, {{ *}}-2118123520, {{ *}}-1061158912, {{ *}}-29360128{{ *}}]
// CHECK-NEXT: [{{ *}}0, {{ *}}0, {{ *}}0, {{ *}}0{{ *}}]

// A NaN scale makes its weights NaN, and only its own.
func.func @mx_contract_nan() {
  %x = arith.constant dense<1.0> : tensor<1x64xf32>
  %weight = arith.constant dense<0x22> : tensor<2x32xi8>
  %scale = arith.constant dense<[[127, -1], [127, 126]]> : tensor<2x2xi8>
  %out = tensor.empty() : tensor<1x2xf32>
  %0 = k3.mx.contract ins(%x, %weight, %scale : tensor<1x64xf32>, tensor<2x32xi8>, tensor<2x2xi8>)
      outs(%out : tensor<1x2xf32>) -> tensor<1x2xf32>
  %empty = tensor.empty() : tensor<1x2xi32>
  %is_nan = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<1x2xf32>) outs(%empty : tensor<1x2xi32>) {
  ^bb0(%value: f32, %old: i32):
    %unordered = arith.cmpf uno, %value, %value : f32
    %number = arith.fptosi %value : f32 to i32
    %minus = arith.constant -1 : i32
    %result = arith.select %unordered, %minus, %number : i32
    linalg.yield %result : i32
  } -> tensor<1x2xi32>
  %any = tensor.cast %is_nan : tensor<1x2xi32> to tensor<*xi32>
  call @printMemrefI32(%any) : (tensor<*xi32>) -> ()
  return
}
// CHECK: sizes = [1, 2]
// CHECK-NEXT: [-1, {{ *}}48]

// Slots sorted by expert, stable; expert 2 is empty, expert 3 has most.
func.func @plan() {
  %ids = arith.constant dense<[[3, 0], [1, 3], [3, 1]]> : tensor<3x2xi32>
  %offsets = tensor.empty() : tensor<5xi32>
  %perm = tensor.empty() : tensor<3x2xi32>
  %0:2 = k3.latent_moe.plan ins(%ids : tensor<3x2xi32>) outs(%offsets, %perm : tensor<5xi32>, tensor<3x2xi32>)
      -> tensor<5xi32>, tensor<3x2xi32>
  %o = tensor.cast %0#0 : tensor<5xi32> to tensor<*xi32>
  call @printMemrefI32(%o) : (tensor<*xi32>) -> ()
  %p = tensor.cast %0#1 : tensor<3x2xi32> to tensor<*xi32>
  call @printMemrefI32(%p) : (tensor<*xi32>) -> ()
  return
}
// CHECK: sizes = [5]
// CHECK-NEXT: [0, 1, 3, 3, 6]
// CHECK: sizes = [3, 2]
// CHECK-NEXT: [1, {{ *}}2]
// CHECK-NEXT: [5, {{ *}}0]
// CHECK-NEXT: [3, {{ *}}4]

// Equal scores go to the lower id; the bias chooses but does not weigh; a logit that is not a number is not chosen.
func.func @route() {
  %logits = arith.constant dense<[[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0x7FC00000, 0.0]]> : tensor<2x4xf32>
  %bias = arith.constant dense<[0.0, 0.0, 0.0, 0.5]> : tensor<4xf32>
  %ids = tensor.empty() : tensor<2x2xi32>
  %weights = tensor.empty() : tensor<2x2xf32>
  %0:2 = k3.latent_moe.route ins(%logits, %bias : tensor<2x4xf32>, tensor<4xf32>)
      outs(%ids, %weights : tensor<2x2xi32>, tensor<2x2xf32>) {renormalize = true, scale = 1.0 : f64}
      -> tensor<2x2xi32>, tensor<2x2xf32>
  %i = tensor.cast %0#0 : tensor<2x2xi32> to tensor<*xi32>
  call @printMemrefI32(%i) : (tensor<*xi32>) -> ()
  %bits = arith.bitcast %0#1 : tensor<2x2xf32> to tensor<2x2xi32>
  %w = tensor.cast %bits : tensor<2x2xi32> to tensor<*xi32>
  call @printMemrefI32(%w) : (tensor<*xi32>) -> ()
  return
}
// 1056964608 is 0.5.
// CHECK: sizes = [2, 2]
// CHECK-NEXT: [3, {{ *}}0]
// CHECK: sizes = [2, 2]
// CHECK-NEXT: [1056964608, {{ *}}1056964608]

// A gate of -2^24 does not swallow the gate of -1/2 after it: row 2 sees row 1 by exp(-1/2), in thousandths.
func.func @chunk_prepare_pairwise() {
  %one = arith.constant dense<1.0> : tensor<3x1x1xf32>
  %g = arith.constant dense<[[[0.0]], [[-16777216.0]], [[-0.5]]]> : tensor<3x1x1xf32>
  %beta = arith.constant dense<0.0> : tensor<3x1xf32>
  %chunks = arith.constant dense<[[0, 3]]> : tensor<1x2xi32>
  %lk = tensor.empty() : tensor<1x1x16x1xf32>
  %ll = tensor.empty() : tensor<1x1x16x16xf32>
  %gl = tensor.empty() : tensor<1x1x1xf32>
  %0:6 = k3.kda.chunk_prepare ins(%one, %one, %one, %g, %beta, %chunks
      : tensor<3x1x1xf32>, tensor<3x1x1xf32>, tensor<3x1x1xf32>, tensor<3x1x1xf32>, tensor<3x1xf32>, tensor<1x2xi32>)
      outs(%lk, %lk, %lk, %lk, %ll, %gl : tensor<1x1x16x1xf32>, tensor<1x1x16x1xf32>, tensor<1x1x16x1xf32>,
           tensor<1x1x16x1xf32>, tensor<1x1x16x16xf32>, tensor<1x1x1xf32>)
      {scale = 1.0 : f64, l2norm = false, anchor = #k3.anchor<pairwise>}
      -> tensor<1x1x16x1xf32>, tensor<1x1x16x1xf32>, tensor<1x1x16x1xf32>, tensor<1x1x16x1xf32>,
         tensor<1x1x16x16xf32>, tensor<1x1x1xf32>
  %rows = tensor.extract_slice %0#4[0, 0, 0, 0] [1, 1, 4, 4] [1, 1, 1, 1] : tensor<1x1x16x16xf32> to tensor<4x4xf32>
  %empty = tensor.empty() : tensor<4x4xi32>
  %thousandths = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%rows : tensor<4x4xf32>) outs(%empty : tensor<4x4xi32>) {
  ^bb0(%value: f32, %old: i32):
    %thousand = arith.constant 1000.0 : f32
    %scaled = arith.mulf %value, %thousand : f32
    %number = arith.fptosi %scaled : f32 to i32
    linalg.yield %number : i32
  } -> tensor<4x4xi32>
  %any = tensor.cast %thousandths : tensor<4x4xi32> to tensor<*xi32>
  call @printMemrefI32(%any) : (tensor<*xi32>) -> ()
  return
}
// CHECK: sizes = [4, 4]
// CHECK-NEXT: [1000, {{ *}}0, {{ *}}0, {{ *}}0]
// CHECK-NEXT: [0, {{ *}}1000, {{ *}}0, {{ *}}0]
// CHECK-NEXT: [0, {{ *}}606, {{ *}}1000, {{ *}}0]
// CHECK-NEXT: [0, {{ *}}0, {{ *}}0, {{ *}}0]

func.func @main() {
  call @mx_contract() : () -> ()
  call @mx_contract_nan() : () -> ()
  call @plan() : () -> ()
  call @route() : () -> ()
  call @chunk_prepare_pairwise() : () -> ()
  return
}
