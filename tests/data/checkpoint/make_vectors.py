"""Test vectors of affine quantisation, computed one bit and one float32 rounding at a time.

python3 tests/data/checkpoint/make_vectors.py, from the project's root, rewrites vectors.json and decoded.json here.
Floats are written as the hexadecimal digits of their float32 bits.
"""
import json
import pathlib
import random
import struct

HERE = pathlib.Path(__file__).parent
MODELS = HERE.parent / "qwen-tiny"


def f32(x):
    """Nearest float32, ties to even. Exact for one +, -, * or / of two float32 done in double."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def f32_hex(x):
    return struct.pack(">f", x).hex()


def bf16_bits(x):
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    rest, upper = bits & 0xFFFF, bits >> 16
    return upper + (rest > 0x8000 or (rest == 0x8000 and upper & 1))


def from_bf16(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def pack(q, bits):
    """Value i occupies bits [i * bits, (i + 1) * bits) of the row, the lowest bit first."""
    stream = sum(value << (i * bits) for i, value in enumerate(q))
    return stream.to_bytes(len(q) * bits // 8, "little")


def unpack(row, bits, count):
    stream = int.from_bytes(row, "little")
    digits = f"{stream:0{len(row) * 8}b}"[::-1]
    return [int(digits[i * bits:(i + 1) * bits][::-1], 2) for i in range(count)]


def quantize_group(w, bits):
    levels = 2**bits - 1
    low, high = min(w), max(w)
    step = max(f32(f32(high - low) / levels), f32(1e-7))
    if abs(low) > abs(high):
        edge = low
    else:
        edge, step = high, -step
    whole = round(f32(edge / step))
    if whole:
        scale, bias = f32(edge / whole), edge
    else:
        scale, bias = step, 0.0
    q = [min(max(round(f32(f32(x - bias) / scale)), 0), levels) for x in w]
    return q, scale, bias


def groups_of(rng, size):
    yield "normal", [rng.gauss(0, 0.02) for _ in range(size)]
    yield "all positive", [rng.uniform(0.5, 0.9) for _ in range(size)]
    yield "all negative", [-rng.uniform(0.1, 3.0) for _ in range(size)]
    yield "zero", [0.0] * size
    yield "constant", [-0.37] * size
    yield "below the smallest step", [rng.uniform(-1e-8, 1e-8) for _ in range(size)]
    yield "one outlier", [rng.gauss(0, 1e-3) for _ in range(size - 1)] + [40.0]
    yield "symmetric edges", [(-1.0) ** i * (i % 9) / 8 for i in range(size)]
    yield "halfway values", [i % 32 / 2 - 15.5 for i in range(size)]
    yield "large", [rng.uniform(-1e30, 1e30) for _ in range(size)]
    yield "bfloat16 weights", [from_bf16(bf16_bits(rng.gauss(0, 0.05))) for _ in range(size)]


def vectors():
    rng = random.Random(20261130)
    for bits in (2, 3, 4, 5, 6, 8):
        for size in (32, 64, 128):
            for kind, group in groups_of(rng, size):
                w = [f32(x) for x in group]
                q, scale, bias = quantize_group(w, bits)
                scale16, bias16 = bf16_bits(scale), bf16_bits(bias)
                decoded = [f32(f32(from_bf16(scale16) * v) + from_bf16(bias16)) for v in q]
                yield {"bits": bits, "group": size, "kind": kind, "w": [f32_hex(x) for x in w], "q": q,
                       "scale": f32_hex(scale), "bias": f32_hex(bias), "packed": pack(q, bits).hex(),
                       "scale_bf16": f"{scale16:04x}", "bias_bf16": f"{bias16:04x}",
                       "decoded": "".join(f32_hex(x) for x in decoded)}


def fnv1a(data, value=0xCBF29CE484222325):
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def read_safetensors(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return {name: (t["shape"], data[8 + length + t["data_offsets"][0]:8 + length + t["data_offsets"][1]])
            for name, t in header.items()}


def decoded_matrices(model):
    """Shape, encoding and FNV-1a hash of the float32 bytes of every quantised matrix, decoded."""
    config = json.loads((MODELS / model / "config.json").read_text())["quantization"]
    tensors = read_safetensors(MODELS / model / "model.safetensors")
    for name in sorted(tensors):
        if not name.endswith(".scales"):
            continue
        module = name.removesuffix(".scales")
        rule = config.get(module, config)
        bits, group = rule["bits"], rule["group_size"]
        shape, packed = tensors[module + ".weight"]
        scales, biases = ([from_bf16(x[0]) for x in struct.iter_unpack("<H", tensors[module + suffix][1])]
                          for suffix in (".scales", ".biases"))
        cols = shape[-1] * 32 // bits
        rows = len(packed) * 8 // bits // cols
        size = cols * bits // 8
        value = 0xCBF29CE484222325
        for row in range(rows):
            q = unpack(packed[row * size:(row + 1) * size], bits, cols)
            first = row * cols // group
            decoded = [f32(f32(scales[first + i // group] * v) + biases[first + i // group]) for i, v in enumerate(q)]
            value = fnv1a(struct.pack(f"<{cols}f", *decoded), value)
        yield {"model": model, "module": module.removeprefix("language_model."), "rows": rows, "cols": cols,
               "bits": bits, "group": group, "fnv1a": f"{value:016x}"}


def write(name, items):
    lines = ",\n".join(json.dumps(item) for item in items)
    (HERE / name).write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    write("vectors.json", vectors())
    write("decoded.json", [m for model in ("mlx-4bit", "mlx-mixed") for m in decoded_matrices(model)])
