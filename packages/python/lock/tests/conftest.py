"""A server, empty at the begin of each test: KEYLATCH_SERVERS=host:port names it.

With KEYLATCH_FAILOVER=host:port, another server takes its place when that address is asked for it, and SENTINELS=host:port
names the sentinel that knows which one serves, if there is one.
"""

import contextlib
import os
import socket
import threading
import time

import pytest
import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel

PATIENCE_S = 60
IS_PLAIN = "KEYLATCH_PLAIN" in os.environ  # the server has no LOCK and TEST commands
HAS_FAILOVERS = "KEYLATCH_FAILOVER" in os.environ  # the server has no TEST commands
IS_ON_ETCD = HAS_FAILOVERS and "SENTINELS" not in os.environ
IS_STEERED = not IS_PLAIN and not HAS_FAILOVERS


class Server:
    """The server, with its description of a lock."""

    def __init__(self):
        host, port = os.environ.get("KEYLATCH_SERVERS", "localhost:6379").split()[0].split(":")[:2]
        self.url = f"redis://{host}:{port}"
        self.client = redis.Redis.from_url(self.url, decode_responses=True, protocol=3)

    def road(self, name, module, **options):
        """Connects a client of `redis` or `redis.asyncio` over one of the roads that lead to the server."""
        asked = self.client.config_get("unixsocket", "tls-port", "tls-ca-cert-file")
        if name == "TCP":
            place = self.client.connection_pool.connection_kwargs
            return module.Redis(host=place["host"], port=place["port"], **options)
        if not asked["unixsocket"] or asked["tls-port"] == "0":
            pytest.skip("the server has one road only")
        if name == "Unix":
            return module.Redis(unix_socket_path=asked["unixsocket"], **options)
        if name == "Unix URL":
            return module.Redis.from_url(f"unix://{asked['unixsocket']}", **options)
        trusted = {"ssl": True, "ssl_ca_certs": asked["tls-ca-cert-file"]}
        return module.Redis(host="localhost", port=int(asked["tls-port"]), **trusted, **options)

    def info(self, key):
        return self.client.execute_command("LOCK.INFO", key) or {}

    def waiting(self, key):
        return len(self.info(key).get("waiters", []))

    def fail_over(self, how):
        """Has the server killed or stopped; returns when another one serves."""
        with socket.create_connection(address("KEYLATCH_FAILOVER"), PATIENCE_S) as control:
            control.sendall(f"{how}\n".encode())
            assert control.recv(16) == b"done\n"
        self.client.connection_pool.disconnect()

    def kill_holder(self, key):
        """Closes the connection that holds a lock, and returns its id."""
        holder = self.info(key)["client-id"]
        assert self.client.client_kill_filter(_id=holder) == 1
        return holder


def wait(condition):
    """Waits until a condition holds, and returns what it gave."""
    deadline = time.monotonic() + PATIENCE_S
    while not (got := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.002)
    return got


class Lossy:
    """A road to the server on which the reply to the first LOCK.ACQUIRE is lost, and the connection with it."""

    def __init__(self, server):
        self.listener, self.has_lost = socket.create_server(("127.0.0.1", 0)), False
        self.url = f"redis://127.0.0.1:{self.listener.getsockname()[1]}"
        place = server.client.connection_pool.connection_kwargs
        self.server = place["host"], place["port"]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            threading.Thread(target=self.serve, args=(self.listener.accept()[0],), daemon=True).start()

    def serve(self, client):
        with client, socket.create_connection(self.server) as server:
            while request := client.recv(65536):
                server.sendall(request)
                reply = server.recv(65536)
                if not self.has_lost and b"LOCK.ACQUIRE" in request:
                    self.has_lost = True
                    return
                client.sendall(reply)


class Moving:
    """An address of the server that changes, as a Sentinel tells it; connections to the former one end with it.

    Connections can be stuck: they pass nothing on any more, except their end.
    """

    def __init__(self, server):
        place = server.client.connection_pool.connection_kwargs
        self.server, self.sockets, self.stuck = (place["host"], place["port"]), [], set()
        self.listen()

    def listen(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            server = socket.create_connection(self.server)
            self.sockets += [client, server]
            for ends in ((client, server), (server, client)):
                threading.Thread(target=self.pass_on, args=ends, daemon=True).start()

    def pass_on(self, source, target):
        try:
            while received := source.recv(65536):
                if source not in self.stuck:
                    target.sendall(received)
        except OSError:
            pass
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.close_address()
        for end in self.sockets:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close_address(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def stall(self, replies_only=False):
        """Makes the open connections stuck, in one direction or both."""
        self.stuck |= set(self.sockets[1::2] if replies_only else self.sockets)

    def move(self, is_stuck=False):
        if is_stuck:
            self.stall()
            self.close_address()
        else:
            self.close()
        self.listen()

    def client(self, module, asks=True):
        """Returns a client of `redis` or `redis.asyncio`; it asks for the address whenever it connects, or never."""
        if not asks:
            return module.Redis(host=self.address[0], port=self.address[1])
        if module is redis:
            sentinel = redis.sentinel.Sentinel([])
            sentinel.discover_master = lambda name: self.address
            return sentinel.master_for("primary")

        async def discover(name):
            return self.address

        sentinel = redis.asyncio.sentinel.Sentinel([])
        sentinel.discover_master = discover
        return sentinel.master_for("primary")


def address(name):
    host, port = os.environ[name].split(":")
    return host, int(port)


def failing_client(server, module):
    """Returns a client of `redis` or `redis.asyncio` that finds the server after a failover, too."""
    if "SENTINELS" not in os.environ:
        return module.Redis.from_url(server.url)
    return module.sentinel.Sentinel([address("SENTINELS")]).master_for("it")


@pytest.fixture
def moving(server):
    moving = Moving(server)
    yield moving
    moving.close()


@pytest.fixture
def lossy(server):
    return Lossy(server)


@pytest.fixture
def server():
    server = Server()
    server.client.flushall()
    yield server
    server.client.client_unpause()
    if not IS_PLAIN:
        server.client.config_set("session-grace-ms", 0)
