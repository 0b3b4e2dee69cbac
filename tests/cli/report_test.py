"""weir inspect, weir doctor and weir eval, from outside."""
import json
import math
import os
import re
import signal
import time
import unittest
from xml.etree import ElementTree

import support
from support import GREEDY, MODEL, PROBLEMS, TIMEOUT, WeirTest


class Inspect(WeirTest):
    def test_every_tensor_is_listed_with_its_bytes(self):
        out = self.report("inspect", "pocket-qwen", "--tensors")
        with open(MODEL / "model.safetensors", "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        header.pop("__metadata__", None)
        expected = {n: (t["dtype"], t["shape"], t["data_offsets"][1] - t["data_offsets"][0]) for n, t in header.items()}
        self.assertEqual({t["name"]: (t["dtype"], t["shape"], t["bytes"]) for t in out["tensors"]}, expected)
        self.assertEqual(out["total"]["bytes"], sum(e[2] for e in expected.values()))
        self.assertEqual(out["total"]["parameters"], 18788400)  # counted by the official class
        self.assertEqual(out["config"], json.loads((MODEL / "config.json").read_text()))

    def test_the_text_report_names_layers_experts_and_bits(self):
        text = self.weir("inspect", "pocket-qwen").stdout
        self.assertIn("8 (6 DeltaNet, 2 attention)", text)
        self.assertIn("32, 8 per token and 1 shared", text)
        self.assertRegex(text, r"experts +72 +12\.6 M +6\.8 MiB +4\.50  affine 4-bit, groups of 64\n")

    def test_a_synthetic_model_has_the_shapes_of_the_real_one(self):
        self.assertIn("256, 8 per token and 1 shared", self.weir("inspect", "synthetic:qwen3.6-35b-a3b,layers=4").stdout)
        gemma = self.weir("inspect", "synthetic:diffusiongemma-26b-a4b,layers=6").stdout
        self.assertIn("6 (5 sliding, 1 full), hidden size 2816", gemma)
        self.assertRegex(gemma, r"experts +36 +4\.6 G +2\.4 GiB +4\.50  affine 4-bit, groups of 64\n")

    def test_wrong_models_are_told_apart(self):
        self.fails(2, "inspect", says=["needs a model"])
        self.fails(2, "inspect", MODEL / "config.json", says=["is a file"])
        self.fails(3, "inspect", "no-such-model", says=["no-such-model"])
        self.fails(3, "inspect", self.folder, says=["config.json"])


class Doctor(WeirTest):
    def test_the_report_has_machine_kernels_and_settings(self):
        out = self.report("doctor", "--threads", "2", env={"WEIR_CHUNK": "128"})
        machine = out["machine"]
        self.assertGreater(machine["read_gigabytes_per_second"]["median"], 0.1)
        self.assertEqual(machine["threads"], 2)
        self.assertEqual(sum(s["used"] for s in out["instruction_sets"]), 1)
        self.assertEqual({k["weights"] for k in out["kernels"]},
                         {"attention in", "attention out", "delta net in", "delta net out", "router", "experts", "head"})
        settings = {s["flag"]: s for s in out["settings"]}
        self.assertEqual(settings["--chunk"], {"flag": "--chunk", "value": "128", "from": "WEIR_CHUNK"})
        self.assertEqual(settings["--threads"], {"flag": "--threads", "value": "2", "from": "flag"})
        self.assertEqual(settings["--model"]["from"], "default")

    def test_reading_is_measured_over_as_much_memory_as_is_asked_for(self):
        read = self.report("doctor", "--buffer", "64MiB")["machine"]["read_gigabytes_per_second"]
        self.assertEqual(read["buffer_bytes"], 64 << 20)
        self.assertGreater(read["median"], 0.1)
        self.fails(2, "doctor", "--buffer", "10", says=["--buffer"])
        self.fails(1, "doctor", "--buffer", "900000GiB", says=["does not fit", "GiB are free"])

    def test_a_weaker_instruction_set_can_be_forced(self):
        text = self.weir("doctor", "--isa", "portable").stdout
        self.assertRegex(text, r"portable +used: --isa asks for it")
        self.assertRegex(text, r"bandwidth +[\d.]+ GB/s")


def last_number(answer):
    return re.findall(r"-?\d+", answer)[-1]


class Bench(WeirTest):
    def test_speeds_bytes_and_shares_agree(self):
        out = self.report("bench", "--prompt", "20", "--generate", "4", "--repeats", "3")
        self.assertEqual([p["tokens"] for p in out["prefill"]], [20])
        self.assertEqual([d["depth"] for d in out["decode"]], [20])
        decode = out["decode"][0]
        speed = decode["tokens_per_second"]
        self.assertTrue(0 < speed["slowest"] <= speed["median"] <= speed["fastest"])
        self.assertAlmostEqual(decode["gigabytes_per_second"], speed["median"] * decode["bytes_per_token"] / 1e9)
        self.assertAlmostEqual(decode["share_of_measured_bandwidth"],
                               decode["gigabytes_per_second"] / out["read_gigabytes_per_second"])
        names = {step["step"] for step in decode["steps"]}
        self.assertEqual(names, {"embed", "norm_project", "attend", "delta_rule", "project_add", "norm_route",
                                 "experts_up", "experts_down_add", "norm_head"})
        # Head: [1408, 256] in 4 bits with scales and biases is 202,752 bytes, and 1408 logits are 5,632 more.
        head = next(step for step in decode["steps"] if step["step"] == "norm_head")
        self.assertEqual(head["bytes_per_token"], 202752 + 5632)
        self.assertGreater(out["peak_memory_bytes"], 10 << 20)
        self.assertGreater(out["load_seconds"], 0)

    def test_a_sweep_has_a_speed_for_each_prompt_and_depth(self):
        out = self.report("bench", "--prompt", "40,20", "--depth", "0,600,100", "--generate", "4", "--repeats", "2")
        self.assertEqual([p["tokens"] for p in out["prefill"]], [20, 40])
        self.assertEqual([(d["depth"], d["computed"]) for d in out["decode"]], [(0, 0), (100, 100), (600, 512)])
        # Two attention layers with one head of keys and values of 64, in bfloat16, for each position of the depth.
        shallow, _, deep = [d["bytes_per_token"] for d in out["decode"]]
        self.assertEqual(deep - shallow, self.kv_bytes(602) - self.kv_bytes(2))
        self.assertEqual([(e["prompt"], e["generated"]) for e in out["end_to_end"]], [(20, 4), (40, 4)])
        seconds = out["end_to_end"][0]["seconds"]
        self.assertTrue(0 < seconds["fastest"] <= seconds["median"] <= seconds["slowest"])

    def kv_bytes(self, positions):
        config = json.loads((MODEL / "config.json").read_text())
        text = config.get("text_config", config)
        layers = text["num_hidden_layers"] // text["full_attention_interval"]
        return layers * positions * 2 * text["num_key_value_heads"] * text["head_dim"] * 2

    def test_every_format_says_the_same(self):
        arguments = ("bench", "--prompt", "20", "--generate", "2", "--repeats", "1", "--format")
        lines = self.weir(*arguments, "csv").stdout.splitlines()
        self.assertEqual(lines[0], "quantity,value")
        values = dict(line.rsplit(",", 1) for line in lines[1:])
        self.assertGreater(float(values["prefill/tokens=20/tokens_per_second/median"]), 0)
        self.assertEqual(values["decode/depth=20/tokens"], "2")
        self.assertIn("decode/depth=20/steps/step=norm_head/gigabytes_per_second", values)
        self.assertEqual(json.loads(self.weir(*arguments, "json").stdout)["decode"][0]["depth"], 20)
        text = self.weir(*arguments, "md").stdout
        self.assertRegex(text, r"\n\| 20 +\| +[\d.]+ \| +[\d.]+ \| +[\d.]+ \|\n")
        self.assertIn("decode at depth 20", text)
        self.fails(2, *arguments, "xml", says=["--format"])

    def test_a_chart_has_a_mark_for_each_measurement(self):
        chart = self.folder / "chart.svg"
        self.weir("bench", "--prompt", "20,30", "--depth", "0,10,20", "--generate", "2", "--repeats", "1", "--svg", chart)
        root = ElementTree.parse(chart).getroot()
        name = "{http://www.w3.org/2000/svg}"
        self.assertEqual(root.tag, name + "svg")
        self.assertEqual(len(root.findall(name + "circle")), 2 + 3)
        texts = [element.text for element in root.findall(name + "text")]
        self.assertIn("Prefill, tokens/s", texts)
        self.assertIn("bound by memory", texts)

    def test_a_chart_that_cannot_be_written_costs_no_measurement(self):
        for chart in (self.folder / "no" / "chart.svg", "/dev/full"):
            done = self.weir("bench", "--prompt", "4", "--generate", "1", "--repeats", "1", "--svg", chart, "--json", code=1)
            self.assertIn("prefill", json.loads(done.stdout))
            self.assertIn(f"weir: cannot write {chart}", done.stderr)

    def test_the_roofline_counts_bytes_and_arithmetic_of_experts(self):
        out = self.report("bench", "roofline", "--rows", "1,3", "--repeats", "1")
        self.assertEqual([c["shape"] for c in out["curves"]], ["qwen3.6-35b-a3b", "diffusiongemma-26b-a4b"])
        for curve, weights in zip(out["curves"], (3 * 2048 * 512, 3 * 2816 * 704)):
            self.assertEqual(curve["expert_bytes"], weights * 9 // 16)  # 4 bits, and 2 of scales and biases for 64
            for point in curve["points"]:
                seconds = point["microseconds_per_expert"]["median"] * 1e-6
                self.assertAlmostEqual(point["gigabytes_per_second"], curve["expert_bytes"] / seconds * 1e-9)
                self.assertAlmostEqual(point["gigaflops_per_second"], 2 * point["rows"] * weights / seconds * 1e-9)
        for flag in ("--prompt", "--depth", "--generate"):
            self.fails(2, "bench", "roofline", flag, "3", says=[flag])
        self.fails(2, "bench", "rooftop", says=["rooftop"])

    def check_rates(self, part, seconds, report):
        self.assertAlmostEqual(part["gigabytes_per_second"], part["bytes"] / seconds * 1e-9)
        self.assertAlmostEqual(part["share_of_measured_bandwidth"],
                               part["gigabytes_per_second"] / report["read_gigabytes_per_second"])
        self.assertAlmostEqual(part["gigaflops_per_second"], part["gigaflops"] / seconds)
        self.assertAlmostEqual(part["share_of_int8_peak"],
                               part["gigaflops_per_second"] / report["int8_peak_gigaflops_per_second"])

    def test_passes_of_a_diffusion_model_have_times_bytes_and_arithmetic(self):
        out = self.report("bench", "-m", "pocket-gemma", "--prompt", "70", "--repeats", "3")
        self.assertGreater(out["int8_peak_gigaflops_per_second"], 0)
        self.assertGreater(out["prefill"][0]["tokens_per_second"]["median"], 0)
        denoising = out["denoising"]
        self.assertEqual((denoising["prefix"], denoising["canvas"], out["layers"]), (70, 64, 6))
        passes = denoising["passes"]
        self.assertEqual([(p["rows"], p["soft_tokens"]) for p in passes],
                         [(16, "all"), (32, "all"), (64, "all"), (16, 64), (32, 64), (64, 64)])
        for p in passes:
            ms = p["milliseconds"]
            self.assertTrue(0 < ms["fastest"] <= ms["median"] <= ms["slowest"])
            self.check_rates(p, ms["median"] / 1e3, out)
            self.assertNotIn("extrapolated_milliseconds", p)  # the model is whole

        step = denoising["step"]
        kinds = {kind.pop("kind"): kind for kind in step["kinds"]}
        self.assertEqual(list(kinds), ["self-conditioning", "attention", "dense MLP", "experts", "head", "sampler"])
        self.assertGreater(kinds.pop("sampler")["milliseconds"], 0)
        for kind in kinds.values():
            self.check_rates(kind, kind["milliseconds"] / 1e3, out)
        self.assertEqual(sum(kind["bytes"] for kind in kinds.values()), step["bytes"])
        self.assertAlmostEqual(sum(kind["gigaflops"] for kind in kinds.values()), step["gigaflops"])
        # Multiply-adds of a row, times 64 rows and 2: in a sliding layer, 8 heads in and 4 out of 256, over 134 positions;
        # in the full one, 5 in and 4 out of 512. The head goes through the vocabulary twice.
        sliding = 256 * (8 + 4) * 256 + 2 * 134 * 4 * 256
        full = 256 * (5 + 4) * 512 + 2 * 134 * 4 * 512
        gigaflops = {"attention": 5 * sliding + full, "self-conditioning": 3 * 256 * 256,
                     "dense MLP": 6 * 3 * 256 * 256, "experts": 6 * 256 * (8 * 3 * 64 + 32), "head": 2 * 1024 * 256}
        for name, multiply_adds in gigaflops.items():
            self.assertAlmostEqual(kinds[name]["gigaflops"], 64 * 2 * multiply_adds * 1e-9)
        # The vocabulary, [1024, 256] in 8 bits with scales and biases, and 64 rows of 1 KiB read and written.
        self.assertEqual(kinds["head"]["bytes"], 1024 * (256 + 4 * 4) + 64 * 2 * 1024)

    def test_what_a_diffusion_model_cannot_do_is_refused(self):
        self.fails(2, "bench", "-m", "pocket-gemma", "--generate", "4", says=["--generate"])
        self.fails(2, "bench", "-m", "pocket-gemma", "--depth", "4", says=["--depth"])
        self.fails(2, "bench", "-m", "pocket-gemma", "--prompt", "4033", says=["4033", "canvas of 64", "4096"])
        self.fails(2, "bench", "-m", "synthetic:diffusiongemma-26b-a4b,layers=31", says=["layers=31", "1 to 30"])

    def test_more_tokens_than_the_context_are_refused(self):
        for prompt in ("32769", "9223372036854775807"):
            self.fails(2, "bench", "--prompt", prompt, says=[prompt, "32768"])

    def test_counts_of_nothing_are_refused(self):
        for flag in ("--prompt", "--generate", "--repeats", "--rows"):
            self.fails(2, "bench", flag, "0", says=[flag])
        for counts in ("", ",", "1,", "1,,2", "1;2", "-1", "1,0"):
            self.fails(2, "bench", f"--prompt={counts}", says=["--prompt"])


class Synthesize(WeirTest):
    def test_only_a_new_folder_is_written_to(self):
        (self.folder / "kept").write_text("text")
        self.fails(2, "synthesize", self.folder, says=["not empty"])
        self.assertEqual([f.name for f in self.folder.iterdir()], ["kept"])
        self.fails(2, "synthesize", self.folder / "out", "-m", "synthetic:llama", says=["synthetic:llama", "qwen3.6"])
        self.fails(2, "synthesize", says=["OUT"])


class Eval(WeirTest):
    def evaluate(self, *arguments, **options):
        return self.report("eval", PROBLEMS, *GREEDY, *arguments, **options)

    def test_accuracy_follows_from_the_answers(self):
        log = self.folder / "results.jsonl"
        out = self.evaluate("--limit", "25", "--out", log)
        results = [json.loads(line) for line in log.read_text().splitlines()][1:]
        problems = [json.loads(line) for line in PROBLEMS.read_text().splitlines()][:25]
        right = sum(last_number(r["answer"]) == p["answer"].split("#### ")[1] for r, p in zip(results, problems))
        self.assertEqual((out["correct"], out["total"]), (right, 25))
        self.assertAlmostEqual(out["accuracy"], right / 25)
        self.assertGreaterEqual(right, 22)  # of all 400 problems the model solves 97 %
        self.assertGreater(out["tokens_per_second"], 0)
        self.assertEqual(out["generated_tokens"], sum(r["generated_tokens"] for r in results))
        low, high = out["ci95"]  # the two roots of |p - accuracy| = z sqrt(p (1 - p) / n)
        for p in (low, high):
            if 0 < p < 1:
                self.assertAlmostEqual(abs(p - right / 25), 1.959964 * math.sqrt(p * (1 - p) / 25), places=6)

    def test_an_evaluation_goes_on_where_it_stopped(self):
        log = self.folder / "results.jsonl"
        self.evaluate("--limit", "2", "--out", log)
        done = log.read_text()
        cut = done + '{"index": 2, "corr'  # as after a crash
        log.write_text(cut)
        out = self.evaluate("--limit", "4", "--out", log)
        self.assertEqual(out["total"], 4)
        self.assertTrue(log.read_text().startswith(done))
        self.assertEqual([json.loads(line)["index"] for line in log.read_text().splitlines()[1:]], [0, 1, 2, 3])
        self.assertEqual(self.evaluate("--limit", "4")["correct"], out["correct"])

    def test_results_of_other_settings_are_refused(self):
        log = self.folder / "results.jsonl"
        self.evaluate("--limit", "1", "--out", log)
        self.fails(2, "eval", PROBLEMS, *GREEDY, "--limit", "1", "--out", log, "--top-k", "7", says=["top_k"])
        self.fails(2, "eval", PROBLEMS, "--temperature", "0", "--limit", "1", "--out", log, says=["think"])
        log.write_text("not a log\n")
        self.fails(3, "eval", PROBLEMS, *GREEDY, "--limit", "1", "--out", log, says=["line 1"])

    def test_a_file_that_is_no_log_is_left_alone(self):
        foreign = self.folder / "notes"
        for text in ("a line\n", "no newline at the end"):
            foreign.write_text(text)
            self.fails(3, "eval", PROBLEMS, "--limit", "1", *GREEDY, "--out", foreign, says=["notes, line 1"])
            self.assertEqual(foreign.read_text(), text)
        os.mkfifo(self.folder / "pipe")
        self.fails(3, "eval", PROBLEMS, "--limit", "1", *GREEDY, "--out", self.folder / "pipe", says=["regular file"])

    def test_ctrl_c_and_a_terminal_that_closes_keep_what_is_done(self):
        for ending in (signal.SIGINT, signal.SIGHUP):
            log = self.folder / f"{ending.name}.jsonl"
            process = self.start("eval", PROBLEMS, *GREEDY, "--out", log, "--json")
            deadline = time.monotonic() + TIMEOUT
            while not log.exists() or log.read_text().count("\n") < 3:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)
            process.send_signal(ending)
            out, errors = process.communicate(timeout=TIMEOUT)
            self.assertEqual(process.returncode, 130, errors)
            self.assertEqual(json.loads(out)["total"], log.read_text().count("\n") - 1)

    def test_a_problem_that_does_not_fit_the_context_counts_as_wrong_and_the_others_go_on(self):
        file, log = self.folder / "problems.jsonl", self.folder / "results.jsonl"
        problems = [json.loads(line) for line in PROBLEMS.read_text().splitlines()[:2]]
        problems.insert(1, {"question": "apples and " * 20000, "answer": "#### 1"})
        file.write_text("".join(json.dumps(p) + "\n" for p in problems))
        out = self.report("eval", file, *GREEDY, "--out", log)
        self.assertEqual((out["total"], out["too_long"]), (3, 1))
        results = [json.loads(line) for line in log.read_text().splitlines()[1:]]
        self.assertEqual([(r["index"], r["finish_reason"] == "too-long") for r in results],
                         [(0, False), (1, True), (2, False)])
        self.assertEqual(self.report("eval", file, *GREEDY, "--out", log)["too_long"], 1)

    def test_two_evaluations_do_not_share_a_log(self):
        log = self.folder / "results.jsonl"
        first = self.start("eval", PROBLEMS, *GREEDY, "--out", log)
        deadline = time.monotonic() + TIMEOUT
        while not log.exists() or log.read_text().count("\n") < 2:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        self.fails(1, "eval", PROBLEMS, *GREEDY, "--out", log, says=["another process"])
        first.send_signal(signal.SIGINT)
        self.assertEqual(first.wait(TIMEOUT), 130)

    def test_broken_problem_files_are_exit_3_and_name_the_line(self):
        file = self.folder / "problems.jsonl"
        self.fails(3, "eval", file, says=["problems.jsonl"])
        good = '{"question": "What is 1 + 1?", "answer": "#### 2"}\n'
        for bad in ("nonsense\n", '{"question": "x"}\n', '{"question": "x", "answer": "2"}\n', "[1]\n", "\"\\xff\"\n"):
            file.write_text(good + bad)
            self.fails(3, "eval", file, says=["line 2"])
        self.fails(2, "eval", says=["needs a file"])


if __name__ == "__main__":
    support.main()
