"""A server process of the test's own, and the search for its binary."""

from __future__ import annotations

import atexit
import collections
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sysconfig
import threading
import uuid
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from ._instance import Keylatch

READY_S = 60
STOP_S = 10


def find_binary() -> str:
    """Returns the path of the server: KEYLATCH_BINARY, the one that came with this package, or one in PATH."""
    given = os.environ.get("KEYLATCH_BINARY")
    if given:
        return given
    schemes = (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user"))
    installed = (os.path.join(sysconfig.get_path("scripts", scheme), "keylatch") for scheme in schemes)
    found = next(filter(os.path.isfile, installed), None) or shutil.which("keylatch")
    if found is None:
        raise FileNotFoundError("no keylatch in this package or in PATH; KEYLATCH_BINARY may name it")
    return found


class RunningServer:
    """A server in test mode that another program has started."""

    tls = False  # whether its port is one for TLS
    ca_file: str | None = None  # the authority that clients have to trust then

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "redis":
            raise ValueError(f"the URL of a server must be redis://host:port, without TLS: {url!r}")
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 6379

    @property
    def url(self) -> str:
        """The URL of the server; clients that connect to it without a user share one instance."""
        return Keylatch(self.host, self.port, None, tls=self.tls).url

    def instance(self, name: str | None = None) -> Keylatch:
        """Returns a private instance; without a name, a new one."""
        user = f"ns-{name or uuid.uuid4().hex}"
        return Keylatch(self.host, self.port, user, ended=self.ended, tls=self.tls, ca_file=self.ca_file)

    def ended(self) -> str | None:
        """Returns how the server has ended; None as long as it runs, and where this process does not know."""
        return None

    def __enter__(self) -> RunningServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass


class Server(RunningServer):
    """A server process on a free port, stopped at the end of the `with` block, by `stop()`, or with this process.

    Settings are those of the command line: `Server(maxmemory="1mb")`, with `_` for `-` in names. With `unixsocket` or
    `tls_port`, a `port` must be given as well, since the methods for tests use TCP without TLS.

    With `tls` the server makes an authority and a certificate: its URL and those of its instances are `rediss://`, and
    `ca_file` is the file of the authority, as long as it runs.
    """

    def __init__(self, binary: str | None = None, *, tls: bool = False, **settings: str | int) -> None:
        options = {"port": "0", "bind": "127.0.0.1", "loglevel": "warning", "test-mode": "yes"}
        options |= {"exit-on-stdin-close": "yes"}
        options |= {"test-tls": "yes"} if tls else {}
        options |= {name.replace("_", "-"): str(value) for name, value in settings.items()}
        has_tls_alone = not tls and options.get("tls-port", "0") != "0"
        if options["port"] == "0" and (options.get("unixsocket") or has_tls_alone):
            raise ValueError("with unixsocket or tls_port the server opens no TCP port of itself: give a port as well")
        command = [binary or find_binary(), *(part for name, value in options.items() for part in (f"--{name}", value))]
        self._log: collections.deque[str] = collections.deque(maxlen=100)
        self._ready = threading.Event()
        self._address: dict[str, Any] = {}
        # Names of this package in the environment are no settings of the server.
        environment = {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES}
        # A Ctrl-C in the terminal reaches a whole process group: in a session of its own the server outlives teardowns.
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        self._starter = os.getpid()
        self._reader = threading.Thread(target=self._read_log, name="keylatch-log", daemon=True)
        self._reader.start()
        in_time = self._ready.wait(READY_S)
        if not self._address:
            self.process.kill()
            status = self.process.wait()
            why = f"it ended with status {status}" if in_time else f"it was not ready within {READY_S} s"
            raise RuntimeError(f"keylatch did not start: {why}: {' '.join(command)}\n{self.log}")
        super().__init__(Keylatch(self._address["host"], self._address["port"], None).url)
        if tls:
            self.tls, self.port, self.ca_file = True, self._address["tls_port"], self._address["tls_ca_file"]

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self.process.pid

    @property
    def log(self) -> str:
        """The last hundred lines that the server has printed."""
        return "".join(self._log.copy())  # as it grows in another thread

    def ended(self) -> str | None:
        """Returns how the server has ended, with the end of its log; None as long as it runs."""
        # A forked process cannot ask for a process that is not its child.
        if os.getpid() != self._starter or self.process.poll() is None:
            return None
        self._reader.join(STOP_S)
        return f"keylatch has ended with status {self.process.returncode}\n{self.log}"

    def stop(self) -> None:
        """Stops the server and waits for its end."""
        # The end of standard input does not arrive as long as a process that was forked since has it open.
        self.process.terminate()
        self._reader.join(STOP_S)  # `wait` of a process counts by a clock that freezegun stops
        if self._reader.is_alive():
            self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()

    def _read_log(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                text = line.decode("utf-8", "replace")
                self._log.append(text)
                if text.startswith('{"ready":true') and not self._ready.is_set():
                    self._address = json.loads(text)
                    self._ready.set()
        self._ready.set()  # it has ended

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


class ControllersServer(RunningServer):
    """The server of the process that has started this worker of pytest-xdist."""

    def __init__(self, controller: int) -> None:
        super().__init__(ask_controller(controller))
        self._controller = controller

    def ended(self) -> str | None:
        """Returns how the server has ended, as the controller knows it."""
        with contextlib.suppress(OSError):
            try:
                ask_controller(self._controller)
            except RuntimeError as error:
                return str(error)
        return None


OWN_VARIABLES = {"KEYLATCH_BINARY", "KEYLATCH_URL"}
# Where `serve_workers` answers, in a process that is such a worker.
controller_port: int | None = None
_shared: RunningServer | None = None
_shared_lock = threading.Lock()


def shared_server() -> RunningServer:
    """Returns the server of KEYLATCH_URL, or one that is started once for this process and stopped at its exit.

    A worker of pytest-xdist has that of the process that has started the workers.
    """
    global _shared
    with _shared_lock:
        if _shared is None and os.environ.get("KEYLATCH_URL"):
            _shared = RunningServer(os.environ["KEYLATCH_URL"])
        elif _shared is None and controller_port is not None:
            _shared = ControllersServer(controller_port)
        elif _shared is None:
            _shared = started = Server()
            starter = os.getpid()
            # A forked process uses the server, too, and leaves it to run.
            atexit.register(lambda: started.stop() if os.getpid() == starter else None)
        return _shared


def serve_workers() -> int:
    """Serves the URL of the shared server to worker processes, starting it at the first request; returns the port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            worker, _ = listener.accept()
            with worker, contextlib.suppress(OSError):
                try:
                    server = shared_server()
                    ended = server.ended()
                    answer = {"url": server.url} if ended is None else {"error": ended}
                except (OSError, RuntimeError) as error:
                    answer = {"error": str(error)}
                worker.sendall(json.dumps(answer).encode())

    threading.Thread(target=serve, name="keylatch-workers", daemon=True).start()
    return listener.getsockname()[1]


def ask_controller(port: int) -> str:
    """Returns the URL that `serve_workers` serves on this port."""
    with socket.create_connection(("127.0.0.1", port), READY_S + STOP_S) as controller, controller.makefile() as text:
        answer = json.loads(text.read())
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer["url"]


def instance(name: str | None = None) -> Keylatch:
    """Returns a private instance of the server that this process shares."""
    return shared_server().instance(name)
