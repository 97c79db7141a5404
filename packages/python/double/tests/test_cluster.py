"""Clusters: what happens to their nodes, as redis-py's cluster clients, sync and asyncio, see it."""

import asyncio
import contextlib
import subprocess
import time
from datetime import timedelta

import pytest
import redis
from keylatch import Keylatch, ReplyError, Server, slot_of
from redis.asyncio.cluster import ClusterNode as AsyncNode
from redis.asyncio.cluster import RedisCluster as AsyncCluster
from redis.cluster import ClusterNode, RedisCluster

KEY = "b"  # in the slots of node 0, whose replica is node 3
NODE_TIMEOUT_MS = 15_000


class Blocking:
    """The client of redis-py."""

    def __init__(self, cluster, **options):
        nodes = [ClusterNode(**node) for node in cluster.startup_nodes]
        self._client = RedisCluster(startup_nodes=nodes, decode_responses=True, **options)

    def __getattr__(self, name):
        return getattr(self._client, name)


class Asyncio:
    """That of its asyncio, which runs its loop for each call."""

    def __init__(self, cluster, **options):
        nodes = [AsyncNode(**node) for node in cluster.startup_nodes]
        self._loop = asyncio.Runner()
        self._client = self._run(self._make(nodes, options))

    async def _make(self, nodes, options):
        return await AsyncCluster(startup_nodes=nodes, decode_responses=True, **options)

    def _run(self, awaitable):
        async def call():
            return await awaitable

        return self._loop.run(call())

    def __getattr__(self, name):
        return lambda *args, **options: self._run(getattr(self._client, name)(*args, **options))

    def close(self):
        self._run(self._client.aclose())
        self._loop.close()


@pytest.fixture(params=[Blocking, Asyncio])
def client(request, keylatch_cluster):
    with contextlib.closing(request.param(keylatch_cluster)) as client:
        yield client


def eventually(call):
    """Returns what a call returns once it does not fail: a client may ask a node that does not know yet."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return call()
        except redis.RedisError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def owners(cluster):
    return {node.number: node.slots for node in cluster.primaries}


class TestClients:
    def test_keys_of_all_slots_are_read_and_written(self, keylatch_cluster, client):
        for number in range(50):
            assert client.set(f"key:{number}", number)
        assert [client.get(f"key:{number}") for number in range(50)] == [str(number) for number in range(50)]
        sizes = [keylatch_cluster.node(node).command("DBSIZE") for node in keylatch_cluster.primaries]
        assert sum(sizes) == 50 and min(sizes) > 0

    def test_a_slot_that_has_moved_is_followed(self, keylatch_cluster, client):
        client.set(KEY, "1")
        old, new = keylatch_cluster.node(0), keylatch_cluster.node(2)
        keylatch_cluster.migrate(slot_of(KEY), 2)
        assert keylatch_cluster.primary_of(KEY).number == 2
        assert client.incr(KEY) == 2 == client.incrby(KEY, 0)
        assert (len(old.calls("INCRBY")), len(new.calls("INCRBY"))) == (1, 2)  # MOVED once, then the client knows

    def test_a_slot_that_is_half_moved_is_asked_for_at_both_nodes(self, keylatch_cluster, client):
        keys = [f"{{{KEY}}}:{number}" for number in range(4)]
        for key in keys:
            client.set(key, key)
        keylatch_cluster.migrate(slot_of(KEY), 1, keys=2)
        old, new = keylatch_cluster.node(0), keylatch_cluster.node(1)
        assert old.command("DBSIZE") == new.command("DBSIZE") == 2
        assert [client.get(key) for key in keys] == keys
        assert (len(old.calls("GET")), len(new.calls("GET")), len(new.calls("ASKING"))) == (4, 2, 2)
        assert keylatch_cluster.primary_of(KEY).number == 0
        keylatch_cluster.migrate(slot_of(KEY), 1)
        assert keylatch_cluster.primary_of(KEY).number == 1 and old.command("DBSIZE") == 0
        assert client.mget(*keys) == keys

    def test_a_failover_loses_nothing_or_what_it_is_told_to(self, keylatch_cluster, client):
        for value in range(5):
            client.set(KEY, value)
        [replica] = keylatch_cluster.replicas_of(keylatch_cluster.primary_of(KEY))
        keylatch_cluster.failover(replica)
        assert eventually(lambda: client.get(KEY)) == "4"
        assert keylatch_cluster.primary_of(KEY).number == replica.number == 3
        client.set(KEY, "5")
        keylatch_cluster.failover(0, lose=1)
        assert eventually(lambda: client.get(KEY)) == "4"
        with pytest.raises(ReplyError, match="only [0-9]+ writes are remembered"):
            keylatch_cluster.failover(3, lose=10**6)

    def test_the_replica_of_a_stopped_node_takes_its_place_by_the_clock(self, keylatch, keylatch_cluster, client):
        keylatch.freeze()
        client.set(KEY, "1")
        keylatch_cluster.stop(0)
        assert (keylatch_cluster.primary_of(KEY).number, keylatch_cluster.primary_of(KEY).state) == (0, "stopped")
        keylatch.advance(NODE_TIMEOUT_MS - 1)
        assert [node.number for node in keylatch_cluster.primaries] == [1, 2]
        keylatch.advance(1)
        assert eventually(lambda: client.incr(KEY)) == 2
        assert keylatch_cluster.primary_of(KEY).number == 3 and keylatch_cluster.nodes()[1].believed_dead == [0]
        keylatch_cluster.start(0)
        node = keylatch_cluster.nodes()[0]
        assert (node.state, node.role, node.primary, node.slots) == ("up", "replica", 3, [])
        assert [node.number for node in keylatch_cluster.replicas_of(3)] == [0]
        keylatch_cluster.failover(0)
        assert eventually(lambda: client.get(KEY)) == "2"

    def test_what_a_minority_takes_is_lost_when_the_partition_ends(self, keylatch, keylatch_cluster, client):
        keylatch.freeze()
        client.set(KEY, "early")
        keylatch_cluster.partition(keylatch_cluster.primary_of(KEY))
        assert client.set(KEY, "lost")
        keylatch.advance(NODE_TIMEOUT_MS)
        node = keylatch_cluster.primary_of(KEY)
        assert (node.number, keylatch_cluster.nodes()[0].state) == (3, "failed")
        assert keylatch_cluster.node(node).command("GET", KEY) == "early"
        keylatch_cluster.heal()
        assert eventually(lambda: client.get(KEY)) == "early"
        assert [node.number for node in keylatch_cluster.replicas_of(3)] == [0]

    def test_writes_on_their_way_to_a_replica_are_lost_with_the_primary(self, keylatch, keylatch_cluster, client):
        keylatch.freeze()
        keylatch_cluster.lag(3, timedelta(seconds=1))
        client.set(KEY, "early")
        keylatch.advance(1000)
        client.set(KEY, "late")
        replica = keylatch_cluster.nodes()[3]
        assert replica.lag_ms == 1000 and replica.behind > 0
        keylatch_cluster.stop(0)
        keylatch.advance(NODE_TIMEOUT_MS)
        assert eventually(lambda: client.get(KEY)) == "early"

    def test_a_fault_can_be_that_of_one_node(self, keylatch_cluster, client):
        with keylatch_cluster.node(0).fault("SET", error="OOM command not allowed"):
            with pytest.raises(redis.exceptions.OutOfMemoryError):
                client.set(KEY, "1")
            assert client.set("c", "1")  # of node 1
        assert client.set(KEY, "1")


class TestNodes:
    def test_they_are_numbered_primaries_first_and_named_in_the_same_way_each_time(self, keylatch_cluster, keylatch_server):
        nodes = keylatch_cluster.nodes()
        assert [node.number for node in nodes] == list(range(6))
        assert [(node.role, node.primary) for node in nodes] == [("primary", None)] * 3 + [("replica", i) for i in range(3)]
        assert owners(keylatch_cluster) == {0: [(0, 5460)], 1: [(5461, 10922)], 2: [(10923, 16383)]}
        assert keylatch_cluster.startup_nodes == [{"host": node.host, "port": node.port} for node in nodes]
        assert keylatch_cluster.url == f"redis://{nodes[0].host}:{nodes[0].port}/0" == keylatch_cluster.node(0).url
        with keylatch_server.instance() as other, other.cluster() as same:
            assert [node.id for node in same.nodes()] == [node.id for node in nodes]

    @pytest.mark.keylatch_cluster(primaries=2, replicas=0, node_timeout=timedelta(seconds=1))
    def test_a_node_without_a_replica_takes_the_cluster_down(self, keylatch, keylatch_cluster):
        keylatch_cluster.stop(0)
        keylatch.advance(1000)
        with pytest.raises(ReplyError, match="^CLUSTERDOWN"):
            keylatch_cluster.node(1).command("GET", "a")
        keylatch_cluster.start(0)
        assert keylatch_cluster.node(1).command("GET", "a") is None

    @pytest.mark.keylatch_cluster(primaries=1, replicas=0)
    def test_a_suspended_node_does_not_answer_until_it_continues(self, keylatch_cluster):
        with redis.Redis.from_url(keylatch_cluster.url, socket_timeout=0.05, retry=None) as impatient:
            keylatch_cluster.pause(0)
            with pytest.raises(redis.TimeoutError):
                impatient.ping()
            assert keylatch_cluster.nodes()[0].state == "paused"
            keylatch_cluster.resume(0)
            assert eventually(impatient.ping)

    @pytest.mark.keylatch_cluster(primaries=1, replicas=0)
    def test_they_come_and_go(self, keylatch_cluster):
        replica, primary = keylatch_cluster.add(replica_of=0), keylatch_cluster.add()
        assert (replica.number, replica.primary, primary.role, primary.slots) == (1, 0, "primary", [])
        keylatch_cluster.migrate((0, 99), primary)
        assert owners(keylatch_cluster) == {0: [(100, 16383)], 2: [(0, 99)]}
        with pytest.raises(ReplyError, match="node 2 has slots"):
            keylatch_cluster.remove(primary)
        keylatch_cluster.remove(replica)
        assert [node.number for node in keylatch_cluster.nodes()] == [0, 2]
        with pytest.raises(LookupError, match="no node 1"):
            keylatch_cluster.node(1)

    def test_what_is_not_possible_is_an_error(self, keylatch_cluster):
        for refused, why in (
            (lambda: keylatch_cluster.start(0), "node 0 is up"),
            (lambda: keylatch_cluster.failover(0), "node 0 is a primary"),
            (lambda: keylatch_cluster.lag(1, 5), "node 1 is a primary"),
            (lambda: keylatch_cluster.stop(9), "there is no node 9"),
            (lambda: keylatch_cluster.partition(*range(6)), "a node on each side"),
            (lambda: keylatch_cluster.instance.cluster(keylatch_cluster.name), "there is a topology of this name"),
        ):
            with pytest.raises(ReplyError, match=why):
                refused()

    @pytest.mark.keylatch_cluster(primaries=2, replicas=0)
    def test_a_slot_may_have_no_node(self, keylatch_cluster):
        keylatch_cluster.node(0).command("CLUSTER", "DELSLOTS", slot_of(KEY))
        with pytest.raises(LookupError, match="no node has slot 3300"):
            keylatch_cluster.primary_of(KEY)

    def test_the_slot_of_a_key_is_that_of_its_hash_tag(self):
        assert [slot_of(key) for key in ("b", b"b", "123456789", "")] == [3300, 3300, 12739, 0]
        assert slot_of("{b}:1") == slot_of("x{b}{c}") == 3300
        assert slot_of("{}b") == 6680 and slot_of("{b") != 3300


class TestLife:
    def test_a_cluster_ends_with_its_block(self, keylatch):
        with keylatch.cluster(primaries=1, replicas=0) as one, keylatch.cluster("mine", primaries=1) as other:
            assert keylatch.command("TEST.TOPOLOGY", "LIST") == [one.name, other.name] == ["cluster-1", "mine"]
            node = one.node(0)
            assert node.command("PING") == "PONG"
        assert keylatch.command("TEST.TOPOLOGY", "LIST") == []
        with pytest.raises(ConnectionError):
            node.command("PING")
        one.close()  # again does no harm

    @pytest.mark.parametrize("user", [None, "app"])
    def test_nodes_ask_for_a_password(self, keylatch, user):
        with keylatch.cluster(primaries=1, user=user, password="p@ss") as cluster:
            with RedisCluster.from_url(cluster.url) as client:
                assert client.set(KEY, "1")
            assert cluster.node(1).command("ACL", "WHOAMI") == (user or "default")
            with pytest.raises(ReplyError, match="NOAUTH"):
                Keylatch(**cluster.startup_nodes[0], user=None).command("PING")

    def test_nodes_speak_tls(self, tmp_path):
        key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
        make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -addext".split()
        name = ["subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", certificate]
        subprocess.run([*make, *name], check=True, capture_output=True)
        settings = {"tls_cert_file": certificate, "tls_key_file": key, "tls_auth_clients": "no"}
        with Server(**settings) as server, server.instance() as keylatch, keylatch.cluster(tls=True) as cluster:
            with RedisCluster.from_url(cluster.url, ssl_ca_certs=certificate) as client:
                assert client.set(KEY, "1")
                cluster.failover(3)
                assert eventually(lambda: client.get(KEY)) == b"1"
            assert cluster.url.startswith("rediss://") and cluster.node(3).command("GET", KEY) == "1"
