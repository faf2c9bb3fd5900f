#!/usr/bin/env python3
"""What rounding the inputs of products to bf16 does to kimi-linear-nano, by product, by layer and by expert choice.

    pip install numpy
    scripts/rounding-study.py [MODEL_DIR GOLDEN.safetensors]

A forward pass of its own in f32 (numpy, whole texts, KDA token by token), compared with the golden logits first. Then the
same with chosen inputs rounded, over ten texts of 200 tokens: p200 and nine pieces of the held-out text. Per rule it prints,
beside the run in f32: the mean absolute difference of logits, at how many of 200 positions the likeliest token is equal, in
how many of the ten texts both bounds of `k3-run verify --activations bf16` hold (0.05 and 195), and how many experts' choices
per text differ.
"""
import json
import pathlib
import struct
import sys

import numpy as np

TEXTS, TOKENS = 10, 200
PRODUCTS = ["kda.qkv", "kda.beta", "kda.decay", "kda.gate", "kda.o", "mla", "dense", "experts.up", "experts.down", "shared", "lm_head"]


def read_safetensors(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        if entry["dtype"] == "BF16":
            values = (np.frombuffer(data[begin:end], "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(data[begin:end], {"F32": "<f4", "I32": "<i4", "I64": "<i8"}[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def to_bf16(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def rms_norm(x, weight, eps):
    return weight * x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(eps))


def l2_norm(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + np.float32(1e-6))


class Model:
    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = {}
        for path in sorted(folder.glob("*.safetensors")):
            self.weights.update(read_safetensors(path))

    def run(self, tokens, rounds=lambda product, layer: False, choices=None):
        """Logits [texts, tokens, vocabulary] and the chosen experts per layer; `choices` replaces the router's."""
        self.rounds, self.forced, self.chosen = rounds, choices, {}
        self.texts, self.tokens = tokens.shape
        config, eps = self.config, self.config["rms_norm_eps"]
        kda_layers = {layer - 1 for layer in config["linear_attn_config"]["kda_layers"]}
        h = self.weights["model.embed_tokens.weight"][tokens.reshape(-1)]
        for layer in range(config["num_hidden_layers"]):
            self.layer, self.prefix = layer, f"model.layers.{layer}."
            attention = self.kda if layer in kda_layers else self.mla
            h = h + attention(rms_norm(h, self.weight("input_layernorm"), eps))
            x = rms_norm(h, self.weight("post_attention_layernorm"), eps)
            h = h + (self.mlp(x, "mlp.", "dense") if layer < config["first_k_dense_replace"] else self.moe(x))
        logits = self.round(rms_norm(h, self.weights["model.norm.weight"], eps), "lm_head") @ self.weights["lm_head.weight"].T
        return logits.reshape(self.texts, self.tokens, -1), self.chosen

    def weight(self, name):
        return self.weights[f"{self.prefix}{name}.weight"]

    def round(self, x, product):
        return to_bf16(x) if self.rounds(product, self.layer) else x

    def linear(self, x, name, product):
        return self.round(x, product) @ self.weight(name).T

    def by_head(self, x, heads):
        return x.reshape(self.texts, self.tokens, heads, -1)

    def convolve(self, x, name):
        taps = self.weight(name)[:, 0]
        rows = x.reshape(self.texts, self.tokens, -1)
        padded = np.pad(rows, ((0, 0), (taps.shape[1] - 1, 0), (0, 0)))
        return silu(sum(padded[:, tap : tap + self.tokens] * taps[:, tap] for tap in range(taps.shape[1])))

    def kda(self, x):
        heads, dim = (self.config["linear_attn_config"][key] for key in ("num_heads", "head_dim"))
        a = "self_attn."
        q, k, v = (self.by_head(self.convolve(self.linear(x, f"{a}{n}_proj", "kda.qkv"), f"{a}{n}_conv1d"), heads) for n in "qkv")
        q, k = l2_norm(q) * np.float32(dim**-0.5), l2_norm(k)
        beta = self.by_head(sigmoid(self.linear(x, a + "b_proj", "kda.beta")), heads)
        decay = self.linear(self.linear(x, a + "f_a_proj", "kda.decay"), a + "f_b_proj", "kda.decay")
        decay = self.by_head(decay + self.weights[self.prefix + a + "dt_bias"].reshape(-1), heads)
        rate = np.exp(self.weights[self.prefix + a + "A_log"].reshape(heads, 1))
        decay = np.exp(-rate * np.logaddexp(0, decay))
        state, out = np.zeros((self.texts, heads, dim, dim), np.float32), np.empty_like(v)
        for t in range(self.tokens):
            state = state * decay[:, t, :, :, None]
            delta = beta[:, t] * (v[:, t] - np.einsum("bhkv,bhk->bhv", state, k[:, t]))
            state = state + k[:, t, :, :, None] * delta[:, :, None, :]
            out[:, t] = np.einsum("bhkv,bhk->bhv", state, q[:, t])
        gate = self.linear(self.linear(x, a + "g_a_proj", "kda.gate"), a + "g_b_proj", "kda.gate")
        out = rms_norm(out, self.weight(a + "o_norm"), self.config["rms_norm_eps"]) * sigmoid(self.by_head(gate, heads))
        return self.linear(out.reshape(len(x), -1), a + "o_proj", "kda.o")

    def mla(self, x):
        config, a = self.config, "self_attn."
        heads, rank, nope = config["num_attention_heads"], config["kv_lora_rank"], config["qk_nope_head_dim"]
        q = self.by_head(self.linear(x, a + "q_proj", "mla"), heads)
        latent = self.linear(x, a + "kv_a_proj_with_mqa", "mla")
        shared = self.round(latent[:, rank:].reshape(self.texts, self.tokens, -1), "mla")
        latent = rms_norm(latent[:, :rank], self.weight(a + "kv_a_layernorm"), 1e-6)
        kv = self.round(self.by_head(self.linear(latent, a + "kv_b_proj", "mla"), heads), "mla")
        q = self.round(q, "mla")
        scores = np.einsum("bqhd,bthd->bhqt", q[..., :nope], kv[..., :nope], optimize=True)
        scores = (scores + np.einsum("bqhd,btd->bhqt", q[..., nope:], shared, optimize=True)) * np.float32(q.shape[-1] ** -0.5)
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, np.float32(-np.inf))
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        out = np.einsum("bhqt,bthd->bqhd", self.round(weights, "mla") / weights.sum(-1, keepdims=True), kv[..., nope:], optimize=True)
        return self.linear(out.reshape(len(x), -1), a + "o_proj", "mla")

    def mlp(self, x, name, product, names=("gate_proj", "up_proj", "down_proj")):
        up, down = (product + ".up", product + ".down") if product == "experts" else (product, product)
        gate, up = (self.linear(x, name + part, up) for part in names[:2])
        return self.linear(silu(gate) * up, name + names[2], down)

    def moe(self, x):
        m, config = "block_sparse_moe.", self.config
        scores = sigmoid(x @ self.weight(m + "gate").T)
        biased = scores + self.weights[f"{self.prefix}{m}gate.e_score_correction_bias"]
        chosen = np.sort(np.argsort(-biased, axis=1, kind="stable")[:, : config["num_experts_per_token"]], axis=1)
        self.chosen[self.layer] = chosen
        if self.forced is not None:
            chosen = self.forced[self.layer]
        shares = np.take_along_axis(scores, chosen, 1)
        shares = shares / shares.sum(1, keepdims=True) * np.float32(config["routed_scaling_factor"])
        y = self.mlp(x, m + "shared_experts.", "shared")
        for expert in range(config["num_experts"]):
            rows, slots = np.nonzero(chosen == expert)
            if len(rows):
                y[rows] += shares[rows, slots, None] * self.mlp(x[rows], f"{m}experts.{expert}.", "experts", ("w1", "w3", "w2"))
        return y


def main():
    folder, golden = (pathlib.Path(name) for name in (sys.argv[1:] + ["models/kimi-linear-nano", "test/golden/kimi-linear-nano.safetensors"])[:2])
    model, golden = Model(folder), read_safetensors(golden)
    held_out, piece = golden["val.input_ids"], TOKENS - 1
    pieces = [np.concatenate([held_out[:1], held_out[1 + i * piece : 1 + (i + 1) * piece]]) for i in range(TEXTS - 1)]
    texts = np.stack([golden["p200.input_ids"], *pieces])
    exact, choices = model.run(texts)
    print(f"f32 beside the golden logits of p200: {np.abs(exact[0] - golden['p200.logits']).max():.1e}\n")
    print(f"{'rounded':58}{'mean, ten texts':>16}{'equal of 200':>14}{'least':>7}{'p200':>12}{'both hold':>11}{'choices':>9}")

    def report(name, rounds, forced=None):
        logits, chosen = model.run(texts, rounds, forced)
        difference = np.abs(logits - exact).mean((1, 2))
        equal = (logits.argmax(-1) == exact.argmax(-1)).sum(1)
        other = sum((chosen[layer] != choices[layer]).any(1).sum() for layer in choices) / TEXTS
        hold = int(((difference <= 0.05) & (equal >= 195)).sum())
        print(f"{name:58}{difference.mean():16.4f}{equal.mean():14.1f}{equal.min():7}{difference[0]:8.3f} {equal[0]:3}{hold:11}{other:9.1f}")

    report("all products", lambda product, layer: True)
    report("all products, experts as chosen in f32", lambda product, layer: True, choices)
    for wanted in PRODUCTS:
        report(f"only {wanted}", lambda product, layer: product == wanted)
    report("only routed experts", lambda product, layer: product.startswith("experts"))
    report("all but KDA", lambda product, layer: not product.startswith("kda"))
    report("all but attention and dense layers", lambda product, layer: not product.startswith(("kda", "mla", "dense")))
    report("all but what comes before the first router", lambda product, layer: layer > 1 or layer == 1 and not product.startswith("kda"))
    for first in range(1, model.config["num_hidden_layers"]):
        report(f"all from layer {first} on", lambda product, layer: layer >= first)


main()
