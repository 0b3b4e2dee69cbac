"""weir run, chat and eval with the block-diffusion pocket model, from outside."""
import json
import os
import pty
import shutil
import struct
import subprocess

import support
from support import PROBLEMS, ROOT, TIMEOUT, WeirTest

GEMMA = ["-m", "pocket-gemma"]
QUESTION = "Mia has 12 apples. Mia finds 5 more apples. How many apples does Mia have now?"
FASTER = ["--soft-top-k", "16", "--greedy-accept", "--entropy-bound", "8", "--freeze", "2", "--compact", "--refresh-share", "0.1",
          "--thaw", "--row-bucket", "8", "--causal-check", "0.9", "--answer-stop", "--tail-drop", "--repair", "--gap-stop", "0.99",
          "--step-cap", "40", "--flush", "--repeat-guard", "16"]


class Diffusion(WeirTest):
    def test_an_answer_comes_from_the_canvas_and_a_seed_repeats_it(self):
        answers = [self.weir("run", *GEMMA, "--seed", "1", "--threads", n, QUESTION) for n in (1, 2)]
        self.assertIn("17", answers[0].stdout)
        self.assertEqual(answers[0].stdout, answers[1].stdout)
        self.assertEqual(answers[0].stderr, "")

    def test_every_departure_can_be_asked_for_at_once(self):
        out = self.report("run", *GEMMA, "--seed", "1", *FASTER, QUESTION)
        self.assertIn("17", out["answer"])
        self.assertEqual(out["finish_reason"], "stop")
        self.assertGreater(out["denoising_passes"], 1)
        self.assertGreater(out["canvas_rows"], 64)

    def test_a_tool_of_the_other_model_is_refused_by_name(self):
        self.fails(2, "run", *GEMMA, "--temperature", "0", QUESTION, says=["--temperature", "--t-max"])
        self.fails(2, "run", *GEMMA, "--top-k", "5", QUESTION, says=["top_k"])
        self.fails(2, "run", "-m", "pocket-qwen", "--freeze", "1", QUESTION, says=["--freeze", "DiffusionGemma"])
        self.fails(2, "run", "-m", "pocket-qwen", "--trace", self.folder / "t", QUESTION, says=["--trace"])

    def test_flags_that_need_others_or_are_out_of_range_say_so(self):
        for flags, words in [(["--compact"], "compact"), (["--thaw"], "--compact"), (["--flush"], "--step-cap"),
                             (["--late-after", "3"], "--late-probability"), (["--denoising-steps", "0"], "denoising"),
                             (["--t-min", "0"], "t_min"), (["--soft-top-k", "1000"], "self-conditioning"),
                             (["--accept-probability", "0.9", "--entropy-bound", "1"], "exclude")]:
            self.fails(2, "run", *GEMMA, *flags, QUESTION, says=[words])

    def test_weights_that_give_no_numbers_give_an_error_and_no_answer(self):
        broken = self.folder / "broken"
        shutil.copytree(ROOT / "models" / "pocket-gemma", broken)
        data = bytearray((broken / "model.safetensors").read_bytes())
        (length,) = struct.unpack_from("<Q", data)
        begin, end = json.loads(data[8:8 + length])["model.decoder.norm.weight"]["data_offsets"]
        data[8 + length + begin:8 + length + end] = b"\x7f\x7f" * ((end - begin) // 2)  # the largest bfloat16
        (broken / "model.safetensors").write_bytes(data)
        self.fails(1, "run", "-m", broken, "--max-tokens", "4", QUESTION, says=["NaN or infinite", "faulty"])

    def test_the_trace_has_a_line_for_each_step(self):
        trace = self.folder / "trace.jsonl"
        out = self.report("run", *GEMMA, "--seed", "1", "--trace", trace, QUESTION)
        lines = [json.loads(line) for line in trace.read_text().splitlines()]
        self.assertEqual(len(lines), out["denoising_passes"])
        self.assertEqual([line["last"] for line in lines], [False] * (len(lines) - 1) + [True])
        for line in lines:
            self.assertEqual({len(line[key]) for key in ("tokens", "best", "accepted", "entropy", "confidence")}, {64})
            self.assertIn("experts_up", line["seconds_by_step"])
            self.assertGreaterEqual(sum(line["accepted"]), 1)
        self.fails(3, "run", *GEMMA, "--trace", self.folder / "no" / "t", QUESTION, says=["cannot be written"])

    def test_the_canvas_is_shown_on_a_terminal_and_only_there(self):
        """Both streams are one terminal; without one nothing of the canvas is written."""
        parent, child = pty.openpty()
        command = self.command("run", *GEMMA, "--seed", "1", QUESTION)
        program = subprocess.Popen(command, stdin=child, stdout=child, stderr=child, env=self.env)
        os.close(child)
        shown = b""
        while True:
            try:
                part = os.read(parent, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
        self.assertEqual(program.wait(TIMEOUT), 0)
        self.assertIn(b"canvas 1, pass 1, 64 rows", shown)
        self.assertIn(b"\x1b[38;5;", shown)
        committed = self.weir("run", *GEMMA, "--seed", "1", QUESTION).stdout.strip()
        self.assertTrue(shown.decode().rstrip().endswith(committed), shown[-400:])

    def test_evaluations_side_by_side_give_the_same_answers(self):
        logs = [self.folder / name for name in ("alone", "together")]
        for log, parallel in zip(logs, (1, 5)):
            out = self.report("eval", PROBLEMS, *GEMMA, "--limit", "7", "--parallel", parallel, "--out", log)
            self.assertEqual(out["total"], 7)
            self.assertGreater(out["passes_per_canvas"], 2)
        answers = [{r["index"]: (r["answer"], r["denoising_passes"]) for r in map(json.loads, log.read_text().splitlines()[1:])}
                   for log in logs]
        self.assertEqual(*answers)

    def test_a_chat_goes_on_from_what_the_model_has_read(self):
        done = self.weir("chat", *GEMMA, "--seed", "1", "--stats", stdin=f"{QUESTION}\nWhat is 4 + 4?\n")
        self.assertIn("of them reused", done.stderr)
        self.assertIn("17", done.stdout)
        self.assertEqual(done.stdout.count("\n"), 2)


if __name__ == "__main__":
    support.main()
