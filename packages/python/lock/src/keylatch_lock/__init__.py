"""Locks of keylatch as context managers, over redis-py: renewed in the background, with a fence and a report of loss.

    with Lock(redis.Redis(), "report", ttl=30) as lock:     # queues
        write(lock.fence)
        lock.check()                                        # raises LockLost once the lock is lost
"""

from ._asyncio import AsyncHeld, AsyncLock
from ._sync import Held, Lock
from ._terms import Deadlock, Holder, LockError, LockLost, NotAcquired, Unsupported

__all__ = [
    "AsyncHeld",
    "AsyncLock",
    "Deadlock",
    "Held",
    "Holder",
    "Lock",
    "LockError",
    "LockLost",
    "NotAcquired",
    "Unsupported",
]
__version__ = "0.2.0"
