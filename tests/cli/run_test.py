"""weir run and weir tokenize, from outside."""
import json
import os
import pathlib
import pty
import re
import resource
import shlex
import signal
import subprocess
import time
import unittest

import support
from support import ENDLESS, GREEDY, MODEL, PROBLEMS, TIMEOUT, WeirTest

QUESTION = "What is 4 times 4?"


SCHEMA = {"type": "object", "properties": {"numbers": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99},
                                                   "minItems": 2, "maxItems": 4},
                                       "sign": {"enum": ["times", "plus"]}},
          "required": ["numbers", "sign"], "additionalProperties": False}


class Form(WeirTest):
    def fits(self, text):
        value = json.loads(text)
        self.assertEqual(list(value), ["numbers", "sign"])
        self.assertIn(len(value["numbers"]), (2, 3, 4))
        self.assertTrue(all(type(number) is int and 0 <= number <= 99 for number in value["numbers"]))
        self.assertIn(value["sign"], ("times", "plus"))

    def test_the_answer_is_json_of_the_schema_whatever_the_model_would_say(self):
        file = self.folder / "schema.json"
        file.write_text(json.dumps(SCHEMA))
        hot = ["--temperature", "20", "--top-k", "0", "--top-p", "1"]
        for seed, schema in enumerate((file, json.dumps(SCHEMA), file)):
            self.fits(self.weir("run", "--no-think", *hot, "--seed", seed, "--json-schema", schema, QUESTION).stdout)
        thought = self.report("run", "--temperature", "0", "--json-schema", file, QUESTION)
        self.fits(thought["answer"])
        self.assertEqual(thought["thinking"], "4 x 4 = 16.")
        drafted = self.report("run", "--temperature", "0", "--json-schema", file, "--draft", "lookup", QUESTION)
        self.assertEqual(drafted["answer"], thought["answer"])

    def test_thinking_stays_within_its_budget(self):
        hot = ["run", "--temperature", "50", "--top-k", "0", "--top-p", "1", "--seed", "1", "--max-tokens", "80", QUESTION]
        free, limited = self.report(*hot), self.report(*hot, "--think-budget", "7")
        end = "\n\nConsidering the limited time by the user, I have to give the solution based on the thinking directly now."
        self.assertTrue(limited["thinking"].endswith(end), limited["thinking"])
        thought = limited["thinking"][:-len(end)]
        self.assertTrue(thought and free["thinking"].startswith(thought), (thought, free["thinking"]))
        self.assertGreater(len(free["thinking"]), len(thought))
        enough = self.report("run", "--temperature", "0", "--think-budget", "1000", QUESTION)
        self.assertEqual((enough["thinking"], enough["answer"]), ("4 x 4 = 16.", "The answer is 16."))
        none = self.report("run", "--temperature", "0", "--think-budget", "0", QUESTION)
        self.assertEqual((none["thinking"], none["answer"]), ("", "4 x 4 = 16. The answer is 16."))

    def test_thinking_within_its_budget_goes_before_json(self):
        out = self.report("run", "--temperature", "50", "--top-k", "0", "--top-p", "1", "--seed", "1", "--think-budget", "3",
                          "--json-schema", json.dumps(SCHEMA), QUESTION)
        self.fits(out["answer"])
        self.assertIn("Considering the limited time", out["thinking"])

    def test_forms_that_cannot_be_are_refused_by_name(self):
        file = self.folder / "schema.json"
        file.write_text("{")
        for words, more in ((["schema.json", "no JSON"], ["--json-schema", file]),
                            (["no JSON"], ["--json-schema", "{5}"]),
                            (["--no-think contradicts --think-budget 5"], ["--no-think", "--think-budget", "5"]),
                            (["--think contradicts --think-budget 0"], ["--think", "--think-budget", "0"])):
            self.fails(2, "run", *more, QUESTION, says=words)
        self.fails(3, "run", "--json-schema", '{"uniqueItems": true}', QUESTION, says=["--json-schema: uniqueItems"])
        self.fails(3, "run", "--json-schema", self.folder / "gone.json", QUESTION, says=["gone.json"])
        for flag, value in (("--json-schema", "{}"), ("--think-budget", "5")):
            self.fails(2, "run", "-m", "pocket-gemma", flag, value, QUESTION, says=[flag, "diffusion"])
            self.fails(2, "chat", "-m", "pocket-gemma", flag, value, says=[flag, "diffusion"])


class Run(WeirTest):
    def test_the_answer_alone_is_on_stdout(self):
        done = self.weir("run", *GREEDY, QUESTION)
        self.assertEqual(done.stdout, "4 x 4 = 16. The answer is 16.\n")
        self.assertEqual(done.stderr, "")

    def test_thinking_goes_to_stderr(self):
        done = self.weir("run", "--temperature", "0", QUESTION)
        self.assertEqual(done.stdout, "The answer is 16.\n")
        self.assertEqual(done.stderr.strip(), "4 x 4 = 16.")

    def test_the_prompt_can_come_from_stdin(self):
        self.assertIn("16", self.weir("run", *GREEDY, "-", stdin=QUESTION).stdout)

    def test_json_is_one_object_with_answer_and_counts(self):
        done = self.weir("run", "--temperature", "0", "--json", "--seed", "5", QUESTION)
        out = json.loads(done.stdout)
        self.assertEqual(out["answer"], "The answer is 16.")
        self.assertEqual(out["thinking"], "4 x 4 = 16.")
        self.assertEqual((out["finish_reason"], out["seed"]), ("stop", 5))
        self.assertGreater(out["speed"]["decode_tokens_per_second"], 0)
        self.assertEqual(done.stderr, "")

    def test_the_reference_kernels_give_the_same_answer(self):
        self.assertEqual(self.weir("run", *GREEDY, "--device", "reference", QUESTION).stdout,
                         self.weir("run", *GREEDY, QUESTION).stdout)

    def test_a_seed_repeats_an_answer_with_any_number_of_threads(self):
        hot = ["run", "--no-think", "--temperature", "2", "--top-k", "0", "--top-p", "1", "--max-tokens", "30",
               "Tell me a story"]
        answers = [self.weir(*hot, "--seed", "5", "--threads", n).stdout for n in (1, 2)]
        self.assertEqual(answers[0], answers[1])
        self.assertNotEqual(answers[0], self.weir(*hot, "--seed", "6").stdout)

    def test_the_prompt_may_be_cut_into_chunks_of_any_size(self):
        whole = self.weir("run", *GREEDY, QUESTION).stdout
        self.assertEqual(self.weir("run", *GREEDY, "--chunk", "3", QUESTION).stdout, whole)

    def test_stop_text_ends_the_answer_before_it(self):
        self.assertEqual(self.weir("run", *GREEDY, "--stop", " The answer", QUESTION).stdout, "4 x 4 = 16.\n")

    def test_an_answer_cut_by_max_tokens_says_so(self):
        done = self.weir("run", *GREEDY, "--max-tokens", "2", QUESTION)
        self.assertLess(len(done.stdout), 8)
        self.assertIn("cut after --max-tokens 2", done.stderr)

    def test_logit_bias_forbids_a_token(self):
        four = self.report("tokenize", "4")["tokens"][0]["id"]
        self.assertFalse(self.weir("run", *GREEDY, "--logit-bias", f"{four}=-100", QUESTION).stdout.startswith("4"))

    def test_stats_measure_the_machine(self):
        done = self.weir("run", *GREEDY, "--stats", QUESTION)
        self.assertRegex(done.stderr, r"prompt \d+ tokens, [\d.]+ tokens/s; first token after \d+ ms")
        self.assertRegex(done.stderr, r"per token, [\d.]+ GB/s, [\d.]+ % of the [\d.]+ GB/s that this machine reads")

    def test_a_model_is_found_in_the_hugging_face_cache(self):
        repository = self.folder / "hub" / "models--weir--pocket"
        snapshot = repository / "snapshots" / "0123456789abcdef"
        snapshot.parent.mkdir(parents=True)
        snapshot.symlink_to(MODEL)
        (repository / "refs").mkdir()
        (repository / "refs" / "main").write_text("0123456789abcdef")
        done = self.weir("run", "-m", "weir/pocket", *GREEDY, QUESTION, env={"HF_HUB_CACHE": self.folder / "hub"})
        self.assertIn("16", done.stdout)

    def test_the_environment_stands_in_for_flags_and_flags_win(self):
        done = self.weir("run", "--json", *GREEDY, QUESTION, env={"WEIR_SEED": "11"})
        self.assertEqual(json.loads(done.stdout)["seed"], 11)
        done = self.weir("run", "--json", *GREEDY, "--seed", "12", QUESTION, env={"WEIR_SEED": "11"})
        self.assertEqual(json.loads(done.stdout)["seed"], 12)

    def test_thinking_is_grey_on_a_terminal_only_and_never_with_no_color(self):
        for no_color in ("", "1"):
            terminal, child = pty.openpty()
            done = subprocess.run(self.command("run", "--temperature", "0", QUESTION), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=child, timeout=TIMEOUT,
                                  env={**self.env, "NO_COLOR": no_color})
            os.close(child)
            shown = os.read(terminal, 65536)
            os.close(terminal)
            self.assertEqual(done.stdout, b"The answer is 16.\n")
            self.assertEqual(b"\x1b[2m" in shown, no_color == "")


class Words(WeirTest):
    """What follows the verb is text, even where it looks like something else."""

    def prompt_tokens(self, *arguments, **options):
        return self.report("run", *GREEDY, "--max-tokens", "1", *arguments, **options)["prompt_tokens"]

    def test_text_behind_two_dashes_may_begin_with_a_dash(self):
        for text in ("-5 plus 3", "--5 plus 3", "--threads"):
            done = self.weir("run", "--json", *GREEDY, "--max-tokens", "1", "--", text)
            self.assertEqual(json.loads(done.stdout)["prompt_tokens"], self.prompt_tokens("-", stdin=text))

    def test_the_name_of_a_verb_is_text_behind_another_verb(self):
        self.assertGreater(self.prompt_tokens("chat"), 0)
        self.fails(2, "run", "hi", "tokenize", says=["tokenize", "one argument too many"])
        self.fails(2, "inspect", "pocket-qwen", "doctor", says=["doctor", "one argument too many"])


class ClosedStreams(WeirTest):
    def closed(self, redirection, *arguments):
        words = shlex.join(self.command(*arguments))
        return subprocess.run(["bash", "-c", f"{words} {redirection}"], capture_output=True, timeout=TIMEOUT, env=self.env)

    def test_an_answer_survives_a_stderr_that_takes_nothing(self):
        for redirection in ("2>&-", "2>/dev/full"):
            done = self.closed(redirection, "run", "--json", "--max-tokens", "3", *GREEDY, "hi")
            self.assertEqual(done.returncode, 0)
            self.assertIn("answer", json.loads(done.stdout))

    def test_help_that_cannot_be_written_is_a_failure(self):
        for words in (["--help"], ["--version"], ["run", "--help"]):
            self.assertEqual(self.closed(">/dev/full", *words).returncode, 1)
            self.assertEqual(self.closed(">/dev/null", *words).returncode, 0)

    def test_errors_keep_their_exit_code_when_nobody_reads_them(self):
        self.assertEqual(self.closed("2>&-", "run", "-m", "no-such-model", "hi").returncode, 3)
        self.assertEqual(self.closed("2>&-", "run", "--no-such-flag").returncode, 2)

    def test_a_closed_stdout_is_a_failure_and_reaches_no_file(self):
        log = self.folder / "log"
        done = self.closed(">&-", "eval", PROBLEMS, "--limit", "1", *GREEDY, "--out", log)
        self.assertEqual(done.returncode, 1, done.stderr)
        for line in log.read_text().splitlines():
            json.loads(line)


class BrokenRun(WeirTest):
    def test_wrong_usage_is_exit_2_with_advice(self):
        self.fails(2, "run", "--temprature", "0", QUESTION, says=["'--temprature'", "did you mean --temperature?"])
        self.fails(2, "runn", QUESTION, says=["'runn'", "did you mean run?"])
        self.fails(2, "run", "--top-k", "many", QUESTION, says=["top-k"])
        self.fails(2, "run", "--top-p", "1.5", QUESTION, says=["top_p"])
        self.fails(2, "run", "--stop", os.fsdecode(b"\xa9"), QUESTION, says=["stop string", "UTF-8"])
        self.fails(2, "run", "--threads", "0", QUESTION, says=["--threads"])
        self.fails(2, "run", "--threads", "1M", QUESTION, says=["--threads"])
        self.fails(2, "run", "--chunk", "8G", QUESTION, says=["--chunk"])
        self.fails(2, "run", "--seed", "-1", QUESTION, says=["--seed"])
        self.fails(2, "run", "--seed", str(2**64), QUESTION, says=["--seed"])
        self.fails(2, "run", "--logit-bias", "x=1", QUESTION, says=["ID=B"])
        self.fails(2, "run", "--isa", "mmx", QUESTION, says=["'mmx'"])
        self.fails(2, "run", "two", "prompts", says=["quotes"])
        self.fails(2, "run", QUESTION, env={"WEIR_TEMPERATURE": "warm"}, says=["temperature"])

    def test_numbers_are_read_whole(self):
        for flag in ("--temperature", "--top-k", "--min-p", "--seed", "--max-tokens", "--t-max", "--freeze"):
            for text in ("", "1x", " 1", "1,5"):
                self.fails(2, "run", f"{flag}={text}", QUESTION, says=[flag])
            self.fails(2, "run", flag, "", QUESTION, says=[flag])

    def test_a_wrong_variable_is_named_by_the_verbs_that_read_it_and_by_no_other(self):
        self.fails(2, "run", QUESTION, env={"WEIR_SEED": "abc"}, says=["--seed", "WEIR_SEED is 'abc'"])
        self.weir("inspect", "pocket-qwen", env={"WEIR_SEED": "abc"})

    def test_an_empty_value_is_not_taken_for_a_flag_that_is_not_given(self):
        for flag in ("--json-schema", "--trace", "--isa", "--model"):
            self.fails(2, "run", flag, "", QUESTION, says=[flag, "the value is empty"])
        for flag in ("--api-key", "--api-key-file", "--state-dir", "--unix", "--host", "--alias"):
            self.fails(2, "serve", flag, "", says=[flag, "the value is empty"])
        self.fails(2, "eval", PROBLEMS, "--out", "", says=["--out", "the value is empty"])
        self.weir("run", *GREEDY, "--system", "", "--max-tokens", "2", QUESTION, env={"WEIR_ISA": ""})

    def test_names_move_no_cursor_and_are_utf8_in_messages(self):
        for name in (b"\x1b[31mred", b"a\nb", b"\xff", b"caf\xe9", b"\xc2\x9b31m", b"\xc2", b"\x7f"):
            for arguments in (("run", "-m", name, QUESTION), ("run", "--json-schema", name, QUESTION),
                              ("eval", name), ("inspect", name)):
                done = self.fails(3, *(os.fsdecode(a) for a in arguments))
                self.assertIn("?", done.stderr)
            self.fails(2, "run", "--top-k", os.fsdecode(name), QUESTION, says=["--top-k"])
        self.fails(3, "inspect", "é€😀", says=["é€😀"])

    def test_threads_that_the_system_does_not_give_are_an_error(self):
        # Stacks so large that not all fit the address space.
        limit = lambda: resource.setrlimit(resource.RLIMIT_STACK, (1 << 42, resource.RLIM_INFINITY))  # noqa: E731
        self.fails(1, "run", "--threads", "64", QUESTION, says=["of 64 threads", "--threads"], preexec_fn=limit)
        self.fails(1, "perplexity", PROBLEMS, "--threads", "64", says=["of 64 threads"], preexec_fn=limit)

    def test_an_empty_prompt_is_exit_2(self):
        self.fails(2, "run", says=["the prompt is empty"])
        self.fails(2, "run", "", says=["the prompt is empty"])
        self.fails(2, "run", "-", says=["the prompt is empty"])

    def test_a_prompt_that_is_not_utf8_is_exit_2(self):
        self.fails(2, "run", "-", stdin=b"caf\xe9", says=["UTF-8"])

    def test_an_over_long_prompt_is_exit_2_and_names_both_numbers(self):
        self.fails(2, "run", "-", stdin="one " * 40000, says=["32768"])

    def test_a_missing_model_is_exit_3_and_says_where_it_was_looked_for(self):
        self.fails(3, "run", "-m", "no/model", QUESTION, says=["no/model", str(self.folder)])

    def test_a_damaged_model_is_exit_3_and_names_the_file(self):
        for name, keep in (("model.safetensors", 1000000), ("model.safetensors", 5), ("config.json", 40),
                           ("tokenizer.json", 1000)):
            broken = self.folder / "broken"
            broken.mkdir()
            for file in MODEL.iterdir():
                (broken / file.name).symlink_to(file)
            (broken / name).unlink()
            (broken / name).write_bytes((MODEL / name).read_bytes()[:keep])
            self.fails(3, "run", "-m", broken, QUESTION, says=[name])
            subprocess.run(["rm", "-r", broken], check=True)

    def test_a_device_that_is_not_there_is_exit_4(self):
        self.fails(4, "run", "--device", "cuda", QUESTION, says=["CUDA"])

    def test_a_full_disk_is_exit_1(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(self.command("run", *GREEDY, QUESTION), stdout=full, stderr=subprocess.PIPE,
                                  timeout=TIMEOUT, env=self.env)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"weir: ", done.stderr)


class Interrupted(WeirTest):
    def test_ctrl_c_keeps_the_answer_so_far(self):
        process = self.start("run", *ENDLESS, QUESTION)
        first = os.read(process.stdout.fileno(), 1)
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 130, errors)
        self.assertTrue((first + rest).startswith(b"4"), first + rest)
        self.assertTrue(rest.endswith(b"\n"))

    def test_a_reader_that_leaves_ends_the_program_quietly(self):
        process = self.start("run", *ENDLESS, QUESTION)
        os.read(process.stdout.fileno(), 1)
        process.stdout.close()
        self.assertEqual(process.wait(TIMEOUT), -signal.SIGPIPE)
        self.assertEqual(process.stderr.read(), b"")


    def test_sigterm_keeps_the_answer_so_far_as_json_too(self):
        process = self.start("run", *ENDLESS, "--json", QUESTION)
        catches = 0
        while not catches >> (signal.SIGTERM - 1) & 1:  # before that, the signal would simply kill it
            self.assertIsNone(process.poll())
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            catches = int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16)
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 130, errors)
        self.assertEqual(json.loads(out)["finish_reason"], "cancelled")


class Tokenize(WeirTest):
    def test_ids_equal_those_of_the_tokenizers_library(self):
        vectors = (support.ROOT / "tests" / "data" / "tokenizer" / "pocket-qwen.jsonl").read_text().splitlines()
        cases = [case for case in map(json.loads, vectors) if len(case["text"]) > 20][:20]
        self.assertTrue(cases)
        for case in cases:
            out = self.report("tokenize", "-", stdin=case["text"])
            self.assertEqual([t["id"] for t in out["tokens"]], case["ids"])

    def test_decoding_gives_the_text_back(self):
        text = "Mia has 3 apples.\nÜber <|im_end|>"
        ids = [t["id"] for t in self.report("tokenize", text)["tokens"]]
        self.assertEqual(self.report("tokenize", "--decode", ",".join(map(str, ids)))["text"], text)
        self.assertEqual(self.weir("tokenize", "--decode", *ids).stdout, text + "\n")

    def test_special_tokens_can_be_plain_text(self):
        self.assertEqual(self.report("tokenize", "<|im_end|>")["count"], 1)
        self.assertGreater(self.report("tokenize", "--plain", "<|im_end|>")["count"], 1)

    def test_text_output_has_one_line_for_each_token(self):
        done = self.weir("tokenize", "a\nb")
        self.assertEqual([line.split()[1] for line in done.stdout.splitlines()], ['"a"', '"\\n"', '"b"'])

    def test_wrong_usage_is_exit_2(self):
        self.fails(2, "tokenize", says=["--decode"])
        self.fails(2, "tokenize", "--decode", "999999", says=["999999"])
        self.fails(2, "tokenize", "-", stdin=b"\xff", says=["UTF-8"])


if __name__ == "__main__":
    support.main()
