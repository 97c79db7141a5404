"""Proves that the patterns exclude each other: each process takes the same lock in its own way.

    KEYLATCH_SERVERS="host:port ..." contenders.py [--sections N]

The lock program of run_seed_lock.py (SETNX and GETSET), redis-py's Lock, a client that acquires and releases by Lua
scripts, one that uses SET NX PX and DELEX, LOCK.ACQUIRE waiting in line, and the helper over it. Their sections are
watched as in run_seed_lock.py. The tokens are times to come: the lock program would take over a time that has passed,
and can read nothing else. Several servers have the same data: each process asks another one.
"""

import argparse
import itertools
import multiprocessing
import os
import sys
import tempfile
import time

import redis
from keylatch_lock import Lock

import seed_lock
from run_seed_lock import PATIENCE_S, Section

TTL_MS = PATIENCE_S * 1000
PAUSE_S = 0.001
KEY = seed_lock.lock_key
ACQUIRE = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0"
RELEASE = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0"
numbers = itertools.count()


def token():
    """Returns a token of this process and no other, a time of the far future."""
    return f'9{os.getpid():010}{next(numbers):08}'


def wait(attempt):
    """Tries until the lock is obtained."""
    deadline = time.monotonic() + PATIENCE_S
    while not attempt():
        assert time.monotonic() < deadline, 'the lock was never obtained'
        time.sleep(PAUSE_S)


def seeds(client, section):
    seed_lock.run(client, section)


def redis_py(client, section):
    lock = client.lock(KEY, timeout=PATIENCE_S, sleep=PAUSE_S)
    assert lock.acquire(token=token())
    section()
    lock.release()


def lua(client, section):
    mine = token()
    wait(lambda: client.eval(ACQUIRE, 1, KEY, mine, TTL_MS))
    section()
    assert client.eval(RELEASE, 1, KEY, mine) == 1


def set_nx(client, section):
    mine = token()
    wait(lambda: client.set(KEY, mine, nx=True, px=TTL_MS))
    section()
    assert client.execute_command('DELEX', KEY, 'IFEQ', mine) == 1


def lock_acquire(client, section):
    mine = token()
    fence = client.execute_command('LOCK.ACQUIRE', KEY, mine, 'PX', TTL_MS, 'BLOCK', TTL_MS)
    section()
    section.fences.append(fence)
    assert client.execute_command('LOCK.RELEASE', KEY, mine) == 1


def helper(client, section):
    with Lock(client, KEY, ttl=PATIENCE_S, owner=token()) as lock:  # the lock program can read this token
        section()
        section.fences.append(lock.fence)


CONTENDERS = [seeds, redis_py, lua, set_nx, lock_acquire, lock_acquire, helper, helper]


def work(contender, address, sections, directory, results):
    client, section = redis.Redis(*address, socket_timeout=PATIENCE_S), Section(directory)
    section.fences = []
    for _ in range(sections):
        contender(client, section)
    results.put((section.violations, section.fences))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--sections', type=int, default=60, help='of each contender')
    sections, began = parser.parse_args().sections, time.monotonic()
    servers = [server.split(':')[:2] for server in os.environ['KEYLATCH_SERVERS'].split()]
    addresses = [(host, int(port)) for host, port in servers]
    results = multiprocessing.Queue()
    with tempfile.TemporaryDirectory() as directory:
        with open(Section(directory).counter, 'w') as file:
            file.write('0')
        arguments = [
            (contender, address, sections, directory, results)
            for contender, address in zip(CONTENDERS, itertools.cycle(addresses))
        ]
        workers = [multiprocessing.Process(target=work, args=each, daemon=True) for each in arguments]
        for worker in workers:
            worker.start()
        outcomes = [results.get(timeout=2 * PATIENCE_S) for _ in workers]
        for worker in workers:
            worker.join()
        count = Section(directory).count()
    violations, fences = sum(each for each, _ in outcomes), [fences for _, fences in outcomes]
    expected = sections * len(CONTENDERS)
    if violations or count != expected:
        sys.exit(f'FAILED: {violations} sections met another holder, the counter is {count}, not {expected}')
    if any(each != sorted(each) for each in fences) or len(set(sum(fences, []))) != len(sum(fences, [])):
        sys.exit('FAILED: a fence has not increased')
    if any(redis.Redis(*address).exists(KEY) for address in addresses):
        sys.exit('FAILED: the lock was left behind')
    names = ', '.join(sorted({contender.__name__ for contender in CONTENDERS}))
    print(f'contenders for one key: never two holders in {count} sections: {names}: {time.monotonic() - began:.1f} s')


if __name__ == '__main__':
    main()
