#!/usr/bin/env bash
# Installs what is missing from Debian's packages and builds everything into build/. Quick when nothing changed.
# Sourced or run by demo.sh and test.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(cmake ninja-build ccache clang-22 lld-22 llvm-22-dev llvm-22-tools libmlir-22-dev mlir-22-tools
  libclang-rt-22-dev flatbuffers-compiler libflatbuffers-dev libxxhash-dev nlohmann-json3-dev libpcre2-dev libgtest-dev python3)
missing=()
for p in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q '^install ok installed' || missing+=("$p")
done
if ((${#missing[@]})); then
  echo "installing: ${missing[*]}"
  run=()
  if [ "$(id -u)" -ne 0 ]; then run=(sudo); fi
  export DEBIAN_FRONTEND=noninteractive
  "${run[@]}" apt-get update -qq
  "${run[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# ccache and precompiled headers: paths relative to the source tree, and the PCH itself may be cached.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
[ -f build/build.ninja ] || cmake --preset dev
cmake --build --preset dev
