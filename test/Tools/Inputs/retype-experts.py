"""Copies a model directory with MXFP4 tensors typed as F4 and F8_E8M0 instead of U8: retype-experts.py FROM TO."""
import json
import pathlib
import shutil
import struct
import sys

source, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
target.mkdir(parents=True)
for path in source.iterdir():
    if path.suffix != ".safetensors":
        shutil.copyfile(path, target / path.name)
        continue
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    for name, tensor in header.items():
        if name.endswith(".weight_packed"):
            tensor["dtype"] = "F4"
            tensor["shape"][-1] *= 2
        elif name.endswith(".weight_scale"):
            tensor["dtype"] = "F8_E8M0"
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (target / path.name).write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length:])
