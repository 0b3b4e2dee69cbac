#!/usr/bin/env python3
"""A table of block-diffusion evaluations: accuracy, what each cost, and whether the difference from the first is chance.

Usage: tools/eval_table.py NAME=LOG[,LOG...] NAME=LOG[,LOG...] ...

Each LOG is a file that `weir eval --out` wrote; the logs of one name are runs with different seeds, and the first name is what
the others are compared with, problem by problem, over the seeds that both have (exact McNemar test, two-sided). Speed is that of
each name's first log alone, so that the others may be made while the machine does other work. It is split into passes, rows of
a pass, and time of a row: the three factors multiply to the speed-up.
"""
import json
import math
import sys


def read(path):
    """(seed, {problem: result}) of one log."""
    with open(path) as file:
        settings = json.loads(next(file))["settings"]
        rows = [json.loads(line) for line in file]
    return settings["seed"], {row["index"]: row for row in rows}


def wilson(right, of, z=1.959964):
    p, n = right / of, of
    centre = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return centre - half, centre + half


def mcnemar(lost, won):
    """Two-sided exact p of so many or more lopsided changes, if both directions were equally likely."""
    n = lost + won
    tail = sum(math.comb(n, k) for k in range(min(lost, won) + 1)) / 2**n
    return min(1.0, 2 * tail)


class Runs:
    def __init__(self, name, paths):
        self.name, self.by_seed = name, dict(map(read, paths))
        results = [row for run in self.by_seed.values() for row in run.values()]
        total = lambda key: sum(row[key] for row in results)
        self.right, self.of = total("correct"), len(results)
        self.tokens, self.passes, self.rows = total("generated_tokens"), total("denoising_passes"), total("canvas_rows")
        self.canvases = total("canvases")
        if self.canvases == 0:
            sys.exit(f"{name}: no canvases in its logs; the model must be one of block diffusion")
        first = next(iter(self.by_seed.values())).values()
        of_first = lambda *keys: sum(row[key] for row in first for key in keys)
        seconds = of_first("prefill_seconds", "decode_seconds")
        self.speed = of_first("generated_tokens") / seconds
        self.passes_a_token = of_first("denoising_passes") / of_first("generated_tokens")
        self.rows_a_pass = of_first("canvas_rows") / of_first("denoising_passes")
        self.seconds_a_row = seconds / of_first("canvas_rows")

    def paired(self, other):
        """Problems right in `other` and wrong here, and the reverse, over common seeds."""
        lost = won = 0
        for seed in self.by_seed.keys() & other.by_seed.keys():
            mine, theirs = self.by_seed[seed], other.by_seed[seed]
            for index in mine.keys() & theirs.keys():
                lost += theirs[index]["correct"] and not mine[index]["correct"]
                won += mine[index]["correct"] and not theirs[index]["correct"]
        return lost, won


def main(arguments):
    if not arguments or not all("=" in argument for argument in arguments):
        sys.exit(__doc__)
    runs = [Runs(name, logs.split(",")) for name, logs in (a.split("=", 1) for a in arguments)]
    base = runs[0]
    print("| | seeds | right | accuracy, 95 % interval | lost/won, p | passes a canvas | rows a token | tokens/s | speed-up |"
          " = passes x rows a pass x time a row |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for r in runs:
        low, high = wilson(r.right, r.of)
        lost, won = r.paired(base)
        test = "" if r is base else f"{lost}/{won}, {mcnemar(lost, won):.2g}"
        passes = base.passes_a_token / r.passes_a_token
        rows = base.rows_a_pass / r.rows_a_pass
        row_time = base.seconds_a_row / r.seconds_a_row
        print(f"| {r.name} | {len(r.by_seed)} | {r.right} of {r.of} | {100 * r.right / r.of:.1f} % ({100 * low:.1f}-{100 * high:.1f})"
              f" | {test} | {r.passes / r.canvases:.2f} | {r.rows / r.tokens:.1f} | {r.speed:.0f}"
              f" | {passes * rows * row_time:.2f} | {passes:.2f} x {rows:.2f} x {row_time:.2f} |")


main(sys.argv[1:])
