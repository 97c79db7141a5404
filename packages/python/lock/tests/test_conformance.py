"""Both locks by the list that the helpers of all languages run, `packages/lock-conformance.json`.

The server has to be in test mode, since the list moves its clock and injects faults; with failovers those scenarios are left
out.
"""

import asyncio
import concurrent.futures
import functools
import json
import pathlib
import queue
import threading

import pytest
import redis
import redis.asyncio
from conftest import HAS_FAILOVERS, IS_ON_ETCD, IS_PLAIN, IS_STEERED, PATIENCE_S, failing_client, wait

from keylatch_lock import AsyncLock, Deadlock, Lock, LockError, LockLost, NotAcquired

LIST = pathlib.Path(__file__).parents[3] / "lock-conformance.json"
RENEWALS = (("every", "ms"), ("for", "for_ms"))
ALL = json.loads(LIST.read_text())["scenarios"]


def is_run(scenario):
    if IS_ON_ETCD:
        steps = json.dumps(scenario["steps"])
        return "TEST." not in steps and '"without"' not in steps and "not_on_etcd" not in scenario
    if HAS_FAILOVERS:
        return "fails" in scenario
    return ("plain" in scenario or not IS_PLAIN) and "fails" not in scenario


SCENARIOS = [scenario for scenario in ALL if is_run(scenario)]


class Threads:
    """Calls of `Lock`, each in a thread of its own or in one with a name."""

    def __init__(self, url, client=None):
        self.client = client(redis) if client else redis.Redis.from_url(url)
        self.named = {}

    def lock(self, names, **options):
        return Lock(self.client, names, **options)

    def on_lost(self, told, lock, done):
        """Returns a callback that records a loss, and acquires again if a step waits for that."""

        def call(held):
            told.append(held)
            if done is not None:
                done.set_result(lock().acquire())

        return call

    def start(self, call, by=None):
        calls, done = self.named.get(by), concurrent.futures.Future()
        if calls is None:
            calls = self.named[by or object()] = queue.Queue()
            threading.Thread(target=self.serve, args=(calls, by), daemon=True).start()
        calls.put((call, done))
        return done

    def serve(self, calls, by):
        is_first = True
        while is_first or by is not None:
            call, done = calls.get()
            is_first = False
            try:
                done.set_result(call())
            except Exception as error:
                done.set_exception(error)

    def close(self):
        self.client.close()


class Tasks:
    """Calls of `AsyncLock`, each in a task of its own or in one with a name, in a loop of its own."""

    def __init__(self, url, client=None):
        self.client = client(redis.asyncio) if client else redis.asyncio.Redis.from_url(url)
        self.named, self.tasks, self.loop = {}, [], asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def lock(self, names, **options):
        return AsyncLock(self.client, names, **options)

    def on_lost(self, told, lock, done):
        async def call(held):
            told.append(held)
            if done is not None:
                done.set_result(await lock().acquire())

        return call

    def start(self, call, by=None):
        calls, done = self.named.get(by), concurrent.futures.Future()
        if calls is None:
            self.named[by or object()] = calls = asyncio.Queue()
            self.tasks.append(asyncio.run_coroutine_threadsafe(self.serve(calls, by), self.loop))
        self.loop.call_soon_threadsafe(calls.put_nowait, (call, done))
        return done

    async def serve(self, calls, by):
        is_first = True
        while is_first or by is not None:
            call, done = await calls.get()
            is_first = False
            try:
                done.set_result(await call())
            except Exception as error:
                done.set_exception(error)

    def close(self):
        asyncio.run_coroutine_threadsafe(self.end(), self.loop).result(PATIENCE_S)
        self.loop.call_soon_threadsafe(self.loop.stop)

    async def end(self):
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self.client.aclose()


class Run:
    """A run of one scenario: the locks by the names that the steps give them, and the waiting calls."""

    def __init__(self, server, calls, moving=None):
        self.server, self.calls, self.moving = server, calls, moving
        self.locks, self.objects, self.told, self.waiting, self.killed = {}, {}, [], {}, set()
        self.steps = {}  # the latest acquisition or change of mode of each name

    def step(self, step):
        verb = next(iter(step))
        getattr(self, verb)(step[verb], step)

    def acquire(self, names, step):
        before = self.in_line()
        self.steps[step["as"]] = step
        self.waiting[step["as"]] = self.calls.start(lambda: self.lock(names, step).acquire(), step.get("by"))
        if step.get("expect") == "waits":
            wait(lambda: self.in_line() > before)
        elif step.get("expect") != "begins":
            self.ends(step["as"], {"expect": step.get("expect", "held")})

    def upgrade(self, name, step):
        wait_ms = step.get("wait_ms")
        self.converts(name, step, lambda held: held.upgrade(None if wait_ms is None else wait_ms / 1000))

    def downgrade(self, name, step):
        self.converts(name, step, lambda held: held.downgrade())

    def converts(self, name, step, convert):
        held, before = self.locks[name], self.in_line()
        self.steps[name] = step
        self.waiting[name] = self.calls.start(lambda: convert(held))
        if step.get("expect") == "waits":
            wait(lambda: self.in_line() > before)
        else:
            self.ends(name, step)

    def lock(self, names, step):
        """Returns the object of a step, which may be that of a step before."""
        name = step.get("object")
        if name in self.objects:
            return self.objects[name]
        options = {word: step[word] for word in ("shared", "permits", "of", "meta", "session", "owner") if word in step}
        wait_ms, then, done = step.get("wait_ms"), step.get("on_lost"), None
        if then is not None:
            self.waiting[then["as"]] = done = concurrent.futures.Future()
        lock = self.calls.lock(
            names,
            ttl=step.get("ttl_ms", 60_000) / 1000,
            wait=None if wait_ms is None else wait_ms / 1000,
            **{f"renew_{of}": step[f"renew_{ms}"] / 1000 for of, ms in RENEWALS if f"renew_{ms}" in step},
            on_lost=self.calls.on_lost(self.told, lambda: self.lock(then["acquire"], then), done),
            **options,
        )
        if name is not None:
            self.objects[name] = lock
        return lock

    def in_line(self):
        return 0 if IS_PLAIN else self.server.client.info("locks")["waiting"]

    def ends(self, name, step):
        expected, (kind, told) = step["expect"], self.outcome(name, self.waiting.pop(name))
        if isinstance(expected, dict):
            assert kind in expected and expected[kind] in told, (kind, told)
        else:
            assert kind == expected, (kind, told)

    def outcome(self, name, future):
        try:
            held = future.result(PATIENCE_S)
            if not {"upgrade", "downgrade"}.isdisjoint(self.steps.get(name, {})):
                return "held", ""  # in another mode
            if held is None:
                return "not acquired", str(self.refusal(name))
            self.locks[name] = held
            return "held", ""
        except NotAcquired as refused:
            return "not acquired", str(refused)
        except Deadlock as deadlock:
            return "deadlock", str(deadlock)
        except (LockError, redis.RedisError, ValueError) as error:
            return "error", str(error)

    def refusal(self, name):
        """Returns the error of an acquisition that was refused, which is refused again."""
        lock = self.lock(self.steps[name]["acquire"], {**self.steps[name], "wait_ms": 0})
        with pytest.raises(NotAcquired) as refused:
            self.calls.start(lock.__enter__ if isinstance(lock, Lock) else lock.__aenter__).result(PATIENCE_S)
        return refused.value

    def refused(self, name, step):
        told = self.refusal(name)
        assert (told.key, told.holder.meta) == (step["name"], step["meta"])
        assert (told.age * 1000, told.ttl * 1000) == (step["age_ms"], step["ttl_ms"])

    def key(self, name, step):
        wait(lambda: self.server.client.pttl(name) == step["pttl"])

    def release(self, name, step):
        assert self.calls.start(self.locks[name].release).result(PATIENCE_S) is step["expect"]

    def holds(self, name, step):
        self.locks[name].check()
        assert self.locks[name].lost is None

    def lost(self, name, step):
        lock = self.locks[name]
        wait(lambda: lock in self.told)
        assert lock.lost in step["because"]
        with pytest.raises(LockLost, match=lock.lost):
            lock.check()

    def fence(self, which, step):
        fence = self.fence_of(which)
        if "is" in step:
            assert fence is step["is"]
        elif "above" in step:
            assert fence > self.fence_of(step["above"])
        else:
            assert fence == self.fence_of(step["same_as"])

    def fence_of(self, which):
        return self.locks[which].fence if isinstance(which, str) else self.locks[which[0]].fences[which[1]]

    def without(self, commands, step):
        for command in commands if not IS_PLAIN else []:
            error = f"ERR unknown command '{command}', with args beginning with: 'report' "
            self.server.client.execute_command("TEST.FAULT", "ADD", command, "ERROR", error)

    def command(self, words, step):
        reply = self.server.client.execute_command(*words)
        if "expect" in step:
            expected = step["expect"]
            assert reply == expected or (expected == "OK" and reply is True), reply

    def info(self, name, step):
        wait(lambda: self.shows(self.server.client.execute_command("LOCK.INFO", name), step["has"]))

    def shows(self, info, fields):
        if fields is None or info is None:
            return fields is info
        shown = {word: len(value) if isinstance(value, list) else value for word, value in info.items()}
        return all(shown[word] == value for word, value in fields.items())

    def cut(self, name, step):
        info = self.server.info(name)
        client = (info["waiters"][step["waiter"]] if "waiter" in step else info)["client-id"]
        client = info["holders"][0]["client-id"] if client is None else client
        self.killed.add(client)
        assert self.server.client.client_kill_filter(_id=client) == 1

    def failover(self, name, step):
        self.killed |= self.clients(self.server.info(name))
        if HAS_FAILOVERS:
            self.server.fail_over("stop" if step.get("stuck") else "kill")
        else:
            self.moving.move(step.get("stuck", False))

    def stall(self, name, step):
        self.killed |= self.clients(self.server.info(name))
        self.moving.stall(step.get("replies", False))

    def resumes(self, name, step):
        wait(lambda: self.is_back(self.server.info(name)))

    def is_back(self, info):
        clients = self.clients(info)
        return clients and not self.killed & clients and None not in clients

    def clients(self, info):
        """Returns the ids of the holders and waiters; None is that of one without a connection."""
        return {each["client-id"] for each in info.get("holders", []) + info.get("waiters", [])}


@pytest.fixture
def steered(server):
    """The server, in test mode, without faults and with a clock that runs."""

    def reset():
        if IS_STEERED:
            server.client.execute_command("TEST.FAULT", "CLEAR")
            server.client.execute_command("TEST.TIME", "RUN")
        if not IS_PLAIN:
            server.client.config_set("session-grace-ms", 0)

    reset()
    yield server
    reset()


@pytest.mark.parametrize("calls", [Threads, Tasks])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario["name"] for scenario in SCENARIOS])
def test_the_list_of_all_languages(steered, moving, calls, scenario):
    moves, stalls = scenario.get("moves", False), scenario.get("stalls", False)
    client = functools.partial(moving.client, asks=moves) if moves or stalls else None
    client = functools.partial(failing_client, steered) if HAS_FAILOVERS else client
    run = Run(steered, calls(steered.url, client), moving)
    for step in scenario["steps"]:
        run.step(step)
    assert not run.waiting
    run.calls.close()
