"""What the tests of exploration share."""

import redis
from keylatch import explore
from redis.maint_notifications import MaintNotificationsConfig

# What keeps a client from sending anything of itself when it connects.
SILENT = {"driver_info": None, "maint_notifications_config": MaintNotificationsConfig(enabled=False)}
HINT = (
    "; connections are used at the same time: name each by CLIENT SETNAME, connect before threads or tasks start, "
    "or use a pool of one connection"
)


def connect(keylatch, **options):
    """Returns a client that does not try again of itself, and sends nothing of itself."""
    return redis.Redis.from_url(keylatch.url, **SILENT, decode_responses=True, **options)


def found(scenario, **options):
    return explore(scenario, raises=False, **options)


def names(report):
    return [name for name, _ in report.failures]


def told(report):
    """Returns the text of a report without its first line, in which the time is."""
    return str(report).splitlines()[1:]


def raise_if_struck(keylatch):
    """Fails in each run with a fault."""
    faults = [call.fault for call in keylatch.calls() if call.fault]
    assert not faults
