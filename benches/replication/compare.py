#!/usr/bin/env python3
"""Compares keylatch with redis-server as primary and as replica: CPU for each write, lag, full synchronisation, memory.

    benches/replication/compare.py [PART...]    stream, lag, sync, behind, replicas; all of them by default

Needs redis-server, redis-benchmark, a build in target/dist (or KEYLATCH=path), and an idle machine with 8 GB of
memory. KEYS=10000000 says how many keys a full synchronisation has. Primary and replica are of one kind, and the kinds
take turns; figures are medians of ROUNDS=3 unless they are worst cases.
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
ROUNDS = int(os.environ.get("ROUNDS", 3))
SERVERS = {"redis": "redis-server", "keylatch": KEYLATCH}
TICKS = os.sysconf("SC_CLK_TCK")
WRITES = 3_000_000
WRITES_PER_S = 50_000
REPLICAS = 20
MISSED = 200_000


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
                time.sleep(0.001)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def read(self):
        line = self.file.readline()
        if line[:1] == b"$":
            length = int(line[1:])
            return self.file.read(length + 2)[:-2] if length >= 0 else None
        return line.rstrip()

    def call(self, *words):
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(str(word)), str(word).encode()) for word in words))
        return self.read()

    def info(self, field):
        found = [line for line in self.call("INFO").split(b"\r\n") if line.startswith(field.encode() + b":")]
        return found[0].split(b":", 1)[1].decode() if found else None


class Server:
    def __init__(self, kind, *options):
        self.folder = tempfile.mkdtemp()
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        words = [SERVERS[kind], "--port", self.port, "--dir", self.folder, "--save", "", "--enable-debug-command", "yes"]
        words += ["--repl-diskless-sync-delay", "0", *options]
        self.process = subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = Client(self.port)
        while self.client.call("PING") != b"+PONG":
            time.sleep(0.01)

    def cpu(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self, field="VmRSS"):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith(field + ":"))

    def follow(self, primary):
        assert self.client.call("REPLICAOF", "127.0.0.1", primary.port).startswith(b"+OK")

    def wait_for(self, primary):
        while self.client.info("master_link_status") != "up":
            time.sleep(0.01)
        while self.client.info("slave_repl_offset") != primary.client.info("master_repl_offset"):
            time.sleep(0.005)

    def stop(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder)


def pair(kind):
    primary, replica = Server(kind), Server(kind)
    replica.follow(primary)
    replica.wait_for(primary)
    return primary, replica


def load(port, writes, *options):
    command = ["redis-benchmark", "-p", str(port), "-t", "set", "-n", str(writes), "-r", "100000", "-q", *options]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def stream():
    """CPU of primary and replica for each SET, with 64 in flight."""
    found = {kind: [] for kind in SERVERS}
    for _ in range(ROUNDS):
        for kind in SERVERS:
            primary, replica = pair(kind)
            load(primary.port, 200_000, "-P", "64")
            replica.wait_for(primary)
            before = primary.cpu(), replica.cpu()
            load(primary.port, WRITES, "-P", "64")
            replica.wait_for(primary)
            found[kind].append([(now - then) / WRITES * 1e6 for now, then in zip((primary.cpu(), replica.cpu()), before)])
            primary.stop()
            replica.stop()
    medians = {kind: [statistics.median(column) for column in zip(*rows)] for kind, rows in found.items()}
    print(f"\nCPU of SET, P=64, in us ({WRITES} writes)\n{'':10} {'primary':>8} {'replica':>8}")
    for kind, row in medians.items():
        print(f"{kind:10} {row[0]:8.3f} {row[1]:8.3f}")
    ratios = [ours / theirs for ours, theirs in zip(medians["keylatch"], medians["redis"])]
    print(f"{'ratio':10} {ratios[0]:8.2f} {ratios[1]:8.2f}")


def lag():
    """How long a write takes until it is at the replica, while others write."""
    print(f"\nLag of a replica beside {WRITES_PER_S} writes a second, in ms\n{'':10} {'p50':>8} {'p99':>8} {'worst':>8}")
    for kind in SERVERS:
        primary, replica = pair(kind)
        is_over = threading.Event()

        def write():
            client, sent, begun = Client(primary.port), 0, time.monotonic()
            while not is_over.is_set():
                due = int((time.monotonic() - begun) * WRITES_PER_S) - sent
                if due > 0:
                    client.socket.sendall(b"*3\r\n$3\r\nSET\r\n$5\r\nother\r\n$5\r\nvalue\r\n" * due)
                    client.file.read(5 * due)
                    sent += due
                time.sleep(0.001)

        writer = threading.Thread(target=write)
        writer.start()
        seen, here, there = [], Client(primary.port), Client(replica.port)
        for number in range(3000):
            begun = time.monotonic()
            here.call("SET", "marker", number)
            while there.call("GET", "marker") != str(number).encode():
                pass
            seen.append((time.monotonic() - begun) * 1000)
            time.sleep(0.001)
        is_over.set()
        writer.join()
        seen.sort()
        print(f"{kind:10} {seen[1500]:8.2f} {seen[2970]:8.2f} {seen[-1]:8.2f}")
        primary.stop()
        replica.stop()


def sync():
    """A full synchronisation: its time, the peak of the primary's memory, and what another client waits for."""
    print(f"\nFull synchronisation of {KEYS} keys\n{'':10} {'s':>7} {'MB before':>10} {'MB peak':>8} {'p99 ms':>7} {'worst ms':>9}")
    for kind in SERVERS:
        primary, replica = Server(kind), Server(kind)
        primary.client.call("DEBUG", "POPULATE", KEYS, "key", 32)
        before, seen, is_over = primary.memory(), [], threading.Event()

        def ping():
            client = Client(primary.port)
            while not is_over.is_set():
                begun = time.monotonic()
                client.call("GET", "key:1")
                seen.append((time.monotonic() - begun) * 1000)
                time.sleep(0.001)

        peak = [before]

        def watch():
            while not is_over.is_set():
                # What a forked child has copied counts, too.
                children = subprocess.run(["pgrep", "-P", str(primary.process.pid)], capture_output=True, text=True).stdout.split()
                own = primary.memory()
                for child in children:
                    try:
                        with open(f"/proc/{child}/smaps_rollup") as rollup:
                            own += next(int(line.split()[1]) / 1024 for line in rollup if line.startswith("Private_Dirty:"))
                    except (OSError, StopIteration):
                        pass
                peak[0] = max(peak[0], own)
                time.sleep(0.05)

        threads = [threading.Thread(target=ping), threading.Thread(target=watch)]
        [thread.start() for thread in threads]
        begun = time.monotonic()
        replica.follow(primary)
        replica.wait_for(primary)
        took = time.monotonic() - begun
        is_over.set()
        [thread.join() for thread in threads]
        seen.sort()
        print(f"{kind:10} {took:7.1f} {before:10.0f} {peak[0]:8.0f} {seen[int(len(seen) * 0.99)]:7.2f} {seen[-1]:9.2f}")
        primary.stop()
        replica.stop()


def behind():
    """How long a replica takes that lacks more than the backlog has, where the primary has an append-only file."""
    print(f"\nA replica of {KEYS} keys that lacks {MISSED} writes of 100 bytes\n{'':10} {'s':>7} {'synchronisation':>16}")
    for kind in SERVERS:
        primary, replica = Server(kind, "--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"), Server(kind)
        primary.client.call("DEBUG", "POPULATE", KEYS, "key", 32)
        replica.follow(primary)
        replica.wait_for(primary)
        replica.client.call("REPLICAOF", "127.0.0.1", 1)
        before = int(primary.client.info("sync_full"))
        load(primary.port, MISSED, "-P", "64", "-d", "100")
        time.sleep(2)  # the log keeps what is not in the file, for a second at most
        begun = time.monotonic()
        replica.follow(primary)
        replica.wait_for(primary)
        took = time.monotonic() - begun
        how = "partial" if int(primary.client.info("sync_full")) == before else "full"
        print(f"{kind:10} {took:7.2f} {how:>16}")
        primary.stop()
        replica.stop()


def replicas():
    """Memory of a primary with many replicas, of which none reads for a while."""
    print(f"\nMemory of a primary with {REPLICAS} replicas that read nothing for a while, in MB")
    for kind in SERVERS:
        primary = Server(kind, "--client-output-buffer-limit", "replica 0 0 0")
        others = [Server(kind) for _ in range(REPLICAS)]
        [other.follow(primary) for other in others]
        [other.wait_for(primary) for other in others]
        idle = primary.memory()
        [os.kill(other.process.pid, 19) for other in others]
        load(primary.port, 400_000, "-P", "64", "-d", "300")
        full = primary.memory()
        [os.kill(other.process.pid, 18) for other in others]
        print(f"{kind:10} {idle:6.0f} with {REPLICAS} replicas, {full:6.0f} with 400,000 writes of 300 bytes that none has read")
        [other.stop() for other in others]
        primary.stop()


PARTS = {"stream": stream, "lag": lag, "sync": sync, "behind": behind, "replicas": replicas}
for part in sys.argv[1:] or PARTS:
    PARTS[part]()
