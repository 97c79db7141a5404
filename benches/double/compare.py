"""Compares what a test pays for a server of its own: keylatch, redis-server, fakeredis, ioredis-mock.

    compare.py [--keylatch PATH] [--instances N] [--rounds N]

Prints the table of benches/RECORD.md. Needs Linux, redis-server, the packages redis and fakeredis, and Node with
ioredis-mock installed in the current directory or above; what is missing is left out.

"First reply" is the time until the first SET of an instance has replied: from the start of the process, or, where one
process serves all, from the connection. Memory is what the resident set of the process grows by for each instance that has
ten keys; for the fakes, that of the process of the tests itself.
"""

import argparse
import json
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEYS = 10
REQUESTS = b"".join(b"SET key:%d value\r\n" % key for key in range(KEYS))

NODE = """
const Redis = require('ioredis-mock');
const rss = () => (global.gc(), process.memoryUsage().rss);
(async () => {
  const [instances, keys] = process.argv.slice(-2).map(Number);
  await new Redis({ host: 'warm' }).set('key', 'value');
  const before = rss(), times = [], kept = [];
  for (let i = 0; i < instances; i += 1) {
    const begun = process.hrtime.bigint();
    const client = new Redis({ host: `host-${i}` });   // the data of a mock is that of its host and port
    await client.set('key:0', 'value');
    times.push(Number(process.hrtime.bigint() - begun) / 1e6);
    for (let key = 1; key < keys; key += 1) await client.set(`key:${key}`, 'value');
    kept.push(client);
  }
  console.log(JSON.stringify({ times, bytes: (rss() - before) / instances }));
  process.exit(0);
})();
"""


def resident(pid):
    """Returns the resident set of a process in bytes."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) * 1024


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def first_reply(port, request):
    """Connects as soon as somebody listens, and returns the connection once the request has been answered."""
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            continue
        connection.sendall(request)
        if not connection.recv(4096).startswith(b"+OK"):
            sys.exit("an unexpected reply")
        return connection


def of_processes(command, rounds):
    """Measures a process for each instance."""
    times, sizes = [], []
    for _ in range(rounds):
        port = free_port()
        begun = time.perf_counter()
        process = subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.DEVNULL, cwd=tempfile.gettempdir())
        connection = first_reply(port, b"SET key:0 value\r\n")
        times.append((time.perf_counter() - begun) * 1e3)
        connection.sendall(REQUESTS)
        connection.recv(4096)
        sizes.append(resident(process.pid))
        process.kill()
        process.wait()
    return times, statistics.median(sizes)


def of_private_instances(keylatch, instances):
    """Measures the private instances of one process."""
    port = free_port()
    process = subprocess.Popen([keylatch, "--test-mode", "--port", str(port)], stdout=subprocess.DEVNULL)
    first_reply(port, b"SET key:0 value\r\n")
    before, times, kept = resident(process.pid), [], []
    for number in range(instances):
        begun = time.perf_counter()
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(b"AUTH ns-%d any\r\nSET key:0 value\r\n" % number)
        replies = b""
        while replies.count(b"\n") < 2:
            replies += connection.recv(4096)
        times.append((time.perf_counter() - begun) * 1e3)
        connection.sendall(REQUESTS)
        connection.recv(4096)
        kept.append(connection)
    size = (resident(process.pid) - before) / instances
    process.kill()
    process.wait()
    return times, size


def of_fakeredis(instances):
    import fakeredis

    fakeredis.FakeRedis(server=fakeredis.FakeServer()).set("key", "value")
    before, times, kept = resident(os.getpid()), [], []
    for _ in range(instances):
        begun = time.perf_counter()
        client = fakeredis.FakeRedis(server=fakeredis.FakeServer())
        client.set("key:0", "value")
        times.append((time.perf_counter() - begun) * 1e3)
        for key in range(1, KEYS):
            client.set(f"key:{key}", "value")
        kept.append(client)
    return times, (resident(os.getpid()) - before) / instances


def of_ioredis_mock(instances):
    run = subprocess.run(
        ["node", "--expose-gc", "-e", NODE, "--", str(instances), str(KEYS)], capture_output=True, check=True
    )
    figures = json.loads(run.stdout)
    return figures["times"], figures["bytes"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keylatch", default=str(ROOT / "target/dist/keylatch"))
    parser.add_argument("--instances", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    redis = ["redis-server", "--save", "", "--appendonly", "no"]
    cases = {
        "keylatch, a private instance": lambda: of_private_instances(options.keylatch, options.instances),
        "keylatch, a process": lambda: of_processes([options.keylatch, "--test-mode"], options.rounds),
        "redis-server, a process": lambda: of_processes(redis, options.rounds),
        "fakeredis, in the process": lambda: of_fakeredis(options.instances),
        "ioredis-mock, in the process": lambda: of_ioredis_mock(options.instances),
    }
    print("| an instance | first reply, ms: median; slowest | memory, KB |\n|---|---|---|")
    for name, measure in cases.items():
        try:
            times, size = measure()
        except (ImportError, FileNotFoundError, subprocess.CalledProcessError) as cause:
            print(f"{name} is left out: {cause}", file=sys.stderr)
            continue
        print(f"| {name} | {statistics.median(times):.2f}; {max(times):.1f} | {size / 1024:.0f} |", flush=True)


main()
