// RUN: k3-opt %s --split-input-file --verify-diagnostics

func.func @route_top_k(%logits: tensor<?x16xf32>, %bias: tensor<16xf32>, %ids: tensor<?x17xi32>,
                       %weights: tensor<?x17xf32>) {
  // expected-error @+1 {{'k3.latent_moe.route' op expected 'k' <= 'E' = 16, got 17}}
  %0:2 = k3.latent_moe.route ins(%logits, %bias : tensor<?x16xf32>, tensor<16xf32>)
      outs(%ids, %weights : tensor<?x17xi32>, tensor<?x17xf32>) {renormalize = true, scale = 1.0 : f64}
      -> tensor<?x17xi32>, tensor<?x17xf32>
  return
}

// -----

func.func @grouped_offsets(%x: tensor<?x64xf32>, %offsets: tensor<16xi32>, %perm: tensor<?x4xi32>,
                           %weight: tensor<16x32x32xi8>, %scale: tensor<16x32x2xi8>, %up_weight: tensor<16x32x32xi8>,
                           %up_scale: tensor<16x32x2xi8>, %out: tensor<?x4x32xf32>) {
  // expected-error @+1 {{'k3.latent_moe.grouped_contract' op expected 'E1' = E + 1 = 17, got 16}}
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %weight
      : tensor<?x64xf32>, tensor<16xi32>, tensor<?x4xi32>, tensor<16x32x32xi8>) scale(%scale : tensor<16x32x2xi8>)
      up_weight(%up_weight : tensor<16x32x32xi8>) up_scale(%up_scale : tensor<16x32x2xi8>)
      outs(%out : tensor<?x4x32xf32>) {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64}
      -> tensor<?x4x32xf32>
  return
}

// -----

func.func @grouped_no_scale(%x: tensor<?x64xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>,
                            %weight: tensor<16x32x32xi8>, %up_weight: tensor<16x32x32xi8>,
                            %up_scale: tensor<16x32x2xi8>, %out: tensor<?x4x32xf32>) {
  // expected-error @+1 {{'k3.latent_moe.grouped_contract' op expected 'scale' with i8 'weight', got none}}
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %weight
      : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x32xi8>)
      up_weight(%up_weight : tensor<16x32x32xi8>) up_scale(%up_scale : tensor<16x32x2xi8>)
      outs(%out : tensor<?x4x32xf32>) {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64}
      -> tensor<?x4x32xf32>
  return
}

// -----

func.func @grouped_float_scale(%x: tensor<?x64xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>,
                               %weight: tensor<16x32x64xbf16>, %scale: tensor<16x32x2xi8>,
                               %up_weight: tensor<16x32x64xbf16>, %up_scale: tensor<16x32x2xi8>,
                               %out: tensor<?x4x32xf32>) {
  // expected-error @+1 {{'k3.latent_moe.grouped_contract' op expected no 'scale' with 'bf16' 'weight', got 'tensor<16x32x2xi8>'}}
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %weight
      : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x64xbf16>) scale(%scale : tensor<16x32x2xi8>)
      up_weight(%up_weight : tensor<16x32x64xbf16>) up_scale(%up_scale : tensor<16x32x2xi8>)
      outs(%out : tensor<?x4x32xf32>) {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64}
      -> tensor<?x4x32xf32>
  return
}

// -----

func.func @grouped_scale_type(%x: tensor<?x64xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>,
                              %weight: tensor<16x32x32xi8>, %scale: tensor<16x32x2xf32>,
                              %up_weight: tensor<16x32x32xi8>, %up_scale: tensor<16x32x2xi8>,
                              %out: tensor<?x4x32xf32>) {
  // expected-error @+1 {{'k3.latent_moe.grouped_contract' op expected i8 'scale', got 'f32'}}
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %weight
      : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x32xi8>) scale(%scale : tensor<16x32x2xf32>)
      up_weight(%up_weight : tensor<16x32x32xi8>) up_scale(%up_scale : tensor<16x32x2xi8>)
      outs(%out : tensor<?x4x32xf32>) {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64}
      -> tensor<?x4x32xf32>
  return
}

// -----

func.func @grouped_up_type(%x: tensor<?x64xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>,
                           %weight: tensor<16x32x32xi8>, %scale: tensor<16x32x2xi8>,
                           %up_weight: tensor<16x32x32xbf16>, %up_scale: tensor<16x32x2xi8>,
                           %out: tensor<?x4x32xf32>) {
  // expected-error @+1 {{'k3.latent_moe.grouped_contract' op expected 'weight' and 'up_weight' of one element type, got 'i8' and 'bf16'}}
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %weight
      : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x32xi8>) scale(%scale : tensor<16x32x2xi8>)
      up_weight(%up_weight : tensor<16x32x32xbf16>) up_scale(%up_scale : tensor<16x32x2xi8>)
      outs(%out : tensor<?x4x32xf32>) {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64}
      -> tensor<?x4x32xf32>
  return
}

// -----

func.func @grouped_no_up_scale(%x: tensor<?x64xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>,
                               %weight: tensor<16x32x32xi8>, %scale: tensor<16x32x2xi8>,
                               %up_weight: tensor<16x32x32xi8>, %out: tensor<?x4x32xf32>) {
  // expected-error @+1 {{'k3.latent_moe.grouped_contract' op expected 'up_scale' with i8 'up_weight', got none}}
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %weight
      : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x32xi8>) scale(%scale : tensor<16x32x2xi8>)
      up_weight(%up_weight : tensor<16x32x32xi8>) outs(%out : tensor<?x4x32xf32>)
      {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64} -> tensor<?x4x32xf32>
  return
}

// -----

func.func @grouped_stray_up_scale(%x: tensor<?x64xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>,
                                  %weight: tensor<16x32x32xi8>, %scale: tensor<16x32x2xi8>,
                                  %up_scale: tensor<16x32x2xi8>, %out: tensor<?x4x32xf32>) {
  // expected-error @+1 {{'k3.latent_moe.grouped_contract' op expected no 'up_scale' without 'up_weight', got one}}
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %weight
      : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x32xi8>) scale(%scale : tensor<16x32x2xi8>)
      up_scale(%up_scale : tensor<16x32x2xi8>) outs(%out : tensor<?x4x32xf32>)
      {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64} -> tensor<?x4x32xf32>
  return
}

// -----

func.func @grouped_no_activation(%x: tensor<?x64xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>,
                                 %weight: tensor<16x32x32xi8>, %scale: tensor<16x32x2xi8>,
                                 %up_weight: tensor<16x32x32xi8>, %up_scale: tensor<16x32x2xi8>,
                                 %out: tensor<?x4x32xf32>) {
  // expected-error @+1 {{'k3.latent_moe.grouped_contract' op expected 'activation' and 'up_weight' together, got 'up_weight' only}}
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %weight
      : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x32xi8>) scale(%scale : tensor<16x32x2xi8>)
      up_weight(%up_weight : tensor<16x32x32xi8>) up_scale(%up_scale : tensor<16x32x2xi8>)
      outs(%out : tensor<?x4x32xf32>) -> tensor<?x4x32xf32>
  return
}

// -----

func.func @grouped_stray_activation(%x: tensor<?x64xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>,
                                    %weight: tensor<16x32x32xi8>, %scale: tensor<16x32x2xi8>,
                                    %out: tensor<?x4x32xf32>) {
  // expected-error @+1 {{'k3.latent_moe.grouped_contract' op expected 'activation' and 'up_weight' together, got 'activation' only}}
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %weight
      : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x32xi8>) scale(%scale : tensor<16x32x2xi8>)
      outs(%out : tensor<?x4x32xf32>) {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64}
      -> tensor<?x4x32xf32>
  return
}

// -----

func.func @grouped_beta(%x: tensor<?x64xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>,
                        %weight: tensor<16x32x32xi8>, %scale: tensor<16x32x2xi8>, %up_weight: tensor<16x32x32xi8>,
                        %up_scale: tensor<16x32x2xi8>, %out: tensor<?x4x32xf32>) {
  // expected-error @+1 {{'k3.latent_moe.grouped_contract' op expected finite 'beta' > 0 with situ, got 0.000000e+00}}
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %weight
      : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x32xi8>) scale(%scale : tensor<16x32x2xi8>)
      up_weight(%up_weight : tensor<16x32x32xi8>) up_scale(%up_scale : tensor<16x32x2xi8>)
      outs(%out : tensor<?x4x32xf32>) {activation = #k3.activation<situ>, linear_beta = 25.0 : f64}
      -> tensor<?x4x32xf32>
  return
}

// -----

func.func @grouped_rank(%x: tensor<64xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>,
                        %weight: tensor<16x32x32xi8>, %scale: tensor<16x32x2xi8>, %up_weight: tensor<16x32x32xi8>,
                        %up_scale: tensor<16x32x2xi8>, %out: tensor<?x4x32xf32>) {
  // expected-error @+1 {{'k3.latent_moe.grouped_contract' op expected 'x' to be [T k? kx], got 'tensor<64xf32>'}}
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %weight
      : tensor<64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x32xi8>) scale(%scale : tensor<16x32x2xi8>)
      up_weight(%up_weight : tensor<16x32x32xi8>) up_scale(%up_scale : tensor<16x32x2xi8>)
      outs(%out : tensor<?x4x32xf32>) {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64}
      -> tensor<?x4x32xf32>
  return
}

// -----

func.func @grouped_inner(%x: tensor<?x64xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>,
                         %weight: tensor<16x32x32xbf16>, %up_weight: tensor<16x32x32xbf16>,
                         %out: tensor<?x4x32xf32>) {
  // expected-error @+1 {{'k3.latent_moe.grouped_contract' op expected 'wk' = kx = 64, got 32}}
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %weight
      : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x32xbf16>)
      up_weight(%up_weight : tensor<16x32x32xbf16>) outs(%out : tensor<?x4x32xf32>)
      {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64} -> tensor<?x4x32xf32>
  return
}

// -----

func.func @grouped_group(%x: tensor<?x48xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>,
                         %weight: tensor<16x32x32xi8>, %scale: tensor<16x32x2xi8>, %up_weight: tensor<16x32x32xi8>,
                         %up_scale: tensor<16x32x2xi8>, %out: tensor<?x4x32xf32>) {
  // expected-error @+1 {{'k3.latent_moe.grouped_contract' op expected 'kx' to be a multiple of 32 with i8 'weight', got 48}}
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %weight
      : tensor<?x48xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x32xi8>) scale(%scale : tensor<16x32x2xi8>)
      up_weight(%up_weight : tensor<16x32x32xi8>) up_scale(%up_scale : tensor<16x32x2xi8>)
      outs(%out : tensor<?x4x32xf32>) {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64}
      -> tensor<?x4x32xf32>
  return
}

// -----

func.func @grouped_codes(%x: tensor<?x64xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>,
                         %weight: tensor<16x32x64xi8>, %scale: tensor<16x32x2xi8>, %up_weight: tensor<16x32x64xi8>,
                         %up_scale: tensor<16x32x2xi8>, %out: tensor<?x4x32xf32>) {
  // expected-error @+1 {{'k3.latent_moe.grouped_contract' op expected 'wk' = kx / 2 = 32, got 64}}
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %weight
      : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x64xi8>) scale(%scale : tensor<16x32x2xi8>)
      up_weight(%up_weight : tensor<16x32x64xi8>) up_scale(%up_scale : tensor<16x32x2xi8>)
      outs(%out : tensor<?x4x32xf32>) {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64}
      -> tensor<?x4x32xf32>
  return
}

// -----

func.func @grouped_scales(%x: tensor<?x64xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>,
                          %weight: tensor<16x32x32xi8>, %scale: tensor<16x32x4xi8>, %up_weight: tensor<16x32x32xi8>,
                          %up_scale: tensor<16x32x4xi8>, %out: tensor<?x4x32xf32>) {
  // expected-error @+1 {{'k3.latent_moe.grouped_contract' op expected 'kg' = kx / 32 = 2, got 4}}
  %0 = k3.latent_moe.grouped_contract ins(%x, %offsets, %perm, %weight
      : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x32xi8>) scale(%scale : tensor<16x32x4xi8>)
      up_weight(%up_weight : tensor<16x32x32xi8>) up_scale(%up_scale : tensor<16x32x4xi8>)
      outs(%out : tensor<?x4x32xf32>) {activation = #k3.activation<situ>, beta = 4.0 : f64, linear_beta = 25.0 : f64}
      -> tensor<?x4x32xf32>
  return
}

// -----

func.func @plan_perm(%ids: tensor<?x4xi32>, %offsets: tensor<17xi32>, %perm: tensor<?x3xi32>) {
  // expected-error @+1 {{'k3.latent_moe.plan' op expected equal sizes of 'k', got 4 in 'ids' and 3 in 'perm'}}
  %0:2 = k3.latent_moe.plan ins(%ids : tensor<?x4xi32>) outs(%offsets, %perm : tensor<17xi32>, tensor<?x3xi32>)
      -> tensor<17xi32>, tensor<?x3xi32>
  return
}

// -----

func.func @combine_weights(%y: tensor<?x4x64xf32>, %weights: tensor<?x3xf32>, %out: tensor<?x64xf32>) {
  // expected-error @+1 {{'k3.latent_moe.combine' op expected equal sizes of 'k', got 4 in 'y' and 3 in 'weights'}}
  %0 = k3.latent_moe.combine ins(%y, %weights : tensor<?x4x64xf32>, tensor<?x3xf32>) outs(%out : tensor<?x64xf32>)
      -> tensor<?x64xf32>
  return
}

// -----

func.func @mlp_down_type(%x: tensor<?x64xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>, %w: tensor<16x32x64xbf16>,
                         %down: tensor<16x64x32xf32>, %inner: tensor<?x4x32xf32>, %out: tensor<?x4x64xf32>, %p: tensor<?x4xi32>) {
  // expected-error @+1 {{'k3.latent_moe.expert_mlp' op expected 'weight' and 'down_weight' of one element type, got 'bf16' and 'f32'}}
  %0:3 = k3.latent_moe.expert_mlp ins(%x, %offsets, %perm, %w, %w, %down
      : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x64xbf16>, tensor<16x32x64xbf16>, tensor<16x64x32xf32>)
      outs(%inner, %out, %p : tensor<?x4x32xf32>, tensor<?x4x64xf32>, tensor<?x4xi32>) {activation = #k3.activation<swiglu>}
      -> tensor<?x4x32xf32>, tensor<?x4x64xf32>, tensor<?x4xi32>
  return
}

// -----

func.func @mlp_down_depth(%x: tensor<?x64xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>, %w: tensor<16x32x64xbf16>,
                          %down: tensor<16x64x48xbf16>, %inner: tensor<?x4x32xf32>, %out: tensor<?x4x64xf32>, %p: tensor<?x4xi32>) {
  // expected-error @+1 {{'k3.latent_moe.expert_mlp' op expected 'wn' = n = 32, got 48}}
  %0:3 = k3.latent_moe.expert_mlp ins(%x, %offsets, %perm, %w, %w, %down
      : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x64xbf16>, tensor<16x32x64xbf16>, tensor<16x64x48xbf16>)
      outs(%inner, %out, %p : tensor<?x4x32xf32>, tensor<?x4x64xf32>, tensor<?x4xi32>) {activation = #k3.activation<swiglu>}
      -> tensor<?x4x32xf32>, tensor<?x4x64xf32>, tensor<?x4xi32>
  return
}

// -----

func.func @mlp_no_down_scale(%x: tensor<?x64xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>, %w: tensor<16x32x32xi8>,
                             %s: tensor<16x32x2xi8>, %down: tensor<16x64x16xi8>, %inner: tensor<?x4x32xf32>, %out: tensor<?x4x64xf32>, %p: tensor<?x4xi32>) {
  // expected-error @+1 {{'k3.latent_moe.expert_mlp' op expected 'down_scale' with i8 'down_weight', got none}}
  %0:3 = k3.latent_moe.expert_mlp ins(%x, %offsets, %perm, %w, %w, %down
      : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x32xi8>, tensor<16x32x32xi8>, tensor<16x64x16xi8>)
      scale(%s : tensor<16x32x2xi8>) up_scale(%s : tensor<16x32x2xi8>)
      outs(%inner, %out, %p : tensor<?x4x32xf32>, tensor<?x4x64xf32>, tensor<?x4xi32>) {activation = #k3.activation<swiglu>}
      -> tensor<?x4x32xf32>, tensor<?x4x64xf32>, tensor<?x4xi32>
  return
}

// -----

func.func @mlp_beta(%x: tensor<?x64xf32>, %offsets: tensor<17xi32>, %perm: tensor<?x4xi32>, %w: tensor<16x32x64xbf16>,
                    %down: tensor<16x64x32xbf16>, %inner: tensor<?x4x32xf32>, %out: tensor<?x4x64xf32>, %p: tensor<?x4xi32>) {
  // expected-error @+1 {{'k3.latent_moe.expert_mlp' op expected finite 'beta' > 0 with situ, got 0}}
  %0:3 = k3.latent_moe.expert_mlp ins(%x, %offsets, %perm, %w, %w, %down
      : tensor<?x64xf32>, tensor<17xi32>, tensor<?x4xi32>, tensor<16x32x64xbf16>, tensor<16x32x64xbf16>, tensor<16x64x32xbf16>)
      outs(%inner, %out, %p : tensor<?x4x32xf32>, tensor<?x4x64xf32>, tensor<?x4xi32>) {activation = #k3.activation<situ>}
      -> tensor<?x4x32xf32>, tensor<?x4x64xf32>, tensor<?x4xi32>
  return
}

// -----

func.func @plan_progress(%ids: tensor<2x4xi32>, %progress: tensor<2x3xi32>, %offsets: tensor<17xi32>, %perm: tensor<2x4xi32>) {
  // expected-error @+1 {{'k3.latent_moe.plan' op expected equal sizes of 'k', got 4 in 'ids' and 3 in 'progress'}}
  %0:3 = k3.latent_moe.plan ins(%ids : tensor<2x4xi32>) progress(%progress : tensor<2x3xi32>)
      outs(%offsets, %perm : tensor<17xi32>, tensor<2x4xi32>) -> tensor<2x3xi32>, tensor<17xi32>, tensor<2x4xi32>
  return
}
