"""A topology of an instance: its nodes, each with a port of its own, and what happens to them."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from ._resp import ReplyError, milliseconds

if TYPE_CHECKING:
    from ._instance import Keylatch


@dataclass(frozen=True)
class Node:
    """A node of a cluster, or of a master with its sentinels, as it was when it was asked for."""

    number: int  # by which methods name it; from 0, primaries first, sentinels last
    id: str
    host: str
    port: int
    role: Literal["primary", "master", "replica", "sentinel"]  # primary in a cluster, master where there are sentinels
    slots: list[tuple[int, int]]  # that it believes to have: the first and the last of each range
    primary: int | None  # the number of its primary
    state: Literal["up", "stopped", "paused", "failed"]  # failed: others believe it dead, though it runs
    offset: int  # how much of the log it has executed, in bytes
    behind: int  # bytes of its primary's log that it lacks
    lag_ms: int  # the delay of its link
    believed_dead: list[int]  # the nodes that it believes dead, or suspects

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Node:
        """Makes it of an element of TEST.CLUSTER NODES, or TEST.SENTINEL NODES."""
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


class Topology:
    """Several nodes in the server's process; they end with the `with` block, or by `close()`.

    They share the clock of the instance that has made them: `advance` of that instance is for all. Nodes are named by
    their numbers, or by what `nodes()` and the like return. An operation that is not possible, such as the stop of a node
    that is stopped, raises ReplyError.
    """

    _COMMAND: str  # whose subcommands make it, and let something happen to its nodes

    def __init__(self, instance: Keylatch, name: str, user: str | None, password: str | None, tls: bool) -> None:
        self.instance, self.name, self.user, self.password, self.tls = instance, name, user, password, tls
        self._handles: dict[int, Keylatch] = {}

    def nodes(self) -> list[Node]:
        """Returns all nodes as they are now, in the order of their numbers."""
        return [Node.of(fields) for fields in self._call("NODES")]

    @property
    def replicas(self) -> list[Node]:
        """The replicas that are up, now."""
        return self._up("replica")

    def node(self, node: Node | int) -> Keylatch:
        """Returns a control connection to a node: its faults, its journal, its snapshots, its address and any command."""
        number = number_of(node)
        if number not in self._handles:
            found = next((each for each in self.nodes() if each.number == number), None)
            if found is None:
                raise LookupError(f"there is no node {number}")
            self._handles[number] = self._at(found.host, found.port, found.role)
        return self._handles[number]

    def stop(self, node: Node | int) -> None:
        """Ends a node as if its process had: its connections are cut, and further ones refused.

        When the time after which it counts as failed has passed on the clock, a replica takes its place, if it has one.
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

    def close(self) -> None:
        """Ends it; it does so by itself a few seconds after the instance's last client, and its nodes', has gone."""
        for handle in self._handles.values():
            handle.close()
        with contextlib.suppress(OSError, ReplyError):  # it is gone already
            self.instance.command("TEST.TOPOLOGY", "DROP", self.name)

    def _create(self, **options: object) -> list[dict[str, Any]]:
        """Makes the nodes, with the options that are given, and returns their maps."""
        access = {"USER": self.user, "PASSWORD": self.password}
        words = {name.replace("_", "-").upper(): value for name, value in options.items()} | access
        args = [part for name, value in words.items() if value is not None for part in (name, value)]
        return self._call("CREATE", *args, *(["TLS"] if self.tls else []))

    def _call(self, subcommand: str, *args: object) -> Any:
        return self.instance.command(self._COMMAND, subcommand, self.name, *args)

    def _up(self, role: str) -> list[Node]:
        return [node for node in self.nodes() if node.role == role and node.state == "up"]

    def _login(self, role: str) -> tuple[str | None, str | None]:
        """Returns the user and the password for nodes of a role."""
        return self.user, self.password

    def _at(self, host: str, port: int, role: str) -> Keylatch:
        user, password = self._login(role)
        user = user or (None if password is None else "default")
        return self.instance._beside(host, port, user, password or "", self.tls)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def number_of(node: Node | int) -> int:
    """Returns the number of a node that is given by it, or itself."""
    return node if isinstance(node, int) else node.number


def lost(writes: int | None) -> tuple[object, ...]:
    """Returns the arguments of a failover that loses so many writes."""
    return () if writes is None else ("LOSE", writes)
