"""Load on weir serve: many clients that ask, stream, read slowly, leave and send nonsense, beside idle connections.

    tests/server/load.py WEIR [-m MODEL] [--seconds N] [--clients N] [--idle N] [--seed N]

It ends with 1 and says why if an answer under load is not the one that the same body gets alone, if an answer is lost,
if memory or file descriptors grow, if /health does not answer, or if the server does not end cleanly on SIGTERM.
"""
import argparse
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("cli", "server")]
import load_clients as clients  # noqa: E402
import support  # noqa: E402

PATIENCE = 600  # seconds until something counts as hung: sanitizers and busy machines are slow
CACHE_BYTES = 32 << 20  # small enough to be full soon: then every insertion evicts
WARM_UP = 60  # seconds: a shorter run cannot tell growth from warming up
MOST_GROWTH = 0.03  # of the memory, over the second half of a run


class Server:
    def __init__(self, weir, model, folder, arguments):
        self.log = pathlib.Path(folder) / "log"
        with open(self.log, "wb") as stderr:
            command = [weir, "serve", "-m", model, "--port", "0", "--cache-bytes", str(CACHE_BYTES), *arguments]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                            stderr=stderr, env=support.clean_environment(HOME=folder))
        self.port = self.wait_for_port()

    def wait_for_port(self):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            for line in self.log.read_text().splitlines():
                if " is ready on " in line:
                    return int(line.rsplit(":", 1)[1])
            time.sleep(0.05)
        self.process.kill()
        raise SystemExit(f"no server: {self.log.read_text()}")

    def resident(self):
        """Bytes of memory."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmRSS:"))

    def descriptors(self):
        return len(list(pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def end(self):
        """The exit status after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "none: it hung"


class Watch(threading.Thread):
    """Asks /health and measures the server's memory and descriptors, until it is told to stop."""

    def __init__(self, server, report):
        super().__init__()
        self.server, self.report = server, report
        self.samples, self.health_seconds = [], []  # (seconds, bytes, descriptors, requests so far)
        self.over = threading.Event()

    def run(self):
        begin = time.monotonic()
        next_sample = begin
        while not self.over.wait(0.1):
            asked = time.monotonic()
            try:
                clients.check_health(self.server.port, PATIENCE)
            except Exception as error:  # noqa: BLE001 (whatever it is, it is a failure of the server)
                self.report.failed("health", error)
            now = time.monotonic()
            self.health_seconds.append(now - asked)
            if now >= next_sample:
                next_sample += 1
                self.samples.append((now - begin, self.server.resident(), self.server.descriptors(), self.report.done()))


def slope(samples):
    """Least squares: bytes a second."""
    mean_x = sum(s[0] for s in samples) / len(samples)
    mean_y = sum(s[1] for s in samples) / len(samples)
    return sum((s[0] - mean_x) * (s[1] - mean_y) for s in samples) / sum((s[0] - mean_x) ** 2 for s in samples)


def check_memory(samples, seconds, report):
    print("seconds  memory (MiB)  descriptors  requests")
    for sample in samples[:: max(1, len(samples) // 20)]:
        print(f"{sample[0]:7.0f}  {sample[1] / 2**20:12.1f}  {sample[2]:11}  {sample[3]:8}")
    half = [sample for sample in samples if sample[0] >= seconds / 2]
    if seconds < 2 * WARM_UP:
        return print(f"memory is judged in runs of {2 * WARM_UP} seconds and more")
    growth = slope(half) * (half[-1][0] - half[0][0])
    share = growth / half[0][1]
    print(f"memory over the second half: {growth / 2**20:+.2f} MiB ({share:+.2%})")
    if share > MOST_GROWTH:
        report.failed("memory", f"grew by {share:.2%} over the second half, more than {MOST_GROWTH:.0%}")


def wait_until(condition):
    end = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def load(server, base, options, report):
    """Everything at once for the given time; returns what was watched. `base` descriptors are open without clients."""
    idle = clients.IdleConnections(server.port, options.idle, report)
    watch = Watch(server, report)
    workers = [clients.Client(server.port, random.Random(options.seed * 1000 + number), report, PATIENCE)
               for number in range(options.clients)]
    for thread in (idle, watch, *workers):
        thread.start()
    time.sleep(options.seconds)
    for worker in workers:
        worker.over.set()
    for worker in workers:
        worker.join()
    watch.over.set()
    watch.join()
    idle.close()
    if not wait_until(lambda: server.descriptors() <= base):
        report.failed("descriptors", f"{server.descriptors()} are open after the load, {base} were before it")
    if not wait_until(lambda: clients.busy(server.port) == (0, 0)):
        report.failed("queue", f"running and waiting when all clients are gone: {clients.busy(server.port)}")
    return watch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weir")
    parser.add_argument("-m", "--model", default="pocket-qwen")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--idle", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options, arguments = parser.parse_known_args()  # the rest goes to weir serve
    report = clients.Report()
    with tempfile.TemporaryDirectory(prefix="weir-load-") as folder:
        server = Server(options.weir, options.model, folder, arguments)
        try:
            base = server.descriptors()
            report.expect_alone(server.port, PATIENCE)
            watch = load(server, base, options, report)
            report.check_unique(server.port, PATIENCE)
        finally:
            status = server.end()
        log = server.log.read_text()
    check_memory(watch.samples, options.seconds, report)
    times = sorted(watch.health_seconds)
    print(f"/health: {len(times)} times, median {times[len(times) // 2] * 1e3:.1f} ms, longest {times[-1] * 1e3:.0f} ms")
    if status != 0:
        report.failed("end", f"exit status {status}: {log[-2000:]}")
    for sign in ("Sanitizer", "runtime error:"):
        if sign in log:
            report.failed("sanitizer", log[log.index(sign):][:4000])
    report.print()
    sys.exit(1 if report.failures else 0)


if __name__ == "__main__":
    main()
