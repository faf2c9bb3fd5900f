#!/usr/bin/env bash
# Sets up, builds and runs every test; the last line is "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/setup.sh
# Tests of GPU targets need NVIDIA's assembler. Where there is no toolkit it comes from PyPI; without it they are skipped.
if [ -z "${K3_PTXAS:-}" ] && ! command -v ptxas >/dev/null && ! compgen -G "/usr/local/cuda*/bin/ptxas" >/dev/null; then
  if ! compgen -G "build/python/nvidia/cu*/bin/ptxas" >/dev/null; then
    python3 -m pip install -q --no-deps --target build/python nvidia-cuda-nvcc==13.0.88 2>/dev/null ||
      echo "no ptxas and no PyPI: tests of GPU targets are skipped"
  fi
  ptxas=$(compgen -G "build/python/nvidia/cu*/bin/ptxas" | head -1) || true
  if [ -n "$ptxas" ]; then export K3_PTXAS=$PWD/$ptxas; fi
fi
status=0
/usr/lib/llvm-22/bin/lit -sv --output build/test/results.json "$@" build/test build/test/unit || status=$?
python3 - build/test/results.json <<'PY'
import collections, json, sys
codes = collections.Counter(t["code"] for t in json.load(open(sys.argv[1]))["tests"])
bad = sum(codes[c] for c in ("FAIL", "XPASS", "UNRESOLVED", "TIMEOUT"))
if skipped := sum(codes[c] for c in ("UNSUPPORTED", "SKIPPED")):
    print(f"{skipped} skipped: they need what is not here")
print(f"{codes['PASS'] + codes['FLAKYPASS'] + codes['XFAIL']} passed, {bad} failed")
PY
exit $status
