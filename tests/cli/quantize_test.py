"""weir quantize and weir perplexity from outside."""
import json

import support
from support import MODEL, PROBLEMS, ROOT

TINY = ROOT / "tests" / "data" / "qwen-tiny" / "hf"
GEMMA = ROOT / "models" / "pocket-gemma"


class Quantize(support.WeirTest):
    def test_a_recipe_is_what_inspect_shows(self):
        out = self.folder / "out"
        done = self.weir("quantize", TINY, out, "--bits", "3", "--recipe", "experts=2:32,head=bf16", "--search")
        self.assertEqual(done.stdout, "")
        self.assertIn("matrices quantised", done.stderr)
        modules = {m["kind"]: m["encodings"] for m in self.report("inspect", out)["modules"]}
        self.assertEqual(list(modules["experts"]), ["affine 2-bit, groups of 32"])
        self.assertEqual(list(modules["head"]), ["bf16"])
        self.assertEqual(list(modules["router"]), ["affine 8-bit, groups of 64"])
        self.assertEqual(list(modules["embedding"]), ["affine 3-bit, groups of 64"])

    def test_the_search_and_the_threads_do_not_change_each_other(self):
        for threads in ("1", "2"):
            self.weir("quantize", TINY, self.folder / threads, "--bits", "2", "--search", "--threads", threads)
        one, two = ((self.folder / t / "model.safetensors").read_bytes() for t in ("1", "2"))
        self.assertEqual(one, two)

    def test_mistakes_are_said(self):
        out = self.folder / "out"
        self.fails(2, "quantize", says=["a model and a folder"])
        self.fails(2, "quantize", TINY, out, "--bits", "7", says=["7 bits"])
        self.fails(2, "quantize", TINY, out, "--group-size", "16", says=["groups of 16"])
        self.fails(2, "quantize", TINY, out, "--recipe", "expert=2", says=["'expert=2'", "shared-expert"])
        self.fails(2, "quantize", MODEL, out, says=["quantised already"])
        self.fails(2, "quantize", TINY, TINY, says=["not empty"])
        self.fails(3, "quantize", self.folder / "nothing", out)
        self.assertFalse(out.exists())


class Perplexity(support.WeirTest):
    def test_a_model_does_not_differ_from_itself(self):
        found = self.report("perplexity", PROBLEMS, "--against", MODEL, "--limit", "10")
        self.assertAlmostEqual(found["against"]["divergence"], 0, places=9)
        self.assertEqual(found["against"]["same_best"], 1)
        self.assertEqual(found["perplexity"], found["against"]["perplexity"])
        self.assertGreater(found["tokens"], 100)

    def test_kernels_agree_but_for_their_rounding(self):
        cpu, plain = (self.report("perplexity", PROBLEMS, "--limit", "3", "--device", d) for d in ("cpu", "reference"))
        self.assertEqual(cpu["tokens"], plain["tokens"])
        self.assertAlmostEqual(cpu["perplexity"], plain["perplexity"], delta=0.05 * plain["perplexity"])

    def test_a_text_is_read_in_windows_whose_first_tokens_are_given(self):
        text = self.folder / "text.txt"
        text.write_text(" ".join(json.loads(line)["question"] for line in PROBLEMS.read_text().splitlines()[:5]))
        tokens = len(self.weir("tokenize", text.read_text(), "--plain").stdout.splitlines())
        found = self.report("perplexity", text, "--window", "32")
        self.assertEqual(found["tokens"], tokens - -(-tokens // 32))

    def test_a_diffusion_model_reads_causally_or_denoises(self):
        causal = self.report("perplexity", PROBLEMS, "-m", GEMMA, "--limit", "5")
        noisy = self.report("perplexity", PROBLEMS, "-m", GEMMA, "--limit", "5", "--denoise")
        self.assertLess(noisy["tokens"], causal["tokens"])
        for found in (causal, noisy):
            self.assertLess(found["perplexity"], 200)  # of 1,024 tokens

    def test_mistakes_are_said(self):
        self.fails(2, "perplexity", says=["needs a text"])
        self.fails(2, "perplexity", PROBLEMS, "--denoise", says=["--denoise"])
        self.fails(2, "perplexity", PROBLEMS, "--against", GEMMA, "--limit", "1", says=["tokens"])
        self.fails(3, "perplexity", self.folder / "nothing.txt")


if __name__ == "__main__":
    support.main()
