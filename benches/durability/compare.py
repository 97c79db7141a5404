#!/usr/bin/env python3
"""Compares keylatch with redis-server where both keep files: the log, snapshots, large values, loading.

    benches/durability/compare.py [PART...]    log, always, snapshot, large, load; all of them by default

Needs redis-server, redis-benchmark, a C compiler, a build in target/dist (or KEYLATCH=path), and an idle machine with 8 GB
of memory. KEYS=10000000 and LARGE_MB=1024 say how much data there is. Files are written below TMPDIR, so that is the disk
that is measured. Prints tables; servers take turns, and figures are medians of ROUNDS=3 unless they are worst cases.
"""

import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
KEYLATCH = os.environ.get("KEYLATCH", os.path.join(ROOT, "target", "dist", "keylatch"))
KEYS = int(os.environ.get("KEYS", 10_000_000))
LARGE_MB = int(os.environ.get("LARGE_MB", 1024))
ROUNDS = int(os.environ.get("ROUNDS", 3))
SERVERS = {"keylatch": KEYLATCH, "redis": "redis-server"}
TICKS = os.sysconf("SC_CLK_TCK")
WRITES_PER_S = 50_000
SYNC_DELAY_US = 2_000
SLOW_SYNC = """
#include <unistd.h>
#include <sys/syscall.h>
int fdatasync(int file) { usleep(DELAY_US); return syscall(SYS_fdatasync, file); }
"""


def encode(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Client:
    def __init__(self, port):
        deadline = time.monotonic() + 10
        while True:
            try:
                self.socket = socket.create_connection(("127.0.0.1", port))
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.0002)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def read(self):
        line = self.file.readline()
        if line[:1] == b"$":
            length = int(line[1:])
            return self.file.read(length + 2)[:-2] if length >= 0 else None
        if line[:1] == b"*":
            return [self.read() for _ in range(int(line[1:]))]
        return line.rstrip()

    def call(self, *words):
        self.socket.sendall(encode(*words))
        return self.read()

    def info(self, field):
        found = [line for line in self.call("INFO").split(b"\r\n") if line.startswith(field.encode() + b":")]
        return found[0].split(b":")[1].decode() if found else None


class Server:
    def __init__(self, kind, folder, *options, environment=None):
        self.kind = kind
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        words = [SERVERS[kind], "--port", self.port, "--dir", folder, "--enable-debug-command", "yes", *options]
        if "--save" not in options:
            words += ["--save", ""]
        self.log = open(os.path.join(folder, f"log-{kind}"), "wb")
        words = [str(word) for word in words]
        environment = {**os.environ, **(environment or {})}
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log, env=environment)

    def client(self):
        """Connects, and waits until the data is loaded."""
        client = Client(self.port)
        while client.call("PING").startswith(b"-LOADING"):
            time.sleep(0.01)
        return client

    def cpu(self):
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


class Probe(threading.Thread):
    """Calls a command again and again, and keeps how long each round trip took, in milliseconds."""

    def __init__(self, port, *words):
        super().__init__()
        self.client, self.words, self.took, self.ends = Client(port), words, [], False

    def run(self):
        while not self.ends:
            begun = time.perf_counter()
            self.client.call(*self.words)
            self.took.append((time.perf_counter() - begun) * 1e3)
            time.sleep(0.0005)

    def end(self):
        self.ends = True
        self.join()
        took = sorted(self.took)
        return took[len(took) // 2], took[len(took) * 99 // 100], took[-1]


def probe(port, seconds, *words):
    thread = Probe(port, *words)
    thread.start()
    time.sleep(seconds)
    return thread.end()


def anonymous_mb():
    """Returns the memory of all processes that is not of files: what a fork's copies take counts, too."""
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("AnonPages")) / 1024


def redis_benchmark(port, *options):
    """Returns the requests per second."""
    words = ["redis-benchmark", "-p", port, "-q", "--csv", *options]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    output = done.stdout
    return float(output.strip().splitlines()[-1].split(",")[1].strip('"'))


def table(title, head, rows):
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    for row in rows:
        print("| " + " | ".join(f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row) + " |", flush=True)


def in_folder(part):
    folder = tempfile.mkdtemp()
    try:
        part(folder)
    finally:
        shutil.rmtree(folder)


def log_part(folder):
    rows = []
    for depth, count in ((64, 6_000_000), (1, 400_000)):
        cpu = {}
        for number in range(ROUNDS):
            for kind in SERVERS:
                for log in ("no", "yes"):
                    below = os.path.join(folder, f"{depth}-{number}-{kind}-{log}")
                    os.mkdir(below)
                    server = Server(kind, below, "--appendonly", log, "--auto-aof-rewrite-percentage", 0)
                    server.client()
                    before = server.cpu()
                    redis_benchmark(server.port, "-t", "set", "-n", count, "-P", depth, "-r", 100_000)
                    cpu.setdefault((kind, log), []).append((server.cpu() - before) / count * 1e6)
                    server.stop()
                    shutil.rmtree(below)
        of = {name: statistics.median(values) for name, values in cpu.items()}
        ours, theirs = of["keylatch", "yes"], of["redis", "yes"]
        rows.append((depth, of["keylatch", "no"], ours, ours / of["keylatch", "no"], of["redis", "no"], theirs, ours / theirs))
    table("CPU of a SET in microseconds, without a log and with everysec", ("depth", "keylatch", "with a log", "times",
          "redis", "with a log", "keylatch / redis with a log"), rows)


def always_part(folder):
    always(folder, "appendfsync always, 50 clients")
    # A disk without a battery takes milliseconds for what the present one may do in a tenth of one.
    library = os.path.join(folder, "slow.so")
    compiler = ["cc", "-shared", "-fPIC", f"-DDELAY_US={SYNC_DELAY_US}", "-x", "c", "-", "-o", library]
    subprocess.run(compiler, input=SLOW_SYNC, text=True, check=True)
    always(folder, f"the same with {SYNC_DELAY_US} microseconds more for each sync", {"LD_PRELOAD": library})


def always(folder, title, environment=None):
    rates, waits = {}, {}
    for number in range(ROUNDS):
        for kind in SERVERS:
            below = os.path.join(folder, f"{number}-{kind}")
            os.mkdir(below)
            server = Server(kind, below, "--appendonly", "yes", "--appendfsync", "always", environment=environment)
            server.client().call("SET", "other", "v")
            reader = Probe(server.port, "GET", "other")
            reader.start()
            rates.setdefault(kind, []).append(redis_benchmark(server.port, "-t", "set", "-n", 40_000, "-c", 50))
            waits.setdefault(kind, []).append(reader.end()[1])
            server.stop()
            shutil.rmtree(below)
    median = {kind: (statistics.median(rates[kind]), statistics.median(waits[kind])) for kind in SERVERS}
    rows = [(what, median["keylatch"][at], median["redis"][at], median["keylatch"][at] / median["redis"][at])
            for at, what in enumerate(("SET a second", "p99 of a reader of another key, ms"))]
    table(title, ("", "keylatch", "redis", "times"), rows)


class Load(threading.Thread):
    """Sends writes at a fixed rate."""

    def __init__(self, port):
        super().__init__()
        self.client, self.ends, self.sent = Client(port), False, 0

    def run(self):
        begun, batch = time.perf_counter(), 500
        names = [encode("SET", f"key:{(number * 7919) % KEYS}", b"x" * 32) for number in range(100_000)]
        batches = [b"".join(names[at:at + batch]) for at in range(0, len(names), batch)]
        while not self.ends:
            self.client.socket.sendall(batches[self.sent // batch % len(batches)])
            self.sent += batch
            left = 5 * batch
            while left > 0:
                left -= len(self.client.socket.recv(left))
            time.sleep(max(0, begun + self.sent / WRITES_PER_S - time.perf_counter()))


def save(client, worst):
    """Saves in the background; returns how long it took, and the most memory that it took, in MB."""
    before = most = anonymous_mb()
    begun = time.perf_counter()
    client.call("BGSAVE")
    while client.info("rdb_bgsave_in_progress") == "1":
        most = max(most, anonymous_mb())
        time.sleep(0.05)
    took = time.perf_counter() - begun
    assert client.info("rdb_last_bgsave_status") == "ok"
    return took, most - before


def snapshot_part(folder):
    rows = []
    for kind in SERVERS:
        server = Server(kind, folder, "--dbfilename", f"{kind}.rdb")
        client = server.client()
        empty = anonymous_mb()
        client.call("DEBUG", "POPULATE", KEYS, "key", 32)
        size = anonymous_mb() - empty
        load = Load(server.port)
        load.start()
        time.sleep(2)
        idle = probe(server.port, 5, "GET", "key:5")
        prober = Probe(server.port, "GET", "key:5")
        prober.start()
        took, extra = save(client, prober)
        busy = prober.end()
        load.ends = True
        load.join()
        rows.append((kind, took, size, extra, 100 * extra / size, idle[1], idle[2], busy[1], busy[2]))
        server.stop()
    table(f"BGSAVE of {KEYS} keys beside {WRITES_PER_S} writes a second", ("", "seconds", "data, MB", "most memory beside it, MB",
          "% of the data", "p99 before, ms", "worst before, ms", "p99 meanwhile, ms", "worst meanwhile, ms"), rows)


def fill_large(client, what):
    noise = os.urandom(1 << 20)
    size = LARGE_MB << 20
    if what == "string":
        for _ in range(size >> 20 if size <= 512 << 20 else 511):
            client.call("APPEND", "large", noise)
        return
    element = {"list": "'RPUSH', KEYS[1], ('%012d'):format(at) .. piece", "hash": "'HSET', KEYS[1], ('f%010d'):format(at), piece"}
    script = f"""
        for at = ARGV[2], ARGV[3] do
            local from = at * 37 % (#ARGV[1] - 100)
            local piece = ARGV[1]:sub(from + 1, from + 88)
            redis.call({element[what]})
        end"""
    count, step = size // 100, 100_000
    for begin in range(0, count, step):
        client.call("EVAL", script, 1, "large", noise, begin, min(begin + step, count) - 1)


def large_part(folder):
    rows = []
    for what in ("list", "hash", "string"):
        for kind in SERVERS:
            server = Server(kind, folder, "--dbfilename", f"{kind}.rdb", "--proto-max-bulk-len", 1 << 30)
            client = server.client()
            fill_large(client, what)
            change = {"list": ("RPUSH", "large", "x"), "hash": ("HSET", "large", "f0000000005", "x"),
                      "string": ("SETRANGE", "large", 5, "x")}[what]
            idle = probe(server.port, 3, "SET", "other", "v")
            others, own = Probe(server.port, "SET", "other", "v"), Probe(server.port, *change)
            others.start()
            own.start()
            took, extra = save(client, others)
            busy, writers = others.end(), own.end()
            rows.append((what, kind, took, extra, idle[2], busy[1], busy[2], writers[1], writers[2]))
            server.stop()
    table(f"BGSAVE of one value of {LARGE_MB} MB (a string: 511 at most), beside two clients", ("", "", "seconds",
          "most memory beside it, MB", "worst before, ms", "p99 of others, ms", "worst of others, ms", "p99 of its writer, ms",
          "worst of its writer, ms"), rows)


def load_part(folder):
    server = Server("redis", folder)
    client = server.client()
    client.call("DEBUG", "POPULATE", KEYS, "key", 32)
    client.call("SAVE")
    server.stop()
    took = {kind: [] for kind in SERVERS}
    for _ in range(ROUNDS):
        for kind in SERVERS:
            server = Server(kind, folder)
            client = Client(server.port)
            begun = time.perf_counter()
            first = client.call("PING")
            replied = (time.perf_counter() - begun) * 1e3
            while client.call("PING").startswith(b"-LOADING"):
                time.sleep(0.01)
            took[kind].append((time.perf_counter() - begun, server.cpu(), replied))
            assert first.startswith(b"-LOADING"), first
            assert client.call("DBSIZE") == b":%d" % KEYS
            server.stop()
    median = {kind: [statistics.median(values) for values in zip(*took[kind])] for kind in SERVERS}
    rows = [(what, median["keylatch"][at], median["redis"][at], median["keylatch"][at] / median["redis"][at])
            for at, what in enumerate(("seconds", "seconds of CPU", "first -LOADING after, ms"))]
    table(f"Loading {KEYS} keys from a snapshot", ("", "keylatch", "redis", "times"), rows)


PARTS = {"log": log_part, "always": always_part, "snapshot": snapshot_part, "large": large_part, "load": load_part}

for name in sys.argv[1:] or PARTS:
    in_folder(PARTS[name])
