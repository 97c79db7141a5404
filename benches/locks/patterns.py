"""The patterns, each as a client that acquires and releases one lock over connections of its own."""

import base64
import hashlib
import json
import random
import time
import uuid

from engine import Connection, command

KEY, RESOURCE = "lock:compared", "resource"
RELEASE = 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end'
DIGEST = hashlib.sha1(RELEASE.encode()).hexdigest()


class Pattern:
    """A client over one server of its kind; `ttl` in seconds."""

    server, count, waits = "keylatch", 1, "polls"
    fence = None

    def __init__(self, loop, addresses, ttl, key=KEY):
        self.loop, self.addresses, self.ttl, self.key, self.token = loop, addresses, ttl, key, uuid.uuid4().hex
        self.connections = [Connection(loop, address) for address in addresses]

    @property
    def one(self):
        return self.connections[0]

    def reconnect(self, addresses):
        self.connections = [Connection(self.loop, address) for address in addresses]

    def px(self):
        return int(self.ttl * 1000)

    def ask(self, *words):
        return (yield self.one, command(*words))

    def write(self, value):
        """Writes what the lock protects; returns whether the write was accepted."""
        return (yield from self.ask("SET", RESOURCE, value)) == "OK"

    def close(self):
        for connection in self.connections:
            connection.close()


class Seeds(Pattern):
    """SETNX with the time of the end, GET, GETSET of a time that has passed, DEL: the program in whole seconds."""

    name, pause = "SETNX + GETSET", 0.001

    def acquire(self):
        while True:
            at = int(time.time())
            self.until = at + int(self.ttl) + 1
            if (yield from self.ask("SETNX", self.key, self.until)) == 1:
                return
            value = yield from self.ask("GET", self.key)
            if at > int(value or at) and at > int((yield from self.ask("GETSET", self.key, self.until)) or 0):
                return
            yield self.pause

    def release(self):
        if int(time.time()) < self.until:
            return (yield from self.ask("DEL", self.key)) == 1
        return False


class SetNx(Pattern):
    """SET NX PX with a random token, a random pause between attempts, release by the script of the SET page."""

    name = "SET NX PX + Lua"

    def pause(self):
        return random.uniform(0, 0.02)

    def acquire(self):
        while (yield from self.ask("SET", self.key, self.token, "NX", "PX", self.px())) != "OK":
            yield self.pause()

    def release(self):
        return (yield from self.ask("EVAL", RELEASE, 1, self.key, self.token)) == 1


class RedisPyLock(SetNx):
    """What redis-py's Lock sends: the same, with a pause of 0.1 s."""

    name, server = "redis-py's Lock, redis-server", "redis"

    def pause(self):
        return 0.1

    def release(self):
        while isinstance(reply := (yield from self.ask("EVALSHA", DIGEST, 1, self.key, self.token)), RuntimeError):
            yield from self.ask("SCRIPT", "LOAD", RELEASE)
        return reply == 1


class Redlock(Pattern):
    """The same on five servers, at least three of which have to agree."""

    name, count = "Redlock over five", 5

    def everywhere(self, *words):
        return (yield [(connection, command(*words)) for connection in self.connections])

    def acquire(self):
        while True:
            began = time.monotonic()
            replies = yield from self.everywhere("SET", self.key, self.token, "NX", "PX", self.px())
            drift = 0.01 * self.ttl + 0.002
            if replies.count("OK") >= 3 and time.monotonic() - began + drift < self.ttl:
                return
            yield from self.release()
            yield random.uniform(0.1, 0.3)  # the retry delay and jitter of node-redlock

    def release(self):
        replies = yield from self.everywhere("EVAL", RELEASE, 1, self.key, self.token)
        return replies.count(1) >= 3


class LockAcquire(Pattern):
    """LOCK.ACQUIRE, which waits in line."""

    name, waits, options = "LOCK.*", "in line", ()

    def acquire(self):
        words = ("LOCK.ACQUIRE", self.key, self.token, "PX", self.px(), "BLOCK", 0, *self.options)
        self.fence = yield from self.ask(*words)

    def release(self):
        return (yield from self.ask("LOCK.RELEASE", self.key, self.token)) == 1

    def write(self, value):
        reply = yield from self.ask("SETIFGREATER", RESOURCE, value, self.fence)
        if isinstance(reply, RuntimeError):
            raise SystemExit(f"SETIFGREATER: {reply}")
        return reply == [self.fence, None]


class LockSession(LockAcquire):
    """The same, released when the connection closes."""

    name, options = "LOCK.* with SESSION", ("SESSION",)


class Etcd(Pattern):
    """The lock service of etcd over its JSON gateway, with a lease."""

    name, server, waits, lease = "etcd's lock", "etcd", "in line", None

    def __init__(self, loop, addresses, ttl, key=KEY):
        super().__init__(loop, [], ttl, key)
        self.reconnect(addresses)

    def reconnect(self, addresses):
        self.connections = [Connection(self.loop, address, read_http) for address in addresses]

    def post(self, path, **body):
        text = json.dumps(body).encode()
        head = f"POST /v3/{path} HTTP/1.1\r\nHost: etcd\r\nContent-Type: application/json\r\nContent-Length: {len(text)}"
        return (yield self.one, head.encode() + b"\r\n\r\n" + text)

    def acquire(self):
        if self.lease is None:
            self.lease = (yield from self.post("lease/grant", TTL=max(2, int(self.ttl))))["ID"]
        self.held = (yield from self.post("lock/lock", name=encoded(self.key), lease=self.lease))["key"]

    def release(self):
        return "header" in (yield from self.post("lock/unlock", key=self.held))

    def write(self, value):
        mine = {"target": "VERSION", "result": "GREATER", "key": self.held, "version": "0"}
        put = {"requestPut": {"key": encoded(RESOURCE), "value": encoded(value)}}
        return (yield from self.post("kv/txn", compare=[mine], success=[put])).get("succeeded", False)


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def read_http(data):
    """Decodes the first response of HTTP; returns its JSON and what follows, or None if it is not whole."""
    head, found, rest = data.partition(b"\r\n\r\n")
    if not found:
        return None
    lines = [line.lower() for line in head.split(b"\r\n")]
    length = next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length")), None)
    if length is None:
        raise SystemExit(f"etcd answered without a length: {head!r}")
    return (json.loads(rest[:length]), rest[length:]) if len(rest) >= length else None


PATTERNS = [Seeds, SetNx, Redlock, RedisPyLock, LockAcquire, LockSession, Etcd]
