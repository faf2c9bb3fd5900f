"""Kernels of models, given as IR after the stage `configure`, whose op, strategy and element types no case has.

usage: find-missing-cases.py CASES.json MODEL.mlir...
"""
import json
import re
import sys


def kernels(text):
    """Op, strategy and sorted element types of every op that has a config."""
    for line in text.splitlines():
        strategy = re.search(r'kernel_config = #k3\.kernel_config<.*?strategy = "(\w+)"', line)
        if strategy:
            operands = line[: line.index("kernel_config")]
            op = re.search(r"= k3\.([\w.]+) ", operands)[1]
            yield op, strategy[1], tuple(sorted(re.findall(r"tensor<(?:[\d?]+x)*(\w+)>", operands)))


cases = json.load(open(sys.argv[1]))
known = set()
for case in cases["cases"]:
    types = tuple(sorted(argument["dtype"] for argument in case["arguments"]))
    for variant in case["variants"]:
        kernel = cases["kernels"][variant["kernel"]]
        known.add((kernel["op"].removeprefix("k3."), kernel["strategy"], types))
wanted = {}
for path in sys.argv[2:]:
    for kernel in kernels(open(path).read()):
        wanted.setdefault(kernel, path)
for kernel in sorted(wanted.keys() - known):
    print("no case:", *kernel[:2], *kernel[2], "of", wanted[kernel])
print(f"{len(wanted)} kinds of kernels, {len(wanted.keys() - known)} without a case")
