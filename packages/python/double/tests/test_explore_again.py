"""Exploration: runs that are judged again, and clients that connect at the same time."""

import contextlib
import itertools
import re
import threading
import time

import pytest
import redis
from exploring import HINT, connect, found, names, raise_if_struck
from keylatch import ExploreError, explore
from keylatch._points import dateless


class TestJudgingAgain:
    def test_arguments_that_are_others_after_a_while_are_masked_by_one_more_run_without_a_fault(self):
        runs = itertools.count()

        def scenario(keylatch):
            window = "12:00" if next(runs) < 3 else "12:01"
            with connect(keylatch) as client:
                client.incr(f"rate:{window}")
                client.expire(f"rate:{window}", 60)
                client.set("last", window)

        report = found(scenario, kinds=["late"], workers=1)
        assert (report.points, report.ok) == (3, True), str(report)
        assert next(runs) == 2 + 3 + 1

    def test_workers_whose_runs_differ_at_the_same_time_share_a_run_without_a_fault(self):
        meeting, runs = threading.Barrier(4), itertools.count()

        def scenario(keylatch):
            number = next(runs)
            with connect(keylatch) as client:
                client.set("last", "12:00" if number < 2 else "12:01")
                client.ping()
                client.ping()
                client.ping()
            if 2 <= number < 6:
                meeting.wait(60)

        report = found(scenario, kinds=["late"], workers=4, timeout=60)
        assert (report.points, report.ok) == (4, True), str(report)
        assert next(runs) == 2 + 4 + 1

    def test_a_run_without_a_fault_that_fails_masks_nothing(self):
        runs = itertools.count()

        def scenario(keylatch):
            number = next(runs)
            with connect(keylatch) as client:
                client.set("last", "12:00" if number < 2 else "12:01")
            assert number != 3

        report = found(scenario, kinds=["late"], workers=1)
        assert (report.points, report.ok) == (1, True), str(report)
        assert next(runs) == 2 + 1 + 1 + 1 + 1  # the point is run again, and judged after one more without a fault

    def test_five_runs_without_a_fault_are_made_at_most(self):
        runs = itertools.count()

        def scenario(keylatch):
            keys = [f"key:{number}" for number in range(40)]
            keys[next(runs)] = "key:100"
            with connect(keylatch) as client:
                client.delete(*keys)
                client.ping()
                client.ping()
                client.ping()

        report = found(scenario, kinds=["late"], workers=1)
        assert (report.points, len(report.not_repeatable)) == (4, 4)
        assert next(runs) == 2 + 3 * 4 + 5

    def test_a_point_whose_key_has_another_name_by_then_is_left_out(self):
        runs = itertools.count()

        def scenario(keylatch):
            key = f"rate:{next(runs) // 2}"
            with connect(keylatch) as client:
                client.set(key, 1, ex=60)
                client.get(key)

        report = found(scenario, kinds=["expired"], workers=1)
        assert (report.points, report.left_out, report.not_repeatable) == (0, 1, [])

    def test_words_that_differ_are_not_masked(self):
        runs = itertools.count()

        def scenario(keylatch):
            with connect(keylatch) as client:
                client.get("hits" if next(runs) < 2 else "other")

        report = found(scenario, kinds=["late"], workers=1)
        assert report.not_repeatable == [("late: 1st GET", "its 1st call was GET other, not GET hits")]

    def test_of_runs_with_other_calls_the_first_that_is_alike_decides(self):
        runs = itertools.count()

        def scenario(keylatch):
            number = next(runs)
            with connect(keylatch) as client:
                if number in (2, 3, 5):
                    client.ping()
                client.get("hits")
                client.get("hits")
            assert not (number >= 5 and any(call.fault for call in keylatch.calls())), "struck"

        report = found(scenario, kinds=["late"], workers=1)
        assert report.not_repeatable == []
        assert report.failures == [("late: 2nd GET", "AssertionError: struck")]
        assert next(runs) == 2 + 3 + 2

    def test_a_failure_of_a_run_that_is_alike_stands(self):
        runs = itertools.count()

        def scenario(keylatch):
            number = next(runs)
            with connect(keylatch) as client:
                client.ping()
            assert number != 2, "once"

        assert found(scenario, kinds=["late"]).failures == [("late: 1st PING", "AssertionError: once")]
        assert next(runs) == 2 + 1

    def test_a_pair_of_runs_without_a_fault_is_made_again(self):
        runs = itertools.count()

        def scenario(keylatch):
            with connect(keylatch) as client:
                (client.strlen if next(runs) in (1, 2) else client.get)("hits")

        report = found(scenario, kinds=["late"])
        assert (report.points, report.ok) == (1, True)
        assert next(runs) == 3 * 2 + 1

    def test_the_id_of_an_entry_of_a_stream_is_one_date(self):
        now = int(time.time() * 1000)
        assert dateless(f"{now}-0", now) == dateless(f"{now + 6}-12", now) == "*"
        assert dateless(f"at {now}-0, {now // 1000}-7", now) == "at *, *-7"
        assert dateless("2026-12-01", now) == "2026-12-01"
        assert dateless(f"1234567890123-{now}", now) == "1234567890123-*"
        assert dateless(f"1{now}-3", now) == f"1{now}-3"


class TestConnectingClients:
    @staticmethod
    @contextlib.contextmanager
    def in_any_order(keylatch, runs, one, other):
        """Makes two clients, which send some commands when they connect, in an order that is another one in each run."""
        with connect(keylatch) as first, connect(keylatch) as second:
            pairs = [(first, one), (second, other)]
            for client, commands in pairs[:: 1 if next(runs) % 2 else -1]:
                client.connection = client.connection_pool.get_connection()
                for command in commands:
                    client.execute_command(*command.split())
            yield first, second

    def test_clients_with_names_connect_in_any_order(self):
        runs = itertools.count()

        def scenario(keylatch):
            commands = ["CLIENT ID", "CLIENT SETNAME one"], ["CLIENT SETNAME other"]
            with self.in_any_order(keylatch, runs, *commands) as clients:
                for client in clients:
                    client.get("key")
            raise_if_struck(keylatch)

        report = found(scenario, kinds=["late"])
        assert report.not_repeatable == []
        assert names(report) == ['late: 1st GET of "one"', 'late: 1st GET of "other"']
        assert report.left_out == 3
        assert names(found(scenario, only='late: 1st GET of "other"')) == ['late: 1st GET of "other"']

    def test_how_a_single_client_connects_is_struck(self):
        def scenario(keylatch):
            with redis.Redis.from_url(keylatch.url, client_name="one") as client:
                client.ping()
            raise_if_struck(keylatch)

        report = found(scenario, kinds=["late"])
        assert "late: 1st CLIENT SETNAME" in names(report) and report.left_out == 0

    def test_connections_without_names_in_any_order_are_told_what_to_do(self):
        runs = itertools.count()

        def scenario(keylatch):
            with self.in_any_order(keylatch, runs, ["PING"], ["GET key"]):
                pass

        with pytest.raises(ExploreError) as failed:
            explore(scenario)
        difference = r"explore: not repeatable: the 1st call was (PING, not GET key|GET key, not PING)"
        assert re.fullmatch(difference + re.escape(HINT), str(failed.value))

    def test_one_connection_without_a_name_is_not_told(self):
        runs = itertools.count()

        def scenario(keylatch):
            with connect(keylatch) as client:
                (client.strlen if next(runs) % 2 else client.get)("hits")

        with pytest.raises(ExploreError, match="the 1st call was STRLEN hits, not GET hits$"):
            explore(scenario)
