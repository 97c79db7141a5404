"""A cluster of an instance: its nodes, each with a port of its own, and what happens to them."""

from __future__ import annotations

import binascii
import contextlib
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from ._resp import ReplyError, milliseconds

if TYPE_CHECKING:
    from ._instance import Keylatch

SLOTS = 16384


def slot_of(key: str | bytes) -> int:
    """Returns the slot of a key, which is that of its hash tag if it has one."""
    name = key.encode("utf-8", "surrogateescape") if isinstance(key, str) else key
    tag, brace, _ = name.partition(b"{")[2].partition(b"}")
    return binascii.crc_hqx(tag if brace and tag else name, 0) % SLOTS


@dataclass(frozen=True)
class Node:
    """A node of a cluster, as it was when it was asked for."""

    number: int  # by which methods name it; from 0, primaries first
    id: str
    host: str
    port: int
    role: Literal["primary", "replica"]
    slots: list[tuple[int, int]]  # that it believes to have: the first and the last of each range
    primary: int | None  # the number of its primary
    state: Literal["up", "stopped", "paused", "failed"]  # failed: others believe it dead, though it runs
    offset: int  # how much of the log it has executed, in bytes
    behind: int  # bytes of its primary's log that it lacks
    lag_ms: int  # the delay of its link
    believed_dead: list[int]  # the nodes that it believes dead, or suspects

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Node:
        """Makes it of an element of TEST.CLUSTER NODES."""
        behind, lag_ms = fields["lag"]
        return cls(
            number=fields["node"],
            id=fields["id"],
            host=fields["host"],
            port=fields["port"],
            role=fields["role"],
            slots=[(first, last) for first, last in fields["slots"]],
            primary=None if fields["primary"] < 0 else fields["primary"],
            state=fields["state"],
            offset=fields["offset"],
            behind=behind,
            lag_ms=lag_ms,
            believed_dead=fields["view"],
        )

    def has(self, slot: int) -> bool:
        """Returns whether it is the primary of a slot, as it believes itself."""
        return any(first <= slot <= last for first, last in self.slots)


class Cluster:
    """A cluster of several nodes in the server's process; it ends with the `with` block, or by `close()`.

    Its nodes share the clock of the instance that has made it: `advance` of that instance is for all. Nodes are named by
    their numbers, or by what `nodes()` and the like return. An operation that is not possible, such as the stop of a node
    that is stopped, raises ReplyError.
    """

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
        self.instance, self.name, self.user, self.password, self.tls = instance, name, user, password, tls
        args: list[object] = ["PRIMARIES", primaries, "REPLICAS", replicas, "NODE-TIMEOUT", node_timeout_ms]
        args += ["USER", user] if user is not None else []
        args += ["PASSWORD", password] if password is not None else []
        args += ["TLS"] if tls else []
        self._handles: dict[int, Keylatch] = {}
        made = self._call("CREATE", *args)
        # Where a client learns of the cluster: for each node that it was made with.
        self.startup_nodes: list[dict[str, Any]] = [{"host": node["host"], "port": node["port"]} for node in made]

    @property
    def url(self) -> str:
        """The URL of its first node, for clients that learn of the cluster from one."""
        return self._at(**self.startup_nodes[0]).url

    def nodes(self) -> list[Node]:
        """Returns all nodes as they are now, in the order of their numbers."""
        return [Node.of(fields) for fields in self._call("NODES")]

    @property
    def primaries(self) -> list[Node]:
        """The primaries that are up, now."""
        return [node for node in self.nodes() if node.role == "primary" and node.state == "up"]

    @property
    def replicas(self) -> list[Node]:
        """The replicas that are up, now."""
        return [node for node in self.nodes() if node.role == "replica" and node.state == "up"]

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

    def node(self, node: Node | int) -> Keylatch:
        """Returns a control connection to a node: its faults, its journal, its snapshots, its address and any command."""
        number = number_of(node)
        if number not in self._handles:
            found = next((each for each in self.nodes() if each.number == number), None)
            if found is None:
                raise LookupError(f"there is no node {number}")
            self._handles[number] = self._at(found.host, found.port)
        return self._handles[number]

    def failover(self, node: Node | int, lose: int | None = None) -> None:
        """Makes a replica the primary now; all nodes know when it returns.

        Without `lose` it has all writes of the old primary first; with a number, that many of the last are lost.
        """
        self._call("FAILOVER", number_of(node), *(() if lose is None else ("LOSE", lose)))

    def stop(self, node: Node | int) -> None:
        """Ends a node as if its process had: its connections are cut, and further ones refused.

        When `node_timeout` has passed on the clock, its best replica is elected, if it has one.
        """
        self._call("STOP", number_of(node))

    def start(self, node: Node | int) -> None:
        """Starts a stopped node again, with its data; if it was replaced meanwhile, it is a replica."""
        self._call("START", number_of(node))

    def pause(self, node: Node | int) -> None:
        """Suspends a node: it accepts connections, and answers nothing."""
        self._call("PAUSE", number_of(node))

    def resume(self, node: Node | int) -> None:
        """Continues a suspended node."""
        self._call("RESUME", number_of(node))

    def partition(self, *nodes: Node | int) -> None:
        """Cuts these nodes off from the others, until `heal()`; clients reach all."""
        self._call("PARTITION", *map(number_of, nodes))

    def heal(self) -> None:
        """Ends a partition; writes of a primary that was replaced meanwhile are lost."""
        self._call("HEAL")

    def lag(self, node: Node | int, duration: float | timedelta) -> None:
        """Lets a replica have the writes of its primary so much later, by the clock: milliseconds or a timedelta."""
        self._call("LAG", number_of(node), milliseconds(duration))

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

    def close(self) -> None:
        """Ends the cluster; it does so by itself a few seconds after the instance's last client, and its nodes', has gone."""
        for handle in self._handles.values():
            handle.close()
        with contextlib.suppress(OSError, ReplyError):  # it is gone already
            self.instance.command("TEST.TOPOLOGY", "DROP", self.name)

    def _call(self, subcommand: str, *args: object) -> Any:
        return self.instance.command("TEST.CLUSTER", subcommand, self.name, *args)

    def _at(self, host: str, port: int) -> Keylatch:
        user = self.user or (None if self.password is None else "default")
        return self.instance._beside(host, port, user, self.password or "", self.tls)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def number_of(node: Node | int) -> int:
    """Returns the number of a node that is given by it, or itself."""
    return node if isinstance(node, int) else node.number
