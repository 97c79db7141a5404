"""Locks that are held and change their mode, for threads and for asyncio."""

import asyncio
import concurrent.futures
import contextlib
import functools
import os
import threading

import pytest
import redis
import redis.asyncio
from conftest import PATIENCE_S, wait
from test_async_lock import until, with_client
from test_lock import interrupted_in_line, together

from keylatch_lock import AsyncLock, Lock, LockError, LockLost, NotAcquired, Unsupported

LOCK_S = PATIENCE_S * 10  # so that nothing is seen by a renewal
both_kinds = pytest.mark.parametrize("session", [False, True])


def token_has(server, held, mode):
    """Returns whether the server holds a lock in this mode for its token, with the fence that the client knows."""
    info, fence = server.info("lock"), server.client.execute_command("LOCK.FENCE", "lock", held.token)
    return fence is not None and (info["mode"], fence) == (mode, held.fence)


def is_shared_on(server, held):
    """Waits until others can share a lock with its holder."""
    wait(lambda: token_has(server, held, "shared"))
    held.check()
    with Lock(server.client, "lock", shared=True, wait=PATIENCE_S) as other:
        assert other.fence == held.fence


def connections(server, name):
    return [client["name"] for client in server.client.client_list()].count(name)


@contextlib.contextmanager
def fault(server, *words):
    server.client.execute_command("TEST.FAULT", "ADD", *words)
    try:
        yield
    finally:
        server.client.execute_command("TEST.FAULT", "CLEAR")


def losing_replies(server, count):
    """Loses the replies to so many requests for a lock, which are executed."""
    return fault(server, "LOCK.ACQUIRE", "LOSEREPLY", "COUNT", count)


def release_later(server, token):
    server.client.execute_command("LOCK.RELEASE", "lock", token)


def share(server, token):
    server.client.execute_command("LOCK.ACQUIRE", "lock", token, "SHARED", "PX", LOCK_S * 1000)


@both_kinds
def test_an_upgrade_that_is_interrupted_leaves_the_lock_shared(server, session):
    told = []
    with Lock(server.client, "lock", ttl=LOCK_S, shared=True, session=session, on_lost=told.append) as held:
        share(server, "other")
        with interrupted_in_line(server):
            held.upgrade()
        wait(lambda: server.waiting("lock") == 0)
        is_shared_on(server, held)
        release_later(server, "other")
        held.upgrade()
        assert token_has(server, held, "exclusive")
    assert not told and not server.client.exists("lock")


@both_kinds
def test_an_upgrade_that_is_interrupted_as_it_is_granted_leaves_the_lock_shared(server, session):
    for _ in range(20):
        with Lock(server.client, "lock", ttl=LOCK_S, shared=True, session=session) as held:
            share(server, "other")
            with interrupted_in_line(server, lambda: release_later(server, "other")):
                held.upgrade()
            is_shared_on(server, held)


@both_kinds
def test_an_upgrade_that_is_granted_and_never_answered_is_undone(server, session):
    with Lock(server.client, "lock", ttl=LOCK_S, shared=True, session=session) as held:
        with losing_replies(server, 2), pytest.raises(redis.ConnectionError):
            held.upgrade(wait=0)
        is_shared_on(server, held)


@both_kinds
def test_a_downgrade_that_is_never_answered_is_undone_unless_others_share_the_lock_by_then(server, session):
    with Lock(server.client, "lock", ttl=LOCK_S, session=session) as held:
        with losing_replies(server, 2), pytest.raises(redis.ConnectionError):
            held.downgrade()
        wait(lambda: token_has(server, held, "exclusive"))
        with concurrent.futures.ThreadPoolExecutor(1) as other:
            reader = other.submit(Lock(server.client, "lock", shared=True, wait=PATIENCE_S).acquire)
            wait(lambda: server.waiting("lock") == 1)
            with losing_replies(server, 2), pytest.raises(redis.ConnectionError):
                held.downgrade()
            wait(lambda: token_has(server, held, "shared"))
            assert reader.result(PATIENCE_S).fence == held.fence
        held.check()


def test_a_lock_is_kept_if_the_server_does_not_know_of_other_modes_or_takes_no_connection(server):
    told = []
    with Lock(server.client, "lock", ttl=LOCK_S, on_lost=told.append) as held:
        unsupported = pytest.raises(Unsupported, match="the server cannot change the mode of a lock")
        with fault(server, "LOCK.ACQUIRE", "ERROR", "ERR syntax error"), unsupported:
            held.downgrade()
        with fault(server, "CONNECT", "DROP"), pytest.raises(redis.ConnectionError):
            held.downgrade()
        assert token_has(server, held, "exclusive")
        held.downgrade()
    assert not told


def test_a_release_during_an_upgrade_ends_both(server):
    held = Lock(server.client, "lock", ttl=LOCK_S, shared=True).acquire()
    share(server, "other")
    with concurrent.futures.ThreadPoolExecutor(1) as other:
        upgrade = other.submit(held.upgrade)
        wait(lambda: server.waiting("lock") == 1)
        assert held.release()
        with pytest.raises(LockError, match="is released"):
            upgrade.result(PATIENCE_S)
    assert server.waiting("lock") == 0 and not server.client.execute_command("LOCK.FENCE", "lock", held.token)


def test_a_release_as_an_upgrade_is_granted_leaves_the_lock_free(server):
    for _ in range(20):
        held = Lock(server.client, "lock", ttl=LOCK_S, shared=True).acquire()
        share(server, "other")
        with concurrent.futures.ThreadPoolExecutor(2) as others:
            upgrade = others.submit(held.upgrade)
            wait(lambda: server.waiting("lock") == 1)
            others.submit(release_later, server, "other")
            assert held.release()
            with contextlib.suppress(LockError):
                upgrade.result(PATIENCE_S)
        wait(lambda: not server.client.exists("lock"))


def test_threads_change_the_mode_of_one_acquisition_one_after_the_other(server):
    with Lock(server.client, "lock", ttl=LOCK_S) as held:
        fences = [held.fence]

        def work(number):
            for _ in range(5):
                held.downgrade() if number % 2 else held.upgrade()
                fences.append(held.fence)

        together(4, work)
        held.upgrade(wait=0)
        assert token_has(server, held, "exclusive") and held.fence >= max(fences)


def test_who_waits_for_another_change_of_the_mode_waits_no_longer_than_it_is_to(server):
    with Lock(server.client, "lock", ttl=LOCK_S, shared=True) as held:
        share(server, "other")
        with concurrent.futures.ThreadPoolExecutor(1) as other:
            upgrade = other.submit(held.upgrade)
            wait(lambda: server.waiting("lock") == 1)
            with pytest.raises(NotAcquired):
                held.upgrade(wait=0.01)
            release_later(server, "other")
            upgrade.result(PATIENCE_S)
        assert token_has(server, held, "exclusive")


def test_a_lock_that_changes_its_mode_often_keeps_one_connection_and_one_thread(server):
    before = set(threading.enumerate())
    with Lock(redis.Redis.from_url(server.url, client_name="thread"), "lock", ttl=LOCK_S, session=True) as held:
        for _ in range(10):
            held.downgrade()
            held.upgrade()
        wait(lambda: (connections(server, "thread"), len(set(threading.enumerate()) - before)) == (1, 1))
    wait(lambda: not set(threading.enumerate()) - before)


def test_a_session_follows_its_lock_to_another_mode_also_if_it_is_resumed_meanwhile(server):
    server.client.config_set("session-grace-ms", PATIENCE_S * 1000)
    with Lock(server.client, "lock", ttl=LOCK_S, shared=True, session=True) as held:
        share(server, "other")
        with concurrent.futures.ThreadPoolExecutor(1) as others:
            upgrade = others.submit(held.upgrade)
            wait(lambda: server.waiting("lock") == 1)
            holders = server.info("lock")["holders"]
            cut = next(each["client-id"] for each in holders if each["session"])
            server.client.client_kill_filter(_id=cut)
            wait(lambda: server.info("lock")["holders"][0]["client-id"] not in (cut, None))
            server.client.config_set("session-grace-ms", 0)
            release_later(server, "other")
            upgrade.result(PATIENCE_S)
        assert token_has(server, held, "exclusive") and server.info("lock")["session"]
        held.check()


def test_a_forked_process_does_not_change_the_mode_of_its_parents_lock(server):
    with Lock(server.client, "lock", ttl=LOCK_S) as held:
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                for change in held.downgrade, held.upgrade:
                    with pytest.raises(LockLost, match="forked"):
                        change()
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert token_has(server, held, "exclusive")


def test_a_loss_in_the_other_mode_is_told_once_and_ends_the_body(server):
    told = []
    lock = Lock(server.client, "lock", ttl=LOCK_S, on_lost=told.append)
    with pytest.raises(LockLost, match="deleted"), lock as held:
        held.downgrade()
        server.client.delete("lock")
        wait(lambda: told)
    assert told == [held]


async def cancelled(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def is_shared_on_loop(server, held):
    await until(lambda: token_has(server, held, "shared"))
    held.check()
    async with AsyncLock(held.lock.client, "lock", shared=True, wait=PATIENCE_S) as other:
        assert other.fence == held.fence


@with_client
async def test_a_task_that_is_cancelled_as_it_waits_for_an_upgrade_shares_the_lock_on(server, client):
    told = []
    async with AsyncLock(client, "lock", ttl=LOCK_S, shared=True, on_lost=told.append) as held:
        share(server, "other")
        task = asyncio.create_task(held.upgrade())
        await until(lambda: server.waiting("lock") == 1)
        await cancelled(task)
        await until(lambda: server.waiting("lock") == 0)
        await is_shared_on_loop(server, held)
        release_later(server, "other")
        await held.upgrade(wait=0)
        assert token_has(server, held, "exclusive")
    assert not told and not server.client.exists("lock")


@with_client
async def test_a_task_that_is_cancelled_as_it_is_granted_an_upgrade_shares_the_lock_on(server, client):
    for session in [False, True] * 10:
        async with AsyncLock(client, "lock", ttl=LOCK_S, shared=True, session=session) as held:
            share(server, "other")
            task = asyncio.create_task(held.upgrade())
            await until(lambda: server.waiting("lock") == 1)
            release_later(server, "other")  # and the task has not run since
            await cancelled(task)
            await is_shared_on_loop(server, held)


@with_client
async def test_a_change_of_the_mode_may_be_cancelled_at_any_step(server, client):
    async with AsyncLock(client, "lock", ttl=LOCK_S, session=True) as held:
        for change, mode in ((held.downgrade, "exclusive"), (held.upgrade, "shared")):
            steps, is_done = 0, False
            while not is_done:
                task = asyncio.create_task(change())
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                    is_done = True
                if not is_done:
                    await until(functools.partial(token_has, server, held, mode))
                    held.check()
                steps += 1


@with_client
async def test_a_release_during_the_upgrade_by_another_task_ends_both(server, client):
    held = await AsyncLock(client, "lock", ttl=LOCK_S, shared=True).acquire()
    share(server, "other")
    task = asyncio.create_task(held.upgrade())
    await until(lambda: server.waiting("lock") == 1)
    assert await held.release()
    with pytest.raises(LockError, match="is released"):
        await task
    assert server.waiting("lock") == 0 and not server.client.execute_command("LOCK.FENCE", "lock", held.token)


@with_client
async def test_tasks_change_the_mode_of_one_acquisition_one_after_the_other(server, client):
    named = redis.asyncio.Redis.from_url(server.url, client_name="task")
    async with named, AsyncLock(named, "lock", ttl=LOCK_S, session=True) as held:
        await asyncio.gather(*(change() for change in [held.downgrade, held.upgrade] * 5))
        assert token_has(server, held, "exclusive")
        await until(lambda: connections(server, "task") == 1)


@with_client
async def test_an_upgrade_of_a_task_that_is_granted_and_never_answered_is_undone(server, client):
    async with AsyncLock(client, "lock", ttl=LOCK_S, shared=True, session=True) as held:
        with losing_replies(server, 2), pytest.raises(redis.ConnectionError):
            await held.upgrade(wait=0)
        await is_shared_on_loop(server, held)
