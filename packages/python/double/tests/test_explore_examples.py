"""Three bugs in code that looks right, as `explore` finds them, and the same code without them."""

import contextlib
import functools
import uuid

import keylatch
import pytest
import redis


def connect(keylatch, name=None):
    """Returns a client that does not try again of itself."""
    return redis.Redis.from_url(keylatch.url, client_name=name, decode_responses=True)


def found(scenario, code):
    """Explores a scenario with some code; returns the report."""
    return keylatch.explore(functools.partial(scenario, code), raises=False)


class Lock:
    """A lock of a job that runs on several machines."""

    def __init__(self, client):
        self.client, self.token = client, uuid.uuid4().hex

    def acquire(self):
        return self.client.set("lock", self.token, nx=True, ex=300)

    def release(self):
        self.client.delete("lock")


class LockOfItsOwner(Lock):
    """Releases nothing but what it holds itself."""

    RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end"

    def release(self):
        self.client.register_script(self.RELEASE)(["lock"], [self.token])


def a_lock_is_released_and_another_worker_takes_it(lock, keylatch):
    with connect(keylatch, "worker") as worker, connect(keylatch, "other") as other:
        mine, theirs = lock(worker), lock(other)
        is_mine = is_theirs = False
        with contextlib.suppress(redis.ConnectionError):
            is_mine = mine.acquire()
            mine.release()
            is_mine = False
        with contextlib.suppress(redis.ConnectionError):
            is_theirs = theirs.acquire()
        if is_mine:
            mine.release()  # the first had no reply
        if is_theirs:
            assert keylatch.command("GET", "lock") == theirs.token, "the lock of another worker is released"


class Queue:
    """A queue of jobs."""

    def __init__(self, client):
        self.client = client

    def work(self, handle):
        """Handles a job, if there is one within a second."""
        job = self.client.brpop(["jobs"], timeout=1)
        if job is not None:
            handle(job[1])


class QueueThatKeepsJobs(Queue):
    """Has a job in a second list until it is done; one that was interrupted is done again."""

    def work(self, handle):
        while self.client.lmove("jobs:begun", "jobs", "RIGHT", "RIGHT"):
            pass
        job = self.client.blmove("jobs", "jobs:begun", 1, "RIGHT", "LEFT")
        if job is not None:
            handle(job)
            self.client.lrem("jobs:begun", 1, job)


def every_job_is_done(queue, keylatch):
    keylatch.command("LPUSH", "jobs", "first", "second")
    done = set()
    with connect(keylatch) as client:
        while keylatch.command("EXISTS", "jobs", "jobs:begun"):
            with contextlib.suppress(redis.ConnectionError):
                queue(client).work(done.add)
    assert done == {"first", "second"}, "a job is lost"


def is_allowed(client, user):
    """Counts a request; returns whether it is among the first ten of the minute."""
    count = client.incr(f"requests:{user}")
    if count == 1:
        client.expire(f"requests:{user}", 60)
    return count <= 10


def is_allowed_in_one_step(client, user):
    """Counts a request, too: the key never is without its TTL."""
    with client.pipeline(transaction=True) as steps:
        steps.set(f"requests:{user}", 0, ex=60, nx=True)
        steps.incr(f"requests:{user}")
        return steps.execute()[1] <= 10


def a_minute_is_over_at_some_time(is_allowed, keylatch):
    with connect(keylatch) as client:
        for _ in range(2):
            with contextlib.suppress(redis.ConnectionError):
                is_allowed(client, "alice")
    assert keylatch.command("TTL", "requests:alice") != -1, "the count never expires"


BUGS = [
    (
        a_lock_is_released_and_another_worker_takes_it,
        Lock,
        """
AssertionError: the lock of another worker is released
  only="lost-reply: 1st DEL of \\"worker\\""
""",
    ),
    (
        every_job_is_done,
        Queue,
        """
AssertionError: a job is lost
  only="lost-reply: 1st BRPOP"
  only="lost-reply: 2nd BRPOP"
""",
    ),
    (
        a_minute_is_over_at_some_time,
        is_allowed,
        """
AssertionError: the count never expires
  only="lost-reply: 1st INCRBY"
  only="not-executed: 1st EXPIRE"
  only="cut-all: 1st EXPIRE"
""",
    ),
]
REPAIRED = [
    (a_lock_is_released_and_another_worker_takes_it, LockOfItsOwner),
    (every_job_is_done, QueueThatKeepsJobs),
    (a_minute_is_over_at_some_time, is_allowed_in_one_step),
]


@pytest.mark.parametrize(("scenario", "code", "output"), BUGS)
def test_a_bug_is_found_and_each_line_finds_it_again(scenario, code, output, keylatch_server):
    report = found(scenario, code)
    summary, *lines = (line for line in str(report).splitlines() if not line.endswith(": left out"))
    assert lines == output.strip("\n").splitlines(), str(report)
    for name, message in report.failures:
        with pytest.raises(keylatch.ExploreError) as failed:
            keylatch.explore(functools.partial(scenario, code), only=name)
        assert failed.value.report.failures == [(name, message)]


@pytest.mark.parametrize(("scenario", "code"), REPAIRED)
def test_the_code_without_the_bug_passes_at_all_points(scenario, code):
    report = found(scenario, code)
    assert report.ok and report.points > 10 and report.not_tried == 0, str(report)
