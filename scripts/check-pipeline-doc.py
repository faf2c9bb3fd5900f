#!/usr/bin/env python3
"""Checks that the IR in docs/pipeline.md is what the compiler prints: check-pipeline-doc.py DOC DUMP_DIR.

A block that begins with ```mlir STAGE holds lines of DUMP_DIR/NN-STAGE.mlir, in order; "..." stands for any text inside
a line, or for lines left out."""
import pathlib
import re
import sys

doc, dump = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
blocks = re.findall(r"^```mlir (\w+)\n(.*?)^```", doc.read_text(), re.M | re.S)
errors = 0


def matches(parts, line):
    at = 0
    for part in parts:
        at = line.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


for stage, block in blocks:
    files = list(dump.glob(f"*-{stage}.mlir"))
    if not files:
        print(f"{doc}: no dump of stage {stage}")
        errors += 1
        continue
    lines = iter(files[0].read_text().splitlines())
    for wanted in block.splitlines():
        parts = [part.strip() for part in wanted.split("...") if part.strip()]
        if parts and not any(matches(parts, line) for line in lines):
            print(f"{doc}: stage {stage} has no line (here or below): {wanted.strip()}")
            errors += 1
            break
print(f"{len(blocks)} blocks, {errors} errors")
sys.exit(1 if errors or not blocks else 0)
