#!/usr/bin/env bash
# Every GPU test and benchmark in one go, on a machine with a GPU and its driver only.
#   scripts/gpu/check.sh FOLDER [REPORT.json] [STEP...]
# FOLDER is what pack.sh made, or the archive of it, which is unpacked beside itself. Writes one JSON report (default:
# FOLDER/report.json) and the logs to FOLDER/logs; a step that fails or takes too long does not stop the others, and all of
# them together take no longer than 8 minutes (K3_CHECK_SECONDS). STEPs: only those. Exit code 0 if all passed.
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
models=$root/models
if [ -d "$folder/golden" ]; then golden=$folder/golden models=$folder/models; fi
mkdir -p "$logs"
export logs
chmod +x "$bin"/* 2>/dev/null
steps=() failed=0

# quote: standard input as a JSON string.
quote() { tr -d '\000-\010\013-\037' | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/\t/\\t/g' | awk 'BEGIN { printf "\"" } { printf "%s%s", (NR > 1 ? "\\n" : ""), $0 } END { printf "\"" }'; }

# step NAME SECONDS COMMAND...: what the command, a program or a function, leaves in logs/NAME.json is the step's result.
SECONDS=0
step() {
  local name=$1 limit=$2 start status seconds result=null left=$((${K3_CHECK_SECONDS:-470} - SECONDS))
  shift 2
  if [ $left -lt "$limit" ]; then limit=$((left > 1 ? left : 1)); fi
  if [ "$wanted" != "  " ] && [[ $wanted != *" $name "* ]]; then return; fi
  rm -f "$logs/$name.json"
  start=$(date +%s.%N)
  timeout -k 5 "$limit" bash -c '"$@"' step "$@" >"$logs/$name.log" 2>&1 </dev/null
  status=$?
  seconds=$(awk -v a="$start" -v b="$(date +%s.%N)" 'BEGIN { printf "%.2f", b - a }')
  if [ -s "$logs/$name.json" ]; then result=$(cat "$logs/$name.json"); fi
  if [ $status -ne 0 ]; then failed=$((failed + 1)); fi
  printf '%-28s %-8s %7s s\n' "$name" "$([ $status -eq 0 ] && echo passed || echo "FAILED")" "$seconds"
  if [ $status -ne 0 ]; then tail -n 5 "$logs/$name.log" | sed 's/^/    /'; fi
  steps+=("{\"name\": \"$name\", \"status\": $status, \"timed_out\": $([ $status -eq 124 ] || [ $status -eq 137 ] && echo true || echo false), \"seconds\": $seconds, \"output\": $(tail -n 40 "$logs/$name.log" | quote), \"result\": $result}")
}

# --- the device ---
step device 20 nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem,temperature.gpu,power.draw --format=csv

# --- the runtime: its tests of engines, on this driver ---
if [ -s "$bin/toy-kernels.cubin" ]; then
  step runtime 90 env K3_TOY_CUBIN="$bin/toy-kernels.cubin" K3_TOY_KERNELS="$bin/toy-kernels.so" \
    "$bin/RuntimeOnCudaTest" --gtest_brief=1 --gtest_output="json:$logs/runtime.json"
fi

# --- kernels: every op against lib/Reference, by emitter and by decomposition ---
cases=$folder/cases
step kernels 120 "$bin/k3-gpu-player" "$cases/kernels.json" --json="$logs/kernels.json" --no-measure
step sizes 90 "$bin/k3-gpu-player" "$cases/sizes.json" --filter=Huge --filter=Batches --repeats=4 --json="$logs/sizes.json"
step speed 120 "$bin/k3-gpu-player" "$cases/sizes.json" --filter=Limits --filter=Speed --repeats=4 --json="$logs/speed.json"

# --- models: golden values; then graphs, poison, repetition, batches and exchange with the CPU ---
# json NAME COMMAND...: standard output is the result.
json() {
  local name=$1
  shift
  "$@" >"$logs/$name.json"
}
export -f json
verify() { # NAME ARTIFACT GOLDEN [options]
  step "verify-$1" 60 json "verify-$1" "$bin/k3-run" verify "$folder/artifacts/$2.k3a" --golden "$golden/$3.safetensors" \
    --weights-dir "$models/$3" --device cuda:0 --json "${@:4}"
}
# Routers of kimi-linear-nano, whose weights are random, do not bear inputs of 8 bits: the published code in bf16 is 0.143
# off and right at 174 of 200 (scripts/reference-bf16.py). No worse than that is asked of products of rounded inputs.
verify k3-nano-bf16 k3-nano-bf16 k3-nano --activations bf16
verify k3-nano-bf16-all k3-nano-bf16-all k3-nano --activations bf16
verify kimi-linear-nano-bf16 kimi-linear-nano-bf16 kimi-linear-nano --activations bf16 --mean-tolerance 0.143 \
  --likeliest-share 0.87
# chooses_alike K3_RUN...: tokens that the GPU chooses are the sampler's. A penalty that changes next to nothing is left to it.
chooses_alike() {
  local how device host
  for how in "--greedy" "--seed 1" "--seed 2 --temperature 0.8 --top-p 0.9" "--seed 3 --top-k 20" \
    "--seed 4 --top-k 40 --top-p 0.95 --min-p 0.02" "--seed 5 --min-p 0.1" "--seed 6 --speculate ngram --temperature 0.5"; do
    device=$("$@" $how 2>/dev/null) && host=$("$@" $how --repetition-penalty 1.0000001 2>/dev/null) || return 1
    [ -n "$device" ] && [ "$device" = "$host" ] || { echo "not the sampler's with $how"; return 1; }
  done
}
export -f chooses_alike
exact=(--logit-tolerance 1e-3 --layer-tolerance 1e-4 --state-tolerance 1e-3 --router-margin 1e-4 --loss-tolerance 1e-4)
for model in k3-nano kimi-linear-nano; do
  verify $model $model $model "${exact[@]}"
  verify $model-bf16x2 $model-bf16x2 $model --activations bf16
  step model-$model 90 "$bin/k3-gpu-model" "$folder/artifacts/$model.k3a" \
    --weights-dir="$models/$model" --json="$logs/model-$model.json"
  step model-$model-bf16 90 "$bin/k3-gpu-model" "$folder/artifacts/$model-bf16.k3a" --tolerance=0.2 --repeats=10 \
    --weights-dir="$models/$model" --json="$logs/model-$model-bf16.json"
  step sampling-$model 60 chooses_alike "$bin/k3-run" "$folder/artifacts/$model.k3a" --prompt "Once upon a time" --ignore-eos \
    --weights-dir "$models/$model" --max-tokens 64 --device cuda:0
  step text-$model 30 json text-$model "$bin/k3-run" "$folder/artifacts/$model.k3a" --prompt "Once upon a time" --greedy \
    --weights-dir "$models/$model" --max-tokens 64 --device cuda:0 --json
done

# --- bad situations: one line, exit code 1 ---
# refused NAME TEXT COMMAND...: the command fails with one line that has TEXT in it.
refused() {
  local name=$1 text=$2
  shift 2
  step "refused-$name" 30 refuses "$text" "$@"
}
refuses() {
  local text=$1 status output
  shift
  output=$("$@" 2>&1 >/dev/null)
  status=$?
  echo "exit code $status: $output"
  [ $status -eq 1 ] && [ "$(wc -l <<<"$output")" -eq 1 ] && [[ $output == *"$text"* ]]
}
export -f refuses
one=$folder/artifacts/k3-nano.k3a
at=(--weights-dir "$models/k3-nano")
refused device cuda:63 "$bin/k3-run" "$one" "${at[@]}" --prompt x --device cuda:63
refused no-code nvidia "$bin/k3-run" "$folder/artifacts/cpu-only.k3a" --prompt x --device cuda:0
refused memory memory "$bin/k3-run" "$one" "${at[@]}" --prompt x --device cuda:0 --memory-limit 1M
mkdir -p "$logs/empty"
printf 'not a driver' >"$logs/empty/libcuda.so.1"
refused driver driver env LD_LIBRARY_PATH="$logs/empty" "$bin/k3-run" "$one" "${at[@]}" --prompt x --device cuda:0

# --- the runtime's own benchmarks ---
for model in k3-nano kimi-linear-nano; do
  step bench-$model 40 json bench-$model "$bin/k3-bench" "$folder/artifacts/$model.k3a" \
    --weights-dir "$models/$model" --device cuda:0 --json
done

# --- sanitizers, where they are: a few tokens of each model, and cases of every op ---
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | tail -n 1)
# racecheck NAME PARTS COMMAND...: the step's result says which kernels have hazards.
racecheck() { step "racecheck-$1" 120 "$root/scripts/gpu/racecheck.sh" "$sanitizer" "$logs/racecheck-$1.json" "${@:2}"; }
if [ -n "$sanitizer" ]; then
  step memcheck-kernels 90 "$sanitizer" --tool memcheck --error-exitcode 1 "$bin/k3-gpu-player" "$cases/kernels.json" \
    --exact-memory --in-process --seconds=45 --json="$logs/memcheck-kernels.json"
  tokens=(--prompt "Once upon" --greedy --max-tokens 2 --device cuda:0 --no-graph)
  for model in k3-nano kimi-linear-nano; do
    for artifact in $model $model-bf16; do
      run=("$bin/k3-run" "$folder/artifacts/$artifact.k3a" --weights-dir "$models/$model" "${tokens[@]}")
      step memcheck-$artifact 60 "$sanitizer" --tool memcheck --error-exitcode 1 "${run[@]}"
      racecheck $artifact 16 "${run[@]}"
    done
  done
  # As many parts as 25 launches each need, and one for what comes after them.
  racecheck kernels 6 "$bin/k3-gpu-player" "$cases/kernels.json" --one-of-each --exact-memory --in-process
else
  echo "no compute-sanitizer here"
fi

{
  printf '{"failed": %d, "steps": [\n' "$failed"
  for i in "${!steps[@]}"; do printf '%s%s\n' "${steps[$i]}" "$([ "$i" -lt $((${#steps[@]} - 1)) ] && echo ,)"; done
  printf ']}\n'
} >"$report"
echo "$failed failed; report: $report"
[ "$failed" -eq 0 ]
