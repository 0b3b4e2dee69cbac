"""The chat page as it is served, without a browser; and web/inline.py, which makes it."""
import base64
import hashlib
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "cli"), str(ROOT / "tests" / "server")]
import serve_test  # noqa: E402
import support  # noqa: E402


class Served(serve_test.ServeTest):
    def test_one_document_runs_its_own_script_and_asks_nobody_else(self):
        _, port = self.serve("--api-key", "secret")  # the page itself holds nothing to keep
        status, headers, body = self.request(port, "GET", "/")
        self.assertEqual(status, 200)
        self.assertEqual(headers["Content-Type"], "text/html; charset=utf-8")
        html, policy = body.decode(), headers["Content-Security-Policy"]
        for tag, name in (("script", "script-src"), ("style", "style-src")):
            parts = re.findall(rf"<{tag}\b[^>]*>(.*?)</{tag}>", html, re.DOTALL)
            self.assertEqual(len(parts), 1)
            digest = base64.b64encode(hashlib.sha256(parts[0].encode()).digest()).decode()
            self.assertIn(f"{name} 'sha256-{digest}'", policy)
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe", policy)
        self.assertEqual(re.findall(r'<(?:link|script|img|iframe)\b[^>]*(?:src|href)="(?!data:)', html), [])
        self.assertNotIn("innerHTML", html)

    def test_browsers_keep_the_page_until_it_changes(self):
        _, port = self.serve()
        _, headers, body = self.request(port, "GET", "/")
        tag = headers["ETag"]
        self.assertEqual(headers["Cache-Control"], "no-cache")
        for given in (tag, f"W/{tag}", f'"other", {tag}'):
            status, again, nothing = self.request(port, "GET", "/", headers={"If-None-Match": given})
            self.assertEqual((status, nothing, again["ETag"], again["Content-Length"]), (304, b"", tag, None))
        self.assertEqual(self.request(port, "GET", "/", headers={"If-None-Match": '"other"'})[2], body)
        status, headers, nothing = self.request(port, "HEAD", "/")
        self.assertEqual((status, nothing, headers["Content-Length"]), (200, b"", str(len(body))))
        status, headers, _ = self.request(port, "POST", "/", {})
        self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD"))
        self.assertEqual(self.request(port, "GET", "/?from=elsewhere")[0], 200)
        self.assertEqual(self.request(port, "GET", "/index.html")[0], 404)

    def test_the_page_may_ask_its_own_server_under_each_of_its_names(self):
        _, port = self.serve()
        post = lambda origin, host: self.request(port, "POST", "/v1/chat/completions",  # noqa: E731
                                                 {"messages": serve_test.QUESTION, "max_tokens": 1},
                                                 {"Origin": origin, "Host": host})[0]
        for name in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", "localhost"):
            self.assertEqual(post(f"http://{name}", name), 200, name)
            self.assertEqual(post(f"https://{name}", name), 200, name)
        self.assertEqual(post(f"http://localhost:{port}", f"127.0.0.1:{port}"), 403)  # another origin to browsers
        self.assertEqual(post("http://evil.example", f"127.0.0.1:{port}"), 403)
        self.assertEqual(post(f"http://evil.example:{port}", f"evil.example:{port}"), 403)

    def test_behind_a_proxy_its_public_origin_passes_when_it_is_listed_or_a_key_is_asked_for(self):
        def status(where, host, origin, key=""):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(where.removeprefix("unix:"))
                connection.sendall(f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\n"
                                   f"x-api-key: {key}\r\nConnection: close\r\n\r\n".encode())
                return int(connection.makefile("rb").read().split(b" ")[1])
        _, open_to_all = self.serve("--unix", self.folder / "open")
        self.assertEqual(status(open_to_all, "localhost:9000", "http://localhost:9000"), 200)
        self.assertEqual(status(open_to_all, "chat.example", "https://chat.example"), 403)
        _, listed = self.serve("--unix", self.folder / "listed", "--cors-origin", "https://chat.example")
        self.assertEqual(status(listed, "chat.example", "https://chat.example"), 200)
        _, keyed = self.serve("--unix", self.folder / "keyed", "--api-key", "secret")
        self.assertEqual(status(keyed, "chat.example", "https://chat.example", "secret"), 200)
        self.assertEqual(status(keyed, "other.example", "https://chat.example", "secret"), 403)

    def test_models_say_what_the_page_must_know(self):
        for name, diffusion, thinks in (("pocket-qwen", False, True), ("pocket-gemma", True, False)):
            self.model = name
            _, port = self.serve()
            status, _, body = self.request(port, "GET", "/v1/models")
            model = serve_test.json.loads(body)["data"][0]
            self.assertEqual((model["block_diffusion"], model["thinks"]), (diffusion, thinks))
        self.assertEqual(model["sampling"], {"temperature": 1})


class Joined(support.unittest.TestCase):
    """web/inline.py refuses what it would join wrongly."""

    def joined(self, **modules):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "index.html").write_text('<link rel="stylesheet" href="a.css">\n'
                                               '<script type="module" src="main.js"></script>\n')
            (folder / "a.css").write_text("p { color: red; }\n")
            for module, text in modules.items():
                (folder / f"{module}.js").write_text(text)
            done = subprocess.run([sys.executable, ROOT / "web" / "inline.py", folder / "index.html", folder / "out.cpp"],
                                  capture_output=True, text=True)
            if done.returncode != 0:
                return done.stderr
            text = (folder / "out.cpp").read_text()
            numbers = text[text.index("= {") + 3:text.index("};")]
            return bytes(int(number) for number in numbers.split(",")).decode()

    def test_modules_come_behind_those_that_they_import_and_once(self):
        html = self.joined(main='import {b} from "./b.js";\nimport {c} from "./c.js";\nb(c);\n',
                           b='import {c} from "./c.js";\nexport function b() {}\n', c="export const c = 1;\n")
        self.assertEqual(html, '<style>p { color: red; }\n</style>\n<script type="module">const c = 1;\n\nfunction b() {}\n\n'
                         "b(c);\n</script>\n")

    def test_what_cannot_be_joined_is_refused(self):
        for words, modules in (
                ("does not export d", {"main": 'import {d} from "./b.js";\n', "b": "const d = 1;\n"}),
                ("is also a name", {"main": 'import {b} from "./b.js";\nconst x = 1;\n', "b": "const x = 2;\nexport const b = 1;\n"}),
                ("imports itself", {"main": 'import {b} from "./b.js";\n', "b": 'import {c} from "./c.js";\nexport const b = 1;\n',
                                    "c": 'import {b} from "./b.js";\nexport const c = 1;\n'}),
                ("cannot be joined", {"main": 'import * as b from "./b.js";\n'}),
                ("cannot be joined", {"main": "export default 5;\n"}),
                ("cannot be joined", {"main": 'const x = "</script>";\n'})):
            self.assertIn(words, self.joined(**modules))


if __name__ == "__main__":
    support.main()
