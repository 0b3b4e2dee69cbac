"""weir serve, driven over sockets with Python's standard library."""
import concurrent.futures
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
import support  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
QUESTION = [{"role": "user", "content": "Tom has 3 apples and buys 4 more. How many apples does Tom have?"}]
# Without the tokens that end an answer, one goes on until the context is full.
ENDLESS = {"messages": QUESTION, "logit_bias": {"1357": -100, "1355": -100}, "temperature": 0}
STEP = 5.0  # seconds: far more than a step of a pocket model on a busy machine


class ServeTest(support.WeirTest):
    model = "pocket-qwen"

    def serve(self, *arguments, wait=True):
        """Starts a server on a free port; returns (process, port)."""
        log = self.folder / "log"
        with open(log, "wb") as stderr:

            process = subprocess.Popen(self.command("serve", "-m", self.model, "--port", 0, *arguments), env=self.env,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr)
        self.addCleanup(self.stop, process)
        self.log = log
        end = time.monotonic() + 60
        while time.monotonic() < end:
            for line in log.read_text().splitlines():
                if " is ready on " in line:
                    where = line.split(" is ready on ")[1]
                    return process, where if where.startswith("unix:") else int(where.rsplit(":", 1)[1])
            if process.poll() is not None:
                break
            time.sleep(0.02)
        self.fail(f"no server: {log.read_text()}")

    def stop(self, process):
        if process.poll() is None:
            process.kill()
        process.wait(support.TIMEOUT)

    def request(self, port, method, path, body=None, headers=None):
        """Status, headers and body of one request on its own connection."""
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=support.TIMEOUT)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, data, headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def post(self, port, path, body, code=200, headers=None):
        status, _, text = self.request(port, "POST", path, body, headers)
        self.assertEqual(status, code, text)
        return json.loads(text)

    def stream(self, port, path, body):
        """The data lines of a stream, parsed."""
        status, headers, text = self.request(port, "POST", path, {**body, "stream": True})
        self.assertEqual(status, 200, text)
        self.assertTrue(headers["Content-Type"].startswith("text/event-stream"))
        lines = [line[6:] for line in text.decode().split("\n") if line.startswith("data: ")]
        return [line if line == "[DONE]" else json.loads(line) for line in lines]

    def metric(self, port, name):
        _, _, text = self.request(port, "GET", "/metrics")
        for line in text.decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        self.fail(f"no metric {name}")

    def wait_for(self, condition, seconds=STEP):
        end = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), end, "it did not happen in time")
            time.sleep(0.01)


class Answers(ServeTest):
    def test_an_answer_streamed_or_not_is_that_of_weir_run(self):
        _, port = self.serve()
        body = {"messages": QUESTION, "seed": 7, "reasoning_effort": "none"}
        whole = self.post(port, "/v1/chat/completions", body)
        text = whole["choices"][0]["message"]["content"]
        events = self.stream(port, "/v1/chat/completions", {**body, "stream_options": {"include_usage": True}})
        self.assertEqual(events[-1], "[DONE]")
        self.assertEqual("".join(e["choices"][0]["delta"].get("content", "") for e in events[:-2]), text)
        self.assertEqual(events[-3]["choices"][0]["finish_reason"], "stop")
        usage = events[-2]["usage"]
        self.assertEqual(usage["completion_tokens"], whole["usage"]["completion_tokens"])
        self.assertGreater(usage["prompt_tokens_details"]["cached_tokens"], 0)
        report = self.report("run", "-m", self.model, "--no-think", "--seed", 7, QUESTION[0]["content"])
        self.assertEqual(text, report["answer"])

    def test_thinking_comes_in_its_own_field_and_goes_back_in_histories(self):
        _, port = self.serve()
        first = self.post(port, "/v1/chat/completions", {"messages": QUESTION, "seed": 1})
        message = first["choices"][0]["message"]
        self.assertTrue(message["reasoning_content"])
        self.assertGreater(first["usage"]["completion_tokens_details"]["reasoning_tokens"], 0)
        history = QUESTION + [message, {"role": "user", "content": "And twice that?"}]
        second = self.post(port, "/v1/chat/completions", {"messages": history, "max_tokens": 8})
        self.assertGreater(second["usage"]["prompt_tokens"], first["usage"]["prompt_tokens"])

    def test_answers_of_many_clients_are_those_of_one(self):
        _, port = self.serve()
        bodies = [{"messages": QUESTION, "seed": seed, "max_tokens": 40} for seed in range(12)]
        ask = lambda body: self.post(port, "/v1/chat/completions", body)["choices"]  # noqa: E731
        alone = [ask(body) for body in bodies]
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            together = list(pool.map(ask, bodies))
        self.assertEqual(alone, together)

    def test_every_delta_is_valid_text_whatever_the_model_writes(self):
        _, port = self.serve()
        events = self.stream(port, "/v1/chat/completions",
                             {"messages": QUESTION, "temperature": 100, "top_k": 0, "top_p": 1, "seed": 3,
                              "max_tokens": 300})
        self.assertGreater(len(events), 10)  # json.loads has checked the UTF-8 of each


class Protocols(ServeTest):
    def test_each_protocol_gives_the_same_answer_in_its_own_shape(self):
        _, port = self.serve("--no-think")
        text = QUESTION[0]["content"]
        sampling = {"temperature": 0, "max_tokens": 64}
        chat = self.post(port, "/v1/chat/completions", {"messages": QUESTION, **sampling})
        answer = chat["choices"][0]["message"]["content"]
        message = self.post(port, "/v1/messages", {"messages": QUESTION, **sampling})
        self.assertEqual(message["content"], [{"type": "text", "text": answer}])
        self.assertEqual(message["stop_reason"], "end_turn")
        events = self.stream(port, "/v1/messages", {"messages": QUESTION, **sampling})
        self.assertEqual((events[0]["type"], events[-1]["type"]), ("message_start", "message_stop"))
        self.assertEqual("".join(e["delta"].get("text", "") for e in events if e["type"] == "content_block_delta"), answer)
        response = self.post(port, "/v1/responses", {"input": text, "temperature": 0, "max_output_tokens": 64})
        self.assertEqual(response["output"][0]["content"][0]["text"], answer)
        prompt = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
        raw = self.post(port, "/v1/completions", {"prompt": prompt, **sampling})
        self.assertEqual(raw["choices"][0]["text"], answer)
        count = self.post(port, "/v1/messages/count_tokens", {"messages": QUESTION})
        self.assertEqual(count["input_tokens"], chat["usage"]["prompt_tokens"])

    def test_stop_sequences_are_named(self):
        _, port = self.serve()
        body = {"messages": QUESTION, "temperature": 0, "max_tokens": 64}
        whole = self.post(port, "/v1/messages", body)["content"][0]["text"]
        cut = self.post(port, "/v1/messages", {**body, "stop_sequences": ["never said", whole[5:8]]})
        self.assertEqual((cut["stop_reason"], cut["stop_sequence"]), ("stop_sequence", whole[5:8]))
        self.assertEqual(cut["content"][0]["text"], whole[:whole.index(whole[5:8])])

    def test_errors_have_the_shape_of_the_protocol(self):
        _, port = self.serve("--api-key", "secret")
        status, headers, text = self.request(port, "POST", "/v1/messages", {})
        error = json.loads(text)
        self.assertEqual((status, error["type"], error["error"]["type"]), (401, "error", "authentication_error"))
        self.assertEqual(error["request_id"], headers["x-request-id"])
        error = self.post(port, "/v1/messages", {"messages": QUESTION}, 400, {"x-api-key": "secret"})
        self.assertEqual(error["error"], {"type": "invalid_request_error", "message": "max_tokens is missing"})


class Refusals(ServeTest):
    def test_nothing_that_a_client_sends_is_a_fault_of_the_server(self):
        _, port = self.serve()
        chat = "/v1/chat/completions"
        deep = b'{"messages": ' + b"[" * 100000 + b"]" * 100000 + b"}"
        bodies = [b"", b"{", b"[]", b"null", b'"a"', b"\xff\xfe", b'{"messages": "\xc3"}', deep, b"\x00" * 100,
                  b'{"messages": [{"role": "user", "content": "\xed\xa0\x80"}]}', b'{"messages": []}',
                  b'{"messages": [{"role": "king", "content": "a"}]}', b'{"messages": [{"role": "user"}]}',
                  b'{"messages": [{"role": "tool", "content": "a", "tool_call_id": 5}]}',
                  b'{"messages": [{"role": "user", "content": "a"}], "max_tokens": 1e400}',
                  b'{"messages": [{"role": "user", "content": "a"}], "max_tokens": 99999999999999999999999}',
                  b'{"messages": [{"role": "user", "content": "a"}], "logit_bias": {"99999999": 1}}',
                  b'{"messages": [{"role": "user", "content": "a"}], "stop": [""]}',
                  b'{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}']
        for body in bodies:
            status, _, text = self.request(port, "POST", chat, body)
            self.assertEqual(status, 400, (body[:80], text))
            self.assertTrue(json.loads(text)["error"]["message"], body[:80])
        self.assertEqual(self.request(port, "GET", "/health")[0], 200)

    def test_a_prompt_that_does_not_fit_is_refused_with_both_numbers(self):
        _, port = self.serve()
        long = [{"role": "user", "content": "one two three " * 20000}]
        error = self.post(port, "/v1/chat/completions", {"messages": long}, code=400)["error"]
        self.assertRegex(error["message"], r"the prompt has \d+ tokens, but the context has room for 32768")
        self.assertEqual(error["code"], "context_length_exceeded")

    def test_paths_and_methods_that_are_not_there(self):
        _, port = self.serve()
        self.assertEqual(self.request(port, "GET", "/nothing")[0], 404)
        status, headers, _ = self.request(port, "GET", "/v1/chat/completions")
        self.assertEqual((status, headers["Allow"]), (405, "POST"))
        self.assertEqual(self.request(port, "DELETE", "/v1/models")[0], 405)
        self.assertEqual(self.request(port, "HEAD", "/health")[0], 200)
        self.assertEqual(self.post(port, "/v1/chat/completions", {"messages": QUESTION, "model": "gpt-9"}, 404)
                         ["error"]["code"], "model_not_found")
        self.assertEqual(json.loads(self.request(port, "GET", "/v1/models/gpt-9")[2])["error"]["code"], "model_not_found")

    def test_what_is_no_http_is_refused_and_the_connection_closed(self):
        _, port = self.serve("--max-body", 1000)
        for sent, status in ((b"hello\r\n\r\n", b"400"), (b"GET / HTTP/9.9\r\n\r\n", b"400"),
                             (b"GET / HTTP/1.1\r\nx: " + b"a" * 20000 + b"\r\n\r\n", b"431"),
                             (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 2000\r\n\r\n", b"413"),
                             (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"400")):
            with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
                connection.sendall(sent)
                self.assertEqual(connection.recv(65536).split(b" ")[1], status, sent[:60])
                while connection.recv(65536):
                    pass

    def test_a_full_queue_asks_to_come_again(self):
        _, port = self.serve("--max-running", 1, "--max-waiting", 1)
        body = json.dumps({**ENDLESS, "stream": True}).encode()
        connections = [http.client.HTTPConnection("127.0.0.1", port, timeout=60) for _ in range(2)]
        for number, connection in enumerate(connections):
            connection.request("POST", "/v1/chat/completions", body)
            self.wait_for(lambda: self.metric(port, "weir_num_requests_running") == 1 and
                          self.metric(port, "weir_num_requests_waiting") == number)
        status, headers, text = self.request(port, "POST", "/v1/chat/completions", {"messages": QUESTION})
        self.assertEqual(status, 429, text)
        self.assertEqual(headers["Retry-After"], "1")
        for connection in connections:
            connection.close()


class Access(ServeTest):
    def test_a_key_is_asked_for_except_by_health(self):
        keys = self.folder / "keys"
        keys.write_text("# mine\nsecret-1\n\nsecret-2\n")
        _, port = self.serve("--api-key-file", keys)
        self.assertEqual(self.request(port, "GET", "/health")[0], 200)
        self.assertEqual(self.request(port, "GET", "/v1/models")[0], 401)
        self.assertEqual(self.request(port, "GET", "/metrics")[0], 401)
        for headers in ({"Authorization": "Bearer secret-1"}, {"x-api-key": "secret-2"}):
            self.assertEqual(self.request(port, "GET", "/v1/models", headers=headers)[0], 200)
        self.assertEqual(self.request(port, "GET", "/v1/models", headers={"x-api-key": "secret-3"})[0], 401)

    def test_keys_that_no_request_can_bring_are_refused_and_not_shown(self):
        for key in ("zq zq", " zqzq", "zqzq\n", "zqzq\u00e9", "\x1bzqzq", "zq" * 1000):
            done = self.fails(2, "serve", "--port", 0, "--api-key", key, says=["API keys"])
            self.assertNotIn("zq", done.stderr)
        keys = self.folder / "keys"
        for text in (b"\xef\xbb\xbfkey\n", b"a\0b\n", b"key\n" * 300000):
            keys.write_bytes(text)
            self.fails(2, "serve", "--port", 0, "--api-key-file", keys)
        self.fails(2, "serve", "--port", 0, "--api-key-file", "/dev/zero", says=["/dev/zero is longer"])
        self.fails(2, "serve", "--port", 0, "--api-key-file", self.folder, says=["it is no file"])

    def test_a_count_out_of_its_range_is_refused(self):
        self.fails(2, "serve", "--port", 0, "--max-running", "1G", says=["too large, at most 4096"])

    def test_other_machines_need_a_key(self):
        self.fails(2, "serve", "--host", "0.0.0.0", "--port", 0, says=["no API key", "--api-key-file"])
        self.fails(2, "serve", "--host", "example.com", "--port", 0, says=["no address"])

    def test_pages_of_other_sites_are_kept_out_and_listed_ones_let_in(self):
        _, port = self.serve("--cors-origin", "https://chat.example")
        post = lambda origin: self.request(port, "POST", "/v1/chat/completions",  # noqa: E731
                                           {"messages": QUESTION, "max_tokens": 1}, {"Origin": origin})
        self.assertEqual(post("https://evil.example")[0], 403)
        status, headers, _ = post("https://chat.example")
        self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (200, "https://chat.example"))
        self.assertEqual(self.request(port, "OPTIONS", "/v1/models", headers={"Origin": "https://chat.example"})[0], 204)

    def test_headers_that_say_two_things_and_bodies_in_a_coding_are_refused(self):
        _, port = self.serve()
        for lines, status in (("Host: localhost\r\nHost: evil.example", 400),
                              ("Host: localhost\r\nOrigin: http://localhost\r\nOrigin: https://evil.example", 400),
                              ("Host: localhost\r\nContent-Encoding: gzip", 415)):
            with socket.create_connection(("127.0.0.1", port), timeout=STEP) as connection:
                connection.sendall(f"GET /v1/models HTTP/1.1\r\n{lines}\r\nConnection: close\r\n\r\n".encode())
                answer = connection.makefile("rb").read()
            self.assertIn(f"HTTP/1.1 {status} ".encode(), answer, lines)
            self.assertIn(b'"error"', answer)

    def test_origins_and_names_that_can_never_match_are_refused(self):
        for flag, value in (("--cors-origin", "null"), ("--cors-origin", "chat.example"), ("--cors-origin", "http://a/b"),
                            ("--allow-host", "http://a"), ("--allow-host", "a:80"), ("--allow-host", "a/b")):
            self.fails(2, "serve", "--port", 0, flag, value, says=[value])

    def test_a_page_under_a_foreign_name_reads_nothing(self):
        """Such a name resolves to this machine (DNS rebinding), and a GET within one origin carries no Origin."""
        status = lambda port, path, host: self.request(port, "GET", path, headers={"Host": host})  # noqa: E731
        _, port = self.serve("--allow-host", "box.example")
        for path in ("/v1/models", "/metrics", "/v1/chat/completions"):
            code, _, text = status(port, path, f"evil.example:{port}")
            self.assertEqual(code, 403, path)
            self.assertIn("--allow-host", json.loads(text)["error"]["message"])
        for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", f"box.example:{port}"):
            self.assertEqual(status(port, "/v1/models", host)[0], 200, host)
        _, keyed = self.serve("--api-key", "secret")
        self.assertEqual(self.request(keyed, "GET", "/metrics", headers={"Host": "any.example", "x-api-key": "secret"})[0], 200)

    def test_a_unix_socket_is_its_owners_alone_and_goes_with_the_server(self):
        path = self.folder / "socket"
        process, where = self.serve("--unix", path)
        self.assertEqual(where, f"unix:{path}")
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            self.assertIn(b'"status":"ok"', connection.makefile("rb").read())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), 0)
        self.assertFalse(path.exists())


class Connections(ServeTest):
    def test_one_connection_serves_many_requests(self):
        _, port = self.serve()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for number in range(5):
            connection.request("POST", "/v1/chat/completions",
                               json.dumps({"messages": QUESTION, "max_tokens": 2, "stream": number % 2 == 0}),
                               {"x-request-id": f"job-{number}"})
            response = connection.getresponse()
            self.assertEqual(response.status, 200)
            self.assertEqual(response.headers["x-request-id"], f"job-{number}")
            response.read()
        connection.close()
        self.wait_for(lambda: "job-4 127.0.0.1" in self.log.read_text())

    def test_a_client_that_leaves_costs_no_further_step(self):
        _, port = self.serve("--max-running", 1)
        streams = []
        for stream in (True, False, True):  # the last one waits in the queue
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("POST", "/v1/chat/completions", json.dumps({**ENDLESS, "stream": stream}))
            streams.append(connection)
        busy = lambda: (self.metric(port, "weir_num_requests_running"),  # noqa: E731
                        self.metric(port, "weir_num_requests_waiting"))
        self.wait_for(lambda: busy() == (1, 2))
        streams[2].close()
        self.wait_for(lambda: busy() == (1, 1))
        streams[0].close()
        self.wait_for(lambda: busy() == (1, 0))
        streams[1].close()
        self.wait_for(lambda: busy() == (0, 0))

    def test_a_client_that_does_not_read_is_dropped(self):
        _, port = self.serve()
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", port))
            body = json.dumps({**ENDLESS, "stream": True, "logprobs": True, "top_logprobs": 20}).encode()
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            self.wait_for(lambda: self.metric(port, "weir_num_requests_running") == 1)
            self.wait_for(lambda: self.metric(port, "weir_num_requests_running") == 0, 120)
        self.wait_for(lambda: "client gone" in self.log.read_text())

    def test_health_answers_while_a_long_prompt_is_read(self):
        _, port = self.serve()
        long = [{"role": "user", "content": "7 + 5 = 12. " * 1500}]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/v1/chat/completions", json.dumps({"messages": long, "stream": True}))
        self.wait_for(lambda: self.metric(port, "weir_num_requests_running") == 1, 20)
        times = []
        for _ in range(50):
            begin = time.monotonic()
            self.assertEqual(self.request(port, "GET", "/health")[0], 200)
            times.append(time.monotonic() - begin)
        self.assertEqual(self.metric(port, "weir_num_requests_running"), 1, "the prompt was read too fast to test")
        connection.close()
        self.assertLess(sorted(times)[len(times) // 2], 0.05, times)  # milliseconds, on a busy machine too

    def test_a_signal_lets_answers_end_and_takes_no_new_ones(self):
        process, port = self.serve("--drain-seconds", 60)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/v1/chat/completions",
                           json.dumps({**ENDLESS, "stream": True, "max_tokens": 400}))
        response = connection.getresponse()
        kept = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        kept.request("GET", "/health/ready")
        self.assertEqual(kept.getresponse().read() and 200, 200)
        process.send_signal(signal.SIGTERM)
        text = response.read().decode()
        self.assertTrue(text.rstrip().endswith("data: [DONE]"))
        self.assertIn('"finish_reason":"length"', text)
        self.assertEqual(process.wait(60), 0)
        with self.assertRaises(OSError):
            self.request(port, "GET", "/health")

    def test_a_drain_has_an_end(self):
        process, port = self.serve("--drain-seconds", 0)
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("POST", "/v1/chat/completions", json.dumps({**ENDLESS, "stream": True}))
        response = connection.getresponse()
        process.send_signal(signal.SIGTERM)
        self.assertIn("shutting down", response.read().decode())
        self.assertEqual(process.wait(30), 0)


class StateFolder(ServeTest):
    """What --state-dir keeps."""
    asked = {"messages": [{"role": "user", "content": "7 + 5 = 12. " * 40}], "temperature": 0, "max_tokens": 4}

    def ask_once(self, model, states):
        """One server's life with one question: the answer, the tokens it reused, and its log."""
        self.model = model
        process, port = self.serve("--state-dir", states)
        answer = self.post(port, "/v1/chat/completions", self.asked)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 0)
        return (answer["choices"][0]["message"], answer["usage"]["prompt_tokens_details"]["cached_tokens"],
                self.log.read_text())

    def test_prefixes_survive_a_restart_and_belong_to_their_weights(self):
        states = self.folder / "states"
        model = shutil.copytree(ROOT / "models" / self.model, self.folder / "model")
        first, reused, _ = self.ask_once(model, states)
        self.assertEqual(reused, 0)
        again, reused, log = self.ask_once(model, states)
        self.assertEqual(again, first)
        self.assertGreater(reused, 100)
        self.assertEqual(log.count("weir: "), 2, log)  # it is ready, and it ends
        weights = model / "model.safetensors"
        os.utime(weights, (weights.stat().st_atime, weights.stat().st_mtime + 5))  # as if they were others
        self.assertEqual(self.ask_once(model, states)[:2], (first, 0))

    def test_a_damaged_file_is_reported_and_skipped(self):
        states = self.folder / "states"
        first, _, _ = self.ask_once("pocket-qwen", states)
        damaged = sorted(states.glob("*.sequence"))
        self.assertTrue(damaged)
        for file in damaged:
            file.write_bytes(file.read_bytes()[:-9] + b"x" * 9)
        again, reused, log = self.ask_once("pocket-qwen", states)
        self.assertEqual((again, reused), (first, 0))
        for file in damaged:
            self.assertIn(file.name, log)
        self.assertIn("checksum", log)


class Diffusion(ServeTest):
    model = "pocket-gemma"

    def test_streams_hold_committed_text_and_canvas_shows_the_steps(self):
        _, port = self.serve()
        body = {"messages": QUESTION, "seed": 5}
        whole = self.post(port, "/v1/chat/completions", body)["choices"][0]["message"]
        said = lambda events: "".join(e["choices"][0]["delta"].get("content", "")  # noqa: E731
                                      for e in events if "choices" in e and e["choices"])
        self.assertEqual(said(self.stream(port, "/v1/chat/completions", body)[:-1]), whole["content"])
        events = self.stream(port, "/v1/canvas", body)[:-1]
        self.assertEqual(said(events), whole["content"])
        frames = [e for e in events if "canvas" in e]
        self.assertGreater(len(frames), 1)
        self.assertTrue(frames[-1]["last"])
        for frame in frames:
            self.assertEqual(len(frame["tokens"]), len(frame["confidence"]))
            self.assertEqual(len(frame["tokens"]), len(frame["accepted"]))
        self.assertGreater(self.metric(port, "weir_denoising_passes_per_canvas_count"), 0)

    def test_what_a_canvas_cannot_honour_is_refused_by_name(self):
        _, port = self.serve()
        for more, name in (({"logprobs": True}, "logprobs"), ({"presence_penalty": 1}, "penalties"),
                           ({"logit_bias": {"5": 1}}, "logit_bias"), ({"top_p": 0.5}, "top_p")):
            error = self.post(port, "/v1/chat/completions", {"messages": QUESTION, **more}, code=400)["error"]
            self.assertIn(name, error["message"])


if __name__ == "__main__":
    support.main()
