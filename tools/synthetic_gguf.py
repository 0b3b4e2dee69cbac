#!/usr/bin/env python3
"""Writes a GGUF of Qwen3.6-35B-A3B's shapes with random weights, for llama.cpp to be measured beside weir.

usage: tools/synthetic_gguf.py OUT [--layers N]

Matrices are Q4_0 (4.5 bits a weight, as MLX's groups of 64), routers, norms and convolutions float32, as converters leave
them. Rows have unit gain, so streams keep sane magnitudes and routing is near-uniform. 40 layers take 19.6 GB of disk, a
few layers 0.5 GB each and 0.6 GB besides.
"""
import argparse
import array
import math
import pathlib
import random
import struct

HIDDEN, VOCABULARY, EXPERTS, USED, WIDTH, LAYERS = 2048, 248320, 256, 8, 512, 40
HEADS, KV_HEADS, HEAD_DIM = 16, 2, 256
KEY_HEADS, VALUE_HEADS, DELTA_DIM, TAPS, INTERVAL = 16, 32, 128, 4, 4
CHANNELS, VALUES = (2 * KEY_HEADS + VALUE_HEADS) * DELTA_DIM, VALUE_HEADS * DELTA_DIM

# Of the format: types of values, types of tensors, and where tensors may begin.
UINT32, INT32, FLOAT32, STRING, ARRAY = 4, 5, 6, 8, 9
F32, Q4_0 = 0, 2
ALIGNMENT = 32
BLOCK, BLOCK_BYTES = 32, 18  # of Q4_0: a float16 scale and 32 nibbles

ARCHITECTURE = "qwen35moe"
PIECE = 1 << 16  # blocks made at a time

# A nibble n stands for n - 8. With 0 taken for 8, random ones have mean 0 and mean square 17.5; a mean would add up over
# the columns of a matrix, and over the matrices.
CENTRED = bytes((low or 8) | (high or 8) << 4 for high in range(16) for low in range(16))


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def field(key, kind, value):
    if kind == STRING:
        return text(key) + struct.pack("<I", kind) + text(value)
    if kind == ARRAY:
        return text(key) + struct.pack(f"<IIQ{len(value)}i", kind, INT32, len(value), *value)
    return text(key) + struct.pack("<If" if kind == FLOAT32 else "<II", kind, value)


def fields(layers):
    own = {
        "block_count": layers, "context_length": 262144, "embedding_length": HIDDEN, "vocab_size": VOCABULARY,
        "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS, "attention.key_length": HEAD_DIM,
        "attention.value_length": HEAD_DIM, "rope.dimension_count": HEAD_DIM // 4, "expert_count": EXPERTS,
        "expert_used_count": USED, "expert_feed_forward_length": WIDTH, "expert_shared_feed_forward_length": WIDTH,
        "ssm.conv_kernel": TAPS, "ssm.inner_size": VALUES, "ssm.state_size": DELTA_DIM,
        "ssm.time_step_rank": VALUE_HEADS, "ssm.group_count": KEY_HEADS, "full_attention_interval": INTERVAL}
    out = [field("general.architecture", STRING, ARCHITECTURE), field("general.name", STRING, "synthetic"),
           field("general.file_type", UINT32, 2), field("tokenizer.ggml.model", STRING, "none")]
    out += [field(f"{ARCHITECTURE}.{key}", UINT32, value) for key, value in own.items()]
    out += [field(f"{ARCHITECTURE}.attention.layer_norm_rms_epsilon", FLOAT32, 1e-6),
            field(f"{ARCHITECTURE}.rope.freq_base", FLOAT32, 1e7),
            field(f"{ARCHITECTURE}.rope.dimension_sections", ARRAY, [11, 11, 10, 0])]
    return out


def layer_tensors(layer):
    """(name, shape, kind, least, most) with the contiguous dimension first; least and most of float32 values."""
    def matrix(name, *shape):
        return (f"blk.{layer}.{name}.weight", shape, Q4_0, 0, 0)

    def vector(name, *shape, least=0.9, most=1.1):
        return (f"blk.{layer}.{name}", shape, F32, least, most)

    yield vector("attn_norm.weight", HIDDEN)
    yield vector("post_attention_norm.weight", HIDDEN)
    if (layer + 1) % INTERVAL == 0:
        yield matrix("attn_q", HIDDEN, 2 * HEADS * HEAD_DIM)
        yield matrix("attn_k", HIDDEN, KV_HEADS * HEAD_DIM)
        yield matrix("attn_v", HIDDEN, KV_HEADS * HEAD_DIM)
        yield matrix("attn_output", HEADS * HEAD_DIM, HIDDEN)
        yield vector("attn_q_norm.weight", HEAD_DIM)
        yield vector("attn_k_norm.weight", HEAD_DIM)
    else:
        yield matrix("attn_qkv", HIDDEN, CHANNELS)
        yield matrix("attn_gate", HIDDEN, VALUES)
        yield vector("ssm_conv1d.weight", TAPS, CHANNELS, least=-0.5, most=0.5)
        yield vector("ssm_dt.bias", VALUE_HEADS, least=-1, most=1)
        yield vector("ssm_a", VALUE_HEADS, least=-1, most=-0.02)
        yield matrix("ssm_beta", HIDDEN, VALUE_HEADS)
        yield matrix("ssm_alpha", HIDDEN, VALUE_HEADS)
        yield vector("ssm_norm.weight", DELTA_DIM)
        yield matrix("ssm_out", VALUES, HIDDEN)
    root = math.sqrt(3 / HIDDEN)  # of a uniform value with variance 1 / HIDDEN
    yield vector("ffn_gate_inp.weight", HIDDEN, EXPERTS, least=-root, most=root)
    yield vector("ffn_gate_inp_shexp.weight", HIDDEN, least=-root, most=root)
    yield matrix("ffn_gate_exps", HIDDEN, WIDTH, EXPERTS)
    yield matrix("ffn_up_exps", HIDDEN, WIDTH, EXPERTS)
    yield matrix("ffn_down_exps", WIDTH, HIDDEN, EXPERTS)
    yield matrix("ffn_gate_shexp", HIDDEN, WIDTH)
    yield matrix("ffn_up_shexp", HIDDEN, WIDTH)
    yield matrix("ffn_down_shexp", WIDTH, HIDDEN)


def tensors(layers):
    yield ("token_embd.weight", (HIDDEN, VOCABULARY), Q4_0, 0, 0)
    yield ("output.weight", (HIDDEN, VOCABULARY), Q4_0, 0, 0)
    yield ("output_norm.weight", (HIDDEN,), F32, 0.9, 1.1)
    for layer in range(layers):
        yield from layer_tensors(layer)


def size_of(shape, kind):
    count = math.prod(shape)
    return count * 4 if kind == F32 else count // BLOCK * BLOCK_BYTES


def aligned(size):
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def header(layers):
    infos, offset = [], 0
    for name, shape, kind, _, _ in tensors(layers):
        infos.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset))
        offset += aligned(size_of(shape, kind))
    values = fields(layers)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(values)) + b"".join(values + infos)
    return head.ljust(aligned(len(head)), b"\0")


def write_tensor(file, rng, shape, kind, least, most):
    size = size_of(shape, kind)
    if kind == F32:
        file.write(array.array("f", (rng.uniform(least, most) for _ in range(math.prod(shape)))).tobytes())
    else:
        scale = struct.pack("<e", 1 / math.sqrt(17.5 * shape[0]))
        piece = bytearray(PIECE * BLOCK_BYTES)
        piece[0::BLOCK_BYTES], piece[1::BLOCK_BYTES] = scale[:1] * PIECE, scale[1:] * PIECE
        for done in range(0, size, len(piece)):
            for byte in range(2, BLOCK_BYTES):
                piece[byte::BLOCK_BYTES] = rng.randbytes(PIECE).translate(CENTRED)
            file.write(memoryview(piece)[:size - done])
    file.write(b"\0" * (aligned(size) - size))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=LAYERS, choices=range(1, LAYERS + 1), metavar="N")
    options = parser.parse_args()
    rng = random.Random(1)
    partial = options.out.with_name(options.out.name + ".partial")
    with open(partial, "wb") as file:
        file.write(header(options.layers))
        for _, shape, kind, least, most in tensors(options.layers):
            write_tensor(file, rng, shape, kind, least, most)
    partial.rename(options.out)


if __name__ == "__main__":
    main()
