"""The fixtures in a project: alone, with xdist, with asyncio, and not loaded without need."""

import re
import shlex

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

EXPLORED = """
    import pytest, redis
    from redis.backoff import NoBackoff
    from redis.maint_notifications import MaintNotificationsConfig
    from redis.retry import Retry

    SILENT = {"driver_info": None, "maint_notifications_config": MaintNotificationsConfig(enabled=False)}

    @pytest.fixture
    def client(keylatch_url):
        with redis.Redis.from_url(keylatch_url, retry=Retry(NoBackoff(), 1), **SILENT) as client:
            client.ping()
            yield client

    @pytest.mark.keylatch_explore(kinds=["lost-reply", "late"], late_by=20_000)
    @pytest.mark.parametrize("name", ["visits"])
    def test_visits_are_counted(name, keylatch, client, tmp_path):
        (tmp_path / "new in each run").touch(exist_ok=False)
        client.incr(name)
        client.expire(name, 10)
        print("this run is shown")
        assert client.get(name) == b"1"

    @pytest.mark.keylatch_explore
    def test_that_passes(keylatch, client):
        client.set("key", "value")
        print("nothing is shown")
        assert client.get("key") == b"value"

    def test_that_is_not_explored(keylatch, client):
        assert len(keylatch.calls("PING")) == 1
"""
EXPLORED_FAILURES = [
    "*::test_visits_are_counted[[]visits[]][[]lost-reply: 1st INCRBY[]] - *Error: assert b'2' == b'1'",
    "*::test_visits_are_counted[[]visits[]][[]late: 1st EXPIRE[]] - *Error: assert None == b'1'",
    "*::test_visits_are_counted[[]visits[]] - *: explore: 8 points in * s: 2 failed",
]

EXPLORED_ASYNC = """
    import pytest, redis.asyncio
    from redis.maint_notifications import MaintNotificationsConfig

    SILENT = {"driver_info": None, "maint_notifications_config": MaintNotificationsConfig(enabled=False)}

    async def count(keylatch):
        async with redis.asyncio.Redis.from_url(keylatch.url, **SILENT) as client:
            await client.incr("n")

    @pytest.mark.keylatch_explore(kinds=["late", "busy"])
    async def test_without_a_plugin(keylatch):
        await count(keylatch)

    @pytest.mark.asyncio
    @pytest.mark.keylatch_explore(kinds=["late", "busy"])
    async def test_with_one(keylatch):
        await count(keylatch)
"""

EXPLORED_WRONGLY = """
    import pytest, redis
    from redis.maint_notifications import MaintNotificationsConfig

    SILENT = {"driver_info": None, "maint_notifications_config": MaintNotificationsConfig(enabled=False)}

    @pytest.mark.keylatch_explore
    def test_without_the_fixture():
        pass

    @pytest.mark.keylatch_explore(kinds=["lost"])
    def test_with_a_kind_that_does_not_exist(keylatch):
        pass

    @pytest.mark.keylatch_explore(workers=2)
    def test_with_workers(keylatch):
        pass

    @pytest.mark.keylatch_explore
    def test_that_fails_of_itself(keylatch):
        print("and says why")
        assert keylatch is None

    runs = []

    @pytest.mark.keylatch_explore(kinds=["late"])
    def test_that_is_another_each_time(keylatch):
        runs.append(1)
        client = redis.Redis.from_url(keylatch.url, **SILENT)
        (client.get if len(runs) < 3 else client.strlen)("a")
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
def test_each_point_at_which_a_test_fails_is_a_report(pytester, workers, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    pytester.makepyfile(EXPLORED)
    result = pytester.runpytest_subprocess("--strict-markers", "-n", workers, "--junitxml", "all.xml")
    result.assert_outcomes(passed=2, failed=3)
    result.stdout.fnmatch_lines([f"FAILED {line}" for line in EXPLORED_FAILURES])
    text = result.stdout.str()
    assert text.count("\nthis run is shown\n") == 2 and "nothing is shown" not in text
    assert 'name="test_visits_are_counted[visits][late: 1st EXPIRE]"' in (pytester.path / "all.xml").read_text()


def test_the_command_of_a_report_runs_its_point_again(pytester, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    for name in ["CI", "BUILD_NUMBER"]:
        monkeypatch.delenv(name, raising=False)  # with one of them pytest shows a report twice
    pytester.makepyfile(EXPLORED)
    found = pytester.runpytest_subprocess().stdout.str()
    commands = re.findall(r"^pytest (.*)", found, re.MULTILINE)
    assert len(commands) == 3 and commands[2] == commands[0]
    result = pytester.runpytest_subprocess(*shlex.split(commands[1]))
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines([f"FAILED {EXPLORED_FAILURES[1]}", "FAILED *: explore: 1 point in * s: 1 failed"])
    known = pytester.runpytest_subprocess("--last-failed", "--collect-only", "-q").stdout.str()
    assert known.count("::test_visits") == 1 and "::test_that" not in known
    missing = pytester.runpytest_subprocess("-k", "passes", "--keylatch-only", "late: 9th SET")
    missing.assert_outcomes(failed=1)
    missing.stdout.fnmatch_lines(["*there is no point*late: 9th SET*", "*late: 1st SET*"])


def test_points_behind_a_run_that_does_not_end_are_tried(pytester, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    pytester.makepyfile("""
        import pytest, redis

        @pytest.mark.keylatch_explore(kinds=["evicted"], timeout=0.5)
        def test_jobs(keylatch):
            with redis.Redis.from_url(keylatch.url) as client:
                for _ in range(2):
                    client.rpush("jobs", 1)
                    client.blpop(["jobs"])  # waits for ever for a job that is lost
    """)
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(["FAILED *::test_jobs - Failed: explore: 2 points in * s: 2 failed"])


def test_coroutines_are_explored_with_and_without_a_plugin(pytester):
    pytester.makepyfile(EXPLORED_ASYNC)
    result = pytester.runpytest_subprocess("-v")
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(["*::test_without_a_plugin[[]busy: 1st INCRBY[]] FAILED*"])
    result.stdout.fnmatch_lines(["*::test_with_one[[]busy: 1st INCRBY[]] FAILED*"])


def test_what_cannot_be_explored_is_an_error(pytester, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    pytester.makepyfile(EXPLORED_WRONGLY)
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=6)
    result.stdout.fnmatch_lines(["*Captured stdout call*", "and says why"])
    result.stdout.fnmatch_lines(
        [
            "FAILED *::test_without_the_fixture - Failed: keylatch_explore is for tests that use the fixture*",
            "FAILED *::test_with_a_kind_that_does_not_exist - ValueError: there is no kind 'lost'*",
            "FAILED *::test_with_workers - TypeError: keylatch_explore takes*",
            "FAILED *::test_that_fails_of_itself - *assert <*> is None*",
            "FAILED *::test_that_is_another_each_time[[]late: 1st GET[]] - not repeatable: its 1st call was STRLEN a, not *",
            "FAILED *::test_that_is_another_each_time - *1 is not repeatable*",
        ]
    )


@pytest.mark.parametrize("workers", ["0", "2"])
def test_no_server_is_started_without_need(pytester, workers):
    pytester.makepyfile(UNUSED)
    pytester.makeconftest(UNUSED_CONTROLLER)
    pytester.runpytest_subprocess("-n", workers).assert_outcomes(passed=1)


def test_the_fixtures_are_documented(pytester):
    listed = pytester.runpytest_subprocess("--fixtures").stdout.str()
    for name in ("keylatch_server", "keylatch", "keylatch_url", "keylatch_cluster", "keylatch_sentinel"):
        assert re.search(rf"^{name} .*-- ", listed, re.MULTILINE), listed
