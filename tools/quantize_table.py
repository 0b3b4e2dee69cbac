"""Quantises a bfloat16 model in several ways and tables what each costs: docs/quantize.md shows the results.

    python3 tools/quantize_table.py BF16_MODEL PROBLEMS FOLDER --weir build/release/src/cli/weir [--limit N] [--denoise]

Each way is a folder below FOLDER, made once, with its measurements beside it; a later run goes on where one stopped.
"""
import argparse
import json
import pathlib
import subprocess

MLX = [(f"{bits} bits", ["--bits", str(bits)]) for bits in (2, 3, 4, 8)]
SEARCH = [(f"{name}, search", flags + ["--search"]) for name, flags in MLX]
EVEN = [("experts 2, rest 4", ["--bits", "4", "--recipe", "experts=2"]),
        ("experts 3, rest 4", ["--bits", "4", "--recipe", "experts=3"]),
        ("experts 2, rest 8", ["--bits", "8", "--recipe", "experts=2"]),
        ("experts 3, rest 8", ["--bits", "8", "--recipe", "experts=3"])]
MIXED = [(f"{name}, search", flags + ["--search"]) for name, flags in EVEN]


def calibrated(file):
    """The even and mixed ways once more, with a search that knows which columns a text needs."""
    return [(f"{name}, calibrated", flags + ["--calibrate", file]) for name, flags in MLX + EVEN]


def report(command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measured(file, key, measure):
    """`measure()` once, then what `file` remembers of it."""
    known = json.loads(file.read_text()) if file.exists() else {}
    if key not in known:
        known[key] = measure()
        file.write_text(json.dumps(known, indent=1))
    return known[key]


def row(name, flags, options):
    weir, source = options.weir, options.model
    folder = options.folder / name.replace(",", "").replace(" ", "-")
    if flags is None:
        folder, weights = options.folder / "bf16", pathlib.Path(source)
        folder.mkdir(parents=True, exist_ok=True)
    else:
        weights = folder / "model"
        if not (weights / "config.json").exists():
            subprocess.run([weir, "quantize", source, str(weights), *flags], check=True, capture_output=True)
    notes = folder / "measured.json"
    reading = ["--denoise"] if options.denoise else []
    beliefs = measured(notes, f"perplexity{options.texts or ''}" + "".join(reading), lambda: report(
        [weir, "perplexity", options.problems, "-m", str(weights), "--against", source, "--json", *reading,
         *(["--limit", str(options.texts)] if options.texts else [])]))
    size = sum(f.stat().st_size for f in weights.glob("model*.safetensors"))
    cells = [name, f"{size / 1e6:.1f}", f"{beliefs['bytes_per_step'] / 1e6:.2f}", f"{beliefs['perplexity']:.4f}",
             f"{beliefs['against']['divergence']:.5f}", f"{100 * beliefs['against']['same_best']:.2f}"]
    if options.accuracy:
        key = f"accuracy{options.limit or ''}"
        limit = ["--limit", str(options.limit)] if options.limit else []
        result = measured(notes, key, lambda: report(
            [weir, "eval", options.problems, "-m", str(weights), "--no-think", "--json", "--parallel", "8",
             *([] if options.diffusion else ["--temperature", "0"]), *limit]))
        cells.append(f"{result['correct']} of {result['total']}")
        if options.diffusion:
            cells.append(f"{result['passes_per_canvas']:.1f}")
    return cells


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("problems")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--weir", required=True)
    parser.add_argument("--limit", type=int, help="problems of the accuracy; default: all")
    parser.add_argument("--texts", type=int, help="problems of perplexity and divergence; default: all")
    parser.add_argument("--denoise", action="store_true", help="distributions over a noisy canvas, not the next token")
    parser.add_argument("--no-accuracy", dest="accuracy", action="store_false")
    parser.add_argument("--calibrate", help="a text, for further ways that are calibrated with it")
    parser.add_argument("--only", help="the ways whose names hold this text")
    options = parser.parse_args()
    options.diffusion = "diffusion" in json.loads((pathlib.Path(options.model) / "config.json").read_text())["model_type"]
    titles = ["weights", "MB", "MB a step", "perplexity", "KL, nats", "same best, %"]
    titles += ["right"] if options.accuracy else []
    titles += ["passes a canvas"] if options.accuracy and options.diffusion else []
    print("| " + " | ".join(titles) + " |\n|" + "---|" * len(titles))
    more = calibrated(options.calibrate) if options.calibrate else []
    for name, flags in [("bf16", None), *MLX, *SEARCH, *EVEN, *MIXED, *more]:
        if options.only is None or options.only in name:
            print("| " + " | ".join(row(name, flags, options)) + " |", flush=True)


if __name__ == "__main__":
    main()
