#!/usr/bin/env bash
# Sets up, builds and runs every test; the last line is "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/setup.sh
status=0
/usr/lib/llvm-22/bin/lit -sv --output build/test/results.json "$@" build/test build/test/unit || status=$?
python3 - build/test/results.json <<'PY'
import collections, json, sys
codes = collections.Counter(t["code"] for t in json.load(open(sys.argv[1]))["tests"])
bad = sum(codes[c] for c in ("FAIL", "XPASS", "UNRESOLVED", "TIMEOUT"))
skipped = sum(codes[c] for c in ("UNSUPPORTED", "SKIPPED"))
print(f"{codes['PASS'] + codes['FLAKYPASS'] + codes['XFAIL']} passed, {bad} failed" + (f", {skipped} skipped" if skipped else ""))
PY
exit $status
