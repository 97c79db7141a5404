#!/usr/bin/env python3
"""Compares what scripts cost keylatch and redis-server: CPU time of the server per script, by redis-benchmark.

    benches/scripts/compare.py [SCRIPT...]    all of those below by default

Needs redis-server, redis-benchmark, a build in target/dist (or KEYLATCH=path), and an idle machine. Servers take
turns; figures are medians of ROUNDS=5. Prints a table: microseconds per script, and the ratio.
"""

import os
import socket
import statistics
import subprocess
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SERVERS = {
    "redis": ["redis-server", "--appendonly", "no"],
    "keylatch": [os.environ.get("KEYLATCH", os.path.join(ROOT, "target", "dist", "keylatch"))],
}
ROUNDS = int(os.environ.get("ROUNDS", 5))
KEYS = 10_000

RELEASE = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"
EXTEND = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end"
LIMIT = (
    "local now, window = tonumber(ARGV[1]), tonumber(ARGV[2]) "
    "redis.call('zremrangebyscore',KEYS[1],0,now-window) "
    "if redis.call('zcard',KEYS[1])<tonumber(ARGV[3]) then redis.call('zadd',KEYS[1],now,ARGV[4]) "
    "redis.call('pexpire',KEYS[1],window) return redis.call('zcount',KEYS[1],'-inf','+inf') end return -1"
)
LOOP = "for i=1,%d do redis.call('incr',KEYS[1]) end return 1"
LIBRARY = "#!lua name=bench\n" + "".join(
    "redis.register_function('%s',function(KEYS,ARGV) %s end)\n" % named
    for named in (("release", RELEASE), ("extend", EXTEND), ("limit", LIMIT))
)

LOCK, HELD, WINDOW = "1 lock:__rand_int__ token", "1 held:__rand_int__ token 100000000", "1 limit:__rand_int__ 1000 500 5 m"
# Name, text or function, arguments, depths, scripts at depth 1 (four times as many at others).
SCRIPTS = [
    ("release, not held", RELEASE, LOCK, (1, 16, 64), 40_000),
    ("extend", EXTEND, HELD, (1, 16, 64), 40_000),
    ("rate limit", LIMIT, WINDOW, (1, 16, 64), 40_000),
    ("FCALL release, not held", "release", LOCK, (1, 16, 64), 40_000),
    ("FCALL extend", "extend", HELD, (1, 16, 64), 40_000),
    ("FCALL rate limit", "limit", WINDOW, (1, 16, 64), 40_000),
    ("100 x INCR", LOOP % 100, "1 counter", (1, 16), 4_000),
    ("1000 x INCR", LOOP % 1000, "1 counter", (1, 16), 400),
]


def cpu_us(pid):
    """The processor time of a process, from the scheduler's count for each of its threads."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/schedstat") as stat:
                total += int(stat.read().split()[0])
        except OSError:
            pass  # the thread has ended
    return total / 1000


def call(port, *words):
    words = [word.encode() for word in words]
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        return client.makefile("rb").read1().split(b"\r\n")[-2].decode()


def start(name):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [*SERVERS[name], "--port", str(port), "--save", ""]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 10
    while True:
        try:
            call(port, "PING")
            break
        except OSError:
            if time.monotonic() > deadline:
                sys.exit(f"{name} does not start")
            time.sleep(0.01)
    call(port, "FUNCTION", "LOAD", LIBRARY)
    fill = "for i=0,%d do redis.call('set',string.format('held:%%012d',i),'token') end return 1" % (KEYS - 1)
    call(port, "EVAL", fill, "0")
    return port, process


def measure(port, pid, words, scripts, depth):
    begun = cpu_us(pid)
    options = ["-p", str(port), "-n", str(scripts), "-P", str(depth), "-c", "50", "-r", str(KEYS), "-q"]
    subprocess.run(["redis-benchmark", *options, *words], check=True, capture_output=True)
    return (cpu_us(pid) - begun) / scripts


def main():
    servers = {name: start(name) for name in SERVERS}
    try:
        print("| script | P | redis us | keylatch us | ratio |")
        print("|---|---|---|---|---|")
        for name, subject, args, depths, count in SCRIPTS:
            if len(sys.argv) > 1 and name not in sys.argv[1:]:
                continue
            if " " in subject:
                digests = {call(port, "SCRIPT", "LOAD", subject) for port, _ in servers.values()}
                words = ["EVALSHA", digests.pop(), *args.split()]
            else:
                words = ["FCALL", subject, *args.split()]
            for depth in depths:
                figures = {server: [] for server in servers}
                for _ in range(ROUNDS):
                    for server, (port, process) in servers.items():
                        scripts = count if depth == 1 else count * 4
                        figures[server].append(measure(port, process.pid, words, scripts, depth))
                redis, own = (statistics.median(figures[server]) for server in ("redis", "keylatch"))
                print(f"| {name} | {depth} | {redis:.2f} | {own:.2f} | {own / redis:.2f} |", flush=True)
    finally:
        for _, process in servers.values():
            process.terminate()


main()
