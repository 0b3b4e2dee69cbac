"""Runs the weir program for the end-to-end tests."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "pocket-qwen"
PROBLEMS = ROOT / "tests" / "data" / "pocket" / "held_out.jsonl"
GREEDY = ["--temperature", "0", "--no-think"]
# Without the tokens that end an answer, one goes on until the context is full.
ENDLESS = GREEDY + ["--logit-bias", "1357=-100", "--logit-bias", "1355=-100"]
TIMEOUT = 300
weir_program = None


def clean_environment(**extra):
    """An environment in which nothing of the tester's own settings reaches weir."""
    dropped = ("WEIR_", "HF_", "XDG_", "NO_COLOR")
    env = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    env["TERM"] = "xterm"
    env.update(extra)
    return env


class WeirTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weir-test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.env = clean_environment(HOME=str(self.folder))

    def command(self, *arguments):
        return [weir_program, *map(str, arguments)]

    def weir(self, *arguments, stdin="", code=0, env=None, **options):
        """Runs weir to its end; checks the exit code. stdin may be text or bytes."""
        data = stdin if isinstance(stdin, bytes) else stdin.encode()
        done = subprocess.run(self.command(*arguments), input=data, capture_output=True, timeout=TIMEOUT,
                              env={**self.env, **(env or {})}, **options)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stdout!r} {done.stderr!r}")
        done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
        return done

    def fails(self, code, *arguments, says=(), **options):
        """Runs weir, which must fail with a sentence and a hint on stderr and nothing on stdout."""
        done = self.weir(*arguments, code=code, **options)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"\Aweir: [^\x00-\x1f\x7f-\x9f]+\n  [^\x00-\x1f\x7f-\x9f]+\n\Z")
        for words in says:
            self.assertIn(words, done.stderr)
        return done

    def report(self, *arguments, **options):
        return json.loads(self.weir(*arguments, "--json", **options).stdout)

    def start(self, *arguments, **options):
        process = subprocess.Popen(self.command(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=self.env, **options)
        self.addCleanup(self.finish, process)
        return process

    def finish(self, process):
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        for stream in (process.stdout, process.stderr):
            if stream and not stream.closed:
                stream.close()
        process.wait(TIMEOUT)


def main():
    global weir_program
    weir_program = sys.argv.pop(1)
    unittest.main(module="__main__")
