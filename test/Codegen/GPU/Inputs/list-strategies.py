"""Prints the ops of a file of cases, and by which strategies their kernels are made."""
import collections
import json
import sys

cases = json.load(open(sys.argv[1]))
strategies = collections.defaultdict(set)
for case in cases["cases"]:
    for variant in case["variants"]:
        kernel = cases["kernels"][variant["kernel"]]
        strategies[kernel["op"].removeprefix("k3.")].add(kernel["strategy"])
for op in sorted(strategies):
    print(f"{op}: {' '.join(sorted(strategies[op]))}")
