"""Compares the patterns of locks and writes the figures, the plots and the tables of benches/LOCKS.md.

    compare.py [--keylatch PATH] [--seconds N] [--only SECTION...]

Needs Linux, redis-server, and matplotlib for the plots; etcd is left out where it is not installed. All runs over the
loopback of one machine. Takes about five minutes; `--seconds` is the time of each run under contention.
"""

import argparse
import os
import pathlib
import resource
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

import report
from engine import Connection, Loop, command, now, returned
from patterns import KEY, PATTERNS, RESOURCE, LockAcquire, LockSession, RedisPyLock
from servers import Server, version

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CLIENTS = (1, 10, 100)
HOLD_S = REST_S = 0.002
TTL_S = 2  # where holders end
LONG_TTL_S = 600  # where none does
CROWD = 10_000
POLLING = 1_000  # with a lock each: more could not be polled for every 0.1 s by this program
CONTENDING = [pattern for pattern in PATTERNS if pattern is not LockSession]


class Contest:
    """Who holds the lock, and the figures of it."""

    def __init__(self):
        self.holder = self.last = self.released = None
        self.over, self.overlaps, self.acquired = False, 0, 0
        self.waits, self.handovers, self.waiting, self.served = [], [], {}, {}

    def waits_now(self, me):
        self.waiting[me] = now()
        return self.waiting[me]

    def entered(self, me, began):
        at = max(began, me.loop.told)
        self.overlaps += self.holder is not None
        self.waits.append(at - began)
        if self.released is not None and self.last is not me and began < self.released:
            self.handovers.append(at - self.released)
        self.holder, self.acquired, self.served[me] = me, self.acquired + 1, self.served.get(me, 0) + 1
        del self.waiting[me]

    def left(self, me):
        self.holder, self.last, self.released = None, me, now()


def contender(contest, lock, hold, rest, rounds=None):
    """Acquires, holds, releases and rests, again and again."""
    while not contest.over and rounds != 0:
        began = contest.waits_now(lock)
        yield from lock.acquire()
        contest.entered(lock, began)
        if hold:
            yield hold
        contest.left(lock)
        yield from lock.release()
        rounds = None if rounds is None else rounds - 1
        if rounds != 0:
            yield rest


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def ping(loop, address, count=2000):
    """Returns the round trips of PING, in seconds."""
    connection, trips = Connection(loop, address), []

    def run():
        for _ in range(count):
            began = now()
            yield connection, command("PING")
            trips.append(loop.told - began)

    returned(loop, run())
    return trips


def contention(start, figures, seconds):
    """Counts requests and measures hand-over and waits with 1, 10 and 100 clients."""
    for pattern in CONTENDING:
        for clients in CLIENTS:
            servers = start(pattern)
            if not servers:
                continue
            loop, contest = Loop(), Contest()
            locks = [pattern(loop, [server.address for server in servers], LONG_TTL_S) for _ in range(clients)]
            if pattern.server == "keylatch" and pattern.count == 1 and clients == 1:
                figures.add("contention", "PING", "p50 us", statistics.median(ping(loop, servers[0].address)) * 1e6)
                loop.requests = 0
            cpu = sum(server.cpu() for server in servers)
            for number, lock in enumerate(locks):
                loop.start(contender(contest, lock, HOLD_S, REST_S), after=number * 0.0005)
            loop.run(seconds)
            requests, acquired = loop.requests, contest.acquired
            cpu = sum(server.cpu() for server in servers) - cpu
            if contest.overlaps:
                raise SystemExit(f"{pattern.name}: {contest.overlaps} times two had the lock")
            row = f"{pattern.name}, {clients}"
            figures.add("contention", row, "locks/s", acquired / seconds)
            figures.add("contention", row, "requests per lock", requests / max(1, acquired))
            figures.add("contention", row, "server CPU us per lock", cpu * 1e6 / max(1, acquired))
            figures.add("contention", row, "hand-over p50 ms", percentile(contest.handovers, 0.5) * 1e3)
            figures.add("contention", row, "hand-over p99 ms", percentile(contest.handovers, 0.99) * 1e3)
            figures.add("contention", row, "wait p50 ms", percentile(contest.waits, 0.5) * 1e3)
            figures.add("contention", row, "wait p99 ms", percentile(contest.waits, 0.99) * 1e3)
            longest = max(contest.waits + [now() - began for began in contest.waiting.values()])  # also those who wait yet
            figures.add("contention", row, "longest wait ms", longest * 1e3)
            served = [contest.served.get(lock, 0) for lock in locks]
            figures.add("contention", row, "locks of the least and of the most served", f"{min(served)} to {max(served)}")
            finish(servers)


def hold(name, addresses):
    """Is a process that holds the lock: says so, writes late when it is told to, and says what came of it."""
    pattern = next(each for each in PATTERNS if each.name == name)
    loop = Loop()
    lock = pattern(loop, addresses, TTL_S)
    returned(loop, lock.acquire())
    print("held", flush=True)
    sys.stdin.readline()
    written = returned(loop, lock.write("late"))
    print("accepted" if written else "refused", returned(loop, lock.release()), flush=True)


def holder_of(pattern, servers):
    """Starts such a process, and waits until it has the lock."""
    addresses = [f"{server.address[0]}:{server.address[1]}" for server in servers]
    words = [sys.executable, __file__, "--hold", pattern.name, *addresses]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def next_holder(pattern, servers):
    """Begins to wait for the lock beside the holder; returns the loop, the client and when it got the lock."""
    loop, got = Loop(), []
    lock = pattern(loop, [server.address for server in servers], LONG_TTL_S)

    def run():
        yield from lock.acquire()
        got.append(now())

    loop.start(run())
    loop.run(0.2)
    assert not got, f"{pattern.name}: two have the lock"
    return loop, lock, got


def deaths(start, figures):
    """Kills a holder, and freezes another beyond its time."""
    for pattern in PATTERNS:
        servers = start(pattern)
        if not servers:
            continue
        process = holder_of(pattern, servers)
        loop, lock, got = next_holder(pattern, servers)
        process.kill()
        killed = now()
        loop.run(30, until=lambda: got)
        figures.add("failures", pattern.name, "killed: next holder after s", got[0] - killed)
        process.wait()
        finish(servers)

        servers = start(pattern)
        process = holder_of(pattern, servers)
        loop, lock, got = next_holder(pattern, servers)
        process.send_signal(signal.SIGSTOP)
        frozen = now()
        loop.run(30, until=lambda: got)
        figures.add("failures", pattern.name, "frozen: next holder after s", got[0] - frozen)
        assert returned(loop, lock.write("by the next holder"))
        process.send_signal(signal.SIGCONT)
        said, _ = process.communicate("write\n", timeout=30)
        figures.add("failures", pattern.name, "frozen: late write", said.split()[0])
        finish(servers)


def lost_reply(start, figures):
    """Drops the reply to an acquisition, breaks the connection, and lets the client try again."""
    for pattern in PATTERNS:
        servers = start(pattern)
        if not servers:
            continue
        proxy = Proxy(servers[0].address, after=1 if pattern.server == "etcd" else 0)  # the first grants a lease
        loop, addresses = Loop(), [server.address for server in servers]
        lock = pattern(loop, [proxy.address, *addresses[1:]], TTL_S)

        def run():
            began = now()
            try:
                yield from lock.acquire()
            except ConnectionError:
                lock.reconnect(addresses)
                yield from lock.acquire()
            return now() - began

        figures.add("failures", pattern.name, "reply lost: holds after s", returned(loop, run()))
        finish(servers)


class Proxy:
    """Passes one connection on, but for a reply: that is dropped, and the connection broken."""

    def __init__(self, address, after):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address, self.server, self.after = self.listener.getsockname(), address, after
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        client, _ = self.listener.accept()
        with client, socket.create_connection(self.server) as server:
            threading.Thread(target=self.pass_on, args=(client, server), daemon=True).start()
            for _ in range(self.after):
                client.sendall(server.recv(65536))
            server.recv(65536)
            client.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def pass_on(client, server):
        try:
            while data := client.recv(65536):
                server.sendall(data)
        except OSError:
            pass


def crowd(start, figures):
    """Has 10,000 clients wait for one lock, and 10,000 clients for a lock each."""
    for pattern in (LockAcquire, RedisPyLock):
        one_lock(pattern, start, figures)
        many_locks(pattern, start, figures)


def settled(server):
    """Returns the resident bytes once the server has nothing to do."""
    cpu, deadline = -1, now() + 3
    while cpu != (cpu := server.cpu()) and now() < deadline:
        time.sleep(0.1)
    return server.memory()


def figures_of_crowd(figures, row, handovers, acquired, requests, cpu, trips):
    figures.add("crowd", row, "hand-overs", len(handovers))
    figures.add("crowd", row, "PING p50 us", statistics.median(trips) * 1e6)
    figures.add("crowd", row, "hand-over p50 us", percentile(handovers, 0.5) * 1e6)
    figures.add("crowd", row, "hand-over p99 us", percentile(handovers, 0.99) * 1e6)
    figures.add("crowd", row, "p50 / PING", percentile(handovers, 0.5) / statistics.median(trips))
    figures.add("crowd", row, "requests per lock", requests / max(1, acquired))
    figures.add("crowd", row, "server CPU us per lock", cpu * 1e6 / max(1, acquired))


def one_lock(pattern, start, figures):
    (server,) = start(pattern)
    loop, contest, row = Loop(), Contest(), f"{pattern.name}, one lock"
    first = pattern(loop, [server.address], LONG_TTL_S)
    locks = [pattern(loop, [server.address], LONG_TTL_S) for _ in range(CROWD)]
    trips = ping(loop, server.address)
    returned(loop, first.acquire())
    waits_in_line = pattern is LockAcquire
    loop.requests, began = 0, now()
    for number, lock in enumerate(locks):
        # Those that poll begin at different times.
        loop.start(contender(contest, lock, 0, 0, rounds=1), after=0 if waits_in_line else number * 0.2 / CROWD)
    loop.run(5 if waits_in_line else 1, until=lambda: waits_in_line and loop.requests >= CROWD)
    if waits_in_line:
        settled(server)
        trips = ping(loop, server.address)
    polled, polling, before = loop.requests, now() - began, loop.requests
    cpu = server.cpu()

    def let_go():
        contest.left(first)
        yield from first.release()

    loop.start(let_go())
    loop.run(20)
    if contest.overlaps:
        raise SystemExit(f"{pattern.name}: two had the lock")
    requests = loop.requests - before + (CROWD if waits_in_line else 0)
    figures_of_crowd(figures, row, contest.handovers, contest.acquired, requests, server.cpu() - cpu, trips)
    if not waits_in_line:
        figures.add("crowd", row, "requests/s while it is held", polled / polling)
    finish([server])


def holders_of(pattern, loop, server, count):
    """Returns a holder for each of so many locks, all over one connection."""
    one, holders = Connection(loop, server.address), []
    for number in range(count):
        holders.append(pattern(loop, [], LONG_TTL_S, key=f"{KEY}:{number}"))
        holders[-1].connections = [one]
    return holders


def acquired(locks):
    for lock in locks:
        yield from lock.acquire()


def many_locks(pattern, start, figures):
    (server,) = start(pattern)
    waits_in_line = pattern is LockAcquire
    count = CROWD if waits_in_line else POLLING
    loop, row = Loop(), f"{pattern.name}, {count:,} locks"
    contests = [Contest() for _ in range(count)]
    holders = holders_of(pattern, loop, server, count)
    waiters = [pattern(loop, [server.address], LONG_TTL_S, key=f"{KEY}:{number}") for number in range(count)]
    trips = ping(loop, server.address)
    returned(loop, acquired(holders))
    before = loop.requests
    for number, (contest, waiter) in enumerate(zip(contests, waiters)):
        loop.start(contender(contest, waiter, 0, 0, rounds=1), after=0 if waits_in_line else number * 0.1 / count)
    loop.run(5 if waits_in_line else 1, until=lambda: waits_in_line and loop.requests - before >= count)
    if waits_in_line:
        settled(server)
        trips = ping(loop, server.address)
    cpu, polled = server.cpu(), loop.requests

    def release_all():
        for holder, contest in zip(holders, contests):
            contest.left(holder)
            yield from holder.release()
            while waits_in_line and not contest.acquired:
                yield 0

    loop.start(release_all())
    loop.run(30)
    handovers = [each for contest in contests for each in contest.handovers]
    requests = loop.requests - polled + (count if waits_in_line else 0) - len(handovers)  # releases by the holders
    figures_of_crowd(figures, row, handovers, len(handovers), requests, server.cpu() - cpu, trips)
    finish([server])


def memory(start, figures):
    """Measures the memory of 10,000 clients that wait for one lock, or for a lock each, besides idle connections."""
    memory_of_waiters("one lock", 1, start, figures)
    memory_of_waiters(f"{CROWD:,} locks", CROWD, start, figures)


def memory_of_waiters(row, count, start, figures):
    (server,) = start(LockAcquire)
    loop = Loop()
    holders = holders_of(LockAcquire, loop, server, count)
    waiters = [LockAcquire(loop, [server.address], LONG_TTL_S, key=f"{KEY}:{each % count}") for each in range(CROWD)]
    returned(loop, acquired(holders))
    idle, before = settled(server), loop.requests
    for waiter in waiters:
        loop.start(waiter.acquire())
    loop.run(30, until=lambda: loop.requests - before >= CROWD)
    figures.add("memory", row, "bytes per waiter", (settled(server) - idle) / CROWD)
    finish([server])


def finish(servers):
    for server in servers:
        server.stop()


SECTIONS = {
    "contention": lambda start, figures, seconds: contention(start, figures, seconds),
    "failures": lambda start, figures, _: (deaths(start, figures), lost_reply(start, figures)),
    "crowd": lambda start, figures, _: crowd(start, figures),
    "memory": lambda start, figures, _: memory(start, figures),
}


def main():
    if sys.argv[1:2] == ["--hold"]:
        places = [(host, int(port)) for host, port in (each.split(":") for each in sys.argv[3:])]
        return hold(sys.argv[2], places)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keylatch", default=ROOT / "target/dist/keylatch", help="the binary")
    parser.add_argument("--seconds", type=float, default=5, help="of each run under contention")
    parser.add_argument("--only", nargs="*", choices=SECTIONS, default=list(SECTIONS))
    args = parser.parse_args()
    keylatch = str(pathlib.Path(args.keylatch).resolve())
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard < CROWD + 500:
        raise SystemExit(f"needs {CROWD + 500} open files, and may have {hard}")
    versions = {kind: version(kind, keylatch) for kind in ("keylatch", "redis", "etcd")}

    def start(pattern):
        return [Server(pattern.server, keylatch) for _ in range(pattern.count)] if versions[pattern.server] else []

    figures = report.Figures(HERE / "figures.tsv", versions, os.getloadavg()[0])
    for section in args.only:
        began = time.monotonic()
        figures.begin(section)
        SECTIONS[section](start, figures, args.seconds)
        print(f"{section}: {time.monotonic() - began:.0f} s", flush=True)
    figures.write()
    report.tables(figures, ROOT / "benches/LOCKS.md")
    report.plots(figures, ROOT / "benches/plots/locks.svg")


if __name__ == "__main__":
    main()
