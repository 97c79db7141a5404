"""Uses a server that is a cluster of one node as redis-py's cluster clients do, and as redis-cli does with `--cluster`.

    KEYLATCH_CLUSTER_ENABLED=yes servers.py BINARY 1 python clusters.py
"""

import asyncio
import os
import subprocess

import redis
from redis.asyncio.cluster import RedisCluster as AsyncCluster
from redis.cluster import RedisCluster
from redis.exceptions import ResponseError

HOST, PORT, _ = os.environ["KEYLATCH_SERVERS"].split(":")


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
    for command, said in ("check", "All 16384 slots covered"), ("info", "1 masters"), ("fix", "All 16384 slots covered"):
        shown = subprocess.run(["redis-cli", "--cluster", command, f"{HOST}:{PORT}"], capture_output=True, text=True, timeout=60)
        assert shown.returncode == 0 and said in shown.stdout, shown
    called = subprocess.run(["redis-cli", "-c", "-p", PORT, "SET", "from-cli", "1"], capture_output=True, text=True, timeout=60)
    assert called.stdout == "OK\n", called


def main():
    for protocol in 2, 3:
        uses(protocol)
    asyncio.run(uses_asyncio())
    redis_cli_manages()
    print(f"redis-py {redis.__version__}: RedisCluster, asyncio too, and redis-cli --cluster are well")


if __name__ == "__main__":
    main()
