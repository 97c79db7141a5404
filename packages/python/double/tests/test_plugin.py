"""The fixtures in a project: alone, with xdist, with asyncio, and not loaded without need."""

import re

import pytest

PARALLEL = """
    import pytest, redis

    @pytest.mark.parametrize("number", range(40))
    def test_a_counter_of_its_own(number, keylatch, keylatch_url):
        client = redis.Redis.from_url(keylatch_url, decode_responses=True)
        for expected in range(1, 20):
            assert client.incr("counter") == expected
        keylatch.advance(number * 1000)
        assert client.keys() == ["counter"]
        assert len(keylatch.calls("INCRBY")) == 19
        print("served by", keylatch.port)
"""

ASYNC = """
    import asyncio
    import pytest, redis.asyncio

    @pytest.mark.asyncio
    async def test_a_waiter_gives_up_after_a_minute_that_nobody_waits(keylatch):
        keylatch.freeze()
        async with redis.asyncio.Redis.from_url(keylatch.url) as client, asyncio.timeout(60):
            waiting = asyncio.create_task(client.blpop("queue", timeout=60))
            while keylatch.command("CLIENT", "LIST").count("flags=b") == 0:
                await asyncio.sleep(0)
            keylatch.advance(60_000)
            assert await waiting is None

    @pytest.mark.asyncio
    async def test_a_worker_retries_after_a_lost_reply(keylatch):
        async with redis.asyncio.Redis.from_url(keylatch.url) as client:
            keylatch.fault("INCR", lose_reply=True, count=1)
            with pytest.raises(redis.ConnectionError):
                connection = await client.connection_pool.get_connection()
                await connection.send_command("INCR", "n")
                await connection.read_response()
            assert await client.incr("n") == 2      # the first was executed
"""

CRASH = """
    import os, signal

    def test_that_ends_the_server(keylatch):
        process = int(keylatch.command("INFO", "server").partition("process_id:")[2].split()[0])
        os.kill(process, signal.SIGKILL)

    def test_that_needs_the_server(keylatch):
        pass
"""

TOPOLOGIES = """
    import pytest

    def test_three_primaries_with_a_replica_each(keylatch_cluster):
        assert (len(keylatch_cluster.primaries), len(keylatch_cluster.replicas)) == (3, 3)

    @pytest.mark.keylatch_cluster(replicas=2, node_timeout=1000)
    def test_another_size_and_the_clock_of_the_instance(keylatch, keylatch_cluster):
        keylatch_cluster.stop(0)
        keylatch.advance(1000)
        assert [node.number for node in keylatch_cluster.primaries] == [1, 2, 3]

    def test_a_master_with_two_replicas_and_three_sentinels(keylatch_sentinel):
        assert (keylatch_sentinel.master.number, len(keylatch_sentinel.replicas)) == (0, 2)
        assert (keylatch_sentinel.master_name, len(keylatch_sentinel.sentinels)) == ("mymaster", 3)

    @pytest.mark.keylatch_sentinel(replicas=1, sentinels=5, quorum=3, master="cache")
    def test_another_number_of_sentinels(keylatch_sentinel):
        assert (len(keylatch_sentinel.replicas), len(keylatch_sentinel.sentinels)) == (1, 5)
        settings = keylatch_sentinel.node(2).command("SENTINEL", "MASTER", "cache")
        assert settings["quorum"] == "3"

    @pytest.mark.keylatch_cluster(primary=1)
    def test_a_size_by_another_name(keylatch_cluster):
        pass
"""

UNUSED = """
    import threading

    def test_nothing_is_started_for_it():
        assert not any(thread.name == "keylatch-log" for thread in threading.enumerate())
"""
UNUSED_CONTROLLER = """
    import threading

    def pytest_sessionfinish():
        assert not any(thread.name == "keylatch-log" for thread in threading.enumerate())
"""


def test_workers_of_xdist_share_a_process_and_do_not_see_each_other(pytester):
    pytester.makepyfile(PARALLEL)
    assert len(servers_of_workers(pytester)) == 1


def test_workers_of_xdist_use_the_server_of_the_environment(pytester, keylatch_server, monkeypatch):
    monkeypatch.setenv("KEYLATCH_URL", keylatch_server.url)
    pytester.makepyfile(PARALLEL)
    assert servers_of_workers(pytester) == {str(keylatch_server.port)}


def test_workers_of_xdist_are_told_why_the_server_does_not_start(pytester, monkeypatch):
    monkeypatch.setenv("KEYLATCH_BINARY", "/elsewhere/keylatch")
    pytester.makepyfile(PARALLEL)
    result = pytester.runpytest_subprocess("-n", "2", "-k", "own[0] or own[1]")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines("*No such file*/elsewhere/keylatch*")


def test_workers_of_xdist_are_told_that_the_server_has_ended(pytester):
    pytester.makepyfile(CRASH)
    result = pytester.runpytest_subprocess("-n", "1")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines("*ConnectionError: keylatch has ended with status -9")


def servers_of_workers(pytester):
    """Runs the tests in workers; returns the ports of the servers that they had."""
    result = pytester.runpytest_subprocess("-n", "3", "-rP")
    result.assert_outcomes(passed=40)
    return set(re.findall(r"served by (\d+)", result.stdout.str()))


def test_tests_of_asyncio_move_the_clock_while_tasks_wait(pytester):
    pytester.makepyfile(ASYNC)
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


def test_markers_size_the_topologies_of_a_test(pytester):
    pytester.makepyfile(TOPOLOGIES)
    result = pytester.runpytest_subprocess("--strict-markers")
    result.assert_outcomes(passed=4, errors=1)
    result.stdout.fnmatch_lines("*TypeError: *unexpected keyword argument 'primary'*")


@pytest.mark.parametrize("workers", ["0", "2"])
def test_no_server_is_started_without_need(pytester, workers):
    pytester.makepyfile(UNUSED)
    pytester.makeconftest(UNUSED_CONTROLLER)
    pytester.runpytest_subprocess("-n", workers).assert_outcomes(passed=1)


def test_the_fixtures_are_documented(pytester):
    listed = pytester.runpytest_subprocess("--fixtures").stdout.str()
    for name in ("keylatch_server", "keylatch", "keylatch_url", "keylatch_cluster", "keylatch_sentinel"):
        assert re.search(rf"^{name} .*-- ", listed, re.MULTILINE), listed
