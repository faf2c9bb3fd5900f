#!/usr/bin/env bash
# Every GPU test and benchmark in one go, on a machine with a GPU and its driver only.
#   scripts/gpu/check.sh FOLDER [REPORT.json] [STEP...]
# FOLDER is what pack.sh made, or the archive of it, which is unpacked beside itself. Writes one JSON report (default:
# FOLDER/report.json) and the logs to FOLDER/logs; a step that fails or takes too long does not stop the others. STEPs: only
# those. Exit code 0 if all passed.
set -uo pipefail
folder=${1:?"usage: check.sh FOLDER [REPORT.json] [STEP...]"}
if [ -f "$folder" ]; then
  archive=$folder
  folder=${archive%.tar.xz}
  mkdir -p "$folder" && tar -xJf "$archive" -C "$folder" || exit 1
fi
report=${2:-$folder/report.json}
shift $(($# < 2 ? $# : 2))
wanted=" $* "
root=$(cd "$(dirname "$0")/../.." && pwd)
bin=$folder/bin logs=$folder/logs
golden=$root/test/golden
if [ -d "$folder/golden" ]; then golden=$folder/golden; fi
mkdir -p "$logs"
chmod +x "$bin"/* 2>/dev/null
steps=() failed=0

# quote: standard input as a JSON string.
quote() { tr -d '\000-\010\013-\037' | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/\t/\\t/g' | awk 'BEGIN { printf "\"" } { printf "%s%s", (NR > 1 ? "\\n" : ""), $0 } END { printf "\"" }'; }

# step NAME SECONDS COMMAND...: what the command leaves in logs/NAME.json is the step's result.
step() {
  local name=$1 limit=$2 start status seconds result=null
  shift 2
  if [ "$wanted" != "  " ] && [[ $wanted != *" $name "* ]]; then return; fi
  rm -f "$logs/$name.json"
  start=$(date +%s.%N)
  timeout -k 5 "$limit" "$@" >"$logs/$name.log" 2>&1 </dev/null
  status=$?
  seconds=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { printf "%.2f", b - a }')
  if [ -s "$logs/$name.json" ]; then result=$(cat "$logs/$name.json"); fi
  if [ $status -ne 0 ]; then failed=$((failed + 1)); fi
  printf '%-28s %-8s %7s s\n' "$name" "$([ $status -eq 0 ] && echo passed || echo "FAILED")" "$seconds"
  if [ $status -ne 0 ]; then tail -n 5 "$logs/$name.log" | sed 's/^/    /'; fi
  steps+=("{\"name\": \"$name\", \"status\": $status, \"timed_out\": $([ $status -eq 124 ] || [ $status -eq 137 ] && echo true || echo false), \"seconds\": $seconds, \"output\": $(tail -n 40 "$logs/$name.log" | quote), \"result\": $result}")
}

player() { "$bin/k3-gpu-player" "$@"; }

# --- the device ---
step device 20 nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem,temperature.gpu,power.draw --format=csv

# --- the runtime: its tests of engines, on this driver ---
if [ -s "$bin/toy-kernels.cubin" ]; then
  step runtime 90 env K3_TOY_CUBIN="$bin/toy-kernels.cubin" K3_TOY_KERNELS="$bin/toy-kernels.so" \
    "$bin/RuntimeOnCudaTest" --gtest_brief=1 --gtest_output="json:$logs/runtime.json"
fi

# --- kernels: every op against lib/Reference, by emitter and by decomposition ---
step kernels 120 "$bin/k3-gpu-player" "$folder/cases/kernels.json" --json="$logs/kernels.json" --no-measure
step sizes 90 "$bin/k3-gpu-player" "$folder/cases/sizes.json" --filter=Huge --filter=Batches --repeats=4 --json="$logs/sizes.json"
step speed 120 "$bin/k3-gpu-player" "$folder/cases/sizes.json" --filter=Limits --filter=Speed --repeats=4 --json="$logs/speed.json"

{
  printf '{"failed": %d, "steps": [\n' "$failed"
  for i in "${!steps[@]}"; do printf '%s%s\n' "${steps[$i]}" "$([ "$i" -lt $((${#steps[@]} - 1)) ] && echo ,)"; done
  printf ']}\n'
} >"$report"
echo "$failed failed; report: $report"
[ "$failed" -eq 0 ]
