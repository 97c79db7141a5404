"""Runs thousands of clients in one thread: each is a generator that yields what it sends, and is given the reply.

    reply = yield connection, command("GET", "key")         # sends, and waits for the reply
    replies = yield [(connection, request), ...]            # sends to several, and waits for all
    yield 0.1                                               # sleeps

A connection that breaks raises ConnectionError in its generator; among several it stands in place of the reply.
"""

import heapq
import itertools
import select
import socket
import time

now = time.perf_counter


def command(*words):
    """Encodes a request of RESP."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def read_resp(data):
    """Decodes the first reply; returns it and what follows, or None if it is not whole."""
    end = data.find(b"\r\n")
    if end < 0:
        return None
    kind, head, rest = data[:1], data[1:end], data[end + 2:]
    if kind == b":":
        return int(head), rest
    if kind in b"+-":
        return (head.decode() if kind == b"+" else RuntimeError(head.decode())), rest
    count = int(head)
    if count < 0:
        return None if kind not in b"$*" else (None, rest)
    if kind == b"$":
        return (rest[:count].decode(), rest[count + 2:]) if len(rest) >= count + 2 else None
    items = []
    for _ in range(count):
        item = read_resp(rest)
        if item is None:
            return None
        items.append(item[0])
        rest = item[1]
    return items, rest


class Connection:
    """A connection of one client."""

    def __init__(self, loop, address, decode=read_resp):
        self.address, self.decode, self.task, self.slot, self.data = address, decode, None, None, b""
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        loop.watch(self)

    def close(self):
        self.socket.close()


class Task:
    """A client, and the replies that it waits for."""

    def __init__(self, run):
        self.run, self.replies, self.missing, self.several = run, [], 0, False


class Loop:
    """Serves all clients."""

    def __init__(self):
        self.epoll, self.connections, self.sleeping = select.epoll(), {}, []
        self.order, self.requests, self.alive = itertools.count(), 0, 0
        self.told = 0.0  # when the reply arrived that is being dealt with, whatever was dealt with before it

    def watch(self, connection):
        self.connections[connection.socket.fileno()] = connection
        self.epoll.register(connection.socket.fileno(), select.EPOLLIN)

    def start(self, run, after=0.0):
        self.alive += 1
        heapq.heappush(self.sleeping, (now() + after, next(self.order), Task(run)))

    def run(self, seconds, until=lambda: False):
        """Runs until all clients have ended, the condition holds, or the time is over; returns whether it was not."""
        deadline = now() + seconds
        while self.alive and not until():
            if now() > deadline:
                return False
            self.turn()
        return True

    def turn(self):
        """Waits for replies, and for the next who wakes up."""
        left = 0.05 if not self.sleeping else min(0.05, max(0.0, self.sleeping[0][0] - now()))
        # epoll counts in milliseconds, rounded up; the last one is waited for in turns.
        events = self.epoll.poll(left if left > 0.001 else 0)
        self.told = now()
        for at, _ in events:
            self.receive(self.connections.get(at), at)
        # Some at a time, so that replies are not kept waiting by thousands that send.
        woken, some = now(), 64
        while self.sleeping and self.sleeping[0][0] <= woken and (some := some - 1):
            self.step(heapq.heappop(self.sleeping)[2], None)

    def receive(self, connection, at):
        try:
            data = connection.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.connections.pop(at)
            self.epoll.unregister(at)
            self.reply(connection, ConnectionError("closed"))
            return
        connection.data += data
        while connection.data and (got := connection.decode(connection.data)) is not None:
            connection.data = got[1]
            self.reply(connection, got[0])

    def reply(self, connection, reply):
        task, slot = connection.task, connection.slot
        if task is None:
            return
        task.replies[slot] = reply
        task.missing -= 1
        connection.task = None
        if task.missing == 0:
            self.step(task, task.replies if task.several else task.replies[0])

    def step(self, task, value):
        try:
            if isinstance(value, ConnectionError):
                wish = task.run.throw(value)
            else:
                wish = task.run.send(value)
        except StopIteration:
            self.alive -= 1
            return
        if isinstance(wish, (int, float)):
            heapq.heappush(self.sleeping, (now() + wish, next(self.order), task))
            return
        task.several = isinstance(wish, list)
        wishes = wish if task.several else [wish]
        task.replies, task.missing = [None] * len(wishes), len(wishes)
        self.requests += len(wishes)
        for slot, (connection, request) in enumerate(wishes):
            connection.task, connection.slot = task, slot
            try:
                connection.socket.send(request)
            except OSError as error:
                self.reply(connection, ConnectionError(str(error)))


def returned(loop, run, seconds=60):
    """Runs one client to its end and returns what it returned."""
    box = []

    def boxed():
        box.append((yield from run))

    loop.start(boxed())
    loop.run(seconds, until=lambda: box)
    if not box:
        raise TimeoutError("a client did not end")
    return box[0]
