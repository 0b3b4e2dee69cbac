#!/usr/bin/env python3
"""A random multi-token prediction head for the tiny Qwen model, and what it guesses, computed in float64.

Usage: tools/draft_head_golden.py [FOLDER]        default: tests/data/qwen-tiny; needs numpy and safetensors

Reads FOLDER/hf (official weights and their goldens), writes FOLDER/draft-head/head.safetensors, the tensors mtp.* of a
Hugging Face checkpoint in bfloat16, and golden.safetensors:

  logits  [64, 512]   of the pair (hidden row i, token i + 1) of the prompt ids.65, i = 0 .. 63
  chain   [4]         the guess behind the last pair, then three more by chaining

The formulas: e = RMSNorm(embedding of token i + 1), d = RMSNorm(hidden row i, which is the main model's final norm);
x = fc [e | d]; one attention layer with experts at position i; y = RMSNorm(x); logits = head y. Chaining goes on with
(y, guess) at the next position. The layer is first tried on the main model's own attention layer, whose inputs and
outputs the official implementation has recorded.
"""
import json
import sys
from pathlib import Path

import numpy as np
from ml_dtypes import bfloat16
from safetensors.numpy import load_file, save_file

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "tests/data/qwen-tiny")
config = json.load(open(folder / "hf/config.json"))["text_config"]
hidden, head_dim, top_k = config["hidden_size"], config["head_dim"], config["num_experts_per_tok"]
rotary = int(head_dim * config["rope_parameters"]["partial_rotary_factor"])
frequency = config["rope_parameters"]["rope_theta"] ** (-np.arange(0, rotary, 2) / rotary)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def norm(x, w):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + config["rms_norm_eps"]) * (1 + w)


def swiglu(h, gate, up, down):
    g = gate @ h
    return down @ (g * sigmoid(g) * (up @ h))


class AttentionLayer:
    """One decoder layer with its keys and values; w has the layer's tensors by their names behind `prefix`."""

    def __init__(self, weights, prefix):
        self.w = {n[len(prefix):]: t.astype(np.float64) for n, t in weights.items() if n.startswith(prefix)}
        self.keys, self.values = [], []

    def rotate(self, x):
        position = len(self.keys)
        a, b, rest = np.split(x, [rotary // 2, rotary], -1)
        cos, sin = np.cos(position * frequency), np.sin(position * frequency)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], -1)

    def attend(self, h):
        w = {n[len("self_attn."):]: t for n, t in self.w.items() if n.startswith("self_attn.")}
        q, gate = np.split((w["q_proj.weight"] @ h).reshape(-1, 2 * head_dim), 2, -1)
        k, v = ((w[f"{n}_proj.weight"] @ h).reshape(-1, head_dim) for n in "kv")
        q, k = self.rotate(norm(q, w["q_norm.weight"])), self.rotate(norm(k, w["k_norm.weight"]))
        self.keys.append(k)
        self.values.append(v)
        group = len(q) // len(k)
        scores = np.einsum("hd,thd->ht", q, np.repeat(self.keys, group, 1)) / np.sqrt(head_dim)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = np.einsum("ht,thd->hd", p / p.sum(-1, keepdims=True), np.repeat(self.values, group, 1))
        return w["o_proj.weight"] @ (mixed * sigmoid(gate)).ravel()

    def experts(self, h):
        w = {n[len("mlp."):]: t for n, t in self.w.items() if n.startswith("mlp.")}
        scores = w["gate.weight"] @ h
        p = np.exp(scores - scores.max())
        chosen = np.argsort(-p, kind="stable")[:top_k]
        routed = sum(p[e] / p[chosen].sum() * swiglu(h, *np.split(w["experts.gate_up_proj"][e], 2), w["experts.down_proj"][e])
                     for e in chosen)
        shared = swiglu(h, *(w[f"shared_expert.{n}_proj.weight"] for n in ("gate", "up", "down")))
        return routed + sigmoid(w["shared_expert_gate.weight"] @ h) * shared

    def step(self, x):
        x = x + self.attend(norm(x, self.w["input_layernorm.weight"]))
        return x + self.experts(norm(x, self.w["post_attention_layernorm.weight"]))


def official():
    weights = {}
    for path in sorted((folder / "hf").glob("model-*.safetensors")):
        weights.update(load_file(path))
    text = {n.replace("model.language_model.", "model."): t for n, t in weights.items()}
    return text, load_file(folder / "hf/golden.safetensors")


def try_on_official_layer(weights, golden, layer=3):
    tried = AttentionLayer(weights, f"model.layers.{layer}.")
    found = np.array([tried.step(x) for x in golden[f"stage.{layer - 1}.out"].astype(np.float64)])
    expected = golden[f"stage.{layer}.out"]
    error = np.abs(found - expected).max() / np.abs(expected).max()
    print(f"the official layer {layer}: relative error {error:.1e}")
    assert error < 1e-5


def random_head(weights, seed=11):
    """Of the sizes that the tiny model's own tensors have, with an fc that keeps both halves at work."""
    rng = np.random.default_rng(seed)
    head = {"mtp.fc.weight": rng.normal(0, (2 * hidden) ** -0.5, (hidden, 2 * hidden))}
    for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        head[f"mtp.{name}.weight"] = rng.uniform(0.2, 0.6, hidden) * rng.choice([-1, 1], hidden)
    for name, tensor in weights.items():
        if name.startswith("model.layers.3."):
            size = tensor.astype(np.float64).std()
            centre = tensor.astype(np.float64).mean() if tensor.ndim == 1 else 0
            head[name.replace("model.layers.3.", "mtp.layers.0.")] = rng.normal(centre, size, tensor.shape)
    return {n: t.astype(bfloat16) for n, t in head.items()}


def guess(weights, head, golden):
    layer = AttentionLayer(head, "mtp.layers.0.")
    w = {n: t.astype(np.float64) for n, t in {**weights, **head}.items() if "layers" not in n}
    tokens, rows = golden["ids.65"], golden["stage.final"].astype(np.float64)

    def pair(row, token):
        e = norm(w["model.embed_tokens.weight"][token], w["mtp.pre_fc_norm_embedding.weight"])
        d = norm(row, w["mtp.pre_fc_norm_hidden.weight"])
        y = norm(layer.step(w["mtp.fc.weight"] @ np.concatenate([e, d])), w["mtp.norm.weight"])
        return y, w["lm_head.weight"] @ y

    logits = []
    for row, token in zip(rows, tokens[1:]):
        y, scores = pair(row, token)
        logits.append(scores)
    chain = [int(scores.argmax())]
    for _ in range(3):
        top = np.sort(scores)[-2:]
        assert top[1] - top[0] > 0.05, "too close to tell"
        y, scores = pair(y, chain[-1])
        chain.append(int(scores.argmax()))
    return {"logits": np.array(logits, np.float32), "chain": np.array(chain, np.int32)}


def main():
    weights, golden = official()
    weights = {n: t for n, t in weights.items() if not n.startswith("mtp.")}
    try_on_official_layer(weights, golden)
    head = random_head(weights)
    (folder / "draft-head").mkdir(exist_ok=True)
    save_file(head, folder / "draft-head/head.safetensors")
    found = guess(weights, head, golden)
    save_file(found, folder / "draft-head/golden.safetensors")
    print("chain", found["chain"])


main()
