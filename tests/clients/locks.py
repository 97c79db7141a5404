"""Proves three claims about the locks of libraries, each beside real contenders.

    KEYLATCH_SERVERS="host:port:pid ..." locks.py LIBRARY...

1. Exclusion: a counter that is read and written back without any care of its own comes out exact under the lock.
2. Takeover: a lock whose holder lets its TTL pass is granted to a waiter, and not before that time.
3. Refusal: a client that has lost a lock can neither release nor extend it, and the new holder is not affected.

On a cluster (KEYLATCH_ENGINE) all servers have the same data, and each contender uses one of them.

Given five servers, the lock goes over all of them; two are killed while it is held, and the claims are made of the
rest. The libraries that no package of Python has are in replayed.py.
"""

import asyncio
import logging
import multiprocessing
import os
import signal
import sys
import time

import pottery
import pottery.exceptions
import redis
import redis.asyncio
import redis_lock
import redlock
from redis.backoff import NoBackoff
from redis.retry import Retry

import replayed

WORKERS = 4
SECTIONS = 50  # of each worker
LONG_S = 60  # a time to live that never passes here
SHORT_S = 1  # the shortest that all know; a busy machine still gets done what comes in it
PATIENCE_S = 60
PAUSE_S = 0.003  # between two attempts


class RedisPy:
    """redis-py's Lock."""

    def __init__(self, servers, key, ttl_s):
        self.lock, self.ttl_s = servers.clients[0].lock(key, timeout=ttl_s), ttl_s

    def acquire(self):
        return self.lock.acquire(blocking=False)

    def release(self):
        try:
            self.lock.release()
        except redis.exceptions.LockNotOwnedError:
            return False
        return True

    def extend(self):
        try:
            return self.lock.extend(self.ttl_s, replace_ttl=True) and self.lock.reacquire()
        except redis.exceptions.LockNotOwnedError:
            return False


class RedisPyAsync(RedisPy):
    """redis-py's Lock for asyncio."""

    def __init__(self, servers, key, ttl_s):
        self.runner, self.ttl_s = asyncio.Runner(), ttl_s
        self.lock = redis.asyncio.Redis(**servers.places[0]).lock(key, timeout=ttl_s)

    def acquire(self):
        return self.runner.run(self.lock.acquire(blocking=False))

    def release(self):
        try:
            self.runner.run(self.lock.release())
        except redis.exceptions.LockNotOwnedError:
            return False
        return True

    def extend(self):
        async def renew():
            return await self.lock.extend(self.ttl_s, replace_ttl=True) and await self.lock.reacquire()

        try:
            return self.runner.run(renew())
        except redis.exceptions.LockNotOwnedError:
            return False


class DjangoRedis(RedisPy):
    """The lock of django-redis, which is redis-py's by another road."""

    def __init__(self, servers, key, ttl_s):
        from django.conf import settings

        place = servers.places[0]
        location = f'redis://{place["host"]}:{place["port"]}/0'
        if not settings.configured:
            settings.configure(CACHES={'default': {'BACKEND': 'django_redis.cache.RedisCache', 'LOCATION': location}})
        from django.core.cache import cache

        self.lock, self.ttl_s = cache.lock(key, timeout=ttl_s), ttl_s


class PythonRedisLock:
    """python-redis-lock."""

    leaves = 'lock-signal:'  # a list that wakes who waits, until it expires

    def __init__(self, servers, key, ttl_s):
        self.client = servers.clients[0]
        self.lock = redis_lock.Lock(self.client, key, expire=ttl_s)

    def acquire(self):
        return self.lock.acquire(blocking=False)

    def release(self):
        try:
            self.lock.release()
        except redis_lock.NotAcquired:
            return False
        return True

    def extend(self):
        try:
            self.lock.extend()
        except redis_lock.NotAcquired:
            return False
        return True


class RedlockPy:
    """redlock-py. It cannot extend, does not tell whether it released, and gives up where any server is down."""

    bears_deaths = False

    def __init__(self, servers, key, ttl_s):
        self.manager = redlock.Redlock(servers.clients, retry_count=1, retry_delay=0.001)
        self.key, self.ttl_s, self.held = key, ttl_s, None

    def acquire(self):
        got = self.manager.lock(self.key, int(self.ttl_s * 1000))
        self.held = got or self.held
        return bool(got)

    def release(self):
        self.manager.unlock(self.held)

    def extend(self):
        return None


class Pottery:
    """pottery's Redlock."""

    def __init__(self, servers, key, ttl_s):
        self.lock = pottery.Redlock(key=key, masters=set(servers.clients), auto_release_time=ttl_s)

    def acquire(self):
        return self.lock.acquire(blocking=False)

    def release(self):
        try:
            self.lock.release()
        except pottery.exceptions.ReleaseUnlockedLock:
            return False
        return True

    def extend(self):
        try:
            self.lock.extend()
        except pottery.exceptions.ExtendUnlockedLock:
            return False
        return True


class Servers:
    """The servers of this run, and a client for each."""

    def __init__(self):
        given = [at.split(':') for at in os.environ['KEYLATCH_SERVERS'].split()]
        if os.environ.get('KEYLATCH_ENGINE'):
            given = [given[os.getpid() % len(given)]]
        self.pids = [int(pid) for _, _, pid in given]
        # A server that is down is down: trying again belongs to the lock and not to the client.
        self.places = [{'host': host, 'port': int(port), 'retry': Retry(NoBackoff(), 0)} for host, port, _ in given]
        self.clients = [redis.Redis(**place, decode_responses=True) for place in self.places]

    @property
    def alive(self):
        """The client of a server that is never killed."""
        return self.clients[0]

    def kill_two(self):
        """Kills the last two, and waits until they are gone."""
        for pid in self.pids[-2:]:
            os.kill(pid, signal.SIGKILL)
        for client in self.clients[-2:]:
            wait(lambda: not answers(client), 'the end of a killed server')

    def flush(self):
        """Takes every lock from its holder."""
        for client in self.clients:
            if answers(client):
                client.flushall()

    def state(self):
        """Returns which keys the servers have, with their values."""
        return [{key: read(client, key) for key in client.keys()} for client in self.clients if answers(client)]


def read(client, key):
    """Returns the value of a key of any type that a lock uses."""
    return {
        'hash': lambda: client.hgetall(key),
        'list': lambda: client.lrange(key, 0, -1),
        'zset': lambda: client.zrange(key, 0, -1, withscores=True),
        'string': lambda: client.get(key),
        'none': lambda: None,
    }[client.type(key)]()


def answers(client):
    try:
        return client.ping()
    except redis.ConnectionError:
        return False


def wait(condition, what):
    """Retries until the condition holds; the clock is real, and the wait is bounded."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f'FAILED: waited in vain for {what}')
        # Randomised: simultaneous attempts would prevent a quorum.
        time.sleep(PAUSE_S * (1 + time.monotonic_ns() // 1000 % 7))


def work(library, outcomes):
    """Adds to the counter a number of times, each time under the lock."""
    servers, overlaps = Servers(), 0
    lock, client = library(servers, 'contended', LONG_S), servers.alive
    for _ in range(SECTIONS):
        wait(lock.acquire, 'the lock')
        overlaps += not client.set('inside', 1, nx=True)
        client.set('counter', int(client.get('counter')) + 1)
        overlaps += not client.delete('inside')
        overlaps += lock.release() is False
    outcomes.put(overlaps)


def exclusion(library, servers):
    servers.alive.set('counter', 0)
    outcomes = multiprocessing.Queue()
    workers = [multiprocessing.Process(target=work, args=(library, outcomes), daemon=True) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    overlaps = sum(outcomes.get(timeout=PATIENCE_S) for _ in workers)
    for worker in workers:
        worker.join()
    count = int(servers.alive.get('counter'))
    assert (count, overlaps) == (WORKERS * SECTIONS, 0), f'{count} of {WORKERS * SECTIONS}, {overlaps} overlaps'


def takeover(library, servers):
    first, second = library(servers, 'passing', SHORT_S), library(servers, 'passing', LONG_S)
    began = time.monotonic()
    # Where a quorum takes longer than the time to live, there is another go at it.
    wait(first.acquire, 'a free lock')
    wait(second.acquire, 'a lock whose time has passed')
    passed = time.monotonic() - began
    assert passed >= SHORT_S - 0.002, f'taken over after {passed} s'
    assert second.release() is not False


def refusal(library, servers):
    robbed, holder = library(servers, 'robbed', LONG_S), library(servers, 'robbed', LONG_S)
    wait(robbed.acquire, 'a free lock')
    assert not holder.acquire(), 'two have the lock'
    servers.flush()
    wait(holder.acquire, 'a free lock')
    before = servers.state()
    assert not robbed.extend(), 'extended the lock of another'
    assert not robbed.release(), 'released the lock of another'
    assert servers.state() == before and any(before), 'the holder has lost its lock'
    assert holder.extend() is not False, 'the holder cannot extend its lock'
    assert holder.release() is not False, 'the holder cannot release its lock'
    signal_of = getattr(library, 'leaves', None)
    left = [key for keys in servers.state() for key in keys if not (signal_of and key.startswith(signal_of))]
    assert not left, f'left behind: {left}'


def survival(library, servers):
    """Kills two of five servers while the lock is held."""
    holder, other = library(servers, 'survivor', LONG_S), library(servers, 'survivor', LONG_S)
    wait(holder.acquire, 'a free lock')
    wait(lambda: all(servers.state()), 'the last servers')  # a quorum may have answered for all
    servers.kill_two()
    assert not other.acquire(), 'two have the lock'
    assert holder.extend() is not False and holder.release() is not False
    wait(other.acquire, 'a lock over the rest')
    assert other.release() is not False


LIBRARIES = {
    'redis-py Lock': RedisPy,
    'redis-py asyncio Lock': RedisPyAsync,
    'django-redis lock': DjangoRedis,
    'python-redis-lock': PythonRedisLock,
    'redlock-py': RedlockPy,
    'pottery Redlock': Pottery,
} | replayed.LIBRARIES


def main():
    logging.disable()  # of servers that are down: pottery and redlock-py log each
    multiprocessing.set_start_method('fork')
    for name in sys.argv[1:]:
        library, servers, began = LIBRARIES[name], Servers(), time.monotonic()
        dies = len(servers.clients) == 5 and getattr(library, 'bears_deaths', True)
        own = getattr(library, 'own_claims', [])
        for claim in [survival] * dies + [exclusion, takeover, refusal, *own]:
            try:
                claim(library, servers)
            except Exception as error:
                raise SystemExit(f'FAILED: {name}: {claim.__name__}: {error!r}') from error
            servers.flush()
        over = f', over {len(servers.clients)} servers' * (len(servers.clients) > 1) + ', two of them killed' * dies
        told = ', '.join(['exclusion', 'takeover', 'refusal', *(claim.__name__ for claim in own)])
        print(f'{name}: {told}{over}: {time.monotonic() - began:.1f} s', flush=True)


if __name__ == '__main__':
    main()
