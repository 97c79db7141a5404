"""The lock program that circulates with the documentation of SETNX, as a function.

Spelling and case, which optical reading had mangled, are mended; the calls (setnx, get, getset,
delete) and the comparisons of time are the program's own, in their order. Two mends are marked below:
the original passed None to int(), a TypeError, when another client deleted the lock between two calls.
"""

import time

LOCK_TIMEOUT = 3
lock_key = 'lock.foo'


def run(redis_client, do_job):
    """Runs do_job while this client holds the lock."""
    lock = 0
    lock_timeout = 0

    # acquires lock
    while lock != 1:
        now = int(time.time())
        lock_timeout = now + LOCK_TIMEOUT + 1
        lock = redis_client.setnx(lock_key, lock_timeout)
        # Mended, "or now": deleted after the SETNX, so there is nothing to take over; try again.
        # Mended, "or 0": deleted after the GET, so this GETSET has made the lock, which is ours.
        if lock == 1 or (now > int(redis_client.get(lock_key) or now)) and now > int(
                redis_client.getset(lock_key, lock_timeout) or 0):
            break
        else:
            time.sleep(0.001)

    # acquired lock
    do_job()

    # release lock
    now = int(time.time())
    if now < lock_timeout:
        redis_client.delete(lock_key)
