// Tiles every structured op in all its parallel loops, by sizes that leave a rest.

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%module: !transform.any_op) {
    %one = transform.structured.match ops{[
        "k3.gather_rows", "k3.rms_norm", "k3.attn_res.mix", "k3.attn_res.accumulate", "k3.latent_moe.route",
        "k3.latent_moe.grouped_contract", "k3.kda.scan", "k3.kda.recurrent_step", "k3.kda.chunk_scan", "k3.mla.attend",
        "k3.mla.attend_partial", "k3.mla.attend_merge", "k3.sample",
        "k3.kda.short_conv"]} in %module : (!transform.any_op) -> !transform.any_op
    transform.structured.tile_using_for %one tile_sizes [3] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %two = transform.structured.match ops{[
        "k3.linear", "k3.mx.contract", "k3.glu", "k3.sigmoid_gate", "k3.kda.gate", "k3.kda.gated_norm",
        "k3.kda.chunk_prepare", "k3.latent_moe.combine", "k3.mla.absorb", "k3.mla.expand"]} in %module
        : (!transform.any_op) -> !transform.any_op
    transform.structured.tile_using_for %two tile_sizes [2, 3]
        : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    transform.yield
  }
}
