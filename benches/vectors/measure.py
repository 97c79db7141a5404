#!/usr/bin/env python3
"""Measures a large vector set: memory, the time of VSIM, and what another client waits for meanwhile.

    benches/vectors/measure.py [ELEMENTS [DIMENSIONS]]     1000000 and 768 by default

Needs a build in target/release (or KEYLATCH=path of a server, or of a redis-server 8 with vector sets), and memory for the
set. Vectors are random and quantised to 8 bits. The probe is a process of its own that sends GET at an even rate, a
thousand a second, and counts from when each was due. Prints a row of the table in BENCHMARKS.md.
"""

import array
import os
import random
import socket
import statistics
import subprocess
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SERVER = os.environ.get("KEYLATCH", os.path.join(ROOT, "target", "release", "keylatch"))
SEARCHES = 20
PAUSE_S = 0.1
RATE = 1000
SCALE = [(byte - 127.5) / 127.5 for byte in range(256)]


def connect(port):
    stream = socket.create_connection(("127.0.0.1", port))
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


def encode(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def vector(dice, dimensions):
    return array.array("f", map(SCALE.__getitem__, dice.randbytes(dimensions))).tobytes()


def call(replies, stream, *words):
    """Sends a command and returns its reply: text, or the items of an array."""
    stream.sendall(encode(*words))
    return read(replies)


def read(replies):
    line = replies.readline().rstrip()
    if line[:1] == b"-":
        raise RuntimeError(line.decode())
    if line[:1] == b"$":
        return replies.read(int(line[1:]) + 2)[:-2]
    if line[:1] == b"*":
        return [read(replies) for _ in range(int(line[1:]))]
    return line[1:]


def probe(port):
    """Sends GET at an even rate until the input ends, then prints the worst wait and that of one in a hundred."""
    stream, waits = connect(port), []
    os.set_blocking(0, False)
    due = time.perf_counter()
    print("ready", flush=True)
    while os_read_is_pending():
        due += 1 / RATE
        while (left := due - time.perf_counter()) > 0:
            time.sleep(left)
        stream.sendall(b"GET nosuchkey\r\n")
        stream.recv(16)
        waits.append((time.perf_counter() - due) * 1e3)
    waits.sort()
    print(waits[-1], waits[int(len(waits) * 0.99)])


def os_read_is_pending():
    try:
        return os.read(0, 1) != b""
    except BlockingIOError:
        return True


def beside(port, work):
    """Returns the worst wait of the probe and its 99th percentile during some work, in milliseconds."""
    command = [sys.executable, os.path.abspath(__file__), "--probe", str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        work()
        process.stdin.close()
        return [float(word) for word in process.stdout.read().split()]


def measure(port, elements, dimensions):
    stream, dice = connect(port), random.Random(1)
    replies = stream.makefile("rb")

    def used_memory():
        info = call(replies, stream, "INFO", "memory").decode()
        return int(info.split("used_memory:")[1].split()[0])

    def search(count=SEARCHES):
        for _ in range(count):
            query = vector(dice, dimensions)
            started = time.perf_counter()
            assert len(call(replies, stream, "VSIM", "set", "FP32", query, "COUNT", 10)) == 10
            times.append((time.perf_counter() - started) * 1e3)
            time.sleep(PAUSE_S)

    empty, started, pending = used_memory(), time.perf_counter(), 0
    for number in range(elements):
        stream.sendall(encode("VADD", "set", "FP32", vector(dice, dimensions), f"element:{number:07}"))
        pending += 1
        if pending == 64 or number + 1 == elements:
            assert all(read(replies) == b"1" for _ in range(pending))
            pending = 0
    loaded, times = time.perf_counter() - started, []
    bytes_each = (used_memory() - empty) / elements
    alone = beside(port, lambda: time.sleep(5))
    during = beside(port, search)
    print(
        f"| {elements:,} | {(used_memory() - empty) / 1e6:,.0f} | {bytes_each:,.0f} | {statistics.median(times):.1f} | "
        f"{max(times):.1f} | {during[0]:.1f} | {during[1]:.1f} | {alone[0]:.1f} | {loaded:.0f} |"
    )


def main():
    if sys.argv[1:2] == ["--probe"]:
        return probe(int(sys.argv[2]))
    elements, dimensions = [int(word) for word in sys.argv[1:]] + [1_000_000, 768][len(sys.argv) - 1 :]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([SERVER, "--port", str(port), "--save", ""], stdout=subprocess.DEVNULL)
    try:
        while True:
            try:
                connect(port).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        print("| elements | MB | bytes each | VSIM ms | worst VSIM | GET beside it, worst | its p99 | alone, worst | loaded in s |")
        print("|---|---|---|---|---|---|---|---|---|")
        measure(port, elements, dimensions)
    finally:
        server.kill()


if __name__ == "__main__":
    main()
