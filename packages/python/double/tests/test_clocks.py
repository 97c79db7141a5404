"""`advance` moves a fake clock of the process together with that of the server."""

import contextlib
import queue
import threading
from datetime import UTC, datetime, timedelta

import pytest
import redis
import time_machine
from apscheduler.jobstores.redis import RedisJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from freezegun import freeze_time
from keylatch import ReplyError, Server, explore
from rq import Queue, SimpleWorker

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
START = datetime(2040, 1, 1, tzinfo=UTC)
FAKES = {
    "time-machine": lambda: time_machine.travel(START),
    "time-machine that stands": lambda: time_machine.travel(START, tick=False),
    "freezegun": lambda: freeze_time(START),
    "freezegun that runs": lambda: freeze_time(START, tick=True),
    "freezegun in steps": lambda: freeze_time(START, auto_tick_seconds=1),
    "freezegun in time-machine": lambda: both(time_machine.travel(HOUR), freeze_time(START, tick=True)),
}
fakes = pytest.mark.parametrize("fake", FAKES.values(), ids=FAKES)
ran = queue.Queue()


@contextlib.contextmanager
def both(outer, inner):
    """Enters two contexts."""
    with outer, inner:
        yield


def now():
    """Returns the date that the process has now."""
    return datetime.now(UTC)


def run(name):
    """A job of APScheduler, which keeps the name of the function."""
    ran.put(name)


def check_that_a_job_of_rq_runs_in_an_hour(keylatch):
    with redis.Redis.from_url(keylatch.url) as client:
        jobs = Queue(connection=client)
        job = jobs.enqueue_in(HOUR, print, "the report")
        for after, status in (HOUR / 2, "scheduled"), (HOUR / 2, "finished"):
            keylatch.advance(after)
            SimpleWorker([jobs], connection=client).work(burst=True, with_scheduler=True)
            assert job.get_status() == status


@fakes
def test_a_job_of_rq_for_in_an_hour_runs_when_the_clock_has_moved_and_not_before(keylatch, fake):
    with fake():
        check_that_a_job_of_rq_runs_in_an_hour(keylatch)


def test_it_does_so_with_the_fixture_of_time_machine(keylatch, time_machine):
    time_machine.move_to(START)
    check_that_a_job_of_rq_runs_in_an_hour(keylatch)


@pytest.mark.keylatch_explore(kinds=["lost-reply"])
def test_it_does_so_in_each_run_of_a_test_that_is_explored(keylatch, time_machine):
    time_machine.move_to(START, tick=False)
    with redis.Redis.from_url(keylatch.url) as client, contextlib.suppress(redis.ConnectionError):
        client.ping()
    keylatch.advance(HOUR)
    assert now() == START + HOUR


@fakes
def test_the_clock_of_the_process_moves_by_as_much_as_that_of_the_server(keylatch, fake):
    with fake():
        before, of_server = now(), keylatch.now()
        assert 0 <= keylatch.advance(HOUR) - of_server - 3_600_000 < 60_000
        assert timedelta() <= now() - before - HOUR < timedelta(minutes=1)


def test_both_move_by_whole_milliseconds(keylatch):
    with freeze_time(START):
        before = keylatch.freeze()
        assert keylatch.advance(0.6) == before + 1
        assert now() == START + timedelta(milliseconds=1)


@fakes
def test_with_process_false_the_clock_of_the_process_stays(keylatch, fake):
    with fake():
        before, of_server = now(), keylatch.now()
        assert keylatch.advance(HOUR, process=False) >= of_server + 3_600_000
        assert now() - before < timedelta(minutes=1)


def test_a_clock_that_is_not_fake_stays(keylatch, time_machine):
    before = now()
    keylatch.advance(HOUR)
    assert now() - before < timedelta(minutes=1)


def test_a_clock_that_was_fake_stays(keylatch):
    for fake in FAKES.values():
        with fake():
            pass
    before = now()
    keylatch.advance(HOUR)
    assert now() - before < timedelta(minutes=1)


def test_of_clocks_within_each_other_the_innermost_moves(keylatch):
    with freeze_time(START):
        with freeze_time(START + HOUR):
            keylatch.advance(HOUR)
            assert now() == START + 2 * HOUR
        assert now() == START


@pytest.mark.keylatch_sentinel(replicas=0, sentinels=1, quorum=1)
def test_nodes_and_replicas_move_it_as_their_instance_does(keylatch, keylatch_sentinel):
    with freeze_time(START), keylatch.replica() as replica:
        replica.advance(SECOND)
        keylatch_sentinel.node(0).advance(SECOND)
        assert now() == START + 2 * SECOND


def test_what_the_server_refuses_moves_no_clock(keylatch):
    with freeze_time(START):
        with pytest.raises(ReplyError):
            keylatch.advance(-HOUR)
        assert now() == START


def test_a_scheduler_that_sleeps_until_a_job_is_due_has_to_be_woken(keylatch, time_machine):
    login = {"username": keylatch.user, "password": keylatch.password}
    store = RedisJobStore(host=keylatch.host, port=keylatch.port, **login)
    time_machine.move_to(START)
    scheduler = BackgroundScheduler(jobstores={"default": store}, timezone="UTC", daemon=True)
    for name, date in ("later", now() + HOUR), ("now", None):
        scheduler.add_job(run, "date", run_date=date, args=(name,), misfire_grace_time=None)
    scheduler.start()
    assert ran.get(timeout=60) == "now"
    assert [job.args for job in scheduler.get_jobs()] == [("later",)]  # it sleeps from now on
    keylatch.advance(HOUR)
    scheduler.wakeup()
    assert ran.get(timeout=60) == "later"
    scheduler.shutdown()


class TestExplore:
    def test_runs_in_threads_move_only_the_clocks_of_their_instances(self):
        def scenario(keylatch):
            with redis.Redis.from_url(keylatch.url) as client, contextlib.suppress(redis.ConnectionError):
                client.set("key", "value", ex=1)
            with keylatch.replica() as replica:
                replica.advance(HOUR)
            assert keylatch.command("EXISTS", "key") == 0
            assert now() == START

        with freeze_time(START):
            explore(scenario, kinds=["lost-reply"], workers=4)
            assert now() == START

    def test_a_run_that_hangs_ends_although_the_clock_stands(self):
        def scenario(keylatch):
            with redis.Redis.from_url(keylatch.url) as client:
                try:
                    client.ping()
                except redis.ConnectionError:
                    threading.Event().wait(60)

        with freeze_time(START):
            report = explore(scenario, kinds=["not-executed"], timeout=0.2, raises=False, budget=60)
        assert {message for _, message in report.failures} == {"did not end within 0.2 s"}

    def test_a_run_has_its_time_although_the_clock_moves(self):
        def scenario(keylatch):
            with redis.Redis.from_url(keylatch.url) as client, contextlib.suppress(redis.ConnectionError):
                client.ping()
            clock.tick(HOUR)
            threading.Event().wait(0.3)  # longer than it takes until somebody looks

        with freeze_time(START) as clock:
            explore(scenario, kinds=["lost-reply"], only="lost-reply: 1st PING")


def test_a_server_stops_although_the_clock_stands():
    with freeze_time(START):
        server = Server()
        server.stop()
    assert server.process.returncode == 0


def test_no_clock_moves_if_that_of_the_process_cannot(keylatch):
    now = keylatch.freeze()
    with freeze_time("9990-01-01"), pytest.raises(OverflowError):
        keylatch.advance(timedelta(days=20 * 366))
    assert keylatch.now() == now
