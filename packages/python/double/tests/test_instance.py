"""Controls for tests: the clock, faults, the journal, snapshots, failover."""

import re
import resource
import signal
import socket
import threading
import uuid
from datetime import datetime, timedelta, timezone

import pytest
import redis
from keylatch import ReplyError, Server
from redis.backoff import NoBackoff
from redis.retry import Retry

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


class TestFaults:
    def test_options_that_do_not_exist_are_refused(self, keylatch, client):
        for refused in (
            lambda: keylatch.fault("SET", error="ERR x", cuont=1),
            lambda: keylatch.calls(mtach="SET"),
            lambda: keylatch.failover(loose=1),
        ):
            with pytest.raises(TypeError, match="unexpected keyword argument"):
                refused()
        with pytest.raises(RuntimeError, match="maxmemmory"):
            Server(maxmemmory="1mb")
        assert client.set("key", "value")

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

    def test_a_message_that_is_lost_and_a_connection_that_is_reset_come_again(self, keylatch, client):
        with client.pubsub(ignore_subscribe_messages=True) as channel:
            channel.subscribe("news")
            channel.get_message(timeout=60)
            with keylatch.fault("PUSH|message", lose=True, count=1, key="news") as fault:
                assert (client.publish("news", "lost"), client.publish("news", "told")) == (1, 1)
                assert fault.fired == 1
            assert channel.get_message(timeout=60)["data"] == "told"
        with keylatch.fault("CONNECT", drop=True, count=1):
            other = redis.Redis.from_url(keylatch.url, retry=None)
            with pytest.raises(redis.ConnectionError):
                other.ping()
            assert other.ping()

    def test_a_request_is_hit_when_it_is_queued_if_the_fault_says_so(self, keylatch, client):
        keylatch.fault("SET", error="ERR no", queued=True)
        with pytest.raises(redis.ResponseError, match="no"):
            client.pipeline().set("key", "value").execute()

    def test_exactly_one_kind_of_fault_is_given(self, keylatch):
        for kinds in ({}, {"drop": True, "error": "ERR"}):
            with pytest.raises(TypeError, match="exactly one"):
                keylatch.fault("GET", **kinds)


class TestJournal:
    def test_what_a_library_sends_of_itself_is_told_apart_by_naming_a_command(self, keylatch, client):
        client.set("key", "value")
        assert any(call.args[:2] == ["CLIENT", "SETINFO"] for call in keylatch.calls())
        assert [call.args for call in keylatch.calls("SET")] == [["SET", "key", "value"]]

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
    def test_a_snapshot_brings_data_back_and_leaves_the_clock(self, keylatch, client):
        client.set("user", "1")
        keylatch.snapshot()
        now = keylatch.advance(HOUR_MS)
        client.flushall()
        keylatch.restore()
        assert client.get("user") == "1" and keylatch.now() >= now
        with pytest.raises(ReplyError):
            keylatch.restore("unknown")

    def test_a_failover_loses_the_last_writes_and_all_connections(self, keylatch, client):
        for name in "abc":
            client.set(name, 1)
        connection = client.connection_pool.get_connection()
        keylatch.failover(lose=2)
        with pytest.raises(redis.ConnectionError):
            connection.send_command("PING")
            connection.read_response()
        assert client.keys() == ["a"] and keylatch.command("GET", "a") == "1"
        with pytest.raises(ReplyError, match="only [0-9]+ writes are remembered"):
            keylatch.failover(lose=10**6)

    def test_a_replica_lags_and_a_failover_to_it_loses_what_it_lacks(self, keylatch, client):
        keylatch.freeze()
        with keylatch.replica() as replica, redis.Redis.from_url(replica.url, decode_responses=True) as reader:
            replica.fault("LINK", delay_ms=100)
            client.set("early", "1")
            replica.advance(100)  # the clock of both
            client.set("late", "1")
            assert reader.mget("early", "late") == ["1", None]
            with pytest.raises(redis.ReadOnlyError):
                reader.set("key", "1")
            keylatch.failover(lose=None)
            assert client.mget("early", "late") == ["1", None]

    def test_a_replica_without_its_link_continues_where_it_was(self, keylatch, client):
        with keylatch.replica(uuid.uuid4().hex) as replica:
            with replica.fault("LINK", drop=True):
                client.set("key", "1")
                assert replica.command("GET", "key") is None
            keylatch.command("WAIT", 1, 0)
            assert replica.command("GET", "key") == "1"

    def test_a_lock_is_lost_by_a_failover_and_two_clients_hold_it(self, keylatch):
        retry = Retry(NoBackoff(), 1)  # their connections are closed
        options = {"url": keylatch.url, "retry": retry}
        with redis.Redis.from_url(**options) as first, redis.Redis.from_url(**options) as second:
            lock = first.lock("job", timeout=30)
            assert lock.acquire()
            assert not second.lock("job").acquire(blocking=False)
            keylatch.failover(lose=1)
            assert second.lock("job", timeout=30).acquire(blocking=False)
            with pytest.raises(redis.exceptions.LockNotOwnedError):
                lock.release()

    def test_a_reset_leaves_snapshots_and_nothing_else_behind(self, keylatch, client):
        client.set("key", "1")
        client.script_load("return 1")
        keylatch.snapshot("kept")
        keylatch.command("ACL", "SETUSER", "guest", "on", "nopass", "+@all", "~*")
        keylatch.fault(error="ERR always")
        keylatch.freeze()
        keylatch.set_time(0)
        keylatch.reset()
        assert keylatch.calls() == [] and client.dbsize() == 0
        assert sorted(keylatch.command("ACL", "USERS")) == ["default", keylatch.user]
        assert abs(keylatch.now() / 1000 - datetime.now().timestamp()) < 60
        assert client.script_exists("e0e1f9fabfc9d4800c877a703b823ac0578ff8db") == [False]
        keylatch.restore("kept")
        assert client.get("key") == "1"

    def test_replies_of_any_kind_arrive_at_the_control_connection(self, keylatch):
        keylatch.command("HSET", "hash", "field", "völlig ☃")
        assert keylatch.command("HGETALL", "hash") == {"field": "völlig ☃"}
        assert keylatch.command("GET", "missing") is None
        script = "redis.setresp(3) return {1, {double=0.5}, true}"
        assert keylatch.command("EVAL", script, 0) == [1, 0.5, True]
        assert keylatch.command("INFO", "server").startswith("# Server")
        with pytest.raises(ReplyError, match="ERR"):
            keylatch.command("INCR", "hash", "too", "many")

    def test_a_reply_that_is_cut_short_is_an_error(self, keylatch):
        with keylatch.fault("ECHO", partial=6), pytest.raises(ConnectionError, match="closed"):
            keylatch.command("ECHO", "hello")

    def test_an_interrupted_call_leaves_no_reply_to_the_next(self, keylatch):
        class Interrupted(BaseException):
            pass

        def interrupt(number, frame):
            raise Interrupted

        keylatch.command("SET", "key", "value")
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            with keylatch.fault("ECHO", delay_ms=60_000), pytest.raises(Interrupted):
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                keylatch.command("ECHO", "late")
        finally:
            signal.signal(signal.SIGALRM, before)
        assert keylatch.command("GET", "key") == "value"

    def test_the_control_connection_serves_a_process_with_many_open_files(self, keylatch):
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        if limits[1] != resource.RLIM_INFINITY and limits[1] < 1200:
            pytest.skip("needs 1200 open files")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 1200), limits[1]))
        keylatch.close()
        many = [socket.socket() for _ in range(1100)]
        try:
            assert keylatch.command("ECHO", 1) == "1"
            assert keylatch.command("ECHO", 2) == "2"
        finally:
            for each in many:
                each.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)


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

    def test_two_instances_in_one_process_have_the_same_address_and_different_users(self, keylatch, keylatch_server):
        with keylatch_server.instance() as other:
            processes = set()
            for instance in keylatch, other:
                with redis.Redis.from_url(instance.url) as client:
                    processes.add(client.info("server")["process_id"])
                    assert client.acl_whoami() == instance.user and client.client_list()[0]["user"] == instance.user
            assert len(processes) == 1
            assert re.fullmatch(r"redis://ns-\w+:any@127\.0\.0\.1:\d+/0", other.url) and other.url != keylatch.url

    def test_messages_locks_and_snapshots_are_apart(self, keylatch, keylatch_server, client):
        with keylatch_server.instance() as other, client.pubsub() as messages:
            messages.subscribe("news")
            assert messages.get_message(timeout=60)["type"] == "subscribe"
            assert other.command("PUBLISH", "news", "x") == 0
            assert other.command("LOCK.ACQUIRE", "lock", "token", "PX", 1000) > 0
            assert keylatch.command("LOCK.ACQUIRE", "lock", "token", "PX", 1000) > 0
            keylatch.snapshot()
            with pytest.raises(ReplyError):
                other.restore()

    def test_a_failover_of_one_leaves_the_other_as_it_was(self, keylatch, keylatch_server, client):
        client.set("key", "1")
        client_id = client.client_id()
        with keylatch_server.instance() as other:
            other.command("SET", "key", "2")
            other.failover(lose=1)
            assert other.command("GET", "key") is None
            assert client.get("key") == "1" and client.client_id() == client_id

    def test_an_instance_is_shared_by_its_name(self, keylatch_server):
        name = uuid.uuid4().hex
        with keylatch_server.instance(name) as one, keylatch_server.instance(name) as same:
            one.command("SET", "key", "1")
            assert same.command("GET", "key") == "1" and one.url == same.url

    def test_a_name_may_be_that_of_a_test_in_a_folder(self, keylatch_server):
        with keylatch_server.instance(f"tests/test_it.py::test[a@{uuid.uuid4().hex}]") as instance:
            instance.command("SET", "key", "1")
            assert redis.Redis.from_url(instance.url).get("key") == b"1"

    def test_a_setting_changes_for_one_instance_and_not_for_the_process(self, keylatch, keylatch_server):
        keylatch.command("CONFIG", "SET", "maxmemory", "1mb")
        with keylatch_server.instance() as other:
            assert other.command("CONFIG", "GET", "maxmemory") != keylatch.command("CONFIG", "GET", "maxmemory")
        with pytest.raises(ReplyError, match="the whole process"):
            keylatch.command("CONFIG", "SET", "maxclients", "5")

    def test_faults_and_journals_are_apart(self, keylatch, keylatch_server, client):
        with keylatch_server.instance() as other:
            other.fault("GET", error="ERR mine")
            assert client.get("key") is None
            assert len(other.calls("GET")) == 0 and len(keylatch.calls("GET")) == 1
