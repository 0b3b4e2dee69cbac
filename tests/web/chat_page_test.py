"""The chat on both pocket models: send, stream, stop, regenerate, branch, tools, canvases."""
import json
import pathlib
import shutil
import tempfile

import browser
from browser import QUESTION, SETTLED, PageTest, answer_with, real_answers

TOOL = json.dumps([{"name": "calculate", "description": "Evaluates an expression", "parameters": {
    "type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]}}])

NEVER_SAID = {"pocket-qwen": "<tool_response>", "pocket-gemma": "<unk>"}


class Chat(PageTest):
    model = "pocket-qwen"

    def test_an_answer_is_that_of_the_api(self):
        page = self.open(SETTLED)
        said = self.ask(page)
        messages = [{"role": "user", "content": QUESTION}]
        same = lambda a, b: self.assertEqual(a.split(), b.split())  # noqa: E731 (the page folds blanks)
        same(said, self.api_answer(messages))
        self.assertRegex(page.locator(".numbers").last.inner_text(), r"(?s)\d+ tokens.*after [\d.]+ s.*\d+ of \d+ prompt tokens")
        asked = []
        page.on("request", lambda request: asked.append(request.post_data) if request.method == "POST" else None)
        again = self.ask(page, "And twice that?")
        messages = json.loads(asked[0])["messages"]
        self.assertEqual([m["role"] for m in messages], ["user", "assistant", "user"])
        same(messages[1]["content"], said)
        same(again, self.api_answer(messages))
        self.assertRegex(page.locator(".numbers").last.inner_text(), r"[1-9]\d* of \d+ prompt tokens reused")

    def test_other_answers_stand_beside_each_other_and_survive_a_reload(self):
        page = self.open({"temperature": "0"})
        first = self.ask(page)
        answer_with(page, {"content": "Another answer."})
        page.click(".answer [aria-label='Answer again']")
        page.wait_for_selector(".alternatives:visible .where:text-is('2/2')")
        self.wait_for_answer(page)
        self.assertEqual(self.answer(page), "Another answer.")
        page.click("[aria-label='Earlier alternative']:visible")
        self.assertEqual(self.answer(page), first)
        page.reload()
        page.wait_for_selector(".alternatives:visible .where:text-is('1/2')")
        self.assertEqual(self.answer(page), first)
        page.keyboard.press("Escape")  # leaves the message field
        page.keyboard.press("]")
        page.wait_for_selector(".alternatives:visible .where:text-is('2/2')")
        self.assertEqual(self.answer(page), "Another answer.")

    def test_a_changed_message_is_another_branch(self):
        page = self.open(SETTLED)
        first = self.ask(page)
        self.ask(page, "What is 8 times 2?")
        page.locator(".turn.user").first.hover()
        page.locator(".turn.user").first.get_by_label("Edit and ask again").click()
        page.fill(".edit-field", "What is 257 + 1?")
        page.press(".edit-field", "Enter")
        self.until(page, "document.querySelectorAll('.turn').length === 2")
        self.wait_for_answer(page)
        answer = self.api_answer([{"role": "user", "content": "What is 257 + 1?"}])
        self.assertEqual(self.answer(page).split(), answer.split())
        page.locator(".turn.user [aria-label='Earlier alternative']").click()
        self.assertEqual(page.locator(".turn").count(), 4)
        self.assertEqual(page.locator(".turn.answer .prose").first.inner_text(), first)

    def test_tool_calls_are_folded_and_their_results_go_back(self):
        page = self.open({**SETTLED, "tools": TOOL})
        answer_with(page, {"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "calculate", "arguments": ""}}]},
                    {"tool_calls": [{"index": 0, "function": {"arguments": '{"expression": '}}]},
                    {"tool_calls": [{"index": 0, "function": {"arguments": '"12 + 5"}'}}]}, finish="tool_calls")
        self.send(page)
        fold = page.locator(".answer details.tool")
        fold.wait_for()
        self.assertIsNone(fold.get_attribute("open"))
        fold.locator("summary").click()
        self.assertEqual(json.loads(fold.locator("pre").inner_text()), {"expression": "12 + 5"})
        real_answers(page)
        asked = []
        page.on("request", lambda request: asked.append(request.post_data) if request.method == "POST" else None)
        page.get_by_label("What calculate returns").fill("17")
        page.keyboard.press("Enter")
        self.until(page, "document.querySelectorAll('.turn').length === 4")
        self.wait_for_answer(page)
        self.assertEqual(page.locator(".notice.error").count(), 0)
        body = json.loads(asked[0])
        self.assertEqual([m["role"] for m in body["messages"]], ["user", "assistant", "tool"])
        self.assertEqual(body["messages"][2], {"role": "tool", "tool_call_id": "call_1", "content": "17"})
        self.assertEqual(body["tools"][0]["function"]["name"], "calculate")
        self.assertIsNone(page.locator(".results details").get_attribute("open"))


class Stopping(PageTest):
    """Of answers that cannot end by themselves before the context is full, however slow the machine is."""
    model = "pocket-qwen"
    grows = (20, 60)  # characters seen before it is stopped

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        name, folder = cls.model, pathlib.Path(tempfile.mkdtemp(prefix="weir-endless-"))
        cls.addClassCleanup(shutil.rmtree, folder)
        cls.model = shutil.copytree(browser.ROOT / "models" / name, folder / name)
        ids = {token["content"]: token["id"] for token in json.loads((cls.model / "tokenizer.json").read_text())["added_tokens"]}
        config = cls.model / "generation_config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), "eos_token_id": [ids[NEVER_SAID[name]]]}))

    def test_an_answer_stops_when_it_is_told_and_keeps_what_it_said(self):
        page = self.open(SETTLED)
        for stop in (lambda: page.click("#send"), lambda: page.keyboard.press("Escape")):
            self.send(page)
            page.wait_for_selector("#send[aria-label='Stop']")
            for length in self.grows:
                self.until(page, f"document.querySelector('.answer.running:last-child .body').textContent.length > {length}")
            stop()
            page.wait_for_selector(".turn.answer:last-child:not(.running) .notice:has-text('Stopped.')")
            self.assertEqual(page.get_attribute("#send", "aria-label"), "Send")
            self.wait_for(lambda: self.metric(self.port, "weir_num_requests_running") == 0, 60)
        self.assertGreater(len(page.locator(".answer .body").first.inner_text()), 20)


class StoppingGemma(Stopping):
    model = "pocket-gemma"
    grows = (20,)  # of the canvas: no text needs to be committed yet


class ChatOfGemma(Chat):
    model = "pocket-gemma"

    def test_how_a_canvas_settled_can_be_replayed(self):
        page = self.open({"seed": "7"})
        said = self.ask(page)
        self.assertRegex(page.locator(".numbers").last.inner_text(), r"[\d.]+ tokens/s")
        canvas = page.locator("details.canvas")
        self.assertIsNone(canvas.get_attribute("open"))
        canvas.locator("summary").click()
        field, slider = canvas.locator(".canvas-field"), canvas.get_by_role("slider")
        steps = int(slider.get_attribute("max"))
        self.assertGreater(steps, 3)
        last = field.inner_text()
        self.assertTrue(last.startswith(said), (last, said))
        sure = "[...document.querySelectorAll('.canvas-field span')].map((s) => Number(s.style.getPropertyValue('--sure')))"
        at_end = sum(page.evaluate(sure))
        slider.focus()
        page.keyboard.press("Home")
        self.assertEqual(slider.get_attribute("aria-valuetext"), f"step 1 of {steps}")
        self.assertNotEqual(field.inner_text(), last)
        self.assertLess(sum(page.evaluate(sure)), at_end)
        page.keyboard.press("ArrowRight")
        self.assertEqual(slider.get_attribute("aria-valuetext"), f"step 2 of {steps}")
        canvas.get_by_label("Play the steps").click()
        self.until(page, f"document.querySelector('.canvas input').value === '{steps}'")
        self.assertEqual(field.inner_text(), last)
        page.reload()
        page.locator("details.canvas summary").click()
        self.assertEqual(page.locator(".canvas-field").inner_text(), last)


del PageTest

if __name__ == "__main__":
    browser.main()
