"""A real Redis-compatible server for tests: they move its clock, inject faults, and have private instances.

    with keylatch.Server() as server, server.instance() as instance:
        client = redis.Redis.from_url(instance.url)
        client.set("session", "token", ex=3600)
        instance.advance(timedelta(hours=1))    # without sleeping
        assert client.get("session") is None
"""

from ._cluster import Cluster, slot_of
from ._explore import explore
from ._instance import Call, Fault, Keylatch
from ._report import ExploreError, Report
from ._resp import ReplyError
from ._sentinel import Sentinel
from ._server import RunningServer, Server, find_binary, instance
from ._topology import Node

__all__ = [
    "Call",
    "Cluster",
    "ExploreError",
    "Fault",
    "Keylatch",
    "Node",
    "ReplyError",
    "Report",
    "RunningServer",
    "Sentinel",
    "Server",
    "explore",
    "find_binary",
    "instance",
    "slot_of",
]
__version__ = "0.2.0"
