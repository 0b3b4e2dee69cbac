"""The clients of load.py: what they ask, how they behave, and what they hold against the server."""
import collections
import http.client
import json
import random
import select
import socket
import struct
import threading
import time

HOST = "127.0.0.1"
IDLE_SECONDS = 75  # after which the server closes a connection that asks nothing
SAMPLE = 40  # bodies asked only once whose answers are looked at again
NAMES = ("Tom", "Mia", "Ben", "Lily", "Sam", "Ann")
SCHEMA = {"type": "object", "properties": {"steps": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 3},
                                           "answer": {"type": "integer"}},
          "required": ["steps", "answer"], "additionalProperties": False}


def question(source):
    return (f"{source.choice(NAMES)} has {source.randrange(1000)} apples and buys {source.randrange(1000)} more. "
            "How many are there now?")


def body_of(source, text):
    """A path and a body whose answer is always the same: greedy, or with a seed."""
    chosen = source.choice(({"temperature": 0}, {"temperature": 1, "seed": source.randrange(1000)}))
    length = source.choice((8, 24, 64))
    messages = [{"role": "user", "content": text}]
    kind = source.randrange(6)
    if kind == 0:
        return "/v1/messages", {"messages": messages, "max_tokens": length, "temperature": 0}
    if kind == 1:
        return "/v1/completions", {"prompt": text, "max_tokens": length, **chosen}
    if kind == 2:
        return "/v1/responses", {"input": text, "max_output_tokens": length, "temperature": 0}
    body = {"messages": messages, "max_tokens": length, **chosen}
    if kind == 3:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "sum", "schema": SCHEMA}}
        body["reasoning_effort"] = "none"
    if kind == 4:
        body["n"] = 2
    return "/v1/chat/completions", body


def said(path, answer):
    """What matters of a whole answer: texts and why they ended."""
    if path == "/v1/messages":
        return [(block.get("thinking", ""), block.get("text", "")) for block in answer["content"]], answer["stop_reason"]
    if path == "/v1/responses":
        return [part["text"] for item in answer["output"] for part in item["content"]], answer["status"]
    if path == "/v1/completions":
        return [(choice["text"], choice["finish_reason"]) for choice in answer["choices"]]
    return [(choice["message"].get("reasoning_content") or "", choice["message"].get("content") or "", choice["finish_reason"])
            for choice in answer["choices"]]


def said_in_stream(path, text):
    """The same of a stream, which must have its end."""
    lines = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
    events = [json.loads(line) for line in lines if line != "[DONE]"]
    if path == "/v1/messages":
        if events[-1]["type"] != "message_stop":
            raise AssertionError(f"the stream ends with {events[-1]}")
        blocks = collections.defaultdict(lambda: ["", ""])
        for event in events:
            if event["type"] == "content_block_delta":
                block = blocks[event["index"]]
                block[0] += event["delta"].get("thinking", "")
                block[1] += event["delta"].get("text", "")
        return [tuple(blocks[index]) for index in sorted(blocks)], events[-2]["delta"]["stop_reason"]
    if path == "/v1/responses":
        return said(path, events[-1]["response"])
    if lines[-1] != "[DONE]":
        raise AssertionError(f"the stream ends with {lines[-1]}")
    choices = collections.defaultdict(lambda: ["", "", None])
    for choice in (choice for event in events for choice in event["choices"]):
        parts, delta = choices[choice["index"]], choice.get("delta", {})
        parts[0] += delta.get("reasoning_content") or ""
        parts[1] += delta.get("content") or choice.get("text", "")
        parts[2] = choice["finish_reason"] or parts[2]
    if path == "/v1/completions":
        return [(choices[index][1], choices[index][2]) for index in sorted(choices)]
    return [tuple(choices[index]) for index in sorted(choices)]


class Connection(http.client.HTTPConnection):
    """One to the server, which takes in little at a time where it is to read slowly."""

    def __init__(self, port, timeout, small=False):
        super().__init__(HOST, port, timeout=timeout)
        self.sock = socket.socket()
        if small:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        self.sock.settimeout(timeout)
        self.sock.connect((HOST, port))

    def reset(self):
        """Leaves without a farewell."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def fetch(port, timeout, method, path, body=None):
    with Connection(port, timeout) as connection:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read()


def check_health(port, timeout):
    status, text = fetch(port, timeout, "GET", "/health")
    if status != 200:
        raise AssertionError(f"{status} {text}")


def busy(port):
    """Answers that run, and that wait."""
    values = dict(line.split(" ", 1) for line in fetch(port, 60, "GET", "/metrics")[1].decode().splitlines()
                  if line.startswith("weir_num_requests"))
    return int(float(values["weir_num_requests_running"])), int(float(values["weir_num_requests_waiting"]))


def ask(port, timeout, path, body):
    status, text = fetch(port, timeout, "POST", path, json.dumps(body))
    if status != 200:
        raise AssertionError(f"{status} {text}")
    return said(path, json.loads(text))


class Report:
    """What the clients saw. The expected answers are written before the load and read during it."""

    def __init__(self):
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.failures = []
        self.expected, self.unique = [], []
        self.unique_seen = 0

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def done(self):
        with self.lock:
            return self.counts.total()

    def failed(self, what, why):
        with self.lock:
            self.failures.append(f"{what}: {type(why).__name__ + ' ' if isinstance(why, Exception) else ''}{why}")

    def expect_alone(self, port, timeout):
        """Asks what the clients will ask, one after the other."""
        source = random.Random(0)
        for _ in range(24):
            path, body = body_of(source, question(source))
            self.expected.append((path, body, ask(port, timeout, path, body)))

    def remember(self, path, body, answer, source):
        """Keeps a fair sample of the bodies that are asked once."""
        with self.lock:
            self.unique_seen += 1
            if len(self.unique) < SAMPLE:
                self.unique.append((path, body, answer))
            elif source.randrange(self.unique_seen) < SAMPLE:
                self.unique[source.randrange(SAMPLE)] = (path, body, answer)

    def check_unique(self, port, timeout):
        for path, body, answer in self.unique:
            alone = ask(port, timeout, path, body)
            if alone != answer:
                self.failed("neighbour", f"{path} {body}: {answer}, alone {alone}")
        self.counts["asked again alone"] = len(self.unique)

    def print(self):
        print(", ".join(f"{what} {count}" for what, count in sorted(self.counts.items())))
        for failure in self.failures[:20]:
            print(f"FAILED {failure}")
        print(f"{len(self.failures)} failures" if self.failures else "no failure")


class Client(threading.Thread):
    """Does one thing after another, as its random source says, until it is told to stop."""

    def __init__(self, port, source, report, timeout):
        super().__init__()
        self.port, self.source, self.report, self.timeout = port, source, report, timeout
        self.over = threading.Event()

    def run(self):
        actions = [self.stream] * 5 + [self.slow_stream] * 3 + [self.leave] * 5 + [self.malformed] * 2 + \
                  [self.no_http] + [self.whole] * 3 + [self.unique] * 3
        while not self.over.is_set():
            action = self.source.choice(actions)
            try:
                action()
                self.report.count(action.__name__)
            except Exception as error:  # noqa: BLE001 (whatever it is, the load test has found something)
                self.report.failed(action.__name__, error)

    def compare(self, path, body, expected, found):
        if found != expected:
            raise AssertionError(f"{path} {body}: {found}, alone {expected}")

    def whole(self):
        path, body, expected = self.source.choice(self.report.expected)
        self.compare(path, body, expected, ask(self.port, self.timeout, path, body))

    def unique(self):
        path, body = body_of(self.source, f"{self.source.randrange(10**9)}. {question(self.source)}")
        self.report.remember(path, body, ask(self.port, self.timeout, path, body), self.source)

    def stream(self, small=False, pause=0.0):
        path, body, expected = self.source.choice(self.report.expected)
        with Connection(self.port, self.timeout, small) as connection:
            connection.request("POST", path, json.dumps({**body, "stream": True}))
            response = connection.getresponse()
            if response.status != 200:
                raise AssertionError(f"{response.status} {response.read()}")
            text, slow_reads = b"", 20
            while piece := response.read1(200 if pause and slow_reads > 0 else 65536):
                text += piece
                if pause and slow_reads > 0:
                    slow_reads -= 1
                    time.sleep(pause)
        self.compare(path, body, expected, said_in_stream(path, text.decode()))

    def slow_stream(self):
        self.stream(small=True, pause=self.source.choice((0.01, 0.1)))

    def leave(self):
        """Somewhere between the first byte of a request and the last one of its answer."""
        path, body, _ = self.source.choice(self.report.expected)
        data = json.dumps({**body, "stream": self.source.random() < 0.7}).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {len(data)}\r\n\r\n".encode()
        sent = head + data
        if self.source.random() < 0.2:
            sent = sent[:self.source.randrange(len(sent))]
        connection = Connection(self.port, self.timeout, small=True)
        connection.sock.sendall(sent)
        time.sleep(self.source.choice((0, 0, 0.01, 0.3)))
        if len(sent) == len(head) + len(data) and self.source.random() < 0.5:
            connection.sock.recv(self.source.choice((1, 300, 2000)))
        self.source.choice((connection.close, connection.reset, lambda: self.half_close(connection)))()

    def half_close(self, connection):
        connection.sock.shutdown(socket.SHUT_WR)
        while connection.sock.recv(65536):
            pass
        connection.close()

    def malformed(self):
        path, body, _ = self.source.choice(self.report.expected)
        data = json.dumps(body).encode()
        at = self.source.randrange(1, len(data))
        bad = self.source.choice((data[:at], data[:at] + b"\xff" + data[at:], bytes(self.source.randbytes(at)) + b"\x00",
                                  json.dumps({**body, "stream": "yes"}).encode(), json.dumps({**body, "max_tokns": 1}).encode(),
                                  b"[" * 10000, b"[" * 200 + data + b"]" * 200))
        status, text = fetch(self.port, self.timeout, "POST", path, bad)
        if status != 400 or not json.loads(text)["error"]["message"]:
            raise AssertionError(f"{status} {text} to {bad[:200]}")

    def no_http(self):
        sent, status = self.source.choice(((b"\x16\x03\x01\x02\x00\r\n\r\n", b"400"), (b"GET / HTTP/7\r\n\r\n", b"400"),
                                           (b"GET /x HTTP/1.1\r\nx: " + b"a" * 20000, b"431"),
                                           (b"POST /v1/messages HTTP/1.1\r\nContent-Length: x\r\n\r\n", b"400")))
        with Connection(self.port, self.timeout) as connection:
            connection.sock.sendall(sent)
            text = connection.sock.recv(65536)
            if text.split(b" ")[1:2] != [status]:
                raise AssertionError(f"{text} to {sent[:60]}")


class IdleConnections(threading.Thread):
    """Half of them never ask anything, and are opened again when the server closes them; the others ask for /health
    now and then, on the same connection."""

    def __init__(self, port, count, report):
        super().__init__()
        self.port, self.report = port, report
        self.over = threading.Event()
        self.silent = [self.open() for _ in range(count // 2)]
        self.asking = [self.open() for _ in range(count - count // 2)]

    def open(self):
        return time.monotonic(), Connection(self.port, 600)

    def run(self):
        while not self.over.wait(1):
            try:
                self.replace_closed()
                self.ask_some()
            except Exception as error:  # noqa: BLE001
                self.report.failed("idle", error)

    def replace_closed(self):
        for number, (opened, connection) in enumerate(self.silent):
            if not select.select([connection.sock], [], [], 0)[0]:
                continue
            if time.monotonic() - opened < IDLE_SECONDS - 5:
                raise AssertionError("the server closed an idle connection before its time")
            connection.close()
            self.silent[number] = self.open()
            self.report.count("idle closed in time")

    def ask_some(self):
        """Each has its turn long before its time is over."""
        turn = len(self.asking) // 20
        some, self.asking = self.asking[:turn], self.asking[turn:] + self.asking[:turn]
        for _, connection in some:
            connection.request("GET", "/health")
            response = connection.getresponse()
            if response.status != 200 or not response.read():
                raise AssertionError(f"/health on an idle connection: {response.status}")
            self.report.count("idle asked")

    def close(self):
        self.over.set()
        self.join()
        for _, connection in self.silent + self.asking:
            connection.close()
