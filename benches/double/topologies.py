#!/usr/bin/env python3
"""Measures TEST.CLUSTER: python3 benches/double/topologies.py target/release/keylatch   (needs redis-py)

Prints the time to make clusters, the time from a failover to the next reply that redis-py gets, the memory of a hundred
clusters in one process, and the number of outcomes of a thousand repetitions of one scenario.
"""

import json
import statistics
import subprocess
import sys
import time

import redis
from redis.cluster import ClusterNode, RedisCluster


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def create(control, name, *options):
    nodes = control.execute_command("TEST.CLUSTER", "CREATE", name, *options)
    return [{text(field): value for field, value in node.items()} for node in nodes]


def show(what, times):
    times = sorted(times)
    print(f"{what}: median {statistics.median(times) * 1000:.1f} ms, maximum {times[-1] * 1000:.1f} ms ({len(times)} times)")


def main(binary):
    process = subprocess.Popen(
        [binary, "--test-mode", "yes", "--port", "0", "--save", "", "--exit-on-stdin-close"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )
    try:
        port = json.loads(process.stdout.readline())["port"]
        control = redis.Redis(port=port, protocol=3)
        made = []
        for number in range(100):
            begun = time.perf_counter()
            create(control, "c")
            made.append(time.perf_counter() - begun)
            control.execute_command("TEST.TOPOLOGY", "DROP", "c")
        show("a cluster of 3 + 3", made)

        seen = []
        for number in range(100):
            nodes = create(control, "c")
            startup = [ClusterNode(text(node["host"]), node["port"]) for node in nodes]
            client = RedisCluster(startup_nodes=startup)
            client.set("b", number)
            begun = time.perf_counter()
            control.execute_command("TEST.CLUSTER", "FAILOVER", "c", 3)
            client.set("b", "after")
            seen.append(time.perf_counter() - begun)
            client.close()
            control.execute_command("TEST.TOPOLOGY", "DROP", "c")
        show("FAILOVER, and the next write of redis-py", seen)

        outcomes = set()
        begun = time.perf_counter()
        for number in range(1000):
            nodes = create(control, "c", "NODE-TIMEOUT", 1000)
            control.execute_command("TEST.TIME", "FREEZE")
            control.execute_command("TEST.CLUSTER", "LAG", "c", 3, 10)
            redis.Redis(port=nodes[0]["port"]).set("b", 1)
            for command in (("STOP", "c", 0), ("ADVANCE", 1000), ("START", "c", 0), ("PARTITION", "c", 1), ("ADVANCE", 1000), ("HEAL", "c")):
                control.execute_command("TEST.TIME" if command[0] == "ADVANCE" else "TEST.CLUSTER", *command)
            report = control.execute_command("TEST.CLUSTER", "NODES", "c")
            ports = {node["port"] for node in nodes}
            outcomes.add(json.dumps([["port" if value in ports else text(value) if isinstance(value, bytes) else repr(value) for value in node] for node in report]))
            control.execute_command("TEST.TOPOLOGY", "DROP", "c")
        took = time.perf_counter() - begun
        print(f"a scenario of 3 + 3 with a failover and a partition: {len(outcomes)} outcome of 1000 repetitions, {took:.1f} ms each")

        before = int(control.info("memory")["used_memory_rss"])
        begun = time.perf_counter()
        for number in range(100):
            create(control, f"c{number}")
        took = time.perf_counter() - begun
        after = int(control.info("memory")["used_memory_rss"])
        print(f"100 clusters of 3 + 3 in one process: made in {took * 1000:.0f} ms, {(after - before) / 100 / 1e6:.1f} MB each")
    finally:
        process.stdin.close()
        process.wait()


main(sys.argv[1])
