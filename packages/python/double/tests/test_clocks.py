"""Libraries that compare with the clock of their process, which is moved with that of the server."""

import queue
from datetime import UTC, datetime, timedelta

import redis
from apscheduler.jobstores.redis import RedisJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from freezegun import freeze_time
from rq import Queue, SimpleWorker

HOUR = timedelta(hours=1)
ran = queue.Queue()


def run(name):
    """A job of APScheduler, which keeps the name of the function."""
    ran.put(name)


def test_with_freezegun_a_job_for_in_an_hour_runs_and_not_before(keylatch):
    client = redis.Redis.from_url(keylatch.url)
    jobs = Queue(connection=client)

    def work():
        SimpleWorker([jobs], connection=client).work(burst=True, with_scheduler=True)

    with freeze_time(tick=True) as clock:
        job = jobs.enqueue_in(HOUR, print, "the report")
        keylatch.advance(HOUR)
        work()
        assert job.get_status() == "scheduled"
        clock.move_to(datetime.now(UTC) + HOUR)  # `tick` would take away the time since the clock was frozen
        work()
        assert job.get_status() == "finished"


def test_a_scheduler_that_sleeps_until_a_job_is_due_has_to_be_woken(keylatch, time_machine):
    login = {"username": keylatch.user, "password": keylatch.password}
    store = RedisJobStore(host=keylatch.host, port=keylatch.port, **login)
    scheduler = BackgroundScheduler(jobstores={"default": store}, timezone="UTC", daemon=True)
    for name, date in ("later", datetime.now(UTC) + HOUR), ("now", None):
        scheduler.add_job(run, "date", run_date=date, args=(name,), misfire_grace_time=None)
    scheduler.start()
    assert ran.get(timeout=60) == "now"
    assert [job.args for job in scheduler.get_jobs()] == [("later",)]  # it sleeps from now on
    keylatch.advance(HOUR)
    time_machine.move_to(HOUR)
    scheduler.wakeup()
    assert ran.get(timeout=60) == "later"
    scheduler.shutdown()
