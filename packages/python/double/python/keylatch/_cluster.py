"""A cluster of an instance: its slots, and what happens to them and to its nodes."""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Any

from ._topology import Node, Topology, lost, number_of

if TYPE_CHECKING:
    from ._instance import Keylatch

SLOTS = 16384


def slot_of(key: str | bytes) -> int:
    """Returns the slot of a key, which is that of its hash tag if it has one."""
    name = key.encode("utf-8", "surrogateescape") if isinstance(key, str) else key
    tag, brace, _ = name.partition(b"{")[2].partition(b"}")
    return binascii.crc_hqx(tag if brace and tag else name, 0) % SLOTS


class Cluster(Topology):
    """A cluster of several nodes in the server's process; it ends with the `with` block, or by `close()`.

    Its nodes share the clock of the instance that has made it: `advance` of that instance is for all. Nodes are named by
    their numbers, or by what `nodes()` and the like return. An operation that is not possible, such as the stop of a node
    that is stopped, raises ReplyError.
    """

    _COMMAND = "TEST.CLUSTER"

    def __init__(
        self,
        instance: Keylatch,
        name: str,
        primaries: int,
        replicas: int,
        node_timeout_ms: int,
        user: str | None,
        password: str | None,
        tls: bool,
    ) -> None:
        """Makes it; see `Keylatch.cluster`."""
        super().__init__(instance, name, user, password, tls)
        made = self._create(primaries=primaries, replicas=replicas, node_timeout=node_timeout_ms)
        # Where a client learns of the cluster: for each node that it was made with.
        self.startup_nodes: list[dict[str, Any]] = [{"host": node["host"], "port": node["port"]} for node in made]

    @property
    def url(self) -> str:
        """The URL of its first node, for clients that learn of the cluster from one."""
        return self._at(**self.startup_nodes[0], role="primary").url

    @property
    def primaries(self) -> list[Node]:
        """The primaries that are up, now."""
        return self._up("primary")

    def replicas_of(self, node: Node | int) -> list[Node]:
        """Returns the replicas of a primary that are up."""
        return [replica for replica in self.replicas if replica.primary == number_of(node)]

    def primary_of(self, key: str | bytes) -> Node:
        """Returns the primary of a key's slot: the one that is up, if two believe to be that."""
        slot = slot_of(key)
        owners = [node for node in self.nodes() if node.has(slot)]
        if not owners:
            raise LookupError(f"no node has slot {slot}")
        return min(owners, key=lambda node: node.state != "up")

    def failover(self, node: Node | int, lose: int | None = None) -> None:
        """Makes a replica the primary now; all nodes know when it returns.

        Without `lose` it has all writes of the old primary first; with a number, that many of the last are lost.
        """
        self._call("FAILOVER", number_of(node), *lost(lose))

    def migrate(self, slots: int | tuple[int, int], node: Node | int, keys: int | None = None) -> None:
        """Moves a slot, or those from the first to the last of a pair, with their keys to a node.

        With `keys` it moves that many keys and leaves the slots half moved, so that clients see ASK; a further call
        without moves the rest.
        """
        first, last = (slots, slots) if isinstance(slots, int) else slots
        self._call("MIGRATE", f"{first}-{last}", number_of(node), *(() if keys is None else ("KEYS", keys)))

    def add(self, replica_of: Node | int | None = None) -> Node:
        """Adds an empty node: a primary without slots, or a replica."""
        added = self._call("ADD", *(() if replica_of is None else ("REPLICA-OF", number_of(replica_of))))
        return next(node for node in self.nodes() if node.number == added["node"])

    def remove(self, node: Node | int) -> None:
        """Removes a node that has no slots."""
        self._call("REMOVE", number_of(node))
