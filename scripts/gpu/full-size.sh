#!/usr/bin/env bash
# Models at full size on one GPU, with weights made up there: Kimi-Linear-48B (98 GB), and one layer of each kind of Kimi K3
# with all its experts (58 GB).
#   scripts/gpu/full-size.sh compile [FOLDER]             artifacts without weights; needs no GPU
#   scripts/gpu/full-size.sh measure [FOLDER] [options]   k3-bench on them, with its options: tables to standard output,
#                                                         JSON to FOLDER/NAME.json; fails when a model takes more or less
#                                                         memory than planned by over 3%
# FOLDER: build/gpu-full. K3_BIN: folder of the tools, instead of setting up and building. MODELS: names, instead of both.
# PRODUCTS: what k3-compile takes (bf16).
set -euo pipefail
cd "$(dirname "$0")/../.."
command=${1:-} out=${2:-build/gpu-full}
models=${MODELS:-kimi-linear-48b kimi-k3-slice}
if [ "$command" = compile ] && [ -z "${K3_BIN:-}" ]; then source scripts/setup.sh; fi
bin=${K3_BIN:-build/bin}

# Layers kda, kda, kda, mla, the first dense, a snapshot every second layer: all kinds that there are.
slice() { # SOURCE TARGET
  python3 - "$@" <<'PY'
import json, sys
with open(sys.argv[1]) as file:
    config = json.load(file)
model = config.get("text_config", config)
model["num_hidden_layers"] = 4
model["linear_attn_config"].update(kda_layers=[1, 2, 3], full_attn_layers=[4])
model["attn_res_block_size"] = 2
with open(sys.argv[2], "w") as file:
    json.dump(config, file, indent=1)
PY
}

case $command in
compile)
  mkdir -p "$out"
  for name in $models; do
    config=test/configs/$name/config.json
    if [ "$name" = kimi-k3-slice ]; then
      config=$out/kimi-k3-slice-config.json
      slice test/configs/kimi-k3/config.json "$config"
    fi
    "$bin/k3-compile" --no-weights --config "$config" --target=nvidia-sm90a --products="${PRODUCTS:-bf16}" --max-tokens=2048 \
      --max-sequences=64 -o "$out/$name.k3a"
  done
  ;;
measure)
  failed=0
  for name in $models; do
    echo "== $name"
    "$bin/k3-bench" "$out/$name.k3a" --random-weights 1 --device cuda:0 --report "$out/$name.json" "${@:3}" ||
      { failed=1; continue; }
    fraction=$(sed 's/.*"name":"gpu_memory".*"fraction":\([0-9.]*\).*/\1/' "$out/$name.json")
    awk -v f="$fraction" 'BEGIN { exit !(f >= 0.97 && f <= 1.03) }' ||
      { echo "$name: takes $fraction of the memory that was planned" >&2; failed=1; }
  done
  exit $failed
  ;;
*)
  sed -n '2,10s/^# \?//p' "$0" >&2
  exit 1
  ;;
esac
