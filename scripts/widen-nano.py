#!/usr/bin/env python3
"""Makes a model as large as one likes that says what models/k3-nano says: scripts/widen-nano.py OUT [FACTOR].

Widths (hidden, latent, ranks, intermediate sizes, number of heads) are FACTOR (4, 16 or 64: a power of four) times as
large, and filled up with zeros. A norm over zeros divides by a mean that is FACTOR times smaller, so that its weight is
divided by the root of FACTOR, exactly. What is left are the epsilons in the norms: the text is that of k3-nano up to
rounding. A step moves FACTOR^2 times the weights and is FACTOR^2 times the work, for the hardware does not know zeros: for
measuring what needs a model that is larger than the caches and really was trained, such as speculation."""
import json
import os
import shutil
import struct
import sys

source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models", "k3-nano")
halvings = {4: 1, 16: 2, 64: 3}  # of a norm's weight: the root of the factor


def read(folder):
    """Tensors by name: dtype, shape, bytes."""
    tensors = {}
    with open(os.path.join(folder, "model.safetensors.index.json")) as file:
        shards = sorted(set(json.load(file)["weight_map"].values()))
    for shard in shards:
        with open(os.path.join(folder, shard), "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            data = file.read()
        for name, entry in header.items():
            if name != "__metadata__":
                low, high = entry["data_offsets"]
                tensors[name] = entry["dtype"], entry["shape"], data[low:high]
    return tensors


size_of = {"BF16": 2, "F32": 4, "U8": 1}


def pad(data, shape, wanted, size):
    """A row-major array of 1 or 2 dimensions inside a larger one of zeros."""
    if len(shape) == 1:
        return data + bytes(size * (wanted[0] - shape[0]))
    row, filler = shape[1] * size, bytes(size * (wanted[1] - shape[1]))
    rows = [data[i * row : (i + 1) * row] + filler for i in range(shape[0])]
    return b"".join(rows) + bytes(size * wanted[1] * (wanted[0] - shape[0]))


def halve(data, times):
    """bf16 values, halved so many times."""
    out = bytearray()
    for (bits,) in struct.iter_unpack("<H", data):
        exponent = bits >> 7 & 255
        out += struct.pack("<H", bits - (times << 7) if exponent > times else bits & 0x8000)
    return bytes(out)


def widen(name, dtype, shape, data, factor):
    size = size_of[dtype]
    last = name.split(".")[-2] if name.endswith((".weight", ".bias")) else name.split(".")[-1]
    if last in ("o_norm", "e_score_correction_bias"):
        return shape, data  # per channel of a head, per expert
    if last == "A_log":
        return shape, data  # padded with zeros already
    if last.endswith("norm"):
        wanted = [shape[0] * factor]
        return wanted, pad(halve(data, halvings[factor]), shape, wanted, size)
    if last.endswith("conv1d"):
        wanted = [shape[0] * factor, 1, shape[2]]
        return wanted, data + bytes(size * shape[2] * (wanted[0] - shape[0]))
    if last == "kv_a_proj_with_mqa":  # latent rows, then those of the one shared head, of fixed size
        latent = shape[0] - 32
        wide = pad(data[: latent * shape[1] * size], [latent, shape[1]], [latent * factor, shape[1] * factor], size)
        rest = pad(data[latent * shape[1] * size :], [32, shape[1]], [32, shape[1] * factor], size)
        return [latent * factor + 32, shape[1] * factor], wide + rest
    fixed_rows = last in ("gate", "f_a_proj", "embed_tokens", "lm_head", "self_attention_res_proj", "mlp_res_proj",
                          "output_attn_res_proj")
    fixed_columns = last == "f_b_proj"
    wanted = [n * (1 if fixed else factor) for n, fixed in zip(shape, (fixed_rows, fixed_columns))]
    return wanted, pad(data, shape, wanted, size)


def main():
    out, factor = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 4
    if factor not in halvings:
        sys.exit("widen-nano.py: the factor is 4, 16 or 64, got %d" % factor)
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(source, "config.json")) as file:
        config = json.load(file)
    text = config["text_config"]
    for key in ("hidden_size", "intermediate_size", "kv_lora_rank", "q_lora_rank", "moe_intermediate_size",
                "routed_expert_hidden_size", "num_attention_heads", "num_key_value_heads"):
        text[key] *= factor
    text["linear_attn_config"]["num_heads"] *= factor
    header, offset, blocks = {}, 0, []
    for name, (dtype, shape, data) in sorted(read(source).items()):
        if dtype == "F32" and len(shape) == 1 and name.endswith("dt_bias"):
            shape, data = [shape[0] * factor], pad(data, shape, [shape[0] * factor], 4)
        else:
            shape, data = widen(name, dtype, shape, data, factor)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
        blocks.append(data)
    text_header = json.dumps(header).encode()
    text_header += b" " * (-len(text_header) % 64)
    shard = "model-00001-of-000001.safetensors"
    with open(os.path.join(out, shard), "wb") as file:
        file.write(struct.pack("<Q", len(text_header)) + text_header)
        for block in blocks:
            file.write(block)
    with open(os.path.join(out, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {"total_size": offset}, "weight_map": {name: shard for name in header}}, file)
    with open(os.path.join(out, "config.json"), "w") as file:
        json.dump(config, file, indent=1)
    for name in ("tiktoken.model", "tokenizer_config.json", "generation_config.json"):
        shutil.copyfile(os.path.join(source, name), os.path.join(out, name))
    print("%s: %.0f MB of weights" % (out, offset / 1e6))


main()
