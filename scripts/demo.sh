#!/usr/bin/env bash
# Sets up, builds, compiles models/k3-nano for this CPU and streams generated text. Arguments are passed to k3-run.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/setup.sh
artifact=build/k3-nano.k3a
if [ ! -f "$artifact" ] || [ -n "$(find build/bin/k3-compile models/k3-nano -newer "$artifact" -print -quit)" ]; then
  build/bin/k3-compile models/k3-nano -o "$artifact"
fi
if (($# == 0)); then set -- --prompt "Once upon a time" --max-tokens 120 --temperature 0.7 --seed 1; fi
exec build/bin/k3-run "$artifact" "$@"
