"""weir chat, from a pipe and on a terminal."""
import json
import os
import pty
import re
import select
import signal
import time
import unittest

import support
from support import ENDLESS, GREEDY, TIMEOUT, WeirTest

ANSWER = "4 x 4 = 16. The answer is 16.\n"


class Pipe(WeirTest):
    def test_each_line_is_a_message(self):
        done = self.weir("chat", *GREEDY, stdin="What is 4 times 4?\nWhat is 4 times 4?\n")
        self.assertEqual(done.stdout.count("16. The answer is 16."), 2)
        self.assertEqual(done.stderr, "")

    def test_every_answer_is_held_to_the_schema_with_thinking_and_without(self):
        schema = {"type": "object", "properties": {"number": {"type": "integer", "maximum": 999, "minimum": 0}}, "required": ["number"]}
        question = "What is 4 times 4?\n"
        done = self.weir("chat", "--temperature", "0", "--json-schema", json.dumps(schema), "--think-budget", "2",
                         stdin=f"{question}/think off\n{question}")
        first, end = json.JSONDecoder().raw_decode(done.stdout)  # space is free, line breaks too
        second = json.loads(done.stdout[end:])
        self.assertEqual([list(first), list(second)], [["number"], ["number"]])
        self.assertEqual(done.stderr.count("Considering the limited time"), 1)
        self.fails(3, "chat", "--json-schema", '{"not": {}}', stdin=question, says=["--json-schema", "not"])

    def test_a_backslash_and_a_block_make_one_message_of_many_lines(self):
        saved = self.folder / "talk.json"
        lines = "What is\\\n4 times 4?\n\"\"\"\n/not a command\nWhat is 4\n\"\"\" times 4?\n"
        self.weir("chat", *GREEDY, stdin=f"{lines}/save {saved}\n")
        messages = json.loads(saved.read_text())["messages"]
        self.assertEqual([m["role"] for m in messages], ["user", "assistant", "user", "assistant"])
        self.assertEqual(messages[0]["content"], "What is\n4 times 4?")
        self.assertEqual(messages[2]["content"], "/not a command\nWhat is 4\n times 4?")

    def test_a_saved_conversation_is_taken_up_again(self):
        saved, again = self.folder / "talk.json", self.folder / "again.json"
        self.weir("chat", "--temperature", "0", "--system", "Be brief.", stdin=f"What is 4 times 4?\n/save {saved}\n")
        self.weir("chat", stdin=f"/load {saved}\n/save {again}\n")
        self.assertEqual(saved.read_text(), again.read_text())
        messages = json.loads(saved.read_text())["messages"]
        self.assertEqual(messages[0], {"role": "system", "content": "Be brief."})
        self.assertEqual(messages[2], {"role": "assistant", "content": "The answer is 16.",
                                       "reasoning_content": "4 x 4 = 16."})

    def test_all_that_a_loaded_conversation_holds_is_saved(self):
        talk, again = self.folder / "talk.json", self.folder / "again.json"
        call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": {"at": "4", "deep": [1]}}}
        messages = [{"role": "system", "content": "Be brief."},
                    {"role": "user", "content": [{"type": "text", "text": "What is"}, {"type": "text", "text": " 4?"}]},
                    {"role": "assistant", "content": "", "reasoning_content": "Hm.", "tool_calls": [call]},
                    {"role": "tool", "content": "four", "tool_call_id": "call_1"},
                    {"role": "assistant", "content": "4."}]
        talk.write_text(json.dumps({"messages": messages}))
        self.weir("chat", stdin=f"/load {talk}\n/save {again}\n")
        self.assertEqual(json.loads(again.read_text())["messages"], messages)

    def test_a_conversation_that_the_layout_has_no_place_for_is_refused_at_once(self):
        talk, again = self.folder / "talk.json", self.folder / "again.json"
        messages = [{"role": "user", "content": "4?"}, {"role": "system", "content": "Be brief."}]
        talk.write_text(json.dumps({"messages": messages}))
        done = self.weir("chat", stdin=f"/load {talk}\n/save {again}\n", code=2)
        self.assertIn("messages[1] is a system message", done.stderr)
        self.assertEqual(json.loads(again.read_text())["messages"], [])

    def test_saving_replaces_regular_files_only_and_keeps_links_and_permissions(self):
        saved, link, pipe = self.folder / "saved", self.folder / "link", self.folder / "pipe"
        saved.write_text("old")
        saved.chmod(0o640)
        link.symlink_to(saved)
        os.mkfifo(pipe)
        neighbour = self.folder / "link.tmp"
        neighbour.write_text("mine")
        self.weir("chat", stdin=f"/save {link}\n")
        self.assertEqual(json.loads(saved.read_text()), {"messages": []})
        self.assertTrue(link.is_symlink())
        self.assertEqual(saved.stat().st_mode & 0o777, 0o640)
        self.assertEqual(neighbour.read_text(), "mine")
        done = self.weir("chat", stdin=f"/save {pipe}\n", code=1)
        self.assertIn("not a regular file", done.stderr)
        self.assertTrue(pipe.is_fifo())
        self.weir("chat", stdin=f"/save {self.folder / 'new'}\n")
        self.assertEqual((self.folder / "new").stat().st_mode & 0o777, 0o600)

    def test_reset_forgets_all_but_the_system_message(self):
        saved = self.folder / "talk.json"
        self.weir("chat", *GREEDY, stdin=f"/system Be brief.\nHello!\n/reset\n/save {saved}\n")
        self.assertEqual(json.loads(saved.read_text())["messages"], [{"role": "system", "content": "Be brief."}])

    def test_thinking_is_switched_on_and_off(self):
        done = self.weir("chat", "--temperature", "0", "--no-think", stdin="What is 4 times 4?\n/think on\n/reset\nWhat is 4 times 4?\n")
        self.assertEqual(done.stdout, ANSWER + "The answer is 16.\n")
        self.assertEqual(done.stderr.strip(), "4 x 4 = 16.")

    def test_a_seed_repeats_an_answer(self):
        hot = ["chat", "--no-think", "--temperature", "2", "--top-k", "0", "--top-p", "1", "--max-tokens", "20"]
        done = self.weir(*hot, stdin="/seed 3\nHello\n/reset\n/seed 3\nHello\n/reset\n/seed 4\nHello\n")
        only = self.weir(*hot, stdin="/seed 3\nHello\n").stdout
        self.assertTrue(done.stdout.startswith(only + only))
        self.assertNotEqual(done.stdout, only * 3)

    def test_mistakes_are_explained_and_the_chat_goes_on(self):
        done = self.weir("chat", *GREEDY, stdin=
                         "/sede 3\n/seed x\n/think maybe\n/save\n/load /none\nWhat is 4 times 4?\n", code=3)
        self.assertEqual(done.stdout, ANSWER)
        for words in ("did you mean /seed?", "'x' is not a seed", "/think is off", "needs a file name", "/none"):
            self.assertIn(words, done.stderr)

    def test_an_over_long_message_is_taken_back(self):
        saved = self.folder / "talk.json"
        done = self.weir("chat", *GREEDY, stdin="one " * 40000 + f"\nWhat is 4 times 4?\n/save {saved}\n", code=2)
        self.assertIn("32768", done.stderr)
        self.assertEqual(done.stdout, ANSWER)
        self.assertEqual(len(json.loads(saved.read_text())["messages"]), 2)

    def test_quit_ends_the_chat(self):
        self.assertEqual(self.weir("chat", *GREEDY, stdin="/quit\nHello!\n").stdout, "")


class Terminal(WeirTest):
    """A person at a terminal: all three streams are one pseudo-terminal."""

    def chat(self, *arguments):
        command = self.command("chat", *arguments)
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.execve(command[0], command, self.env)
        self.shown = ""
        self.addCleanup(os.close, self.terminal)

    def exit_code(self):
        deadline = time.monotonic() + TIMEOUT
        while (done := os.waitpid(self.child, os.WNOHANG))[0] == 0:
            if time.monotonic() > deadline:
                os.kill(self.child, signal.SIGKILL)
            time.sleep(0.02)
        return os.waitstatus_to_exitcode(done[1])

    def wait_for(self, pattern):
        """Reads until the pattern shows up, and drops what came before and with it."""
        deadline = time.monotonic() + TIMEOUT
        while not (found := re.search(pattern, self.shown)):
            self.assertLess(time.monotonic(), deadline, self.shown)
            if select.select([self.terminal], [], [], 0.1)[0]:
                self.shown += os.read(self.terminal, 65536).decode(errors="replace")
        self.shown = self.shown[found.end():]

    def type(self, text):
        os.write(self.terminal, text.encode())

    def test_questions_are_answered_and_remembered(self):
        self.chat(*GREEDY)
        self.wait_for("/help")
        self.wait_for("> ")
        self.type("What is 4 times 4?\r")
        self.wait_for("The answer is 16")
        self.wait_for("> ")
        self.type("/quit\r")
        self.assertEqual(self.exit_code(), 0)
        history = (self.folder / ".local" / "state" / "weir" / "history")
        self.assertIn("times", history.read_text())
        self.assertEqual(history.stat().st_mode & 0o777, 0o600)

    def test_ctrl_c_stops_an_answer_and_the_chat_goes_on(self):
        self.chat(*ENDLESS)
        self.wait_for("> ")
        self.type("What is 4 times 4?\r")
        self.wait_for("answer is 16")
        self.type("\x03")
        self.wait_for("\n> ")
        self.type("/quit\r")
        self.assertEqual(self.exit_code(), 0)


if __name__ == "__main__":
    support.main()
