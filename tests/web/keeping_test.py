"""What the page keeps, and what it does when the server or the browser's storage is not there."""
import json
import pathlib
import tempfile

import browser
from browser import LASTING, QUESTION, PageTest, answer_with

NO_STORAGE = "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('off', 'SecurityError'); }});"
FULL_STORAGE = ("Storage.prototype.setItem = function (name) {"
                " if (!name.startsWith('weir.probe')) throw new DOMException('full', 'QuotaExceededError'); };")


class Keeping(PageTest):
    def test_conversations_are_listed_renamed_deleted_and_brought_back(self):
        page = self.open(scripts=[LASTING])
        answer_with(page, {"content": "Yes."})
        for text in ("First question", "Second question"):
            page.click("#new-chat")
            self.ask(page, text)
        titles = lambda: page.locator("#chat-list .chat").all_inner_texts()  # noqa: E731
        self.assertEqual(titles(), ["Second question", "First question"])
        page.reload()
        self.assertEqual(titles(), ["Second question", "First question"])
        self.assertEqual(page.locator(".turn.user .body").inner_text(), "Second question")
        page.locator("#chat-list .chat").nth(1).click()
        self.assertEqual(page.locator(".turn.user .body").inner_text(), "First question")
        press = lambda label: (page.locator("#chat-list .entry", has=page.get_by_label(label)).hover(),  # noqa: E731
                               page.get_by_label(label).click())
        press("Rename First question")
        page.fill(".rename", "Renamed")
        page.press(".rename", "Enter")
        self.assertIn("Renamed", titles())
        press("Delete Renamed")
        self.assertEqual(titles(), ["Second question"])
        page.click(".toast >> text=Undo")
        self.assertEqual(sorted(titles()), ["Renamed", "Second question"])
        press("Delete Renamed")
        page.reload()
        self.assertEqual(titles(), ["Second question"])

    def test_what_is_exported_can_be_imported_and_holds_no_key(self):
        page = self.open(scripts=[LASTING])
        page.evaluate("sessionStorage['weir.key'] = 'secret-key'")
        answer_with(page, {"reasoning_content": "Hm."}, {"content": "Exported answer."})
        self.ask(page, "Exported question")
        with page.expect_download() as download:
            page.click("#export")
        text = pathlib.Path(download.value.path()).read_text()
        self.assertNotIn("secret-key", text)
        self.assertEqual(json.loads(text)["format"], "weir-conversations")
        other = self.open(scripts=[LASTING])
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "chats.json"
            for bad, words in (("{", "not JSON"), ('{"a": 1}', "no conversations")):
                file.write_text(bad)
                other.set_input_files("#import-file", file)
                other.wait_for_selector(f".toast:has-text('{words}')")
            hostile = json.loads(text)
            hostile["conversations"] += [None, 5, {"nodes": {}}, {"nodes": {"root": {"children": ["root", "gone"], "active": 9}}}]
            file.write_text(json.dumps(hostile))
            other.set_input_files("#import-file", file)
            other.locator("#chat-list .chat", has_text="Exported question").click()
        self.assertEqual(self.answer(other), "Exported answer.")

    def test_a_draft_and_an_answer_cut_off_by_a_reload_are_still_there(self):
        page = self.open()
        page.fill("#draft", "half a thought")
        page.reload()
        self.assertEqual(page.input_value("#draft"), "half a thought")
        page.route("**/v1/chat/completions", lambda route: None)  # never answered
        page.press("#draft", "Enter")
        page.wait_for_selector(".answer.running")
        page.fill("#draft", "the next thought")
        page.reload()
        page.wait_for_selector(".notice:has-text('its page was closed')")
        self.assertEqual(page.input_value("#draft"), "the next thought")
        self.assertEqual(page.locator(".turn.user .body").inner_text(), "half a thought")

    def test_without_storage_the_page_works_and_says_so(self):
        for script, words in ((NO_STORAGE, "keeps nothing"), (FULL_STORAGE, "storage is full")):
            page = self.open(scripts=[script])
            answer_with(page, {"content": "Yes."})
            self.assertEqual(self.ask(page), "Yes.")
            page.wait_for_selector(f"#storage-notice:has-text('{words}')")
            page.click("#new-chat")
            page.locator("#chat-list .chat").click()
            self.assertEqual(self.answer(page), "Yes.")

    def test_two_tabs_show_the_same_conversations(self):
        page = self.open()
        answer_with(page, {"content": "Yes."})
        other = page.context.new_page()
        other.goto(self.origin)
        self.ask(page, "Asked in the first tab")
        other.wait_for_selector("#chat-list .chat:has-text('Asked in the first tab')")


class Faults(PageTest):
    def test_errors_are_shown_in_the_servers_own_words(self):
        page = self.open({"temperature": "5000"})
        self.send(page)
        notice = page.locator(".notice.error p")
        notice.wait_for()
        self.assertIn("temperature", notice.inner_text())
        self.assertEqual(self.requested[-1], self.origin + "/v1/chat/completions")
        page.evaluate("localStorage['weir.settings'] = '{}'")
        page.reload()
        page.click(".notice.error >> text=Try again")
        page.wait_for_selector(".alternatives:visible .where:text-is('2/2')")
        self.wait_for_answer(page)
        self.assertEqual(page.locator(".notice.error").count(), 0)

    def test_an_error_within_a_stream_keeps_what_was_said(self):
        page = self.open()
        page.route("**/v1/chat/completions", lambda route: route.fulfill(
            content_type="text/event-stream",
            body='data: {"choices":[{"index":0,"delta":{"content":"So far."}}]}\n\n'
                 'data: {"error":{"message":"the GPU fell off","code":"x"}}\n\n'))
        self.send(page)
        page.wait_for_selector(".notice.error:has-text('the GPU fell off')")
        self.assertEqual(self.answer(page), "So far.")

    def test_a_server_that_goes_and_comes_back_costs_nothing(self):
        process, port = self.serve()
        self.origin = f"http://127.0.0.1:{port}"
        page = self.open()

        def endless(route):
            body = json.loads(route.request.post_data)
            body.update({"logit_bias": {"1357": -100, "1355": -100}, "temperature": 0})
            route.continue_(post_data=json.dumps(body))
        page.route("**/v1/chat/completions", endless)
        self.send(page)
        self.until(page, "document.querySelector('.answer .body').textContent.length > 20")
        self.stop(process)
        page.wait_for_selector(".notice.error:has-text('connection')")
        page.wait_for_selector("#lost:visible")
        self.assertGreater(len(page.locator(".answer .body").text_content()), 20)
        page.fill("#draft", "written meanwhile")
        self.serve("--port", port)
        page.wait_for_selector("#lost", state="hidden")
        self.assertEqual(page.input_value("#draft"), "written meanwhile")
        page.unroute("**/v1/chat/completions")
        page.click(".notice.error >> text=Try again")
        page.wait_for_selector(".alternatives:visible .where:text-is('2/2')")
        self.wait_for_answer(page)
        self.assertEqual(page.locator(".notice.error").count(), 0)


class Keys(PageTest):
    arguments = ("--api-key", "secret")

    def test_a_server_with_a_key_is_asked_with_it(self):
        page = self.open()
        dialog = page.locator("#key-dialog")
        self.assertTrue(dialog.is_visible())
        dialog.get_by_label("API key").fill("wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("#key-wrong:visible")
        dialog.get_by_label("API key").fill("secret")
        page.keyboard.press("Enter")
        self.until(page, "document.querySelector('#model').textContent === 'pocket-qwen'")
        self.assertTrue(self.ask(page, QUESTION))
        self.assertIsNone(page.evaluate("localStorage.getItem('weir.key')"))
        page.reload()
        self.until(page, "document.querySelector('#model').textContent === 'pocket-qwen'")


del PageTest

if __name__ == "__main__":
    browser.main()
