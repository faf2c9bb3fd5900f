#!/usr/bin/env python3
"""How far the published modelling code, run in bf16, is from the golden values of kimi-linear-nano.

    pip install torch transformers==5.17.0 safetensors
    scripts/reference-bf16.py [MODEL_DIR GOLDEN.safetensors]

Prints, per prompt, the mean absolute difference of the logits and at how many positions the likeliest token is the golden
one: what `k3-run verify --activations bf16` judges, for comparison.
"""
import sys

import torch
import transformers
from safetensors.torch import load_file

model_dir, golden_file = (sys.argv[1:] + ["models/kimi-linear-nano", "test/golden/kimi-linear-nano.safetensors"])[:2]
golden = load_file(golden_file)
model = transformers.AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.bfloat16, attn_implementation="eager").eval()


def logits(prompt):
    with torch.no_grad():
        return model(golden[prompt + ".input_ids"][None], use_cache=False).logits[0].float()


total = count = 0
for prompt in sorted(name[: -len(".logits")] for name in golden if name.endswith(".logits")):
    got, wanted = logits(prompt), golden[prompt + ".logits"]
    difference = (got - wanted).abs()
    equal = int((got.argmax(-1) == wanted.argmax(-1)).sum())
    total, count = total + float(difference.sum()), count + difference.numel()
    print(f"{prompt}: {float(difference.mean()):.3f} in the mean, likeliest token equal at {equal} of {len(got)}")
loss = torch.nn.functional.cross_entropy(logits("val")[:-1], golden["val.input_ids"][1:])
print(f"all: {total / count:.3f} in the mean; loss differs by {abs(float(loss) - float(golden['val.loss'])):.4f}")
