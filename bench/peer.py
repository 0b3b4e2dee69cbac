#!/usr/bin/env python3
"""Measures weir and llama.cpp in turns at the shapes of Qwen3.6-35B-A3B, and prints medians and ratios.

usage: bench/peer.py LLAMA_BENCH GGUF [--layers N] [--weir FILE] [--rounds N] ...

GGUF comes from tools/synthetic_gguf.py with the same --layers. A round runs one program after the other, each in a
process of its own that loads the model, warms up and is timed once; so both meet the same drift of the machine, and memory
holds one model at a time. docs/bench.md says what the columns mean.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

DEFAULT_WEIR = "build/release/src/cli/weir"


def counts(text):
    return [int(part) for part in text.split(",")]


def run(command):
    """The JSON that a command prints, and the most memory that it took, in GiB."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command[0]} failed with {process.returncode}")
    return json.loads(output), usage.ru_maxrss / 2**20


def joined(values):
    return ",".join(map(str, values))


def measure_weir(o):
    """Tokens per second by (what, tokens), peak memory in GiB, and the bandwidth and floors of this run."""
    report, memory = run([o.weir, "bench", "-m", f"synthetic:qwen3.6-35b-a3b,layers={o.layers}", "--json", "--repeats",
                          "1", "--threads", str(o.threads), "--prompt", joined(o.prompt), "--depth", joined(o.depth),
                          "--generate", str(o.generate)])
    speeds = {("prefill", p["tokens"]): p["tokens_per_second"]["median"] for p in report["prefill"]}
    speeds |= {("decode", d["depth"]): d["tokens_per_second"]["median"] for d in report["decode"]}
    bandwidth = report["read_gigabytes_per_second"]
    floors = {("decode", d["depth"]): bandwidth * 1e9 / d["bytes_per_token"] for d in report["decode"]}
    return speeds, memory, bandwidth, floors


def measure_llama(o):
    common = [o.llama_bench, "-m", o.gguf, "-t", str(o.threads), "-r", "1", "-fa", "1", "-o", "json", *o.llama_flags]
    tests, memory = run([*common, "-p", joined(o.prompt), "-n", "0"])
    more, memory_of_decode = run([*common, "-p", "0", "-n", str(o.generate), "-d", joined(o.depth)])
    speeds = {}
    for test in tests + more:
        key = ("decode", test["n_depth"]) if test["n_gen"] else ("prefill", test["n_prompt"])
        speeds[key] = test["avg_ts"]
    return speeds, max(memory, memory_of_decode)


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def print_table(weir, llama):
    print("\n| | weir, tokens/s | llama.cpp, tokens/s | ratio | of the floor |")
    print("|---|---|---|---|---|")
    for key in weir[0][0]:
        ours, theirs = [w[0][key] for w in weir], [l[0][key] for l in llama]
        ratio = spread([a / b for a, b in zip(ours, theirs)])
        share = "" if key[0] == "prefill" else f"{100 * statistics.median(w[0][key] / w[3][key] for w in weir):.0f} %"
        print(f"| {key[0]} {key[1]} | {spread(ours)} | {spread(theirs)} | {ratio} | {share} |")
    print(f"| peak memory, GiB | {max(w[1] for w in weir):.1f} | {max(l[1] for l in llama):.1f} | | |")
    print(f"\nmemory reads {spread([w[2] for w in weir])} GB/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("llama_bench", metavar="LLAMA_BENCH")
    parser.add_argument("gguf", metavar="GGUF")
    parser.add_argument("--weir", default=DEFAULT_WEIR, help=f"default: {DEFAULT_WEIR}")
    parser.add_argument("--layers", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--prompt", type=counts, default=[512, 2048], metavar="N,...")
    parser.add_argument("--depth", type=counts, default=[0, 4096], metavar="N,...")
    parser.add_argument("--generate", type=int, default=16)
    parser.add_argument("llama_flags", nargs="*", metavar="-- FLAG", help="more flags for llama-bench, behind --")
    o = parser.parse_args()
    weir, llama = [], []
    for number in range(1, o.rounds + 1):
        weir.append(measure_weir(o))
        llama.append(measure_llama(o))
        line = [f"{what} {tokens}: {weir[-1][0][what, tokens]:.2f} and {speed:.2f}"
                for (what, tokens), speed in llama[-1][0].items()]
        print(f"round {number}: {'; '.join(line)} tokens/s", file=sys.stderr)
    print_table(weir, llama)


if __name__ == "__main__":
    main()
