"""Ids with the text that the Hugging Face `tokenizers` library decodes them to, broken characters included.

Usage: python3 make_decode_vectors.py TOKENIZER.json OUT.jsonl
"""
import json
import random
import sys

from tokenizers import Tokenizer

# Parts of characters: leads of 2, 3 and 4 bytes, continuations, a surrogate's lead, bytes that never occur.
BYTES = [0x41, 0x20, 0xC3, 0xA9, 0xE4, 0xBD, 0xA0, 0xE0, 0xED, 0xF0, 0x9F, 0x98, 0x80, 0xF4, 0x90, 0xC0, 0xFF]


def byte_letters():
    """GPT-2's printable stand-in for each byte."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in keep]
    return {b: chr(b) for b in keep} | {b: chr(256 + k) for k, b in enumerate(rest)}


def main(path, out):
    rng = random.Random(0)
    tokenizer = Tokenizer.from_file(path)
    size = tokenizer.get_vocab_size()
    fallback = tokenizer.token_to_id("<0x00>") is not None
    letters = byte_letters()
    pool = [tokenizer.token_to_id(f"<0x{b:02X}>" if fallback else letters[b]) for b in BYTES]
    with open(out, "w") as f:
        for k in range(300):
            broken = 0.9 if k % 3 else 0.2
            ids = [rng.choice(pool) if rng.random() < broken else rng.randrange(size) for _ in range(rng.randint(1, 20))]
            row = {"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                   "skipped": tokenizer.decode(ids, skip_special_tokens=True)}
            f.write(json.dumps(row) + "\n")


main(*sys.argv[1:])
