"""Uses a server that is a cluster of one node as redis-py's cluster clients do, and as redis-cli does with `--cluster`; or several
with the same data, of which one is killed.

    KEYLATCH_CLUSTER_ENABLED=yes servers.py BINARY 1 python clusters.py
    KEYLATCH_CLUSTER_ENABLED=yes etcd.py 3 servers.py BINARY 3 python clusters.py
"""

import asyncio
import os
import signal
import subprocess
import time

import redis
from redis.asyncio.cluster import RedisCluster as AsyncCluster
from redis.cluster import RedisCluster
from redis.exceptions import RedisError, ResponseError

SERVERS = [server.split(":") for server in os.environ["KEYLATCH_SERVERS"].split()]
HOST, PORT, _ = SERVERS[0]
PATIENCE_S = 60


def refused(error, call):
    try:
        call()
    except error as got:
        return str(got)
    raise AssertionError("it was not refused")


def uses(protocol):
    client = RedisCluster(host=HOST, port=int(PORT), protocol=protocol, decode_responses=True)
    client.flushall()
    assert client.cluster_info()["cluster_state"] == "ok" and len(client.get_nodes()) == 1
    assert client.mset_nonatomic({f"key:{number}": number for number in range(100)})
    assert client.mget_nonatomic("key:1", "key:2") == ["1", "2"]
    assert len(client.keys("*")) == client.dbsize() == len(list(client.scan_iter(count=7))) == 100
    slot = client.cluster_keyslot("key:1")
    assert client.cluster_countkeysinslot(slot) >= 1 and "key:1" in client.cluster_get_keys_in_slot(slot, 100)
    node = client.get_default_node()
    assert "same slot" in refused(ResponseError, lambda: client.execute_command("MGET", "a", "b", target_nodes=node))
    with client.pipeline() as pipe:
        assert pipe.set("a", 1).set("b", 2).get("a").execute() == [True, True, "1"]
    with client.pipeline(transaction=True) as pipe:
        pipe.watch("{t}a")
        pipe.multi()
        assert pipe.incr("{t}a").incr("{t}b").execute() == [1, 1]
    assert client.eval("return redis.call('GET', KEYS[1])", 1, "a") == "1"
    with client.pubsub() as messages:
        messages.ssubscribe("shard")
        assert messages.get_sharded_message(timeout=10)["type"] == "ssubscribe"
        assert client.spublish("shard", "x") == 1
    with client.lock("lock:report", timeout=30, blocking=False):
        assert client.set("lock:report", "mine", nx=True) is None


async def uses_asyncio():
    async with AsyncCluster(host=HOST, port=int(PORT), decode_responses=True) as client:
        assert await client.set("a", "1") and await client.get("a") == "1"
        async with client.pipeline() as pipe:
            assert await pipe.set("b", 2).get("b").execute() == [True, "2"]


def redis_cli_manages():
    masters = f"{len(SERVERS)} masters"
    for command, said in ("check", "All 16384 slots covered"), ("info", masters), ("fix", "All 16384 slots covered"):
        shown = subprocess.run(["redis-cli", "--cluster", command, f"{HOST}:{PORT}"], capture_output=True, text=True, timeout=60)
        assert shown.returncode == 0 and said in shown.stdout, shown
    called = subprocess.run(["redis-cli", "-c", "-p", PORT, "SET", "from-cli", "1"], capture_output=True, text=True, timeout=60)
    assert called.stdout == "OK\n", called


def await_that(holds):
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            if holds():
                return
        except (RedisError, KeyError):  # while the table of slots names a server that is gone
            pass
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)


def share_keys():
    """Uses servers with the same data as the nodes of a cluster."""
    def connect():
        return RedisCluster(host=HOST, port=int(PORT), decode_responses=True)

    await_that(lambda: len(connect().get_nodes()) == len(SERVERS))
    client = connect()
    client.flushall()
    keys = [f"key:{number}" for number in range(200)]
    for key in keys:
        assert client.set(key, key) and client.get(key) == key
    asked = {client.get_node_from_key(key).port for key in keys}
    assert asked == {int(port) for _, port, _ in SERVERS}, asked
    for host, port, _ in SERVERS:
        node = redis.Redis(host=host, port=int(port), decode_responses=True)
        assert node.mget(["{key}1", "{key}2"]) == [None, None] and node.dbsize() == len(keys)
    assert set(client.scan_iter(count=50)) == set(keys)
    assert client.mget_nonatomic(keys) == keys
    redis_cli_manages()

    _, port, process = SERVERS[-1]
    of_killed = [key for key in keys if client.get_node_from_key(key).port == int(port)]
    os.kill(int(process), signal.SIGKILL)
    for key in of_killed:
        await_that(lambda key=key: client.get(key) == key)
    assert len(connect().get_nodes()) == len(SERVERS) - 1
    print(f"redis-py {redis.__version__}: RedisCluster over {len(SERVERS)} servers of an engine is well")


def main():
    if len(SERVERS) > 1:
        return share_keys()
    for protocol in 2, 3:
        uses(protocol)
    asyncio.run(uses_asyncio())
    redis_cli_manages()
    print(f"redis-py {redis.__version__}: RedisCluster, asyncio too, and redis-cli --cluster are well")


if __name__ == "__main__":
    main()
