"""A master of an instance with replicas, and the sentinels that watch them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._topology import Node, Topology, lost, number_of

if TYPE_CHECKING:
    from ._instance import Keylatch


class Sentinel(Topology):
    """A master with replicas and sentinels in the server's process; they end with the `with` block, or by `close()`.

    They share the clock of the instance that has made them: `advance` of that instance is for all. Nodes are named by
    their numbers, or by what `nodes()` and the like return. An operation that is not possible, such as the stop of a node
    that is stopped, raises ReplyError.
    """

    _COMMAND = "TEST.SENTINEL"

    def __init__(
        self,
        instance: Keylatch,
        name: str,
        replicas: int,
        sentinels: int,
        quorum: int,
        master: str,
        down_after_ms: int,
        failover_timeout_ms: int,
        user: str | None,
        password: str | None,
        sentinel_password: str | None,
        tls: bool,
    ) -> None:
        """Makes it; see `Keylatch.sentinel`."""
        super().__init__(instance, name, user, password, tls)
        self.master_name, self.sentinel_password = master, sentinel_password
        made = self._create(
            replicas=replicas,
            sentinels=sentinels,
            quorum=quorum,
            master=master,
            down_after=down_after_ms,
            failover_timeout=failover_timeout_ms,
            sentinel_password=sentinel_password,
        )
        # Where a client asks for the master, as `redis.sentinel.Sentinel` takes it.
        self.sentinels: list[tuple[str, int]] = [
            (node["host"], node["port"]) for node in made if node["role"] == "sentinel"
        ]

    @property
    def master(self) -> Node:
        """The master, now: the one that sentinels which are up name; if they differ, the one that was chosen last."""
        nodes = self.nodes()
        up = [node for node in nodes if node.state == "up"]
        views = [self.node(node).command("SENTINEL", "MASTER", self.master_name) for node in up if node.role == "sentinel"]
        named = max(views, key=lambda view: int(view["config-epoch"]), default=None)
        if named is None:
            return next(node for node in [*up, *nodes] if node.role == "master")
        return next(node for node in nodes if node.port == int(named["port"]))

    def failover(self, to: Node | int | None = None, lose: int | None = None) -> None:
        """Makes a replica the master now, the best one or that which is named; all sentinels know when it returns.

        Without `lose` it has all writes of the old master first; with a number, that many of the last are lost.
        """
        self._call("FAILOVER", *(() if to is None else ("TO", number_of(to))), *lost(lose))

    def _login(self, role: str) -> tuple[str | None, str | None]:
        return (None, self.sentinel_password) if role == "sentinel" else super()._login(role)
