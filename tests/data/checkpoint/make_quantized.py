"""Writes quantized.json: checksums of the tensors that MLX makes of the small bfloat16 checkpoints.

    pip install 'mlx[cpu]' mlx-lm; python make_quantized.py

Qwen goes through mlx_lm.convert as it is. DiffusionGemma's names and bits are those of mlx-vlm's converter (0.7.10,
quant_predicate and sanitize), its numbers mx.quantize's. A checksum is zlib.crc32 over all tensors by name: a
line "NAME DTYPE SHAPE", then the bytes.
"""
import json
import pathlib
import tempfile
import zlib

import mlx.core as mx
import numpy as np
from mlx_lm import convert

DATA = pathlib.Path(__file__).resolve().parents[1]
TYPES = {mx.uint32: "U32", mx.bfloat16: "BF16", mx.float32: "F32"}


def load(folder):
    tensors = {}
    for shard in sorted(folder.glob("model*.safetensors")):
        tensors.update(mx.load(str(shard)))
    return tensors


def raw(array):
    return np.array(array.view(mx.uint16) if array.dtype == mx.bfloat16 else array).tobytes()


def checksum(tensors):
    crc = 0
    for name in sorted(tensors):
        array = tensors[name]
        line = f"{name} {TYPES[array.dtype]} [{', '.join(map(str, array.shape))}]\n"
        crc = zlib.crc32(raw(array), zlib.crc32(line.encode(), crc))
    return {"tensors": len(tensors), "crc32": crc}


def qwen(bits, group):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        convert(str(DATA / "qwen-tiny" / "hf"), str(out), quantize=True, q_bits=bits, q_group_size=group)
        return load(out)


def gemma(bits, group):
    tensors = {}
    for name, w in load(DATA / "diffusion-tiny" / "hf").items():
        if name.endswith((".experts.gate_up_proj", ".experts.down_proj")):
            name += ".weight"
        module = name.removesuffix(".weight")
        if w.ndim < 2 or module == name or "vision" in name or w.shape[-1] % group:
            tensors[name] = w
            continue
        eight = module.endswith(("embed_tokens", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"))
        eight = eight or ".self_attn." in module or "router" in module
        q, s, b = mx.quantize(w, group_size=64 if eight else group, bits=8 if eight else bits)
        tensors.update({name: q, module + ".scales": s, module + ".biases": b})
    return tensors


cases = [("qwen-tiny", qwen, 2, 64), ("qwen-tiny", qwen, 3, 32), ("qwen-tiny", qwen, 4, 64), ("qwen-tiny", qwen, 6, 64),
         ("qwen-tiny", qwen, 8, 32), ("diffusion-tiny", gemma, 2, 32), ("diffusion-tiny", gemma, 3, 64),
         ("diffusion-tiny", gemma, 4, 64), ("diffusion-tiny", gemma, 8, 64)]
out = [{"model": model, "bits": bits, "group": group, **checksum(make(bits, group))} for model, make, bits, group in cases]
(pathlib.Path(__file__).parent / "quantized.json").write_text(json.dumps(out, indent=1) + "\n")
