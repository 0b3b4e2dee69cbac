"""How the page looks and is worked: colours, phones, keys, and text that means harm."""

import browser
from browser import LASTING, PageTest, answer_with

PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True, "device_scale_factor": 2}
LUMINANCE = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d");
  canvas.fillStyle = getComputedStyle(document.body).backgroundColor;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data;
  return (r + g + b) / 765;
}"""
WIDE = ("# A heading with averyveryveryveryveryveryveryverylongwordthatdoesnotfit\n\n"
        "| a column | another column | a third column | a fourth column |\n|---|---:|:-:|---|\n"
        "| one cell | another cell | https://example.com/a/long/address/in/a/table | x |\n\n"
        "```cpp\nfor (int g = 0; g < groups; ++g) sum = std::fma(scale[g], static_cast<float>(product(g)), sum);\n```\n")
HOSTILE = """<script>window.harmed = 1</script><img src=x onerror="window.harmed = 1">
[click](javascript:window.harmed=1) [data](data:text/html,<script>window.harmed=1</script>) [vb](vbscript:x)
[tab](java\tscript:window.harmed=1) <javascript:window.harmed=1> ![picture](https://evil.example/pixel.png)
[file](file:///etc/passwd) [fine](https://example.com/?q=1&r=<b>) **<b onclick=harmed=1>bold</b>**

| <svg onload=window.harmed=1> | `<i>` |
|---|---|
| [x](javascript:window.harmed=1) | </td><script>window.harmed=1</script> |

```html"><script>window.harmed=1</script>
</code></pre><script>window.harmed = 1</script>
```
"""


class Look(PageTest):
    def test_colours_follow_the_system_and_the_switch(self):
        for scheme, dark in (("dark", True), ("light", False)):
            page = self.open(color_scheme=scheme)
            self.assertEqual(page.evaluate(LUMINANCE) < 0.5, dark)
            for wanted in ("light", "dark"):
                page.click("#theme")
                self.assertIn(wanted, page.get_attribute("#theme", "aria-label"))
                self.assertEqual(page.evaluate(LUMINANCE) < 0.5, wanted == "dark")
            page.reload()
            self.assertLess(page.evaluate(LUMINANCE), 0.5)
            page.click("#theme")
            self.assertEqual(page.evaluate(LUMINANCE) < 0.5, dark)

    def test_a_phone_shows_everything_within_its_width(self):
        page = self.open(**PHONE)
        fits = lambda: self.assertEqual(page.evaluate(  # noqa: E731
            "[document.documentElement.scrollWidth, document.querySelector('#scroller').scrollWidth]"), [360, 360])
        fits()
        answer_with(page, {"reasoning_content": "word " * 200}, {"content": WIDE})
        self.ask(page, "unbreakable" * 30)
        fits()
        page.locator("summary").first.click()
        fits()
        page.click("#open-settings")
        fits()
        page.locator("#settings .close").click()
        page.click("#open-chats")
        self.until(page, "document.querySelector('#chats').getBoundingClientRect().left === 0")  # it slides in
        fits()
        page.click("#new-chat")
        self.assertEqual(page.locator(".turn").count(), 0)
        self.assertTrue(page.evaluate("document.activeElement.id === 'draft'"))

    def test_buttons_on_a_phone_are_large_enough_to_hit(self):
        page = self.open(**PHONE)
        answer_with(page, {"content": "Yes."})
        self.ask(page)
        small = page.evaluate("""[...document.querySelectorAll("button")].filter((b) => b.offsetParent)
            .map((b) => [b.ariaLabel ?? b.textContent, b.getBoundingClientRect()])
            .filter(([, box]) => box.width && Math.min(box.width, box.height) < 24).map(([name]) => name)""")
        self.assertEqual(small, [])

    def test_everything_works_from_the_keyboard(self):
        page = self.open({"temperature": "0"})
        keys = page.keyboard
        self.assertEqual(page.evaluate("document.activeElement.id"), "draft")
        answer_with(page, {"content": "First."})
        keys.type("one")
        keys.press("Shift+Enter")
        keys.type("two")
        keys.press("Enter")
        self.wait_for_answer(page)
        self.assertEqual(page.locator(".turn.user .body").inner_text(), "one\ntwo")
        keys.press("ArrowUp")
        self.assertEqual(page.input_value(".edit-field"), "one\ntwo")
        keys.press("Escape")
        self.assertEqual(page.locator(".edit-field").count(), 0)
        keys.press("?")
        page.wait_for_selector("#shortcuts[open]")
        keys.press("Escape")
        page.wait_for_selector("#shortcuts", state="hidden")
        keys.press("r")
        page.wait_for_selector(".alternatives:visible .where:text-is('2/2')")
        self.wait_for_answer(page)
        keys.press("[")
        page.wait_for_selector(".alternatives:visible .where:text-is('1/2')")
        keys.press("s")
        page.wait_for_selector("#settings[open]")
        keys.press("Escape")
        keys.press("n")
        page.wait_for_selector("#greeting:visible")
        keys.type("?n")  # in the field, keys are letters
        self.assertEqual(page.input_value("#draft"), "?n")

    def test_focus_can_be_seen_on_everything_that_takes_it(self):
        page = self.open()
        answer_with(page, {"reasoning_content": "Hm."}, {"content": "Yes.\n\n```\ncode\n```"})
        self.ask(page)
        page.click(".brand")  # Tab goes on from there
        names, seen = set(), 0
        for _ in range(60):
            page.keyboard.press("Tab")
            name, outline, inside = page.evaluate("""() => {
              const e = document.activeElement, box = e.closest("#composer") ?? e;
              const style = getComputedStyle(e);
              return [e === document.body ? null : e.id || e.ariaLabel || e.textContent.trim().slice(0, 40) || e.tagName,
                      style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2, e.id === "draft"];
            }""")
            if name is None or name in names:
                break
            names.add(name)
            seen += 1
            self.assertTrue(outline or inside, f"{name} shows no focus")
        self.assertGreater(seen, 12, names)

    def test_motion_stops_for_those_who_want_none(self):
        page = self.open(reduced_motion="reduce")
        page.route("**/v1/chat/completions", lambda route: None)  # never answered
        self.send(page)
        page.wait_for_selector(".waiting .pulse")
        self.assertEqual(page.evaluate("getComputedStyle(document.querySelector('.waiting .pulse')).animationName"), "none")

    def test_words_stand_out_enough_in_both_schemes(self):
        for scheme in ("light", "dark"):
            page = self.open(color_scheme=scheme)
            worst = page.evaluate("""() => {
              const canvas = new OffscreenCanvas(1, 1).getContext("2d");
              const light = (name) => {
                document.body.style.setProperty("color", `var(${name})`);
                canvas.fillStyle = getComputedStyle(document.body).color;
                document.body.style.removeProperty("color");
                canvas.fillRect(0, 0, 1, 1);
                const part = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
                const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data;
                return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
              };
              const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
              return [["--ink", "--paper"], ["--muted", "--paper"], ["--muted", "--side"], ["--muted", "--bubble"],
                      ["--accent", "--paper"], ["--accent", "--wash"], ["--on-accent", "--accent"],
                      ["--alarm", "--alarm-wash"]].map(([a, b]) => [ratio(a, b), a, b]);
            }""")
            for ratio, ink, paper in worst:
                self.assertGreaterEqual(ratio, 4.5, (scheme, ink, paper))  # WCAG AA


class Harm(PageTest):
    def check_harmless(self, page):
        self.assertIsNone(page.evaluate("window.harmed ?? null"))
        self.assertEqual(page.evaluate("document.querySelectorAll('#turns script, #turns img, #turns [onclick]').length"), 0)
        links = page.evaluate("[...document.querySelectorAll('#turns a')].map((a) => [a.protocol, a.rel])")
        self.assertTrue(links)
        for protocol, rel in links:
            self.assertEqual((protocol, rel), ("https:", "noopener noreferrer nofollow"))

    def test_what_the_model_writes_stays_text(self):
        page = self.open()
        answer_with(page, {"reasoning_content": HOSTILE}, {"content": HOSTILE[:300]}, {"content": HOSTILE[300:]},
                    {"tool_calls": [{"index": 0, "id": "<b>", "function": {"name": "<img src=x>", "arguments": HOSTILE}}]})
        self.ask(page, HOSTILE)
        for summary in page.locator("summary:visible").all():
            summary.click()
        self.check_harmless(page)
        self.assertIn("<script>window.harmed = 1</script>", self.answer(page))

    def test_an_answer_edited_by_hand_is_no_more_than_text_either(self):
        page = self.open()
        answer_with(page, {"content": "Fine."})
        self.ask(page)
        page.click("[aria-label='Edit the answer']")
        page.fill(".edit-field", HOSTILE)
        page.press(".edit-field", "Enter")
        page.wait_for_selector(".notice:has-text('Edited by you.')")
        self.check_harmless(page)
        page.reload()
        page.wait_for_selector(".notice:has-text('Edited by you.')")
        self.check_harmless(page)

    def test_text_made_to_be_slow_does_not_hang_the_page(self):
        page = self.open()
        n = 5000
        for text in ("*" * n, "[" * n, "`" * n + "a", "**a " * n, "> " * n + "a", "- " * n + "a", "_a " * n, "`a ``b " * n,
                     "|" * n + "\n" + "|-" * n, "[a](" * (n // 4), "# " + "#" * n + "x", "-" * n + "x", "1. " * n):
            page.unroute_all()
            answer_with(page, {"content": text})
            self.ask(page, "x")  # it would run out of patience
            page.locator("#new-chat").click()

    def test_markup_is_made_of_its_own_elements(self):
        page = self.open(scripts=[LASTING])
        answer_with(page, {"content": "# Title\n\n***Both*** and some **strong *and* `code`** snake_case_word 2*3*4 \\*plain\\*\nnext\n\n"
                           "1. one\n   - deep\n2. two\n\n> quote\n\n| a | b |\n|--:|---|\n| 1 | x \\| y |\n\n---\n\n"
                           "```py\nprint('<b>')\n```\nhttps://example.com/a_b. <https://example.com/c>"})
        self.ask(page)
        html = page.evaluate("document.querySelector('.prose').innerHTML")
        for part in ('<h3 class="level-1">Title</h3>', "<strong><em>Both</em></strong> and", "<strong>strong <em>and</em> <code>code</code></strong>",
                     "snake_case_word 2*3*4 *plain*\nnext", "<ol><li><p>one</p><ul><li>deep</li></ul></li><li>two</li></ol>",
                     "<blockquote><p>quote</p></blockquote>", '<td class="align-right">1</td>', "x | y</td>", "<hr>",
                     "<code>print('&lt;b&gt;')</code>", ">https://example.com/a_b</a>.", ">https://example.com/c</a>"):
            self.assertIn(part, html)
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.click("[aria-label='Copy the code']")
        page.wait_for_selector(".code .icon-check")
        self.assertEqual(page.evaluate("navigator.clipboard.readText()"), "print('<b>')")


del PageTest

if __name__ == "__main__":
    browser.main()
