"""What tests steer: the clock, faults, the journal, snapshots, failover."""

import threading
from datetime import datetime, timedelta, timezone

import pytest
import redis
from conftest import needs
from keylatch import ReplyError

HOUR_MS = 3_600_000


@pytest.fixture
def client(keylatch_url):
    with redis.Redis.from_url(keylatch_url, decode_responses=True) as client:
        yield client


class TestClock:
    def test_keys_expire_when_time_is_advanced(self, keylatch, client):
        client.set("session", "token", ex=3600)
        keylatch.advance(timedelta(minutes=59))
        assert client.get("session") == "token"
        keylatch.advance(HOUR_MS)
        assert client.get("session") is None

    def test_a_frozen_clock_stands_still_and_goes_on_from_there(self, keylatch, client):
        frozen = keylatch.freeze()
        assert (keylatch.now(), keylatch.advance(5)) == (frozen, frozen + 5)
        assert client.time() == ((frozen + 5) // 1000, (frozen + 5) % 1000 * 1000)
        assert frozen + 5 <= keylatch.run() < frozen + HOUR_MS

    def test_time_is_set_to_an_instant(self, keylatch, client):
        keylatch.freeze()
        instant = datetime(2040, 2, 29, tzinfo=timezone.utc)
        assert keylatch.set_time(instant) == instant.timestamp() * 1000
        assert client.time() == (instant.timestamp(), 0)
        assert keylatch.set_time(1_000) == 1_000

    def test_a_blocked_call_times_out_when_time_is_advanced(self, keylatch, keylatch_url, client):
        keylatch.freeze()
        popped = []
        blocked = threading.Thread(target=lambda: popped.append(redis.Redis.from_url(keylatch_url).blpop("queue", 60)))
        blocked.start()
        while client.info("clients")["blocked_clients"] == 0:
            pass
        keylatch.advance(timedelta(minutes=1))
        blocked.join(60)
        assert popped == [None]


@needs("TEST.FAULT")
class TestFaults:
    def test_an_error_is_replied_as_often_as_asked(self, keylatch, client):
        with keylatch.fault("GET", error="ERR not yet", count=2) as fault:
            for _ in range(2):
                with pytest.raises(redis.ResponseError, match="not yet"):
                    client.get("key")
            assert client.get("key") is None
            assert fault.fired == 2
        assert not fault.remove()

    def test_a_dropped_command_is_not_executed_and_one_without_reply_is(self, keylatch, client):
        for kind, value in (({"drop": True}, None), ({"lose_reply": True}, "new"), ({"partial": 1}, "new")):
            with keylatch.fault("SET", **kind, count=1):
                with redis.Redis.from_url(keylatch.url, retry=None) as fragile, pytest.raises(redis.ConnectionError):
                    fragile.set("key", "new")
            assert client.getdel("key") == value, kind

    def test_a_slow_reply_runs_into_a_timeout(self, keylatch):
        with keylatch.fault("PING", delay_ms=60_000):
            impatient = redis.Redis.from_url(keylatch.url, socket_timeout=0.05, retry=None)
            with pytest.raises(redis.TimeoutError):
                impatient.ping()

    def test_a_fault_can_be_meant_for_some_keys_and_some_clients(self, keylatch, client):
        keylatch.fault("GET", error="ERR chosen", key="user:*")
        keylatch.fault("INCRBY", error="ERR chosen", client="worker")  # what `incr` sends
        assert client.get("group:1") is None and client.incr("n") == 1
        with pytest.raises(redis.ResponseError, match="chosen"):
            client.get("user:1")
        worker = redis.Redis.from_url(keylatch.url, client_name="worker")
        with pytest.raises(redis.ResponseError, match="chosen"):
            worker.incr("n")
        keylatch.clear_faults()
        assert worker.incr("n") == 2

    def test_chance_repeats_itself_by_its_seed(self, keylatch, client):
        def hits():
            with keylatch.fault("ECHO", error="ERR unlucky", prob=0.5, seed=7, after=2):
                return [isinstance(reply, Exception) for reply in echoes()]

        def echoes():
            pipe = client.pipeline(transaction=False)
            for number in range(40):
                pipe.echo(number)
            return pipe.execute(raise_on_error=False)

        first = hits()
        assert first == hits() and not any(first[:2]) and 5 < sum(first) < 35

    def test_exactly_one_kind_of_fault_is_given(self, keylatch):
        for kinds in ({}, {"drop": True, "error": "ERR"}):
            with pytest.raises(TypeError, match="exactly one"):
                keylatch.fault("GET", **kinds)


@needs("TEST.CALLS", "TEST.FAULT")
class TestJournal:
    def test_calls_are_listed_with_what_happened_to_them(self, keylatch, client):
        keylatch.forget_calls()
        now = keylatch.freeze()
        client.client_setname("worker")
        client.set("key", "value", ex=10)
        with keylatch.fault("SET", error="ERR no"), pytest.raises(redis.ResponseError):
            client.set("key", "other")
        first, second = keylatch.calls("SET")
        assert list(first.args) == ["SET", "key", "value", "EX", "10"]
        assert (first.time_ms, first.client_id, first.client_name) == (now, client.client_id(), "worker")
        assert first.fault is None and second.fault is not None
        assert [call.args[2] for call in keylatch.calls(match="SET", count=1)] == ["other"]
        keylatch.forget_calls()
        assert keylatch.calls() == []


class TestData:
    @needs("TEST.SNAPSHOT")
    def test_a_snapshot_brings_data_back_and_leaves_the_clock(self, keylatch, client):
        client.set("user", "1")
        keylatch.snapshot()
        now = keylatch.advance(HOUR_MS)
        client.flushall()
        keylatch.restore()
        assert client.get("user") == "1" and keylatch.now() >= now
        with pytest.raises(ReplyError):
            keylatch.restore("unknown")

    @needs("TEST.FAILOVER")
    def test_a_failover_loses_the_last_writes_and_all_connections(self, keylatch, client):
        for name in "abc":
            client.set(name, 1)
        connection = client.connection_pool.get_connection()
        keylatch.failover(lose=2)
        connection.send_command("PING")
        with pytest.raises(redis.ConnectionError):
            connection.read_response()
        assert client.keys() == ["a"]

    @needs("TEST.CALLS", "TEST.FAULT")
    def test_a_reset_leaves_nothing_behind(self, keylatch, client):
        client.set("key", "1")
        client.script_load("return 1")
        keylatch.fault(error="ERR always")
        keylatch.freeze()
        keylatch.set_time(0)
        keylatch.reset()
        assert keylatch.calls() == [] and client.dbsize() == 0
        assert abs(keylatch.now() / 1000 - datetime.now().timestamp()) < 60
        assert client.script_exists("e0e1f9fabfc9d4800c877a703b823ac0578ff8db") == [False]

    def test_replies_of_any_kind_arrive_at_the_control_connection(self, keylatch):
        keylatch.command("HSET", "hash", "field", "völlig ☃")
        assert keylatch.command("HGETALL", "hash") == {"field": "völlig ☃"}
        assert keylatch.command("GET", "missing") is None
        script = "redis.setresp(3) return {1, {double=0.5}, true}"
        assert keylatch.command("EVAL", script, 0) == [1, 0.5, True]
        with pytest.raises(ReplyError, match="ERR"):
            keylatch.command("INCR", "hash", "too", "many")


class TestIsolation:
    def test_instances_share_nothing(self, keylatch, keylatch_server, client):
        client.set("key", "1")
        client.script_load("return 1")
        with keylatch_server.instance() as other:
            other.freeze()
            other.set_time(0)
            assert other.command("DBSIZE") == 0 and other.now() == 0
            assert client.get("key") == "1" and keylatch.now() > HOUR_MS
            other.command("SET", "key", "2")
            keylatch.command("FLUSHALL")
            assert other.command("GET", "key") == "2"

    @needs("TEST.CALLS", "TEST.FAULT", "ns-")
    def test_faults_and_journals_are_apart(self, keylatch, keylatch_server, client):
        with keylatch_server.instance() as other:
            assert other.port == keylatch.port
            other.fault("GET", error="ERR mine")
            assert client.get("key") is None
            assert len(other.calls("GET")) == 0 and len(keylatch.calls("GET")) == 1
