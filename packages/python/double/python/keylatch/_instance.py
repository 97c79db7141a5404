"""A private instance of a server: its address, its clock, its faults and its journal."""

from __future__ import annotations

import collections
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any
from urllib.parse import quote

from . import _clocks
from ._cluster import Cluster
from ._resp import Connection, milliseconds
from ._sentinel import Sentinel


@dataclass(frozen=True)
class Call:
    """A request that the server has received, as its journal keeps it."""

    time_ms: int  # Unix time, by the instance's clock
    client_id: int
    client_name: str
    args: Sequence[str]  # the command and its arguments
    fault: Any  # the fault that was injected, or None


class Fault:
    """An injected fault; as a context manager it is removed at the end of the `with` block."""

    def __init__(self, instance: Keylatch, id: int) -> None:
        self._instance, self.id = instance, id

    @property
    def fired(self) -> int:
        """The number of requests that it has hit. KeyError for a removed fault."""
        for fault in self._instance.command("TEST.FAULT", "LIST"):
            if fault["id"] == self.id:
                return fault["fired"]
        raise KeyError(self.id)

    def remove(self) -> bool:
        """Removes the fault; returns whether it was still there."""
        return bool(self._instance.command("TEST.FAULT", "DEL", self.id))

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.remove()


class Keylatch:
    """A private instance: clients that connect as its user share keys, channels, a clock, faults and a journal.

    It exists as long as a connection to it is open, and a few seconds longer; this object holds one.
    """

    _moves_process = True  # whether `advance` moves the clock of the process, too

    def __init__(
        self,
        host: str,
        port: int,
        user: str | None,
        password: str = "any",
        ended: Callable[[], str | None] = lambda: None,
        tls: bool = False,
        ca_file: str | None = None,
    ) -> None:
        """`ended` tells how the server has ended, None as long as it runs; for the error of a lost connection.

        `ca_file` is the authority that clients have to trust, if the server has made it: see `Server(tls=True)`.
        """
        self.ca_file = ca_file
        self.host, self.port, self.user, self.password, self.tls = host, port, user, password, tls
        self._ended = ended
        self._topologies: collections.Counter[str] = collections.Counter()
        self._connection = Connection(host, port, user, password, tls)

    @property
    def url(self) -> str:
        """The URL that clients connect to."""
        login = "" if self.user is None else f"{quote(self.user, '')}:{quote(self.password, '')}@"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"redis{'s' if self.tls else ''}://{login}{host}:{self.port}/0"

    def command(self, *args: object) -> Any:
        """Sends any command over the control connection; returns the reply with text as `str`."""
        return self._pipeline(args)[0]

    def _pipeline(self, *requests: tuple[object, ...], user: str | None = None) -> list[Any]:
        """Sends commands in one packet; returns their replies, or raises the first error when all are executed.

        With `user` the control connection enters that user's private instance before.
        """
        try:
            return self._connection.pipeline(*requests, user=user)
        except OSError as error:
            time.sleep(0.05)  # a process that crashes closes its connections a moment before it has ended
            if reason := self._ended():
                raise ConnectionError(reason) from error
            raise

    def advance(self, duration: float | timedelta, *, process: bool = True) -> int:
        """Moves the clock by milliseconds or a timedelta. When it returns, everything due has happened.

        The clock of the process then moves by the same amount, if time-machine or freezegun has replaced it; with
        `process=False` it stays.
        """
        ms = milliseconds(duration)
        move_process = _clocks.moving(ms) if process and self._moves_process else None
        now = self.command("TEST.TIME", "ADVANCE", ms)
        if move_process:
            move_process()
        return now

    def set_time(self, time: float | datetime) -> int:
        """Sets the clock to a Unix time in milliseconds, or to a datetime."""
        unix_ms = time.timestamp() * 1000 if isinstance(time, datetime) else time
        return self.command("TEST.TIME", "SET", round(unix_ms))

    def freeze(self) -> int:
        """Stops the clock."""
        return self.command("TEST.TIME", "FREEZE")

    def run(self) -> int:
        """Lets the clock go on from where it stands, at real pace."""
        return self.command("TEST.TIME", "RUN")

    def now(self) -> int:
        """Returns the instance's Unix time in milliseconds, as all methods for the clock do."""
        return self.command("TEST.TIME", "GET")

    def fault(
        self,
        command: str = "*",
        *,
        error: str | None = None,
        delay_ms: float | None = None,
        drop: bool = False,
        lose_reply: bool = False,
        partial: int | None = None,
        lose: bool = False,
        key: str | None = None,
        client: str | None = None,
        queued: bool = False,
        prob: float | None = None,
        seed: int | None = None,
        count: int | None = None,
        after: int | None = None,
    ) -> Fault:
        """Injects a fault into a command, or into all (`*`); exactly one kind must be given.

        `CONNECT` stands for new connections to the instance, `PUSH` and `PUSH|message` for pushed messages.

        error: replies with this error instead of executing.
        delay_ms: executes at once, and replies after these milliseconds of real time.
        drop: closes the connection instead of executing.
        lose_reply: executes, then closes the connection without a reply.
        partial: executes, sends this many bytes of the reply, then closes the connection.
        lose: does not send a pushed message.
        key, client: only requests with a key that matches this glob; only connections of this name.
        queued: hits requests in a transaction, too, when they are queued.
        after: lets so many requests pass first; prob, seed: hits by this chance, repeatably; count: hits so many.
        """
        kinds: list[list[object]] = []
        kinds += [["ERROR", error]] if error is not None else []
        kinds += [["DELAY", round(delay_ms)]] if delay_ms is not None else []
        kinds += [["DROP"]] if drop else []
        kinds += [["LOSEREPLY"]] if lose_reply else []
        kinds += [["PARTIAL", partial]] if partial is not None else []
        kinds += [["LOSE"]] if lose else []
        if len(kinds) != 1:
            raise TypeError("exactly one of error, delay_ms, drop, lose_reply, partial and lose must be given")
        filters = {"KEY": key, "CLIENT": client}
        limits = {"PROB": prob, "SEED": seed, "COUNT": count, "AFTER": after}
        args: list[object] = ["TEST.FAULT", "ADD", command]
        args += [part for name, value in filters.items() if value is not None for part in (name, value)]
        args += ["QUEUED"] if queued else []
        args += kinds[0]
        args += [part for name, value in limits.items() if value is not None for part in (name, value)]
        return Fault(self, self.command(*args))

    def clear_faults(self) -> None:
        """Removes all faults."""
        self.command("TEST.FAULT", "CLEAR")

    def calls(self, match: str | None = None, count: int | None = None) -> list[Call]:
        """Returns the requests received so far, oldest first: those of a command, and the last `count`, if given.

        Without a command this includes requests that client libraries send by themselves, such as CLIENT SETINFO.
        """
        args: list[object] = ["TEST.CALLS"]
        args += ["MATCH", match] if match is not None else []
        args += ["COUNT", count] if count is not None else []
        names = ("time-ms", "client-id", "client-name", "args", "fault")
        return [Call(*(each.get(name) for name in names)) for each in self.command(*args)]

    def forget_calls(self) -> None:
        """Empties the journal of requests."""
        self.command("TEST.CALLS", "RESET")

    def snapshot(self, name: str = "default") -> None:
        """Keeps the data under a name."""
        self.command("TEST.SNAPSHOT", name)

    def restore(self, name: str = "default") -> None:
        """Brings the data of a snapshot back."""
        self.command("TEST.RESTORE", name)

    def failover(self, lose: int | None = 0) -> None:
        """Forgets the last `lose` writes and closes every connection, as an asynchronous failover does.

        With None it forgets what no replica of the instance has executed.
        """
        self.command("TEST.FAILOVER", *(() if lose is None else ("LOSE", lose)))
        self._connection.close()
        self.now()  # connects again, or the instance would be gone if the client under test takes long to do so

    def replica(self, name: str | None = None) -> Keylatch:
        """Makes a private instance that replicates this one, and shares its clock; without a name, a new one.

        `fault("LINK", delay_ms=100)` of the replica lets writes arrive later, by that clock; `fault("LINK", drop=True)`
        cuts the link until the fault is removed.
        """
        user = f"ns-{name or uuid.uuid4().hex}"
        self.command("TEST.INSTANCE", "REPLICA", user)
        return self._beside(self.host, self.port, user, self.password, self.tls)

    def cluster(
        self,
        name: str | None = None,
        *,
        primaries: int = 3,
        replicas: int = 1,
        node_timeout: float | timedelta = 15_000,
        user: str | None = None,
        password: str | None = None,
        tls: bool = False,
    ) -> Cluster:
        """Makes a cluster of several nodes, which share the clock of this instance.

        replicas: of each primary.
        node_timeout: after which a node that does not answer counts as failed, in milliseconds or as a timedelta.
        user, password: that the nodes ask for; tls: whether they speak TLS, with the certificate of the server.
        """
        name = self._name_topology("cluster", name)
        return Cluster(self, name, primaries, replicas, milliseconds(node_timeout), user, password, tls)

    def sentinel(
        self,
        name: str | None = None,
        *,
        replicas: int = 2,
        sentinels: int = 3,
        quorum: int = 2,
        master: str = "mymaster",
        down_after: float | timedelta = 30_000,
        failover_timeout: float | timedelta = 180_000,
        user: str | None = None,
        password: str | None = None,
        sentinel_password: str | None = None,
        tls: bool = False,
    ) -> Sentinel:
        """Makes a master with replicas, and sentinels that watch them, which share the clock of this instance.

        quorum: how many sentinels have to agree that the master is down; master: its name, by which clients ask for it.
        down_after: after which a node that does not answer is down, in milliseconds or as a timedelta.
        failover_timeout: half the time between two attempts of a failover, in the same units.
        user, password: that master and replicas ask for; sentinel_password: that the sentinels do.
        tls: whether all speak TLS, with the certificate of the server.
        """
        name = self._name_topology("sentinel", name)
        times = milliseconds(down_after), milliseconds(failover_timeout)
        logins = user, password, sentinel_password
        return Sentinel(self, name, replicas, sentinels, quorum, master, *times, *logins, tls)

    def _name_topology(self, kind: str, name: str | None) -> str:
        """Returns the name of a further topology of a kind: the given one, or its kind with a number."""
        self._topologies[kind] += 1
        return name or f"{kind}-{self._topologies[kind]}"

    def _beside(self, host: str, port: int, user: str | None, password: str, tls: bool = False) -> Keylatch:
        """Returns another control connection to the same server, as another user or at another port."""
        beside = Keylatch(host, port, user, password, self._ended, tls, self.ca_file)
        beside._moves_process = self._moves_process
        return beside

    def reset(self) -> None:
        """Resets the instance: no data, faults, scripts, functions, calls or added users, and the system's time.

        Snapshots stay, and so do the rights of the user `default`, and connections with their subscriptions.
        """
        self.clear_faults()
        if added := set(self.command("ACL", "USERS")) - {"default", self.user}:
            self.command("ACL", "DELUSER", *added)
        for args in ("FLUSHALL", "SYNC"), ("FUNCTION", "FLUSH"), ("SCRIPT", "FLUSH"), ("TEST.TIME", "RUN"):
            self.command(*args)
        self.set_time(datetime.now())
        self.forget_calls()

    def close(self) -> None:
        """Closes the control connection."""
        self._connection.close()

    def __enter__(self) -> Keylatch:
        self.now()  # makes the instance, and fails where the server has no test mode
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
