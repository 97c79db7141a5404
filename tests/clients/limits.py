"""Limits rates by the library `limits`: fixed, moving and sliding windows, in threads and in asyncio.

KEYLATCH_SERVERS=host:port limits.py
"""

import asyncio
import concurrent.futures
import os
import sys
import time

sys.path.remove(os.path.dirname(os.path.abspath(__file__)))  # this file has the name of the library
import limits  # noqa: E402
import limits.aio.strategies  # noqa: E402
import limits.storage  # noqa: E402
import limits.strategies  # noqa: E402

HOST, PORT = os.environ['KEYLATCH_SERVERS'].split()[0].split(':')[:2]
ALLOWED = 25
THREADS = 4
HOURLY = limits.RateLimitItemPerHour(ALLOWED, 1, 'hourly')
SECONDLY = limits.RateLimitItemPerSecond(3, 1, 'secondly')
WINDOWS = {
    'fixed window': 'FixedWindowRateLimiter',
    'moving window': 'MovingWindowRateLimiter',  # a list of times
    'sliding window': 'SlidingWindowCounterRateLimiter',
}
PATIENCE_S = 30


def same(got, expected):
    assert got == expected, f'{got!r} and not {expected!r}'


def walk(window, storage):
    """Proves that a limit holds against threads, that it can be queried and lifted, and that it expires."""
    limiter = getattr(limits.strategies, window)(storage)

    def hits(_):
        return sum(limiter.hit(HOURLY, 'shared') for _ in range(ALLOWED))

    assert limiter.test(HOURLY, 'shared')
    with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
        same(sum(threads.map(hits, range(THREADS))), ALLOWED)
    assert not limiter.test(HOURLY, 'shared') and limiter.test(HOURLY, 'another')
    stats = limiter.get_window_stats(HOURLY, 'shared')
    same(stats.remaining, 0)
    assert 0 < stats.reset_time - time.time() <= 2 * 3600, stats
    limiter.clear(HOURLY, 'shared')
    same([limiter.hit(HOURLY, 'shared', cost=ALLOWED - 1), limiter.hit(HOURLY, 'shared', cost=2)], [True, False])
    assert limiter.get_window_stats(HOURLY, 'shared').remaining <= 1

    began = time.monotonic()
    allowed = 0
    while allowed < 7:  # two of the windows have to pass
        allowed += limiter.hit(SECONDLY, 'waits')
        assert time.monotonic() < began + PATIENCE_S, 'a window does not pass'
    assert time.monotonic() - began > 1, 'a window passed before its time'


async def walk_async(window):
    storage = limits.storage.storage_from_string(f'async+redis://{HOST}:{PORT}/0', implementation='redispy')
    limiter = getattr(limits.aio.strategies, window)(storage)
    outcomes = await asyncio.gather(*(limiter.hit(HOURLY, 'async') for _ in range(4 * ALLOWED)))
    same(sum(outcomes), ALLOWED)
    await limiter.clear(HOURLY, 'async')
    assert await limiter.test(HOURLY, 'async')


def main():
    for name, window in WINDOWS.items():
        began = time.monotonic()
        storage = limits.storage.storage_from_string(f'redis://{HOST}:{PORT}/0')
        walk(window, storage)
        storage.reset()
        asyncio.run(walk_async(window))
        storage.storage.flushall()
        print(f'limits, {name}: threads and asyncio, costs, statistics: {time.monotonic() - began:.1f} s', flush=True)


if __name__ == '__main__':
    main()
