#!/usr/bin/env bash
# Collects in one folder what check.sh needs on a machine with a GPU and no compiler: kernel cases, tools and artifacts.
#   scripts/gpu/pack.sh [FOLDER]        default: build/gpu; the same, smaller: FOLDER.tar.xz
# Weights and golden values stay where they are in the source tree, which must be there too; --whole copies them into the
# folder. K3_BIN: folder of the tools, instead of setting up and building. K3_CASES: only the kernel tests of this
# GoogleTest filter.
set -euo pipefail
cd "$(dirname "$0")/../.."
whole=no folder=build/gpu
for argument in "$@"; do
  case $argument in
    --whole) whole=yes ;;
    --*) echo "pack.sh: unknown option '$argument'" >&2; exit 1 ;;
    *) folder=$argument ;;
  esac
done
if [ -z "${K3_BIN:-}" ]; then source scripts/setup.sh; fi
bin=${K3_BIN:-build/bin}
unit=$bin/../test/unit/bin
rm -rf "$folder" "$folder.tar.xz"
mkdir -p "$folder/bin" "$folder/cases" "$folder/artifacts"

strip=$(command -v llvm-strip-22 || command -v strip)
for tool in k3-gpu-player k3-gpu-model k3-run k3-inspect k3-bench; do
  "$strip" -o "$folder/bin/$tool" "$bin/$tool"
done

# The runtime's tests, with the toy model's kernels; those for a GPU are there if ptxas was when the build was configured.
"$strip" -o "$folder/bin/RuntimeOnCudaTest" "$unit/RuntimeOnCudaTest"
cp "$bin/../test/unit/Runtime/toy-kernels.so" "$folder/bin"
cp "$bin/../test/unit/Runtime/toy-kernels.cubin" "$folder/bin" || echo "no toy-kernels.cubin: no tests of the runtime" >&2

# The cases of a test that does not compile for a GPU are missing; the others are there all the same.
incomplete=0
export_cases() { # FILE PROGRAM [FILTER]
  K3_EXPORT_CASES=$folder/cases/$1.json "$2" --gtest_brief=1 ${3:+--gtest_filter="$3"} >"$folder/cases/$1.log" 2>&1 ||
    { incomplete=1; echo "$1: not every test became a case, see $folder/cases/$1.log" >&2; }
}
export_cases kernels "$unit/KernelTest" "${K3_CASES:-}"
export_cases sizes "$bin/k3-gpu-cases" "${K3_CASES:-}"

compile() { # NAME MODEL [options]
  local name=$1 model=$2
  shift 2
  "$bin/k3-compile" "$model" -o "$folder/artifacts/$name.k3a" "$@" >"$folder/artifacts/$name.log" 2>&1 ||
    { incomplete=1; echo "$name: $(tail -n 1 "$folder/artifacts/$name.log")" >&2; }
}
models=models golden=test/golden
if [ $whole = yes ]; then
  mkdir -p "$folder/models" "$folder/golden"
  cp -r models/k3-nano models/kimi-linear-nano "$folder/models"
  cp test/golden/* "$folder/golden"
  models=$folder/models
fi
# The other machine has another processor: any with AVX2.
cpu=x86-64-v3
for model in k3-nano kimi-linear-nano; do
  compile $model "$models/$model" --target=$cpu,nvidia-sm90a --weights=reference
  compile $model-bf16x2 "$models/$model" --target=$cpu,nvidia-sm90a --weights=reference --products=bf16x2 --cache-dtype=bf16
  compile $model-bf16 "$models/$model" --target=$cpu,nvidia-sm90a --weights=reference --products=bf16 --cache-dtype=bf16
done
compile k3-nano-bf16-all "$models/k3-nano" --target=$cpu,nvidia-sm90a --weights=reference --products=bf16-all --cache-dtype=bf16
compile cpu-only "$models/kimi-linear-nano" --target=$cpu --weights=reference
# Most of it are f32 values: that is what lc and lp are for.
tar -C "$folder" -c . | xz --lzma2=preset=9,lc=0,lp=2 >"$folder.tar.xz"
du -h "$folder.tar.xz"
if [ "$(stat -c %s "$folder.tar.xz")" -ge $((64 << 20)) ]; then
  incomplete=1
  echo "$folder.tar.xz: wanted less than 64 MiB" >&2
fi
exit $incomplete
