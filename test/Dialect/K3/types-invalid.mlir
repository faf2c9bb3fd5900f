// RUN: k3-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{expected positive sizes, got 0}}
func.func private @kda_state_size(!k3.kda_state<2 x 0 x 6, f32, row = value>)

// -----

// expected-error @+1 {{expected f32 or bf16 elements, got 'f16'}}
func.func private @conv_state_element(!k3.conv_state<8 x 3, f16>)

// -----

// expected-error @+1 {{expected positive sizes, got -64}}
func.func private @kv_cache_page(!k3.kv_cache<512 + 64, bf16, page = -64>)
