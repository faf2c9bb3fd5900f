#!/usr/bin/env bash
# Measures layers and single kernels of both model families at full width, on made-up weights: four layers of
# Kimi-Linear, and one layer of each kind of Kimi K3. Prefill is measured twice: with f32 products and with bf16 products
# (--products=bf16), which change nothing in decode. Arguments are passed to k3-bench. The models have fewer experts than
# the published ones, so that they fit into 16 GiB; a token chooses as many as there. Tables go to standard output, JSON to
# build/bench/. K3_BIN: folder of the tools, instead of setting up and building.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${K3_BIN:-}" ]; then source scripts/setup.sh; fi
bin=${K3_BIN:-build/bin} out=build/bench
mkdir -p "$out"

# slice SOURCE TARGET VOCAB: SOURCE with layers kda, kda, kda, mla (the first dense), 64 experts and, in Kimi K3, a
# snapshot every second layer: these are all kinds of layers that it has. VOCAB 0: as it is.
slice() {
  python3 - "$@" <<'PY'
import json, sys
source, target, vocab = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(source) as file:
    config = json.load(file)
model = config.get("text_config", config)
model["num_hidden_layers"] = 4
model["linear_attn_config"].update(kda_layers=[1, 2, 3], full_attn_layers=[4])
model["num_experts"] = 64
if model.get("attn_res_block_size"):
    model["attn_res_block_size"] = 2
if vocab:
    model["vocab_size"] = vocab
    for settings in (config, model):
        for key in settings:
            if key.endswith("_token_id") and isinstance(settings[key], int):
                settings[key] = min(settings[key], vocab - 1)
with open(target, "w") as file:
    json.dump(config, file, indent=1)
PY
}

# table FILE: the JSON as lines.
table() {
  python3 - "$1" <<'PY'
import json, sys
for m in json.load(open(sys.argv[1])):
    reached = "" if m["fraction"] is None else f"{100 * m['fraction']:.1f}% of {m['limit']:.4g}"
    params = " ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in m["params"].items())
    print(f"{m['value']:9.4g} {m['unit']:8} {reached:16} {m['name']}: {params}")
PY
}

# measure NAME PRODUCTS [k3-bench options]: the slice in build/bench/NAME.json, compiled with --products=PRODUCTS.
measure() {
  local name=$1 artifact=$out/$1-$2.k3a
  # Compiling takes a while: only if something changed.
  if [ ! "$artifact" -nt "$out/$name.json" ] || [ "$bin/k3-compile" -nt "$artifact" ]; then
    rm -f "$artifact"
    "$bin/k3-compile" --no-weights --config "$out/$name.json" --products="$2" -o "$artifact"
  fi
  for suite in cpu-layers cpu-ops; do
    echo "== $name, $2 products, $suite"
    "$bin/k3-bench" "$artifact" --suite "$suite" --random-weights 1 --json "${@:3}" >"$out/$name-$2-$suite.json"
    table "$out/$name-$2-$suite.json"
  done
}

# model NAME SOURCE VOCAB [k3-bench options]
model() {
  slice "$2" "$out/$1.json.new" "$3"
  cmp -s "$out/$1.json.new" "$out/$1.json" || mv "$out/$1.json.new" "$out/$1.json"
  rm -f "$out/$1.json.new"
  measure "$1" f32 "${@:4}"
  measure "$1" bf16 --decode-batch 0 "${@:4}"
}

model kimi-linear-slice test/configs/kimi-linear-48b/config.json 0 "$@"
model kimi-k3-slice test/configs/kimi-k3/config.json 16384 "$@"
