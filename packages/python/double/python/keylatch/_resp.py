"""A minimal RESP3 client: one connection, one request at a time; and durations as arguments of commands."""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
from datetime import timedelta
from typing import Any

CLOSED = "keylatch has closed the connection"


class ReplyError(Exception):
    """An error reply of the server."""


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
        with self._lock:
            try:
                if self._socket is None or self._process != os.getpid() or self._is_closed():
                    self._open()
                reply = self._exchange(args)
            except BaseException:
                # Whatever interrupts a request, a late reply must not be taken for that of the next.
                self._drop()
                raise
        if isinstance(reply, ReplyError):
            raise reply
        return reply

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
        greeting = self._exchange(("HELLO", 3, *login, "SETNAME", "keylatch-control"))
        if isinstance(greeting, ReplyError):
            if self._user is not None and self._user.startswith("ns-") and str(greeting).startswith("WRONGPASS"):
                raise ReplyError(f"{greeting} (Private instances need a server that runs with --test-mode.)")
            raise greeting

    def _drop(self) -> None:
        dropped, self._socket = self._socket, None
        if dropped is not None:
            self._replies.close()
            dropped.close()

    def _exchange(self, args: tuple[object, ...]) -> Any:
        assert self._socket is not None
        parts = [part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogateescape") for part in args]
        request = b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)
        self._socket.sendall(b"*%d\r\n%b" % (len(parts), request))
        return self._read()

    def _read(self) -> Any:
        line = self._replies.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError(CLOSED)
        kind, rest = line[:1], line[1:-2].decode("utf-8", "surrogateescape")
        if kind in b"$=!":
            if rest == "-1":
                return None
            body = self._replies.read(int(rest) + 2)
            if len(body) != int(rest) + 2:
                raise ConnectionError(CLOSED)
            text = body[:-2].decode("utf-8", "surrogateescape")
            if kind == b"=":
                return text.partition(":")[2]  # without its format, such as `txt`
            return ReplyError(text) if kind == b"!" else text
        if kind in b"*~>%":
            if rest == "-1":
                return None
            items = [self._read() for _ in range(int(rest) * (2 if kind == b"%" else 1))]
            return dict(zip(items[::2], items[1::2])) if kind == b"%" else items
        scalars = {b"+": str, b"-": ReplyError, b":": int, b"(": int, b",": float, b"#": "t".__eq__}
        return scalars[kind](rest) if kind in scalars else None
