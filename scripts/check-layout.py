#!/usr/bin/env python3
"""Checks the rules of the source tree that a compiler does not: every pass has a test named after it, every structured op
has dialect tests, a decomposition or an emitter, and a reference, every GPU emitter has a test of its NVVM and PTX, every
source file has its banner. Prints one line per breach; exit code 1 if there is one."""
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
try:
    listed = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"],
                            capture_output=True, text=True, check=True).stdout.split("\n")
except (OSError, subprocess.CalledProcessError):  # a source archive
    listed = [str(path.relative_to(root)) for path in root.rglob("*") if path.relative_to(root).parts[0] != "build"]
files = [root / name for name in listed if name and (root / name).is_file()]
breaches = []


def text(path):
    return path.read_text(errors="replace")


def breach(path, message):
    breaches.append(f"{path.relative_to(root)}: {message}")


tests = [f for f in files if f.is_relative_to(root / "test") and f.suffix in (".mlir", ".test")]
test_names = {f.stem for f in tests}
test_text = "\n".join(text(f) for f in tests)
reference_text = "\n".join(text(f) for f in files if f.is_relative_to(root / "lib/Reference"))
gpu_text = "\n".join(text(f) for f in tests if f.parent.match("Codegen/GPU") and "// NVVM-LABEL:" in text(f) and ".entry" in text(f))
emitters = re.findall(r"emitterOf<(\w+),", text(root / "lib/Codegen/GPU/Emitters.cpp"))
invalid_text = "\n".join(text(f) for f in tests if "invalid" in f.name)

for f in files:
    if f.suffix in (".cpp", ".h", ".td", ".c") and "SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception" not in text(f)[:600]:
        breach(f, "no banner with the licence")
    if f.name.endswith("Passes.td"):
        for argument in re.findall(r'def \w+ : (?:Interface)?Pass<"(k3-[\w-]+)"', text(f)):
            if argument.removeprefix("k3-") not in test_names:
                breach(f, f"pass '{argument}' has no test {argument.removeprefix('k3-')}.mlir")
    if f.name.endswith("Ops.td"):
        for mnemonic in re.findall(r'K3_StructuredOp<"([\w.]+)"', text(f)):
            if f"k3.{mnemonic}" not in invalid_text:
                breach(f, f"op 'k3.{mnemonic}' has no negative test")
            if f"k3.{mnemonic}" not in reference_text and mnemonic.split(".")[-1] not in reference_text:
                breach(f, f"op 'k3.{mnemonic}' is not named by any function of lib/Reference")
        for op, mnemonic in re.findall(r'def K3_(\w+) : K3_StructuredOp<"([\w.]+)"', text(f)):
            if op in emitters and f"k3.{mnemonic} " not in gpu_text:
                breach(f, f"the GPU emitter of 'k3.{mnemonic}' has no test of its NVVM and PTX")

print("\n".join(breaches) if breaches else f"{len(files)} files, no breach")
sys.exit(1 if breaches else 0)
