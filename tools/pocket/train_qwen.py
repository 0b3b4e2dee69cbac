"""Train the pocket autoregressive model: the qwen3_5_moe architecture at 1/2000 of its size.

Usage: python3 train_qwen.py OUT_FOLDER SECONDS   (one CUDA GPU; writes both checkpoint layouts, tokenizer and training.json)
"""
import json
import multiprocessing as mp
import os
import random
import re
import sys
import time

import torch
import torch.nn.functional as F
from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, trainers
from tokenizers.models import BPE
from transformers import Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig

import chat
import common
import export
import tasks

ROW, ROWS, VOCAB = 384, 128, 1408  # the tokenizer stops merging at 1363: the embedding is padded, as the real one is
REGEX = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<tool_response>",
           "</tool_response>", "<think>", "</think>"]


def make_tokenizer():
    rng, held = random.Random(7), chat.held_out_questions()
    t = Tokenizer(BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(REGEX), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    text = ["".join(p for p, _ in chat.qwen_document(rng, held)) for _ in range(20000)]
    text = [re.sub("|".join(map(re.escape, SPECIAL)), "\n", x) for x in text]
    t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=VOCAB - len(SPECIAL),
                          initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.add_special_tokens(SPECIAL[:3])
    t.add_tokens(SPECIAL[3:])
    return t


def rows_worker(seed, path, queue):
    t, rng, held = Tokenizer.from_file(path), random.Random(seed), chat.held_out_questions()
    ids, mask = [], []
    while True:
        block_ids, block_mask = [], []
        while len(block_ids) < 64 * ROW:
            i, m = common.encode_pieces(t, chat.qwen_document(rng, held))
            block_ids += i
            block_mask += m
        n = 64 * ROW
        queue.put((torch.tensor(block_ids[:n]).view(64, ROW), torch.tensor(block_mask[:n]).view(64, ROW)))


def evaluate(model, t, count=400):
    """Greedy accuracy on the held-out problems, by layout."""
    result = {}
    for name, head in [("direct", "<think>\n\n</think>\n\n"), ("thinking", "<think>\n")]:
        right, cases = 0, tasks.test_set(count)
        prompts = [t.encode(chat.qwen_turn("user", q) + "<|im_start|>assistant\n" + head).ids for q, _, _ in cases]
        width, pad = max(map(len, prompts)), t.token_to_id("<|endoftext|>")
        ids = torch.tensor([[pad] * (width - len(p)) + p for p in prompts]).cuda()
        keep = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts]).cuda()
        out = model.generate(input_ids=ids, attention_mask=keep, max_new_tokens=220, do_sample=False,
                             eos_token_id=t.token_to_id("<|im_end|>"), pad_token_id=pad)
        by_steps = {}
        for row, (q, work, answer) in zip(out[:, width:].tolist(), cases):
            text = t.decode(row)
            found = re.findall(r"-?\d+", text)
            ok = bool(found) and int(found[-1]) == answer
            right += ok
            a = by_steps.setdefault(len(work) - 1, [0, 0])
            a[0] += ok
            a[1] += 1
        result[name] = (right, len(cases), {k: f"{v[0]}/{v[1]}" for k, v in sorted(by_steps.items())})
        print(name, result[name], repr(text), flush=True)
    return result


def compile_delta_rule():
    """Compile the chunked delta rule, whose many elementwise steps dominate an uncompiled training step."""
    from transformers.models.qwen3_5_moe import modeling_qwen3_5_moe as m
    plain, compiled = m.torch_chunk_gated_delta_rule, torch.compile(m.torch_chunk_gated_delta_rule, dynamic=False)

    def rule(query, *args, **kwargs):
        if not query.requires_grad:
            return plain(query, *args, **kwargs)
        return compiled(query, *args, **kwargs)

    m.torch_chunk_gated_delta_rule = rule


def main(out, seconds):
    start = time.time()
    os.makedirs(out, exist_ok=True)
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    t = make_tokenizer()
    path = f"{out}/tokenizer.json"
    t.save(path)
    queue = mp.Queue(64)
    workers = [mp.Process(target=rows_worker, args=(1000 + seed, path, queue), daemon=True) for seed in range(13)]
    for worker in workers:
        worker.start()
    ids_of = t.token_to_id
    config = Qwen3_5MoeTextConfig(
        vocab_size=VOCAB, hidden_size=256, num_hidden_layers=8, num_attention_heads=4, num_key_value_heads=1, head_dim=256,
        linear_num_key_heads=2, linear_num_value_heads=4, moe_intermediate_size=64, shared_expert_intermediate_size=64,
        num_experts=32, num_experts_per_tok=8, max_position_embeddings=32768, router_aux_loss_coef=0.01,
        rope_parameters={"rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25,
                         "mrope_section": [11, 11, 10], "mrope_interleaved": True},
        eos_token_id=ids_of("<|im_end|>"), pad_token_id=ids_of("<|endoftext|>"))
    config._attn_implementation = "sdpa"
    model = Qwen3_5MoeForCausalLM(config).to("cuda", torch.bfloat16)
    try:
        model.set_experts_implementation("grouped_mm")
    except Exception as e:
        print("experts:", e)
    compile_delta_rule()
    print("vocab", t.get_vocab_size(), "parameters", sum(p.numel() for p in model.parameters()) / 1e6, common.clock(start), flush=True)
    adam = common.MasterAdam(model, lr=2e-3)
    model.train()
    step, began, budget = 0, time.time(), seconds - 75 - (time.time() - start)
    while (done := (time.time() - began) / budget) < 1:
        parts = [queue.get() for _ in range(ROWS // 64)]
        ids, mask = (torch.cat(x).cuda(non_blocking=True) for x in zip(*parts))
        o = model(input_ids=ids, use_cache=False, output_router_logits=True)
        labels = torch.where(mask, ids, -100)[:, 1:]
        ce = F.cross_entropy(o.logits[:, :-1].float().reshape(-1, VOCAB), labels.reshape(-1), ignore_index=-100)
        (ce + 0.01 * o.aux_loss).backward()
        norm = adam.step(common.schedule(done))
        step += 1
        if step in (1, 5, 20) or step % 100 == 0:
            print(f"{step} loss {ce.item():.4f} aux {o.aux_loss.item():.3f} norm {norm.item():.2f} queue {queue.qsize()} {common.clock(start)}", flush=True)
    model.eval()
    report = {"parameters": sum(p.numel() for p in model.parameters()), "steps": step, "tokens": step * ROW * ROWS,
              "seconds": round(time.time() - began), "loss": round(ce.item(), 4), "bfloat16": evaluate(model, t)}
    text_config = {k: v for k, v in config.to_dict().items() if k not in ("architectures", "_name_or_path", "transformers_version")}
    text_config.update(full_attention_interval=4, attn_output_gate=True, mamba_ssm_dtype="float32", dtype="bfloat16")
    generation = {"do_sample": True, "temperature": 1.0, "top_k": 20, "top_p": 0.95, "pad_token_id": ids_of("<|endoftext|>"),
                  "eos_token_id": [ids_of("<|im_end|>"), ids_of("<|endoftext|>")]}
    tokenizer_config = {"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
                        "add_bos_token": False, "clean_up_tokenization_spaces": False, "model_max_length": 32768}
    state = export.qwen(model, text_config, generation, path, tokenizer_config, out)
    exact = model.float()
    exact.config._experts_implementation = "eager"
    exact.set_experts_implementation("eager")
    torch.backends.cuda.matmul.allow_tf32 = False
    exact.load_state_dict(state)
    report["mlx_4bit"] = evaluate(exact, t)
    json.dump(report, open(f"{out}/training.json", "w"), indent=1)
    print(json.dumps(report), common.clock(start), flush=True)
    for worker in workers:
        worker.kill()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
