"""Runs the job queues of Python with their own workers, and proves that each job runs once and gives its result.

    KEYLATCH_SERVERS=host:port jobs.py LIBRARY...

Celery and RQ work in processes of their own, started from here: jobs.py --worker LIBRARY. The others work in threads
or tasks of this process. A task counts its runs in a string of the server, which no library knows of.
"""

import asyncio
import contextlib
import datetime
import functools
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time

import redis

import cases

PATIENCE_S = 40
DELAY_S = 1  # of jobs for later
RETRY_S = 0.5  # until a task runs again; its first run is then stored as failed
MANY = 20
HOST, PORT = os.environ['KEYLATCH_SERVERS'].split()[0].split(':')[:2]
URL = f'redis://{HOST}:{PORT}/0'


@functools.cache
def counters():
    return redis.Redis(host=HOST, port=int(PORT), db=15, decode_responses=True)


@functools.cache
def queues():
    return redis.Redis(host=HOST, port=int(PORT), decode_responses=True)


def count(name):
    """Counts a run of a task; returns the number of runs so far."""
    return counters().incr(f'ran:{name}')


def runs(name):
    return int(counters().get(f'ran:{name}') or 0)


def add(a, b):
    """The task of all libraries."""
    count(f'add:{a}')
    return a + b


def fail_twice():
    """A task that succeeds at the third attempt."""
    attempt = count('fail_twice')
    if attempt < 3:
        raise RuntimeError(f'attempt {attempt} fails on purpose')
    return attempt


def total_of(numbers):
    return sum(numbers)


def when():
    """A task for later: returns when it ran."""
    count('when')
    return time.time()


def same(got, expected):
    assert got == expected, f'{got!r} and not {expected!r}'


def until(condition, what):
    """Waits for what other threads and processes do; the clock is real, and the wait is bounded."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f'waited in vain for {what}'
        time.sleep(0.01)
    return found


async def until_async(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not (found := await condition()):
        assert not any(task.done() for task in background), f'{background} while waiting for {what}'
        assert time.monotonic() < deadline, f'waited in vain for {what}'
        await asyncio.sleep(0.01)
    return found


def each_ran_once():
    same([runs(f'add:{number}') for number in range(MANY)], [1] * MANY)


@contextlib.contextmanager
def worker_process(library):
    """Starts a worker, which has to end with status 0 on SIGTERM; prints its output if anything fails."""
    command = [sys.executable, __file__, '--worker', library]
    with tempfile.TemporaryFile('w+') as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            yield process
            process.terminate()
            same(process.wait(PATIENCE_S), 0)
        except BaseException:
            said.seek(0)
            print(said.read()[-8000:], file=sys.stderr)
            raise
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and its children


background = set()  # the workers that run as tasks


@contextlib.asynccontextmanager
async def running(coroutine):
    """Runs a worker as a task; an error of it is an error of the case."""
    task = asyncio.create_task(coroutine)
    background.add(task)
    try:
        yield task
        assert not task.done(), task.exception() or 'the worker has ended by itself'
    finally:
        background.discard(task)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


# Celery: lists and hashes, sets and sorted sets of unacknowledged messages, results in strings, messages.


@functools.cache
def celery_app():
    from celery import Celery

    app = Celery('jobs', broker=URL, backend=URL)
    app.conf.update(
        broker_connection_retry_on_startup=True,
        task_acks_late=True,
        worker_prefetch_multiplier=1,
        broker_transport_options={'priority_steps': [0, 5, 9]},
    )
    app.task(name='add')(add)
    app.task(name='when')(when)
    app.task(name='total')(total_of)

    @app.task(name='fail_twice', bind=True, max_retries=5)
    def fail_twice_task(self):
        try:
            return fail_twice()
        except RuntimeError as error:
            raise self.retry(exc=error, countdown=RETRY_S)

    @app.task(name='fail_always')
    def fail_always():
        raise ValueError('as it is meant to')

    return app


def celery_worker():
    celery_app().worker_main(['worker', '--concurrency=2', '--loglevel=INFO', '--hostname=jobs@localhost'])


def celery():
    from celery import chain, chord, group

    app = celery_app()
    task = app.tasks

    def get(result):
        # A result that comes before its subscription is never heard of: Celery does not wait for one to begin.
        until(result.ready, 'a result')
        return result.get(timeout=PATIENCE_S)

    # What is sent before there is a worker, waits; and its results are heard of.
    early = group(task['add'].s(number, 1) for number in range(MANY))()
    until(lambda: len(queues().pubsub_channels('celery-task-meta-*')) == MANY, 'the subscriptions')
    with worker_process('Celery'):
        same(early.get(timeout=PATIENCE_S), [number + 1 for number in range(MANY)])
        each_ran_once()
        same(get(chain(task['add'].s(100, 2), task['add'].s(3))()), 105)
        same(get(chord((task['add'].s(200 + number, 1) for number in range(8)), task['total'].s())()), 1636)
        same(get(task['fail_twice'].delay()), 3)
        same(runs('fail_twice'), 3)
        eta = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=DELAY_S)
        late = task['when'].apply_async(eta=eta)
        urgent = task['add'].apply_async((300, 1), priority=9)
        same(get(urgent), 301)
        assert get(late) >= eta.timestamp(), 'a task ran before its ETA'
        same(runs('when'), 1)
        failed = task['fail_always'].delay()
        try:
            get(failed)
            raise AssertionError('the error of a task got lost')
        except ValueError as error:
            same(str(error), 'as it is meant to')
        # Remote control goes over messages of the broker and its own queues.
        same(app.control.ping(timeout=PATIENCE_S, limit=1), [{'jobs@localhost': {'ok': 'pong'}}])
        revoked = task['add'].apply_async((400, 1), countdown=60)
        until(lambda: queues().hlen('unacked') == 1, 'the task for later to be fetched')
        app.control.revoke(revoked.id, reply=True, timeout=PATIENCE_S, limit=1)
    # The worker gives back what it has not done.
    same(queues().hlen('unacked'), 0)
    same([queues().llen('celery'), runs('add:400')], [1, 0])
    same(app.control.purge(), 1)
    app.close()
    return 'queue, priority, chain, chord, retry, ETA, errors, remote control, what is undone goes back'


# RQ: lists, hashes, sets, sorted sets, results in streams, messages.


def rq_worker():
    from rq import Worker

    connection = redis.Redis(host=HOST, port=int(PORT))
    Worker(['high', 'default'], connection=connection).work(with_scheduler=True)


def rq():
    from rq import Callback, Queue, Retry
    from rq.job import JobStatus
    from rq.registry import FinishedJobRegistry, ScheduledJobRegistry

    connection = redis.Redis(host=HOST, port=int(PORT))
    queue = Queue('default', connection=connection)

    def result(job):
        until(lambda: job.get_status(refresh=True) in (JobStatus.FINISHED, JobStatus.FAILED), f'{job}')
        same(job.get_status(), JobStatus.FINISHED)
        return job.latest_result().return_value

    early = [queue.enqueue(add, number, 1) for number in range(MANY // 4)]
    with queue.connection.pipeline() as pipe:
        prepared = [Queue.prepare_data(add, (number, 1)) for number in range(MANY // 4, MANY)]
        early += queue.enqueue_many(prepared, pipeline=pipe)
        pipe.execute()
    with worker_process('RQ'):
        same([result(job) for job in early], [number + 1 for number in range(MANY)])
        each_ran_once()
        first = queue.enqueue(add, 100, 1)
        second = Queue('high', connection=connection).enqueue(
            add, 101, 1, depends_on=first, on_success=Callback(rq_done)
        )
        same([result(second), result(first), runs('rq_done')], [102, 101, 1])
        same(result(queue.enqueue(fail_twice, retry=Retry(max=3))), 3)
        began = time.time()
        late = queue.enqueue_in(datetime.timedelta(seconds=DELAY_S), when)
        same(ScheduledJobRegistry(queue=queue).get_job_ids(), [late.id])
        assert result(late) >= int(began) + DELAY_S, 'a job ran before its time'
        same(runs('when'), 1)
        same(len(FinishedJobRegistry(queue=queue)), MANY + 3)
    connection.close()
    return 'queues, dependencies, callbacks, retry, the scheduler, registries'


def rq_done(job, connection, result):
    count('rq_done')


def rq_scheduler():
    from rq import Queue, SimpleWorker
    from rq_scheduler import Scheduler

    connection = redis.Redis(host=HOST, port=int(PORT))
    scheduler = Scheduler('default', connection=connection, interval=1)
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    scheduler.enqueue_at(now, add, 0, 1)
    kept = scheduler.enqueue_at(now + datetime.timedelta(hours=1), add, 1, 1)
    scheduler.schedule(now, add, args=(2, 1), interval=3600, repeat=5)
    assert scheduler.acquire_lock(), 'no lock for the scheduler'
    assert not Scheduler('default', connection=connection).acquire_lock(), 'two schedulers have the lock'
    scheduler.enqueue_jobs()
    scheduler.remove_lock()
    SimpleWorker([Queue('default', connection=connection)], connection=connection).work(burst=True)
    same([runs('add:0'), runs('add:1'), runs('add:2'), scheduler.count()], [1, 0, 1, 2])
    scheduler.cancel(kept)
    assert kept not in scheduler
    connection.close()
    return 'due and repeated jobs, its lock'


# huey: a list or a sorted set as queue, a hash of results, a sorted set as schedule.


def last_of(get, result):
    """Returns the result of the last attempt. The error of an earlier one is a result until the next attempt ends."""
    from huey.exceptions import TaskException

    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            return get(result)
        except TaskException:
            result.reset()
    raise RuntimeError('no attempt has succeeded')


def huey_of(kind):
    def case():
        import huey

        app = getattr(huey, kind)('jobs', host=HOST, port=int(PORT))
        plus = app.task()(add)
        later = app.task()(when)
        flaky = app.task(retries=3)(fail_twice)
        total = app.task()(total_of)
        get = functools.partial(lambda result: result.get(blocking=True, timeout=PATIENCE_S, max_delay=0.05))
        early = plus.map([(number, 1) for number in range(MANY)])
        consumer = app.create_consumer(workers=2, initial_delay=0.01, max_delay=0.05)
        consumer.start()
        try:
            same(get(early), [number + 1 for number in range(MANY)])
            each_ran_once()
            same([each for each in get(app.enqueue(plus.s(100, 1).then(plus, 5)))], [101, 106])
            same(
                get(app.enqueue(huey.chord([plus.s(200 + number, 1) for number in range(4)], total.s())).callback), 810
            )
            same(last_of(get, flaky()), 3)
            began = time.time()
            assert get(later.schedule(delay=DELAY_S)) >= began + DELAY_S, 'a task ran before its time'
            revoked = later.schedule(delay=3600)
            until(lambda: app.scheduled_count() == 1, 'the task on its schedule')
            revoked.revoke()
            assert revoked.is_revoked() and runs('when') == 1
        finally:
            consumer.stop(graceful=True)
        same(app.pending_count(), 0)
        return 'queue, pipeline, chord, retry, schedule, revocation'

    return case


# dramatiq: lists, hashes, sets and sorted sets under scripts.


def dramatiq():
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker
    from dramatiq.rate_limits import ConcurrentRateLimiter
    from dramatiq.rate_limits.backends import RedisBackend as Limits
    from dramatiq.results import Results
    from dramatiq.results.backends import RedisBackend

    client = redis.Redis(host=HOST, port=int(PORT))
    broker = RedisBroker(client=client)
    broker.add_middleware(Results(backend=RedisBackend(client=client), store_results=True))
    dramatiq.set_broker(broker)
    plus = dramatiq.actor(add, actor_name='add')
    later = dramatiq.actor(when, actor_name='when')
    flaky = dramatiq.actor(fail_twice, actor_name='fail_twice', max_retries=5, min_backoff=10, max_backoff=50)
    dead = dramatiq.actor(always_fails, actor_name='dead', max_retries=0)
    get = functools.partial(lambda message: message.get_result(block=True, timeout=PATIENCE_S * 1000))
    early = dramatiq.group([plus.message(number, 1) for number in range(MANY)]).run()
    worker = dramatiq.Worker(broker, worker_threads=4, worker_timeout=100)
    worker.start()
    try:
        same(list(early.get_results(block=True, timeout=PATIENCE_S * 1000)), [number + 1 for number in range(MANY)])
        each_ran_once()
        same(get(dramatiq.pipeline([plus.message(100, 1), plus.message(7)]).run()), 108)
        same([get(flaky.send()), runs('fail_twice')], [3, 3])
        began = time.time()
        assert get(later.send_with_options(delay=DELAY_S * 1000)) >= began + DELAY_S, 'a message ran before its time'
        same(runs('when'), 1)
        dead.send()
        until(lambda: client.zcard('dramatiq:default.XQ') == 1, 'a dead letter')
        broker.join('default', timeout=PATIENCE_S * 1000)
        worker.join()
    finally:
        worker.stop()
    limiter = ConcurrentRateLimiter(Limits(client=client), 'limit', limit=2)
    with limiter.acquire(raise_on_failure=False) as one, limiter.acquire(raise_on_failure=False) as two:
        with limiter.acquire(raise_on_failure=False) as three:
            same([one, two, three], [True, True, False])
    broker.close()
    return 'queue, results, pipeline, retry, delay, dead letters, a limit of concurrency'


def always_fails():
    raise ValueError('as it is meant to')


# arq: a sorted set as queue, strings, a stream for none.


async def arq_add(_, a, b):
    return add(a, b)


async def arq_flaky(ctx):
    from arq import Retry

    attempt = count('fail_twice')
    if attempt < 3:
        raise Retry(defer=0.05)
    same(ctx['job_try'], attempt)
    return attempt


async def arq_when(_):
    return when()


async def arq():
    from arq import Worker, create_pool
    from arq.connections import RedisSettings
    from arq.jobs import JobStatus

    pool = await create_pool(RedisSettings(host=HOST, port=int(PORT)))
    early = [await pool.enqueue_job('arq_add', number, 1, _job_id=f'job{number}') for number in range(MANY)]
    assert await pool.enqueue_job('arq_add', 0, 1, _job_id='job0') is None, 'one id for two jobs'
    same(len(await pool.queued_jobs()), MANY)
    workers = [
        Worker([arq_add, arq_flaky, arq_when], redis_pool=pool, handle_signals=False, poll_delay=0.02) for _ in range(2)
    ]

    async def result(job):
        return await job.result(timeout=PATIENCE_S, poll_delay=0.02)

    async with running(workers[0].async_run()), running(workers[1].async_run()):
        same([await result(job) for job in early], [number + 1 for number in range(MANY)])
        each_ran_once()
        same(await result(await pool.enqueue_job('arq_flaky')), 3)
        began = time.time()
        late = await pool.enqueue_job('arq_when', _defer_by=DELAY_S)
        same(await late.status(), JobStatus.deferred)
        assert await result(late) >= began + DELAY_S, 'a job ran before its time'
        same(await late.status(), JobStatus.complete)
        same([runs('when'), len(await pool.all_job_results())], [1, MANY + 2])
    await pool.aclose()
    return 'two workers, unique ids, results, retry, deferred jobs'


# saq: lists, sorted sets, sets, messages.


async def saq_add(_, *, a, b):
    return add(a, b)


async def saq_flaky(_):
    return fail_twice()


async def saq_when(_):
    return when()


async def swept():
    return queues().keys('saq:*:sweep')


async def saq_done(job):
    """Waits for a job; its own wait misses a job that is done before it has subscribed."""

    async def refreshed():
        await job.refresh()
        return job.completed

    await until_async(refreshed, f'{job}')


async def saq():
    from saq import Queue, Worker

    queue = Queue.from_url(URL)
    await queue.connect()
    worker = Worker(queue, functions=[saq_add, saq_flaky, saq_when], concurrency=4)
    async with running(worker.start()):
        # Its first sweep would abort a job that has been taken just then.
        await until_async(swept, 'the first sweep')
        kept = await queue.enqueue('saq_add', a=999, b=1, key='unique', scheduled=int(time.time()) + 3600)
        assert await queue.enqueue('saq_add', a=999, b=1, key='unique') is None, 'one key for two jobs'
        await kept.abort('not needed')
        early = [await queue.enqueue('saq_add', a=number, b=1) for number in range(MANY)]
        for job in early:
            await saq_done(job)
        same([job.result for job in early], [number + 1 for number in range(MANY)])
        each_ran_once()
        same(await queue.map('saq_add', [{'a': 100, 'b': 1}, {'a': 101, 'b': 1}], timeout=PATIENCE_S), [101, 102])
        same(await queue.apply('saq_flaky', retries=3, retry_delay=0.01), 3)
        began = time.time()
        late = await queue.enqueue('saq_when', scheduled=int(began) + 1 + DELAY_S)
        await saq_done(late)
        assert late.result >= began + DELAY_S, 'a job ran before its time'
        same([runs('when'), runs('add:999'), await queue.count('incomplete')], [1, 0, 0])
    await queue.disconnect()
    return 'unique keys, results, map, retry, scheduled jobs'


# taskiq: a list or a stream as queue, schedules in lists and strings.


def taskiq_of(kind):
    async def case():
        import taskiq_redis
        from taskiq import SimpleRetryMiddleware, TaskiqScheduler
        from taskiq.api import run_receiver_task, run_scheduler_task

        broker = getattr(taskiq_redis, kind)(URL).with_result_backend(taskiq_redis.RedisAsyncResultBackend(URL))
        broker = broker.with_middlewares(SimpleRetryMiddleware(default_retry_count=3))

        # Functions of its own, for it renames those that it is given.
        def taskiq_add(a: int, b: int) -> int:
            return add(a, b)

        def taskiq_when() -> float:
            return when()

        def taskiq_fail_twice() -> int:
            return fail_twice()

        plus = broker.task(task_name='add')(taskiq_add)
        later = broker.task(task_name='when')(taskiq_when)
        flaky = broker.task(task_name='fail_twice', retry_on_error=True)(taskiq_fail_twice)
        source = taskiq_redis.ListRedisScheduleSource(URL)
        broker.is_worker_process = True
        await broker.startup()
        await source.startup()

        async def result(task):
            return (await task.wait_result(timeout=PATIENCE_S, check_interval=0.01)).return_value

        early = [await plus.kiq(number, 1) for number in range(MANY)]
        async with running(run_receiver_task(broker)):
            same([await result(task) for task in early], [number + 1 for number in range(MANY)])
            each_ran_once()
            same(await result(await flaky.kiq()), 3)
            at = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=DELAY_S)
            await later.schedule_by_time(source, at)
            scheduler = TaskiqScheduler(broker, [source])
            async with running(run_scheduler_task(scheduler, interval=datetime.timedelta(seconds=1))):
                same(await until_async(ran_when, 'a scheduled task'), 1)
            same([runs('when'), len(await source.get_schedules())], [1, 0])
        await source.shutdown()
        await broker.shutdown()
        return 'queue, results, retry, schedule'

    return case


async def ran_when():
    return runs('when')


# APScheduler: a hash of jobs, a sorted set of their times.


def apscheduler():
    from apscheduler.jobstores.redis import RedisJobStore
    from apscheduler.schedulers.background import BackgroundScheduler

    def scheduler():
        return BackgroundScheduler(jobstores={'default': RedisJobStore(host=HOST, port=int(PORT))}, timezone='UTC')

    def at(**offset):
        return datetime.datetime.now(datetime.UTC) + datetime.timedelta(**offset)

    # A scheduler that stops runs what is due, though it was paused: so nothing is, however long adding takes.
    first = scheduler()
    first.start(paused=True)
    for number in range(MANY):
        first.add_job('jobs:add', 'date', run_date=at(days=1), args=(number, 1), id=f'job{number}')
    first.add_job('jobs:add', 'interval', hours=1, args=(100, 1), id='hourly', misfire_grace_time=None)
    first.modify_job('hourly', args=(101, 1))
    first.remove_job('job0')
    same(len(first.get_jobs()), MANY)
    first.shutdown()

    # Another scheduler finds the jobs of the first.
    second = scheduler()
    second.start(paused=True)
    same(len(second.get_jobs()), MANY)
    soon = at(seconds=DELAY_S)
    for number in range(1, MANY):
        second.modify_job(f'job{number}', misfire_grace_time=None)
        second.reschedule_job(f'job{number}', trigger='date', run_date=soon)
    second.resume()
    until(lambda: len(second.get_jobs()) == 1, 'the jobs')
    assert at() >= soon, 'jobs ran before their time'
    second.reschedule_job('hourly', trigger='interval', hours=2)
    second.modify_job('hourly', next_run_time=at())
    until(lambda: runs('add:101') == 1, 'the changed job')
    until(lambda: all(runs(f'add:{number}') == 1 for number in range(1, MANY)), 'every job')
    second.shutdown()
    same([runs('add:0'), runs('add:100'), runs('add:101')], [0, 0, 1])
    return 'jobs outlive their scheduler, run once, are changed and removed'


LIBRARIES = {
    'huey': huey_of('RedisHuey'),
    'huey with priorities': huey_of('PriorityRedisHuey'),
    'taskiq over lists': taskiq_of('ListQueueBroker'),
    'taskiq over streams': taskiq_of('RedisStreamBroker'),
    'APScheduler': apscheduler,
    'arq': arq,
    'saq': saq,
    'dramatiq': dramatiq,
    'Celery': celery,
    'rq-scheduler': rq_scheduler,
    'RQ': rq,
}
WORKERS = {'Celery': celery_worker, 'RQ': rq_worker}


def main():
    if sys.argv[1] == '--worker':
        return WORKERS[sys.argv[2]]()
    logging.disable()  # of tasks that fail on purpose
    cases.run(LIBRARIES, sys.argv[1:], lambda: counters().flushall())


if __name__ == '__main__':
    import jobs  # tasks are found by the name of their module

    jobs.main()
