// The structured ops of LatentMoE, on tensors; destinations may be overwritten.

func.func @route(%logits: tensor<?x16xf32>, %bias: tensor<16xf32>,
                 %ids: tensor<?x4xi32> {bufferization.writable = true},
                 %weights: tensor<?x4xf32> {bufferization.writable = true}) -> (tensor<?x4xi32>, tensor<?x4xf32>) {
  %0:2 = k3.latent_moe.route ins(%logits, %bias : tensor<?x16xf32>, tensor<16xf32>)
      outs(%ids, %weights : tensor<?x4xi32>, tensor<?x4xf32>) {renormalize = true, scale = 1.0 : f64}
      -> tensor<?x4xi32>, tensor<?x4xf32>
  return %0#0, %0#1 : tensor<?x4xi32>, tensor<?x4xf32>
}

func.func @plan(%ids: tensor<?x4xi32>, %offsets: tensor<17xi32> {bufferization.writable = true},
                %perm: tensor<?x4xi32> {bufferization.writable = true}) -> (tensor<17xi32>, tensor<?x4xi32>) {
  %0:2 = k3.latent_moe.plan ins(%ids : tensor<?x4xi32>) outs(%offsets, %perm : tensor<17xi32>, tensor<?x4xi32>)
      -> tensor<17xi32>, tensor<?x4xi32>
  return %0#0, %0#1 : tensor<17xi32>, tensor<?x4xi32>
}

// The first product of bf16 experts, with the gated unit: rows are tokens.
func.func @grouped_up(%x: tensor<?x64xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>, %w1: tensor<16x32x64xbf16>,
                      %w3: tensor<16x32x64xbf16>, %out: tensor<?x4x32xf32> {bufferization.writable = true}) -> tensor<?x4x32xf32> {
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %w1
      : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x64xbf16>) up_weight(%w3 : tensor<16x32x64xbf16>)
      outs(%out : tensor<?x4x32xf32>) {activation = #k3.activation<swiglu>} -> tensor<?x4x32xf32>
  return %0 : tensor<?x4x32xf32>
}

// The same of MXFP4 experts.
func.func @grouped_up_mx(%x: tensor<?x64xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>, %w1: tensor<16x32x32xi8>,
                         %s1: tensor<16x32x2xi8>, %w3: tensor<16x32x32xi8>, %s3: tensor<16x32x2xi8>,
                         %out: tensor<?x4x32xf32> {bufferization.writable = true}) -> tensor<?x4x32xf32> {
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %w1
      : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x32xi8>) scale(%s1 : tensor<16x32x2xi8>)
      up_weight(%w3 : tensor<16x32x32xi8>) up_scale(%s3 : tensor<16x32x2xi8>) outs(%out : tensor<?x4x32xf32>)
      {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64} -> tensor<?x4x32xf32>
  return %0 : tensor<?x4x32xf32>
}

// The second product: rows are slots.
func.func @grouped_down_mx(%x: tensor<?x4x32xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>,
                           %w2: tensor<16x64x16xi8>, %s2: tensor<16x64x1xi8>,
                           %out: tensor<?x4x64xf32> {bufferization.writable = true}) -> tensor<?x4x64xf32> {
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %w2
      : tensor<?x4x32xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x64x16xi8>) scale(%s2 : tensor<16x64x1xi8>)
      outs(%out : tensor<?x4x64xf32>) -> tensor<?x4x64xf32>
  return %0 : tensor<?x4x64xf32>
}

func.func @combine(%y: tensor<?x4x64xf32>, %weights: tensor<?x4xf32>,
                   %out: tensor<?x64xf32> {bufferization.writable = true}) -> tensor<?x64xf32> {
  %0 = k3.latent_moe.combine ins(%y, %weights : tensor<?x4x64xf32>, tensor<?x4xf32>) outs(%out : tensor<?x64xf32>)
      -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}

func.func @plan_counted(%ids: tensor<?x4xi32>, %progress: tensor<?x4xi32> {bufferization.writable = true},
                        %offsets: tensor<17xi32> {bufferization.writable = true},
                        %perm: tensor<?x4xi32> {bufferization.writable = true}) -> (tensor<?x4xi32>, tensor<17xi32>, tensor<?x4xi32>) {
  %0:3 = k3.latent_moe.plan ins(%ids : tensor<?x4xi32>) progress(%progress : tensor<?x4xi32>)
      outs(%offsets, %perm : tensor<17xi32>, tensor<?x4xi32>) -> tensor<?x4xi32>, tensor<17xi32>, tensor<?x4xi32>
  return %0#0, %0#1, %0#2 : tensor<?x4xi32>, tensor<17xi32>, tensor<?x4xi32>
}

// Both products of MXFP4 experts.
func.func @expert_mlp(%x: tensor<?x64xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>, %w1: tensor<16x32x32xi8>,
                      %s1: tensor<16x32x2xi8>, %w3: tensor<16x32x32xi8>, %s3: tensor<16x32x2xi8>, %w2: tensor<16x64x16xi8>,
                      %s2: tensor<16x64x1xi8>, %inner: tensor<?x4x32xf32> {bufferization.writable = true},
                      %out: tensor<?x4x64xf32> {bufferization.writable = true},
                      %progress: tensor<?x4xi32> {bufferization.writable = true})
    -> (tensor<?x4x32xf32>, tensor<?x4x64xf32>, tensor<?x4xi32>) {
  %0:3 = k3.latent_moe.expert_mlp ins(%x, %offsets, %perm, %w1, %w3, %w2
      : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x32xi8>, tensor<16x32x32xi8>, tensor<16x64x16xi8>)
      scale(%s1 : tensor<16x32x2xi8>) up_scale(%s3 : tensor<16x32x2xi8>) down_scale(%s2 : tensor<16x64x1xi8>)
      outs(%inner, %out, %progress : tensor<?x4x32xf32>, tensor<?x4x64xf32>, tensor<?x4xi32>)
      {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64}
      -> tensor<?x4x32xf32>, tensor<?x4x64xf32>, tensor<?x4xi32>
  return %0#0, %0#1, %0#2 : tensor<?x4x32xf32>, tensor<?x4x64xf32>, tensor<?x4xi32>
}
