"""Proves that clients that ask sentinels for the primary follow a failover, and lose nothing that WAIT acknowledged.

    KEYLATCH_SERVERS="host:port:pid ..." SENTINELS="host:port ..." failover.py CLIENT...

The first server is the primary of two, and is killed between two writes of the client. A write counts as acknowledged
if the replicas have it that there are; each has to be there in the end, at the new primary and at its replica. Others
are repeated. One of two would not be enough here: the sentinels may know of an older state and take the other.
"""

import asyncio
import os
import signal
import socket
import sys
import time

import cases
import redis
import redis.asyncio
from redis.asyncio.sentinel import Sentinel as AsyncSentinel
from redis.sentinel import Sentinel

WRITES = 200  # before the primary is killed, and after it
PATIENCE_S = 30
TIMEOUT_S = 2  # of a connection
SENTINELS = [(host, int(port)) for host, port in (place.split(':') for place in os.environ['SENTINELS'].split())]
FIRST = os.environ['KEYLATCH_SERVERS'].split()[0].split(':')
GONE = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, redis.exceptions.ReadOnlyError)


def listens(place):
    """Returns whether a server accepts connections."""
    try:
        socket.create_connection((place[0], int(place[1])), PATIENCE_S).close()
    except OSError:
        return False
    return True


class Writes:
    """The writes that were acknowledged, and how many had to be repeated."""

    def __init__(self):
        self.acknowledged, self.repeated = {}, 0
        self.deadline = time.monotonic() + PATIENCE_S

    def __iter__(self):
        """Yields the next write, repeatedly until it is acknowledged."""
        for number in range(2 * WRITES):
            if number == WRITES:
                os.kill(int(FIRST[2]), signal.SIGKILL)
                while listens(FIRST):
                    time.sleep(0.01)
            while number not in self.acknowledged:
                assert time.monotonic() < self.deadline, f'write {number} is not acknowledged'
                yield number

    def note(self, number, replicas):
        """Records the number of replicas that have a write."""
        if replicas >= self.awaited(number):
            self.acknowledged[number] = str(number).encode()
        else:
            self.repeated += 1

    def awaited(self, number):
        """Returns the number of replicas that a write has to reach."""
        return 2 if number < WRITES else 1

    def keys(self):
        return [f'key:{number}' for number in self.acknowledged]

    def proved(self, primary, found):
        """Compares the data of the primary and its replica with the acknowledged writes."""
        assert primary[1] != int(FIRST[1]), 'the primary was killed'
        for there in found:
            assert there == list(self.acknowledged.values()), there
        assert self.repeated, 'a write met the killed primary'
        return f'followed to the new primary with all {len(self.acknowledged)} acknowledged writes'


def redis_py():
    sentinels, writes = Sentinel(SENTINELS, socket_timeout=TIMEOUT_S), Writes()
    client = sentinels.master_for('it', socket_timeout=TIMEOUT_S)
    for number in writes:
        try:
            # On one connection: WAIT speaks of the writes of its own.
            pipeline = client.pipeline(transaction=False).set(f'key:{number}', number)
            _, replicas = pipeline.wait(writes.awaited(number), 500).execute()
            writes.note(number, replicas)
        except GONE:
            writes.note(number, 0)
            time.sleep(0.02)
    replica = sentinels.slave_for('it', socket_timeout=TIMEOUT_S)
    found = [side.mget(writes.keys()) for side in (client, replica)]
    return writes.proved(sentinels.discover_master('it'), found)


async def redis_py_asyncio():
    sentinels, writes = AsyncSentinel(SENTINELS, socket_timeout=TIMEOUT_S), Writes()
    client = sentinels.master_for('it', socket_timeout=TIMEOUT_S)
    for number in writes:
        try:
            pipeline = client.pipeline(transaction=False).set(f'key:{number}', number)
            _, replicas = await pipeline.wait(writes.awaited(number), 500).execute()
            writes.note(number, replicas)
        except GONE:
            writes.note(number, 0)
            await asyncio.sleep(0.02)
    replica = sentinels.slave_for('it', socket_timeout=TIMEOUT_S)
    found = [await side.mget(writes.keys()) for side in (client, replica)]
    return writes.proved(await sentinels.discover_master('it'), found)


CASES = {'redis-py Sentinel': redis_py, 'redis-py asyncio Sentinel': redis_py_asyncio}

if __name__ == '__main__':
    cases.run(CASES, sys.argv[1:], flush=lambda: None)
