"""The fixtures as a project meets them: alone, with xdist, with asyncio, and not loaded without need."""

import re

from conftest import has, needs

PARALLEL = """
    import pytest, redis

    @pytest.mark.parametrize("number", range(40))
    def test_a_counter_of_its_own(number, keylatch, keylatch_url):
        client = redis.Redis.from_url(keylatch_url, decode_responses=True)
        for expected in range(1, 20):
            assert client.incr("counter") == expected
        keylatch.advance(number * 1000)
        assert client.keys() == ["counter"]
        assert len(keylatch.calls("INCRBY")) == 19    # needs TEST.CALLS
"""

if not has("TEST.CALLS"):
    PARALLEL = "".join(line for line in PARALLEL.splitlines(True) if "needs" not in line)

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
    @pytest.mark.skipif(not FAULTS, reason="this server has no TEST.FAULT")
    async def test_a_worker_retries_after_a_lost_reply(keylatch):
        async with redis.asyncio.Redis.from_url(keylatch.url) as client:
            keylatch.fault("INCR", lose_reply=True, count=1)
            with pytest.raises(redis.ConnectionError):
                connection = await client.connection_pool.get_connection()
                await connection.send_command("INCR", "n")
                await connection.read_response()
            assert await client.incr("n") == 2      # the first was executed
"""

UNUSED = """
    import threading

    def test_nothing_is_started_for_it():
        assert not any(thread.name == "keylatch-log" for thread in threading.enumerate())
"""


def test_workers_of_xdist_do_not_see_each_other(pytester):
    pytester.makepyfile(PARALLEL)
    pytester.runpytest_subprocess("-n", "4").assert_outcomes(passed=40)


@needs("ns-")
def test_workers_of_xdist_can_share_one_process(pytester, keylatch_server, monkeypatch):
    monkeypatch.setenv("KEYLATCH_URL", keylatch_server.url)
    pytester.makepyfile(PARALLEL)
    pytester.runpytest_subprocess("-n", "3").assert_outcomes(passed=40)


def test_tests_of_asyncio_move_the_clock_while_tasks_wait(pytester):
    faults = has("TEST.FAULT")
    pytester.makepyfile(ASYNC.replace("FAULTS", str(faults)))
    pytester.runpytest_subprocess().assert_outcomes(passed=1 + faults, skipped=1 - faults)


def test_no_server_is_started_without_need(pytester):
    pytester.makepyfile(UNUSED)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_the_fixtures_are_documented(pytester):
    listed = pytester.runpytest_subprocess("--fixtures").stdout.str()
    for name in ("keylatch_server", "keylatch", "keylatch_url"):
        assert re.search(rf"^{name} .*-- ", listed, re.MULTILINE), listed
