"""Checks that a canary report of k3-nano (JSON, page) has what it should: check-canary.py REPORT.json PAGE.html"""
import json
import sys

report = json.load(open(sys.argv[1]))
memory = report["memory"]
assert memory["planned_bytes_per_token"] > 0 and memory["weight_bytes"] > 0, memory
# Pages of the system are larger than a token's rows; the sum over a whole context is not.
assert abs(memory["measured_bytes_per_token"] / memory["planned_bytes_per_token"] - 1) < 0.25, memory
assert [each["context"] for each in report["latency"]] == [16, 64]
assert all(each["first_token_ms"] > 0 and each["per_token_ms"] > 0 for each in report["latency"])
assert report["routing"] and all(0 < each["entropy"] <= 1 and each["max_over_mean"] >= 1 for each in report["routing"])
assert report["reuse"]["rate"] > 0.5, report["reuse"]
rounded, same = report["drift"]
assert rounded["name"] == "bf16 state" and 0 < max(rounded["layer_rel_errors"]) < 0.05, rounded
assert same["name"] == "same" and max(same["layer_rel_errors"]) == 0 and same["mean_kl"] == 0, same
assert same["greedy_agreement"] == 1
assert len(report["outliers"]) == len(same["layer_rel_errors"])
assert all(each["mxfp4_rel_error"] > each["mxfp8_rel_error"] > 0 for each in report["outliers"])
page = open(sys.argv[2]).read()
assert page.startswith("<!DOCTYPE html>") and page.count("<svg") == 7
