#!/usr/bin/env python3
"""Draw a picture of a canvas settling: some steps of a trace that `weir run --trace` wrote, shaded by confidence.

Usage: tools/canvas_picture.py TRACE TOKENIZER.json OUT.svg [STEP ...]   (default: eight steps from first to last)
"""
import html
import json
import sys

COLUMNS, CHARACTER, LINE = 88, 7.25, 17  # of a 12 px monospace font


def pieces(tokenizer):
    model = json.load(open(tokenizer))
    table = {i: p for p, i in model["model"]["vocab"].items()}
    table.update((t["id"], t["content"]) for t in model["added_tokens"])
    return {i: p.replace("\u2581", " ") for i, p in table.items()}


def spans(row, table, ends):
    """(text, confidence) of each token; a dot for those behind the answer."""
    done = False
    for token, sure in zip(row["best"], row["confidence"]):
        yield ("\u00b7" if done else table[token]), sure
        done = done or token in ends


def svg(rows, table, ends):
    out, y = [], 24
    for row in rows:
        out.append(f'<text x="12" y="{y}" fill="#6ea8fe">pass {row["step"]}, {row["rows"]} rows</text>')
        y += LINE
        column, line = 0, []
        for text, sure in spans(row, table, ends):
            if column + len(text) > COLUMNS:
                out.append(f'<text x="12" y="{y}" xml:space="preserve">{"".join(line)}</text>')
                y, column, line = y + LINE, 0, []
            grey = 70 + round(185 * min(max(sure, 0), 1))
            line.append(f'<tspan fill="rgb({grey},{grey},{grey})">{html.escape(text)}</tspan>')
            column += len(text)
        out.append(f'<text x="12" y="{y}" xml:space="preserve">{"".join(line)}</text>')
        y += LINE + 8
    width = round(COLUMNS * CHARACTER + 24)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" font-family="monospace" font-size="12">'
            f'<rect width="{width}" height="{y}" fill="#16181d"/>{"".join(out)}</svg>\n')


def main(trace, tokenizer, out, *steps):
    rows = [json.loads(line) for line in open(trace)]
    rows = [row for row in rows if row["answer"] == 0 and row["canvas"] == 0]
    wanted = set(map(int, steps)) or {rows[round(i * (len(rows) - 1) / 7)]["step"] for i in range(8)}
    table = pieces(tokenizer)
    ends = {i for i, p in table.items() if p in ("<eos>", "<turn|>", "<|tool_response>")}
    with open(out, "w") as file:
        file.write(svg([row for row in rows if row["step"] in wanted], table, ends))


if len(sys.argv) < 4:
    sys.exit(__doc__)
main(*sys.argv[1:])
