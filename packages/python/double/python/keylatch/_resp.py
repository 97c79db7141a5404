"""A minimal RESP3 client: one connection, one request at a time; and durations as arguments of commands."""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

CLOSED = "keylatch has closed the connection"
CONTROL = "keylatch-control"  # the name of these connections


class ReplyError(Exception):
    """An error reply of the server."""


SCALARS: dict[int, Callable[[str], object]] = {
    ord("+"): str,
    ord("-"): ReplyError,
    ord(":"): int,
    ord("("): int,
    ord(","): float,
    ord("#"): "t".__eq__,
}


def milliseconds(duration: float | timedelta) -> int:
    """Returns a duration in whole milliseconds; a number is in milliseconds already."""
    return round(duration / timedelta(milliseconds=1) if isinstance(duration, timedelta) else duration)


def unverified() -> ssl.SSLContext:
    """Returns a context that takes any certificate: the server is one of the test's own."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Connection:
    """A connection that is opened at the first request, and again if the server has closed it since the last."""

    def __init__(self, host: str, port: int, user: str | None, password: str, tls: bool = False) -> None:
        self._address, self._user, self._password, self._tls = (host, port), user, password, tls
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    def call(self, *args: object) -> Any:
        """Sends a request and returns its reply: text as `str`, maps as `dict`. Raises ReplyError for an error."""
        return self.pipeline(args)[0]

    def pipeline(self, *requests: tuple[object, ...], user: str | None = None) -> list[Any]:
        """Sends requests in one packet and returns their replies. Raises ReplyError for the first error, after all.

        With `user` the connection enters that user's private instance before, and leaves its own.
        """
        with self._lock:
            try:
                entering: tuple[tuple[object, ...], ...] = ()
                if user is not None:
                    self._user = user
                    entering = ("AUTH", user, self._password), ("CLIENT", "SETNAME", CONTROL), ("SELECT", 0)
                if self._socket is None or self._process != os.getpid() or self._is_closed():
                    self._open()
                    entering = ()
                replies = self._exchange(*entering, *requests)
            except BaseException:
                # Whatever interrupts a request, a late reply must not be taken for that of the next.
                self._drop()
                raise
        for reply in replies:
            if isinstance(reply, ReplyError):
                raise reply
        return replies[len(entering) :]

    def close(self) -> None:
        """Closes the connection; the next request opens another."""
        with self._lock:
            self._drop()

    def _is_closed(self) -> bool:
        assert self._socket is not None
        # No reply is outstanding, so what can be read is the end. (`select.select` fails beyond 1024 descriptors.)
        end = select.poll()
        end.register(self._socket, select.POLLIN)
        return bool(end.poll(0))

    def _open(self) -> None:
        self._drop()
        connected = socket.create_connection(self._address, timeout=60)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls:
            connected = unverified().wrap_socket(connected)
        self._process = os.getpid()  # a forked process needs a connection of its own
        self._replies, self._socket = connected.makefile("rb"), connected
        login = () if self._user is None else ("AUTH", self._user, self._password)
        greeting = self._exchange(("HELLO", 3, *login, "SETNAME", CONTROL))[0]
        if isinstance(greeting, ReplyError):
            if self._user is not None and self._user.startswith("ns-") and str(greeting).startswith("WRONGPASS"):
                raise ReplyError(f"{greeting} (Private instances need a server that runs with --test-mode.)")
            raise greeting

    def _drop(self) -> None:
        dropped, self._socket = self._socket, None
        if dropped is not None:
            self._replies.close()
            dropped.close()

    def _exchange(self, *requests: tuple[object, ...]) -> list[Any]:
        assert self._socket is not None
        self._socket.sendall(b"".join(map(encoded, requests)))
        return [self._read() for _ in requests]

    def _read(self) -> Any:
        line = self._replies.readline()
        if line[-2:] != b"\r\n":
            raise ConnectionError(CLOSED)
        kind = line[0]
        if kind in b"$=!":
            size = int(line[1:-2])
            if size < 0:
                return None
            body = self._replies.read(size + 2)
            if len(body) != size + 2:
                raise ConnectionError(CLOSED)
            text = body[:-2].decode("utf-8", "surrogateescape")
            if kind == ord("$"):
                return text
            return ReplyError(text) if kind == ord("!") else text.partition(":")[2]  # without its format, such as `txt`
        if kind in b"*~>%":
            size, read = int(line[1:-2]), self._read
            if size < 0:
                return None
            return {read(): read() for _ in range(size)} if kind == ord("%") else [read() for _ in range(size)]
        scalar = SCALARS.get(kind)
        return None if scalar is None else scalar(line[1:-2].decode("utf-8", "surrogateescape"))


def encoded(args: tuple[object, ...]) -> bytes:
    """Returns a request as it is sent."""
    parts = [part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogateescape") for part in args]
    return b"*%d\r\n%b" % (len(parts), b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in parts]))
