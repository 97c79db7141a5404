"""Sentinel: what happens to a master, its replicas and its sentinels, as redis-py's clients, sync and asyncio, see it."""

import asyncio
import contextlib
import subprocess
import time
from datetime import timedelta

import pytest
import redis
from keylatch import Keylatch, ReplyError, Server
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel

DOWN_AFTER_MS = 30_000
SENTINELS = [3, 4, 5]


class Blocking:
    """The clients of redis-py for the master, and for its replicas."""

    def __init__(self, deployment):
        self._sentinel = Sentinel(deployment.sentinels, decode_responses=True)
        self.master = self._sentinel.master_for(deployment.master_name)
        self.replica = self._sentinel.slave_for(deployment.master_name)

    def port(self, name):
        """Returns the port of the master, as the first sentinel names it that knows."""
        return self._sentinel.discover_master(name)[1]

    def close(self):
        for client in (self.master, self.replica, *self._sentinel.sentinels):
            client.close()


class Asyncio:
    """Those of its asyncio, which run their loop for each call."""

    def __init__(self, deployment):
        self._loop = asyncio.Runner()
        self._sentinel = AsyncSentinel(deployment.sentinels, decode_responses=True)
        clients = self._sentinel.master_for, self._sentinel.slave_for
        self.master, self.replica = (Awaiting(self._loop, client(deployment.master_name)) for client in clients)

    def port(self, name):
        return Awaiting(self._loop, self._sentinel).discover_master(name)[1]

    def close(self):
        for client in (self.master, self.replica, Awaiting(self._loop, self._sentinel)):
            client.aclose()
        self._loop.close()


class Awaiting:
    """A client whose methods are awaited in a loop."""

    def __init__(self, loop, client):
        self._loop, self._client = loop, client

    def __getattr__(self, name):
        async def call(args, options):
            return await getattr(self._client, name)(*args, **options)

        return lambda *args, **options: self._loop.run(call(args, options))


@pytest.fixture(params=[Blocking, Asyncio])
def client(request, keylatch_sentinel):
    with contextlib.closing(request.param(keylatch_sentinel)) as client:
        yield client


def eventually(call):
    """Returns what a call returns once it does not fail: its connection may be one to the former master."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return call()
        except redis.RedisError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def roles(sentinel):
    return [(node.role, node.primary) for node in sentinel.nodes() if node.role != "sentinel"]


class TestClients:
    def test_the_master_and_its_replicas_are_found(self, keylatch_sentinel, client):
        assert client.master.set("key", "1")
        assert client.replica.get("key") == "1"
        with pytest.raises(redis.ReadOnlyError):
            client.replica.set("key", "2")
        assert client.port("mymaster") == keylatch_sentinel.master.port
        assert len(keylatch_sentinel.node(0).calls("SET")) == 1

    def test_the_new_master_is_found_after_a_failover_that_loses_nothing(self, keylatch_sentinel, client):
        client.master.set("key", "1")
        keylatch_sentinel.failover()
        assert eventually(lambda: client.master.incr("key")) == 2
        assert (keylatch_sentinel.master.number, roles(keylatch_sentinel)[0]) == (1, ("replica", 1))
        keylatch_sentinel.failover(to=keylatch_sentinel.nodes()[2])
        assert eventually(lambda: client.master.incr("key")) == 3
        assert client.port("mymaster") == keylatch_sentinel.master.port == keylatch_sentinel.nodes()[2].port

    def test_a_failover_loses_the_last_write(self, keylatch_sentinel, client):
        for value in range(5):
            client.master.set("key", value)
        keylatch_sentinel.failover(lose=1)
        assert eventually(lambda: client.master.get("key")) == "3"
        with pytest.raises(ReplyError, match="only [0-9]+ writes are remembered"):
            keylatch_sentinel.failover(lose=10**6)

    def test_a_replica_takes_the_place_of_a_stopped_master_by_the_clock(self, keylatch, keylatch_sentinel, client):
        keylatch.freeze()
        client.master.set("key", "1")
        keylatch_sentinel.stop(0)
        keylatch.advance(DOWN_AFTER_MS - 1)
        assert (keylatch_sentinel.master.number, keylatch_sentinel.master.state) == (0, "stopped")
        keylatch.advance(1)
        assert eventually(lambda: client.master.incr("key")) == 2
        assert keylatch_sentinel.master.number == 1
        keylatch_sentinel.start(0)
        assert roles(keylatch_sentinel) == [("replica", 1), ("master", None), ("replica", 1)]
        assert [node.number for node in keylatch_sentinel.replicas] == [0, 2]
        assert client.replica.get("key") == "2"

    def test_what_a_master_takes_that_is_cut_off_is_lost(self, keylatch, keylatch_sentinel, client):
        keylatch.freeze()
        client.master.set("key", "early")
        keylatch_sentinel.partition(keylatch_sentinel.master)
        assert client.master.set("key", "lost")
        keylatch.advance(DOWN_AFTER_MS)
        assert [role for role, _ in roles(keylatch_sentinel)] == ["master", "master", "replica"]
        assert keylatch_sentinel.node(keylatch_sentinel.master).command("GET", "key") == "early"
        assert client.master.set("key", "lost, too")  # its connection is one to the former master
        keylatch_sentinel.heal()
        assert eventually(lambda: client.master.get("key")) == "early"
        assert roles(keylatch_sentinel) == [("replica", 1), ("master", None), ("replica", 1)]

    def test_without_a_majority_of_sentinels_there_is_no_failover(self, keylatch, keylatch_sentinel, client):
        keylatch.freeze()
        keylatch_sentinel.partition(0, 3)
        keylatch_sentinel.stop(4)
        keylatch.advance(DOWN_AFTER_MS)
        assert keylatch_sentinel.master.number == 0
        assert keylatch_sentinel.nodes()[5].believed_dead == [0, 3, 4]
        keylatch_sentinel.start(4)
        keylatch.advance(DOWN_AFTER_MS)
        assert keylatch_sentinel.master.number == 1  # for the majority; the sentinel that is cut off names the former one
        assert client.port("mymaster") == keylatch_sentinel.nodes()[0].port

    def test_writes_on_their_way_to_the_replicas_are_lost_with_the_master(self, keylatch, keylatch_sentinel, client):
        keylatch.freeze()
        for replica in keylatch_sentinel.replicas:
            keylatch_sentinel.lag(replica, timedelta(seconds=1))
        client.master.set("key", "early")
        keylatch.advance(1000)
        client.master.set("key", "late")
        replica = keylatch_sentinel.nodes()[1]
        assert replica.lag_ms == 1000 and replica.behind > 0
        keylatch_sentinel.stop(0)
        keylatch.advance(DOWN_AFTER_MS)
        assert eventually(lambda: client.master.get("key")) == "early"

    def test_the_master_is_asked_for_at_a_sentinel_that_is_up(self, keylatch_sentinel):
        client = Sentinel(keylatch_sentinel.sentinels, sentinel_kwargs={"retry": Retry(NoBackoff(), 0)})
        for sentinel in 3, 4:
            keylatch_sentinel.stop(sentinel)
        assert client.discover_master("mymaster")[1] == keylatch_sentinel.master.port
        keylatch_sentinel.stop(5)
        with pytest.raises(MasterNotFoundError):
            client.discover_master("mymaster")
        assert keylatch_sentinel.master.number == 0  # which has not changed

    def test_a_fault_can_be_that_of_one_node(self, keylatch_sentinel, client):
        with keylatch_sentinel.node(0).fault("SET", error="OOM command not allowed"):
            with pytest.raises(redis.exceptions.OutOfMemoryError):
                client.master.set("key", "1")
        assert client.master.set("key", "1")

    def test_a_sentinel_tells_of_the_new_master(self, keylatch_sentinel):
        host, port = keylatch_sentinel.sentinels[1]
        with redis.Redis(host, port, decode_responses=True) as listener, listener.pubsub() as messages:
            messages.subscribe("+switch-master")
            assert messages.get_message(timeout=60)["type"] == "subscribe"
            old = keylatch_sentinel.master
            keylatch_sentinel.failover(to=2)
            new = keylatch_sentinel.master
            told = f"mymaster {old.host} {old.port} {new.host} {new.port}"
            assert messages.get_message(timeout=60)["data"] == told


class TestNodes:
    def test_they_are_numbered_the_master_first_and_named_in_the_same_way_each_time(self, keylatch_sentinel, keylatch_server):
        nodes = keylatch_sentinel.nodes()
        assert [node.number for node in nodes] == list(range(6))
        assert roles(keylatch_sentinel) == [("master", None), ("replica", 0), ("replica", 0)]
        assert [node.number for node in nodes if node.role == "sentinel"] == SENTINELS
        assert keylatch_sentinel.sentinels == [(node.host, node.port) for node in nodes[3:]]
        assert keylatch_sentinel.node(0).url == f"redis://{nodes[0].host}:{nodes[0].port}/0"
        with keylatch_server.instance() as other, other.sentinel() as same:
            assert [node.id for node in same.nodes()] == [node.id for node in nodes]

    @pytest.mark.keylatch_sentinel(replicas=1, sentinels=1, quorum=1, master="cache", down_after=timedelta(seconds=1))
    def test_a_marker_says_how_many_there_are(self, keylatch, keylatch_sentinel):
        assert (len(keylatch_sentinel.nodes()), len(keylatch_sentinel.sentinels)) == (3, 1)
        assert Sentinel(keylatch_sentinel.sentinels).discover_master("cache")[1] == keylatch_sentinel.master.port
        keylatch_sentinel.stop(keylatch_sentinel.master)
        keylatch.advance(1000)
        assert keylatch_sentinel.master.number == 1

    def test_a_suspended_master_does_not_answer_and_is_a_replica_when_it_continues(self, keylatch, keylatch_sentinel):
        keylatch.freeze()
        with redis.Redis.from_url(keylatch_sentinel.node(0).url, socket_timeout=0.05, retry=None) as impatient:
            keylatch_sentinel.pause(0)
            with pytest.raises(redis.TimeoutError):
                impatient.ping()
            assert keylatch_sentinel.nodes()[0].state == "paused"
            keylatch.advance(DOWN_AFTER_MS)
            keylatch_sentinel.resume(0)
            assert keylatch_sentinel.nodes()[0].primary == 1
            assert eventually(impatient.role)[0] == b"slave"

    def test_what_is_not_possible_is_an_error(self, keylatch_sentinel):
        for refused, why in (
            (lambda: keylatch_sentinel.start(0), "node 0 is up"),
            (lambda: keylatch_sentinel.failover(to=0), "node 0 is a primary"),
            (lambda: keylatch_sentinel.failover(to=3), "node 3 is a sentinel"),
            (lambda: keylatch_sentinel.lag(0, 5), "node 0 is a primary"),
            (lambda: keylatch_sentinel.stop(9), "there is no node 9"),
            (lambda: keylatch_sentinel.partition(*range(6)), "a node on each side"),
            (lambda: keylatch_sentinel.instance.sentinel(keylatch_sentinel.name), "there is a topology of this name"),
        ):
            with pytest.raises(ReplyError, match=why):
                refused()
        with pytest.raises(LookupError, match="no node 6"):
            keylatch_sentinel.node(6)


class TestLife:
    def test_it_ends_with_its_block(self, keylatch):
        with keylatch.sentinel() as one, keylatch.sentinel("mine") as other, keylatch.cluster(primaries=1):
            assert keylatch.command("TEST.TOPOLOGY", "LIST") == ["cluster-1", other.name, one.name]
            assert (one.name, other.name) == ("sentinel-1", "mine")
            nodes = [one.node(0), one.node(3)]
            assert [node.command("PING") for node in nodes] == ["PONG", "PONG"]
        assert keylatch.command("TEST.TOPOLOGY", "LIST") == []
        for node in nodes:
            with pytest.raises(ConnectionError):
                node.command("PING")
        one.close()  # again does no harm

    @pytest.mark.parametrize("user", [None, "app"])
    def test_nodes_ask_for_a_password_and_sentinels_for_another(self, keylatch, user):
        with keylatch.sentinel(user=user, password="p@ss", sentinel_password="secret") as closed:
            sentinel = Sentinel(closed.sentinels, sentinel_kwargs={"password": "secret"})
            with sentinel.master_for(closed.master_name, username=user, password="p@ss") as client:
                assert client.set("key", "1")
            assert [closed.node(node).command("ACL", "WHOAMI") for node in (1, 3)] == [user or "default", "default"]
            for node in closed.nodes():
                with pytest.raises(ReplyError, match="NOAUTH"):
                    Keylatch(node.host, node.port, user=None).command("PING")

    def test_all_speak_tls(self, tmp_path):
        key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
        make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -addext".split()
        name = ["subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", certificate]
        subprocess.run([*make, *name], check=True, capture_output=True)
        settings = {"tls_cert_file": certificate, "tls_key_file": key, "tls_auth_clients": "no"}
        options = {"ssl": True, "ssl_ca_certs": certificate}
        with Server(**settings) as server, server.instance() as keylatch, keylatch.sentinel(tls=True) as secure:
            sentinel = Sentinel(secure.sentinels, sentinel_kwargs=options)
            with sentinel.master_for(secure.master_name, **options) as client:
                assert client.set("key", "1")
                secure.failover()
                assert eventually(lambda: client.get("key")) == b"1"
            assert secure.node(3).url.startswith("rediss://") and secure.node(1).command("GET", "key") == "1"
