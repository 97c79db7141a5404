"""Exploration: the points of a scenario, their faults, what is reported of them, and how runs are made."""

import ast
import asyncio
import contextlib
import functools
import io
import itertools
import re
import sys
import threading
import time
from datetime import timedelta

import pytest
import redis
import redis.asyncio
from exploring import HINT, connect, found, names, raise_if_struck, told
from keylatch import ExploreError, Report, Server, explore
from redis.backoff import NoBackoff
from redis.retry import Retry

ERRORS = ["readonly", "oom", "loading", "busy"]
BROKEN = "ConnectionError: Connection closed by server."


class TestPoints:
    def test_every_call_is_struck_by_every_kind_that_fits(self):
        def scenario(keylatch):
            with connect(keylatch) as client:
                client.set("lock", "token", ex=10)
                client.expire("lock", 10)
                client.get("other")
            raise_if_struck(keylatch)

        assert names(found(scenario)) == [
            "lost-reply: 1st SET",
            "not-executed: 1st SET",
            "cut-all: 1st SET",
            "late: 1st SET",
            "lost-reply: 1st EXPIRE",
            "not-executed: 1st EXPIRE",
            "cut-all: 1st EXPIRE",
            "late: 1st EXPIRE",
            'expired: 1st EXPIRE, key "lock"',
            "lost-reply: 1st GET",
            "not-executed: 1st GET",
            "cut-all: 1st GET",
            "late: 1st GET",
        ]
        assert names(found(scenario, kinds=["evicted", "failover", *ERRORS])) == [
            "readonly: 1st SET",
            "oom: 1st SET",
            "loading: 1st SET",
            "busy: 1st SET",
            'evicted: 1st EXPIRE, key "lock"',
            "failover: 1st EXPIRE",
            "readonly: 1st EXPIRE",
            "loading: 1st EXPIRE",
            "busy: 1st EXPIRE",
            "failover: 1st GET",
            "loading: 1st GET",
            "busy: 1st GET",
        ]

    def test_each_kind_does_what_it_says(self):
        def scenario(keylatch):
            start = keylatch.now()
            with connect(keylatch) as client, connect(keylatch) as other:
                other.ping()
                idle = other.client_id()
                client.set("key", "old", ex=90)
                with contextlib.suppress(redis.RedisError):
                    client.set("key", "new", ex=90)
                is_cut = f"id={idle} " not in keylatch.command("CLIENT", "LIST")
                outcome = keylatch.command("GET", "key"), keylatch.now() - start > 50_000, is_cut
            assert outcome == ("new", False, False), outcome

        report = found(scenario, kinds=["lost-reply", "not-executed", "cut-all", "late", "failover", "readonly"])
        outcomes = {name: message for name, message in report.failures if "2nd SET" in name}
        assert outcomes == {
            "not-executed: 2nd SET": "AssertionError: ('old', False, False)",
            "cut-all: 2nd SET": "AssertionError: ('old', False, True)",
            "late: 2nd SET": "AssertionError: ('new', True, False)",
            "failover: 2nd SET": "AssertionError: (None, False, True)",
            "readonly: 2nd SET": "AssertionError: ('old', False, False)",
        }

    def test_a_script_is_forgotten_but_not_behind_its_load(self):
        def scenario(keylatch):
            with connect(keylatch) as client:
                digest = client.script_load("return redis.call('INCR', 'n')")
                client.evalsha(digest, 0)
                client.evalsha(digest, 0)

        assert told(found(scenario, kinds=["noscript", "oom"])) == [
            "NoScriptError: No matching script. Please use EVAL.",
            '  only="noscript: 2nd EVALSHA"',
        ]
        assert names(found(scenario, kinds=["readonly"])) == ["readonly: 1st EVALSHA", "readonly: 2nd EVALSHA"]

    def test_a_script_of_a_transaction_is_not_forgotten_behind_its_load(self):
        def scenario(keylatch):
            with connect(keylatch) as client:
                add = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
                with client.pipeline() as steps:
                    steps.incr("n")
                    add(["n"], [2], client=steps)
                    assert steps.expire("n", 60).execute() == [1, 3, True]
                add(["n"], [2])
                double = client.register_script("return redis.call('SET', KEYS[1], redis.call('GET', KEYS[1]) * 2)")
                with client.pipeline() as steps:  # one is there, the other is not
                    add(["n"], [2], client=steps)
                    double(["n"], client=steps)
                    double(["n"], client=steps)
                    assert steps.execute() == [7, "OK", "OK"]

        report = found(scenario, kinds=["noscript"])
        assert (report.points, report.ok) == (1, True)  # the 2nd EVALSHA, which redis-py sends again
        assert found(scenario, only="noscript: 2nd EVALSHA").ok

    def test_calls_are_counted_by_command_and_name_of_the_client(self):
        def scenario(keylatch):
            with connect(keylatch) as one, connect(keylatch, client_name='the"other"\\') as other:
                one.set("n", 0)
                for _ in range(12):
                    one.incr("n")
                other.incr("n")
                other.config_get("maxmemory")
            raise_if_struck(keylatch)

        report = found(scenario, kinds=["late"])
        assert [name for name in names(report) if "INCRBY" in name] == [
            *(f"late: {nth} INCRBY" for nth in "1st 2nd 3rd 4th 5th 6th 7th 8th 9th 10th 11th 12th".split()),
            'late: 1st INCRBY of "the\\"other\\"\\\\"',
        ]
        assert r'  only="late: 1st CONFIG GET of \"the\\\"other\\\"\\\\\""' in told(report)

    def test_keys_are_bytes(self):
        def scenario(keylatch):
            with connect(keylatch) as client:
                client.set(b"\xff\x01 \xc3\xa9", 1, ex=10)
                client.get(b"\xff\x01 \xc3\xa9")
            raise_if_struck(keylatch)

        key = "\\xff\\x01 \N{LATIN SMALL LETTER E WITH ACUTE}"
        assert names(found(scenario, kinds=["expired"])) == [f'expired: 1st GET, key "{key}"']

    def test_calls_in_a_transaction_are_struck_when_they_are_queued(self):
        def scenario(keylatch):
            with connect(keylatch) as client, client.pipeline() as steps:
                steps.incr("n").incr("n")
                with contextlib.suppress(redis.RedisError):
                    steps.execute()
            assert keylatch.command("GET", "n") == "2"

        assert names(found(scenario, kinds=["lost-reply", "busy"])) == [
            "lost-reply: 1st MULTI",  # without MULTI, the rest is executed one by one
            "lost-reply: 1st INCRBY",
            "busy: 1st INCRBY",
            "lost-reply: 2nd INCRBY",
            "busy: 2nd INCRBY",
            "busy: 1st EXEC",
        ]

    def test_keys_that_differ_from_run_to_run_are_left_out_and_counted(self):
        numbers = itertools.count()

        def scenario(keylatch):
            with connect(keylatch) as client:
                key = f"lock:{next(numbers)}"
                client.set(key, 1, ex=10)
                client.get(key)
                client.set("lock", key, ex=10)
                client.mget(key, "lock")

        report = found(scenario, kinds=["expired"])
        assert (report.points, report.left_out, report.ok) == (1, 2, True)
        assert told(report) == ["2 points have keys or connections that differ from run to run: left out"]

    def test_own_connections_of_the_scenario_are_no_points(self):
        def scenario(keylatch):
            keylatch.command("SET", "key", "value")
            with connect(keylatch) as client:
                client.ping()
            assert keylatch.command("GET", "key") == "value"

        report = found(scenario, kinds=["not-executed", "cut-all", "failover"])
        assert (report.points, names(report)) == (2, ["not-executed: 1st PING", "cut-all: 1st PING"])


class TestRepeatability:
    def test_a_scenario_that_fails_of_itself_raises_its_error(self):
        def scenario(keylatch):
            raise LookupError("as it is")

        with pytest.raises(LookupError, match="^as it is$"):
            explore(scenario)

    @pytest.mark.parametrize(
        ("first", "second", "difference"),
        [
            ("GET a", "MGET a", "was MGET a, not GET a"),
            ("MGET a", "MGET a b", "was MGET a b, not MGET a"),
            ("GET a", None, "did not come: GET a"),
            (None, "GET a", "was one more: GET a"),
        ],
    )
    def test_two_runs_without_a_fault_do_the_same(self, first, second, difference):
        calls = itertools.cycle([first, second])
        runs = []

        def scenario(keylatch):
            with connect(keylatch, client_name="worker") as client:
                client.ping()
                runs.append(next(calls))
                if runs[-1]:
                    client.execute_command(*runs[-1].split())

        with pytest.raises(ExploreError) as failed:
            explore(scenario)
        assert str(failed.value) == f'explore: not repeatable: the 2nd call of "worker" {difference}'
        assert failed.value.report.points == 0
        assert len(runs) == 3 * 2

    def test_a_scenario_without_calls_is_refused(self, keylatch_url):
        def scenario(keylatch):
            with redis.Redis.from_url(keylatch_url) as elsewhere:
                elsewhere.ping()

        with pytest.raises(ExploreError, match="has called nothing"):
            explore(scenario)

    def test_a_run_that_is_another_before_its_point_has_not_passed(self):
        runs = itertools.count()

        def scenario(keylatch):
            number = next(runs)
            with connect(keylatch) as client:
                client.ping()
                (client.get if number < 2 else client.strlen)("hits")
                client.get("hits")

        with pytest.raises(ExploreError) as failed:
            explore(scenario, kinds=["late"], workers=1)
        summary, *lines = str(failed.value).splitlines()
        assert summary.endswith(": 0 failed, 2 are not repeatable")
        difference = "  its 2nd call was STRLEN hits, not GET hits"
        assert lines == [
            'not repeatable: "late: 1st GET"',
            difference,
            'not repeatable: "late: 2nd GET"',
            difference,
        ]
        assert next(runs) == 2 + 1 + 3 + 3  # the point before is like the first two runs

    def test_a_run_that_does_not_come_to_its_point_has_not_passed(self):
        runs = itertools.count()

        def scenario(keylatch):
            with connect(keylatch) as client:
                client.ping()
                if next(runs) < 2:
                    client.get("hits")

        report = found(scenario, kinds=["late"], workers=1)
        assert (report.points, report.failures) == (2, [])
        assert report.not_repeatable == [("late: 1st GET", "its 2nd call did not come: GET hits")]

    def test_a_fault_that_the_scenario_removes_has_not_fired(self):
        def scenario(keylatch):
            keylatch.clear_faults()
            with connect(keylatch) as client:
                client.ping()

        assert found(scenario, kinds=["late"]).not_repeatable == [("late: 1st PING", "its fault has not fired")]

    def test_other_clients_do_the_same_before_a_point(self):
        runs = itertools.count()

        def scenario(keylatch):
            with connect(keylatch) as client, connect(keylatch, client_name="other") as other:
                (other.get if next(runs) < 2 else other.strlen)("a")
                client.ping()

        report = found(scenario, kinds=["late"], workers=1)
        difference = f'the 1st call of "other" was STRLEN a, not GET a{HINT}'
        assert report.not_repeatable[-1] == ("late: 1st PING", difference)

    def test_dates_of_the_client_may_differ_in_a_later_run_only(self):
        runs, now = itertools.count(), int(time.time())

        def scenario(keylatch):
            date = now + (next(runs) > 1)
            with connect(keylatch) as client:
                client.incr(f"hits:{date}")
                client.zadd("seen", {"a": date * 1000})
                client.get(f"hits:{date}")
                client.zcard("seen")

        report = found(scenario, kinds=["late", "evicted"], workers=1)
        assert report.not_repeatable == []
        assert (report.points, report.left_out) == (5, 1)

    def test_arguments_that_differ_without_a_fault_may_differ_with_one(self):
        numbers = itertools.count()

        def scenario(keylatch):
            with connect(keylatch) as client:
                client.set("lock", next(numbers), ex=10)
                client.get("lock")

        report = found(scenario, kinds=["late"])
        assert (report.points, report.ok) == (2, True)

    def test_runs_begin_at_the_same_time_with_nothing(self):
        starts = set()

        def scenario(keylatch):
            starts.add(keylatch.now() // 10_000)
            with connect(keylatch) as client:
                assert client.incr("n") == 1

        assert found(scenario, kinds=["late"]).points == 1
        assert len(starts) <= 2  # 10 s may be over in between


class TestReport:
    def test_failures_with_the_same_message_are_grouped(self):
        def scenario(keylatch):
            with connect(keylatch) as client:
                client.set("a", 1)
                told = client.time()[0]
                assert keylatch.now() < told * 1000 + 30_000, f"late\nat {keylatch.url}"

        with pytest.raises(ExploreError) as failed:
            explore(scenario, kinds=["late", "not-executed"])
        report = failed.value.report
        assert isinstance(report, Report) and str(failed.value) == str(report)
        assert isinstance(failed.value.__cause__, (AssertionError, redis.ConnectionError))
        assert re.fullmatch(r"explore: 4 points in \d+\.\d s: 3 failed", str(report).splitlines()[0])
        assert told(report) == [
            BROKEN,
            '  only="not-executed: 1st SET"',
            '  only="not-executed: 1st TIME"',
            "AssertionError: late",
            '  only="late: 1st TIME"',
        ]

    def test_a_message_that_names_the_instance_is_the_same_for_all(self):
        def scenario(keylatch):
            with connect(keylatch) as client:
                client.ping()
                client.ping()
            if any(call.fault for call in keylatch.calls()):
                raise LookupError(f"{keylatch.user}\n  {object()}")

        assert told(found(scenario, kinds=["late"])) == [
            "LookupError: ns-explore <object object at 0x>",
            '  only="late: 1st PING"',
            '  only="late: 2nd PING"',
        ]

    def test_points_for_which_there_is_no_time_are_counted(self):
        def scenario(keylatch):
            with connect(keylatch) as client:
                client.ping()

        assert str(found(scenario, kinds=["late"], budget=0)).endswith("0 failed, 1 was not tried (budget)")
        report = found(scenario, kinds=["late", "busy"], budget=0)
        assert (report.points, report.not_tried, report.ok) == (0, 2, True)
        assert found(scenario, kinds=["late"], budget=600).not_tried == 0

    def test_progress_is_told_on_a_terminal(self, monkeypatch):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        def scenario(keylatch):
            with connect(keylatch) as client:
                client.ping()

        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        explore(scenario, kinds=["late"])
        assert "\rexplore: 1 of 1 point, 0 failed" in terminal.getvalue()
        assert terminal.getvalue().endswith("\r\x1b[K")


class TestOptions:
    @staticmethod
    def scenario(keylatch):
        with connect(keylatch, client_name='a"b"+c') as client:
            client.set("k", 1, ex=10)
            client.get("k")
        raise_if_struck(keylatch)

    def test_points_are_tried_alone_by_the_literals_of_the_report(self):
        report = found(self.scenario)
        literals = re.findall(r"^  only=(.*)", str(report), re.MULTILINE)
        assert len(literals) == report.points == 13
        for name in map(ast.literal_eval, literals):
            (failure,) = found(self.scenario, only=name).failures
            assert failure[0] == name and failure in report.failures
        some = [report.failures[5], report.failures[1]]
        assert found(self.scenario, only=[name for name, _ in some]).failures == some

    def test_a_point_of_another_kind_may_be_named(self):
        name = 'evicted: 1st GET of "a\\"b\\"+c", key "k"'
        assert names(found(self.scenario, only=name, kinds=["late"])) == [name]

    def test_a_name_that_does_not_exist_lists_similar_ones(self):
        with pytest.raises(ValueError, match='(?s)no point "late: 3rd GET".*late: 1st GET'):
            explore(self.scenario, only="late: 3rd GET")
        with pytest.raises(ValueError, match="no kind 'lost'.*lost-reply"):
            explore(self.scenario, kinds=["lost"])

    def test_pairs_are_a_sample_that_its_seed_repeats(self):
        report = found(self.scenario, kinds=["lost-reply", "late"], pairs=True, seed=7)
        pairs = names(report)[6:]
        assert (report.points, report.seed, len(pairs)) == (6 + 12, 7, 12)
        assert told(report)[-1] == "pairs: seed 7"
        again = found(self.scenario, kinds=["lost-reply", "late"], pairs=True, seed=7)
        assert names(again)[6:] == pairs
        assert names(found(self.scenario, only=pairs[3])) == [pairs[3]]

    def test_both_faults_of_a_pair_fire(self):
        def scenario(keylatch):
            with connect(keylatch, retry=Retry(NoBackoff(), 1)) as client:
                client.incr("n")
                client.incr("n")

        report = found(scenario, kinds=["lost-reply"], pairs=True)
        # The second call is then that which is sent again.
        assert report.failures == [("lost-reply: 1st INCRBY + lost-reply: 2nd INCRBY", BROKEN)]
        assert report.points == 2 + 1

    def test_the_clock_moves_by_what_is_said(self):
        def scenario(keylatch):
            with connect(keylatch) as client:
                client.set("k", 1, px=10_000)
                assert client.get("k") == "1"

        assert found(scenario, kinds=["late"], late_by=9_000).ok
        assert names(found(scenario, kinds=["late"], late_by=timedelta(seconds=10))) == ["late: 1st SET"]

    def test_a_server_may_be_given(self):
        with Server(maxmemory="7mb") as server:

            def scenario(keylatch):
                assert keylatch.port == server.port
                with connect(keylatch) as client:
                    assert client.config_get("maxmemory")["maxmemory"] == str(7 << 20)

            assert explore(scenario, kinds=["late"], server=server).points == 1

    def test_runs_are_made_side_by_side(self):
        meeting = threading.Barrier(2)
        runs = itertools.count()

        def scenario(keylatch):
            with connect(keylatch) as client:
                client.ping()
                client.ping()
            if next(runs) >= 2:
                meeting.wait(60)

        assert explore(scenario, kinds=["late"], workers=2, timeout=60).points == 2


class TestRuns:
    def test_a_run_that_does_not_end_has_failed(self):
        def scenario(keylatch):
            with connect(keylatch, retry=Retry(NoBackoff(), 0)) as client:
                client.rpush("jobs", 1)
                client.blpop(["jobs"])  # waits forever for a job that is lost

        report = found(scenario, kinds=["evicted"], timeout=0.5)
        assert told(report) == ["did not end within 0.5 s", r'  only="evicted: 1st BLPOP, key \"jobs\""']
        for thread in threading.enumerate():
            if thread.name == "keylatch-explore":
                thread.join(60)
                assert not thread.is_alive()

    def test_threads_of_a_run_that_does_not_end_cannot_connect_again(self):
        waiting = []

        def scenario(keylatch):
            with connect(keylatch, client_name="worker", retry=Retry(NoBackoff(), 2)) as client:
                client.rpush("jobs", 1)

                def wait():
                    with contextlib.suppress(redis.ConnectionError):
                        client.brpop(["jobs"], timeout=0)

                thread = threading.Thread(target=wait)
                waiting.append(thread)
                thread.start()
                thread.join()

        report = found(scenario, kinds=["evicted"], timeout=0.5)
        assert told(report)[0] == "did not end within 0.5 s"
        waiting[-1].join(60)
        assert not waiting[-1].is_alive()

    def test_a_coroutine_that_does_not_end_has_failed(self):
        async def scenario(keylatch):
            async with redis.asyncio.Redis.from_url(keylatch.url) as client:
                await client.rpush("jobs", 1)
                await client.blpop(["jobs"])

        report = found(scenario, kinds=["evicted"], timeout=0.5)
        assert told(report) == ["did not end within 0.5 s", r'  only="evicted: 1st BLPOP, key \"jobs\""']

    def test_a_scenario_that_never_ends_without_a_fault_is_an_error(self):
        def scenario(keylatch):
            with connect(keylatch, retry=Retry(NoBackoff(), 0)) as client:
                client.blpop(["jobs"])

        with pytest.raises(TimeoutError, match="without a fault the scenario did not end within 0.5 s"):
            explore(scenario, timeout=0.5)

    def test_what_pytest_raises_is_a_failure_as_well(self):
        def scenario(keylatch):
            with connect(keylatch) as client:
                if not client.set("a", 1, ex=10) or not client.get("a"):
                    pytest.fail("it is gone")

        assert told(found(scenario, kinds=["late"])) == ["Failed: it is gone", '  only="late: 1st SET"']

    def test_coroutines_run_in_a_loop_of_each_run(self):
        loops = []

        async def scenario(keylatch):
            loops.append(asyncio.get_running_loop())
            async with redis.asyncio.Redis.from_url(keylatch.url) as client:
                await asyncio.gather(client.incr("n"), asyncio.sleep(0))
            assert keylatch.command("GET", "n") == "1", "counted twice"

        report = found(functools.partial(scenario), kinds=["late", "not-executed"])
        assert names(report) and all(name.startswith("not-executed") for name in names(report))
        assert len(set(loops)) == len(loops) == report.points + 2

    def test_the_instance_has_all_methods(self):
        def scenario(keylatch):
            with keylatch, connect(keylatch) as client:
                client.set("a", 1)
                keylatch.snapshot()
                client.set("a", 2)
                with contextlib.suppress(redis.ConnectionError):
                    client.ping()
                keylatch.failover(lose=1)
                assert keylatch.command("GET", "a") == "1"
                keylatch.restore()
                keylatch.advance(1000)
            assert len(keylatch.calls("SET")) == 2

        assert explore(scenario, kinds=["late"]).points == 3

    def test_what_a_run_leaves_behind_is_not_in_the_next(self):
        def scenario(keylatch):
            keylatch.command("SELECT", 3)
            with connect(keylatch) as client:
                assert client.incr("n") == 1

        assert explore(scenario, kinds=["late"], workers=1).points == 1

    def test_a_server_that_ends_is_told(self):
        with Server() as server:

            def scenario(keylatch):
                with connect(keylatch) as client:
                    client.ping()
                server.process.kill()
                server.process.wait()

            with pytest.raises(ConnectionError, match="keylatch has ended with status -9"):
                explore(scenario, server=server)
