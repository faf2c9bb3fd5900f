#!/usr/bin/env bash
# Measures what k3-run batch and speculation give, each beside the same without: many sequences at a time, prompts that
# share their beginning, guessed tokens. On models/k3-nano, which the caches of most CPUs hold, and on the same model four
# times as wide (scripts/widen-nano.py), which they do not. Arguments: number of rounds (5), names of sections (batch prefix
# speculation). The two sides of a comparison take turns; a ratio is the median of those of the rounds. Lines go to standard
# output, JSON to build/bench/serving.json. K3_BIN: folder of the tools, instead of setting up and building.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${K3_BIN:-}" ]; then source scripts/setup.sh; fi
bin=${K3_BIN:-build/bin} out=build/bench
mkdir -p "$out"

# artifact NAME MODEL_DIR [k3-compile options]: $out/NAME.k3a, if something changed.
artifact() {
  if [ ! "$out/$1.k3a" -nt "$2/config.json" ] || [ "$bin/k3-compile" -nt "$out/$1.k3a" ]; then
    "$bin/k3-compile" "$2" -o "$out/$1.k3a" "${@:3}" >&2
  fi
}

[ -f "$out/nano-x4/config.json" ] || python3 scripts/widen-nano.py "$out/nano-x4" 4 >&2
artifact nano models/k3-nano
artifact nano-bf16 models/k3-nano --products=bf16-all
artifact nano-x4-f32 "$out/nano-x4"
artifact nano-x4-bf16 "$out/nano-x4" --products=bf16-all

python3 - "$bin" "$out" "$@" <<'PY'
import json, os, random, statistics, subprocess, sys

bin, out = sys.argv[1:3]
rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
sections = sys.argv[4:] or ["batch", "prefix", "speculation"]
held_out = open("test/golden/heldout_8k.txt").read()
report = []


def run(*arguments):
    result = subprocess.run([os.path.join(bin, "k3-run"), *map(str, arguments), "--json"], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit("bench-serving.sh: " + result.stderr)
    return json.loads(result.stdout)


def requests(name, prompts, **fields):
    path = os.path.join(out, name + ".jsonl")
    with open(path, "w") as file:
        for prompt in prompts:
            kind = "prompt" if isinstance(prompt, str) else "tokens"
            file.write(json.dumps({kind: prompt, "ignore_eos": True, "greedy": True, **fields}) + "\n")
    return path


def batch(model, path, *options):
    results = os.path.join(out, "serving-results.jsonl")
    summary = run("batch", os.path.join(out, model + ".k3a"), path, "-o", results, "--overwrite", *options)
    summary["answers"] = [json.loads(line)["tokens"] for line in open(results)]
    return summary


def compare(name, unit, sides, value, better, **params):
    """Runs both sides `rounds` times in turn; `value` takes a number from what they say."""
    values, last = {side: [] for side in sides}, {}
    for side, what in sides.items():
        last[side] = what()  # the files are in memory now
    for _ in range(rounds):
        for side, what in sides.items():
            last[side] = what()
            values[side].append(value(last[side]))
    before, after = sides
    ratios = [b / a if better == "more" else a / b for a, b in zip(values[before], values[after])]
    entry = {"name": name, "unit": unit, **params, **{side: statistics.median(values[side]) for side in sides},
             "ratio": statistics.median(ratios), "lowest_ratio": min(ratios), "highest_ratio": max(ratios)}
    if "answers" in last[before]:
        common = min(len(last[side]["answers"]) for side in sides)
        entry["same_answers"] = last[before]["answers"][:common] == last[after]["answers"][:common]
    for key in ("drafted_tokens", "accepted_tokens", "tokens_per_step", "reused_tokens", "prompt_tokens"):
        if last[after].get(key):
            entry[key] = last[after][key]
    report.append(entry)
    print(name, " ".join("%s=%s" % (k, ("%.4g" % v) if isinstance(v, float) else v) for k, v in entry.items() if k != "name"),
          flush=True)


if "batch" in sections:
    openings = ["Once upon a time there was a little %s who" % word
                for word in "girl boy dog cat bird fox bear frog king queen wolf hen mouse tree fish horse".split()]
    for model in ("nano", "nano-bf16", "nano-x4-f32", "nano-x4-bf16"):
        one = requests("batch-1", openings[:4], max_tokens=192)
        many = requests("batch-16", openings, max_tokens=192)
        compare("batch", "tokens/s", {"batch_1": lambda: batch(model, one, "--max-sequences", 1),
                                      "batch_16": lambda: batch(model, many, "--max-sequences", 16)},
                lambda r: r["tokens_per_s"], "more", model=model)

if "prefix" in sections:
    # Three quarters of every prompt are the same tokens, which are made up: time does not depend on them.
    draw = random.Random(1)
    ids = lambda count: [draw.randrange(4000) for _ in range(count)]
    shared = ids(1536)
    path = requests("prefix", [shared + ids(512) for _ in range(16)], max_tokens=4)
    for sequences in (1, 4):
        compare("prefix", "ms to the first token",
                {"without": lambda: batch("nano", path, "--max-sequences", sequences),
                 "with_cache": lambda: batch("nano", path, "--max-sequences", sequences, "--prefix-cache", "256M",
                                             "--prefix-interval", 512)},
                lambda r: r["first_token_ms"]["median"], "less", model="nano", sequences=sequences)

if "speculation" in sections:
    passage = held_out[200:900]
    texts = {"copy": (passage + "\n\n") * 3 + passage[:60], "list": "The cat sat on the mat. The dog sat on the rug. " * 6}
    for model in ("nano-x4-f32", "nano-x4-bf16"):
        def generate(*options):
            result = run(os.path.join(out, model + ".k3a"), *options)
            return dict(result, answers=result["tokens"])

        def both(name, *options):
            compare("speculation", "tokens/s", {"plain": lambda: generate(*options),
                                                "drafted": lambda: generate(*options, "--speculate=ngram")},
                    lambda r: r["decode_tokens_per_s"], "more", model=model, text=name)

        for name, text in texts.items():
            both(name, "--prompt", text, "--greedy", "--ignore-eos", "--max-tokens", 150)
        # Prose at temperature 1: hardly anything is said twice.
        both("prose", "--prompt", held_out[:400], "--seed", 5, "--ignore-eos", "--max-tokens", 150)

with open(os.path.join(out, "serving.json"), "w") as file:
    json.dump(report, file, indent=1)
PY
