"""Drives the chat page of weir serve with Debian's Chromium.

Playwright comes from PyPI into build/web-test-venv, its own browsers are not used. Where one of the two cannot be
had, the tests are skipped and say so.
"""
import json
import os
import pathlib
import sys
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("cli", "server", "support")]
import serve_test  # noqa: E402
import support  # noqa: E402
from venv_python import python_with  # noqa: E402

VENV = ROOT / "build" / "web-test-venv"
CHROMIUM = "/usr/bin/chromium"
ANSWERS = ("**/v1/chat/completions", "**/v1/canvas")
PATIENCE = 60_000  # ms: a busy machine of two cores
QUESTION = "Mia has 12 apples. Mia finds 5 more apples. How many apples does Mia have now?"
SETTLED = {"temperature": "0", "seed": "7"}  # settings under which an answer is always the same
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (e) => violations.push(e.violatedDirective + " " + e.blockedURI));
"""
# What goes by itself after a while stays, so that a slow machine does not miss it.
LASTING = """
const setTimer = window.setTimeout;
window.setTimeout = (run, time, ...more) => time >= 1000 ? 0 : setTimer(run, time, ...more);
"""


def missing():
    """Why there can be no browser here; None when there can. Makes the virtual environment."""
    if not os.path.exists(CHROMIUM):
        return "there is no /usr/bin/chromium: apt-get install chromium"
    try:
        python_with(["playwright"], ["playwright==1.*"], VENV.name)
    except unittest.SkipTest as reason:
        return str(reason)
    return None


def main():
    """Runs the tests of the program under the environment's Python."""
    if sys.prefix != str(VENV):
        reason = missing()
        if reason:
            print(f"skipped: {reason}")
            return
        python = str(VENV / "bin" / "python")
        os.execv(python, [python, *sys.argv])
    support.main()


class PageTest(serve_test.ServeTest):
    """A browser for all tests, a server for those of a class, a fresh profile for each test."""
    model = "pocket-qwen"
    arguments = ()
    browser = None

    @classmethod
    def setUpClass(cls):
        cls.server = None
        if PageTest.browser is not None:
            return
        from playwright.sync_api import sync_playwright
        playwright = sync_playwright().start()
        unittest.addModuleCleanup(playwright.stop)
        sandbox = ["--no-sandbox"] if os.getuid() == 0 else []
        PageTest.browser = playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        unittest.addModuleCleanup(PageTest.browser.close)

    def setUp(self):
        super().setUp()
        cls = type(self)
        if cls.server is None:
            cls.server, cls.port = self.serve(*self.arguments)
            # The class keeps it; the server's folder goes with the first test, nothing in it is needed again.
            self._cleanups = [entry for entry in self._cleanups if entry[0] != self.stop]
            cls.addClassCleanup(self.stop, cls.server)
        self.origin = f"http://127.0.0.1:{cls.port}"
        self.requested, self.faults = [], []

    def open(self, settings=None, scripts=(), path="/", **options):
        """A page in a profile of its own, with what is wrong on it recorded."""
        context = self.browser.new_context(viewport=options.pop("viewport", {"width": 1280, "height": 800}), **options)
        self.addCleanup(context.close)
        context.set_default_timeout(PATIENCE)
        context.add_init_script(WATCH)
        if settings is not None:
            context.add_init_script(f"if (!localStorage['weir.settings']) localStorage['weir.settings'] = {json.dumps(json.dumps(settings))};")
        for script in scripts:
            context.add_init_script(script)
        page = context.new_page()
        page.on("request", lambda request: self.requested.append(request.url))
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.addCleanup(self.check_page, page)
        page.goto(self.origin + path)
        self.until(page, "document.querySelector('#model').textContent !== '' || document.querySelector('dialog[open]')")
        return page

    def until(self, page, condition):
        """Playwright's own wait_for_function evaluates text in the page, which the page's policy forbids."""
        end = time.monotonic() + PATIENCE / 1000
        while not page.evaluate(condition):
            self.assertLess(time.monotonic(), end, f"it did not come to {condition}")
            page.wait_for_timeout(20)

    def check_page(self, page):
        """No exception, no request to anyone else, nothing that the page's policy had to stop."""
        self.assertEqual(self.faults, [])
        self.assertEqual([url for url in self.requested if not url.startswith(self.origin + "/") and
                          not url.startswith(("data:", "blob:" + self.origin))], [])
        self.assertEqual(page.evaluate("violations"), [])

    def send(self, page, text=QUESTION):
        page.fill("#draft", text)
        page.press("#draft", "Enter")

    def wait_for_answer(self, page):
        last = ".turn.answer:last-child:not(.running)"
        page.wait_for_selector(f"{last} .numbers:not(:empty), {last} .notice.error")
        self.assertEqual(page.locator(f"{last} .notice.error").all_inner_texts(), [])

    def ask(self, page, text=QUESTION):
        """Sends, waits for the end, returns the text of the answer."""
        before = page.locator(".turn").count()
        self.send(page, text)
        self.until(page, f"document.querySelectorAll('.turn').length === {before + 2}")
        self.wait_for_answer(page)
        return self.answer(page)

    def answer(self, page):
        return page.locator(".turn.answer:last-child .prose").inner_text()

    def api_answer(self, messages, **more):
        """What the API says to the same messages: the page must show the same."""
        body = {"messages": messages, "temperature": 0, "seed": 7, **more}
        request = urllib.request.Request(self.origin + "/v1/chat/completions", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=support.TIMEOUT) as response:
            return json.load(response)["choices"][0]["message"]["content"]


def sse(*deltas, finish="stop"):
    """The body of a streamed answer, for routes that stand in for the server."""
    chunk = lambda delta, reason: {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}  # noqa: E731
    usage = {"prompt_tokens": 40, "completion_tokens": 12, "prompt_tokens_details": {"cached_tokens": 38},
             "completion_tokens_details": {"reasoning_tokens": 3}}
    events = [chunk(delta, None) for delta in deltas] + [chunk({}, finish), {"choices": [], "usage": usage}]
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"


def answer_with(page, *deltas, finish="stop"):
    """From here on, instead of the server."""
    for path in ANSWERS:
        page.route(path, lambda route: route.fulfill(content_type="text/event-stream", body=sse(*deltas, finish=finish)))


def real_answers(page):
    for path in ANSWERS:
        page.unroute(path)

