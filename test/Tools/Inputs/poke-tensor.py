"""Overwrites bytes of one tensor of a model directory: poke-tensor.py DIR TENSOR OFFSET HEX."""
import json
import pathlib
import struct
import sys

folder, tensor, offset, data = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), bytes.fromhex(sys.argv[4])
for path in sorted(folder.glob("*.safetensors")):
    with open(path, "r+b") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
        if tensor in header:
            file.seek(8 + length + header[tensor]["data_offsets"][0] + offset)
            file.write(data)
            sys.exit(0)
sys.exit(f"no tensor {tensor}")
