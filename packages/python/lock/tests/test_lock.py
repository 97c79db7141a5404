"""The lock for threads."""

import concurrent.futures
import contextlib
import gc
import multiprocessing
import os
import queue
import signal
import threading
import weakref

import pytest
import redis
from conftest import PATIENCE_S, wait

from keylatch_lock import Deadlock, Lock, LockLost, NotAcquired
from keylatch_lock._sync import Hold

PROCESSES, SECTIONS = 4, 25


def test_processes_exclude_each_other_and_their_fences_increase(server):
    server.client.set("count", 0)
    workers = [multiprocessing.Process(target=work, args=(server.url,), daemon=True) for _ in range(PROCESSES)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE_S)
    assert [worker.exitcode for worker in workers] == [0] * PROCESSES
    assert int(server.client.get("count")) == PROCESSES * SECTIONS
    fences = [int(fence) for fence in server.client.lrange("fences", 0, -1)]
    assert fences == sorted(set(fences)) and len(fences) == PROCESSES * SECTIONS


def work(url):
    client = redis.Redis.from_url(url)
    for _ in range(SECTIONS):
        with Lock(client, "lock", ttl=PATIENCE_S) as lock:
            count = int(client.get("count"))
            client.rpush("fences", lock.fence)
            client.set("count", count + 1)


def test_waiters_are_served_in_the_order_of_their_arrival(server):
    served, threads = [], []

    def wait_in_line(number):
        with Lock(server.client, "lock"):
            served.append(number)

    with Lock(server.client, "lock"):
        for number in range(5):
            threads.append(threading.Thread(target=wait_in_line, args=(number,), daemon=True))
            threads[-1].start()
            wait(lambda: server.waiting("lock") == number + 1)
    for thread in threads:
        thread.join(PATIENCE_S)
    assert served == [0, 1, 2, 3, 4]


def test_a_wait_that_would_never_end_is_refused_at_once_if_the_locks_have_an_owner(server):
    one, two = Lock(server.client, "a", owner="one"), Lock(server.client, "b", owner="two")
    assert one.acquire() and two.acquire()
    inner = Lock(server.client, "b", owner="one")
    waiting = threading.Thread(target=inner.acquire, daemon=True)
    waiting.start()
    wait(lambda: server.waiting("b") == 1)
    with pytest.raises(Deadlock, match="^a held by client [0-9]+ waits for b held by client [0-9]+$"):
        Lock(server.client, "a", owner="two").acquire()
    assert two.lost is None and two.release()
    waiting.join(PATIENCE_S)
    assert inner.release() and one.release()


def test_a_lock_that_is_held_is_refused_without_waiting_or_after_waiting(server):
    with Lock(server.client, "lock", meta="nightly") as held:
        assert server.info("lock")["meta"] == "nightly"
        assert not Lock(server.client, "lock", wait=0).acquire()
        assert not Lock(server.client, "lock", wait=0.01).acquire()
        with pytest.raises(NotAcquired), Lock(server.client, "lock", wait=0):
            pass
        held.check()
    assert server.client.get("lock") is None


def test_renewal_keeps_a_lock_past_its_ttl(server):
    with Lock(server.client, "lock", ttl=6) as lock:
        wait(lambda: server.info("lock")["age-ms"] > 6500)
        assert server.info("lock")["fence"] == lock.fence
        lock.check()


def test_a_lock_that_was_waited_for_is_renewed_before_it_is_believed(server):
    """Its time counts from before a command was sent, and the one that waited was sent long ago."""

    def renewals():
        return server.client.info("commandstats").get("cmdstat_lock.renew", {"calls": 0})["calls"]

    first, next_one = Lock(server.client, "lock", ttl=PATIENCE_S * 10), Lock(server.client, "lock", ttl=3)
    assert first.acquire()
    waiting = threading.Thread(target=next_one.acquire, daemon=True)
    waiting.start()
    wait(lambda: server.waiting("lock") == 1 and server.info("lock")["waiters"][0]["waited-ms"] > 1100)
    before = renewals()
    assert first.release()
    waiting.join(PATIENCE_S)
    assert renewals() == before + 1 and next_one.release()


def test_a_loss_is_told_at_once_and_the_body_can_see_it(server):
    told = threading.Event()
    with pytest.raises(LockLost, match="deleted"):
        with Lock(server.client, "lock", ttl=PATIENCE_S * 10, on_lost=lambda lock: told.set()) as lock:
            server.client.delete("lock")
            assert told.wait(PATIENCE_S) and lock.lost == "deleted"
            with pytest.raises(LockLost, match="deleted"):
                lock.check()


def test_a_lock_that_cannot_be_renewed_is_lost_when_its_time_is_over(server):
    told = threading.Event()
    lock = Lock(server.client, "lock", ttl=0.3, on_lost=lambda lock: told.set())
    assert lock.acquire()
    server.client.client_pause(PATIENCE_S * 1000, all=False)
    assert told.wait(PATIENCE_S) and lock.lost == "expired"
    assert not lock.release()


def test_an_exception_in_the_body_releases_and_is_not_hidden(server):
    with pytest.raises(ZeroDivisionError), Lock(server.client, "lock"):
        1 / 0
    assert server.client.get("lock") is None


def test_a_lost_lock_does_not_hide_an_exception_of_the_body(server):
    with pytest.raises(ZeroDivisionError), Lock(server.client, "lock", ttl=PATIENCE_S) as lock:
        server.client.delete("lock")
        wait(lambda: lock.lost)
        1 / 0


@contextlib.contextmanager
def interrupted_in_line(server, meanwhile=lambda: None):
    """Interrupts this thread when a client waits for the lock; another event happens before it sees that."""

    def interrupt(*_):
        meanwhile()
        raise KeyboardInterrupt

    def when_it_waits():
        wait(lambda: server.waiting("lock") == 1)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    before = signal.signal(signal.SIGINT, interrupt)
    threading.Thread(target=when_it_waits, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        yield
    signal.signal(signal.SIGINT, before)


def test_a_waiter_that_is_interrupted_leaves_the_line(server):
    with Lock(server.client, "lock"):
        with interrupted_in_line(server):
            Lock(server.client, "lock").acquire()
        wait(lambda: server.waiting("lock") == 0)


def test_a_waiter_that_is_interrupted_as_it_is_granted_the_lock_leaves_it_free(server):
    for _ in range(20):
        assert server.client.execute_command("LOCK.ACQUIRE", "lock", "first", "PX", PATIENCE_S * 1000)
        with interrupted_in_line(server, lambda: server.client.execute_command("LOCK.RELEASE", "lock", "first")):
            Lock(server.client, "lock", ttl=PATIENCE_S * 10).acquire()
        wait(lambda: not server.client.get("lock"))


def test_a_lock_outlives_its_connection_and_is_told_of_its_loss_over_the_next(server):
    lock = Lock(server.client, "lock", ttl=PATIENCE_S)
    assert lock.acquire()
    killed = server.kill_holder("lock")
    wait(lambda: server.info("lock")["client-id"] not in (killed, None))
    assert server.info("lock")["fence"] == lock.fence
    lock.check()
    server.client.delete("lock")
    wait(lambda: lock.lost == "deleted")


def test_a_lock_that_goes_while_its_connection_is_made_again_is_not_taken_again(server, monkeypatch):
    notify = Hold._notify

    def late(held):
        server.client.delete("lock")  # behind the renewal
        return notify(held)

    monkeypatch.setattr(Hold, "_notify", late)
    held = Lock(server.client, "lock", owner="me").acquire()  # not resumed, as its owner may have others
    server.kill_holder("lock")
    assert wait(lambda: held.lost) == "expired"
    assert not server.client.exists("lock")


def test_a_session_ends_with_its_connection_and_frees_the_lock(server):
    lock = Lock(server.client, "lock", ttl=PATIENCE_S, session=True)
    assert lock.acquire() and server.info("lock")["session"]
    server.kill_holder("lock")
    wait(lambda: lock.lost == "disconnected")
    assert Lock(server.client, "lock", wait=PATIENCE_S).acquire()
    assert not lock.release()


def test_the_rest_of_a_session_that_has_lost_a_lock_is_free_at_once_whatever_the_grace_is(server):
    server.client.config_set("session-grace-ms", PATIENCE_S * 10_000)
    lock = Lock(server.client, ["lock", "other"], ttl=PATIENCE_S * 10, session=True)
    assert lock.acquire()
    server.client.delete("lock")
    wait(lambda: lock.lost == "deleted" and not server.info("other"))
    assert not lock.release()


def test_a_session_whose_renewals_are_refused_is_released_before_its_connection_is_closed(server, monkeypatch):
    def refused():
        calls = server.client.execute_command("TEST.CALLS", "MATCH", "LOCK.RENEW", "COUNT", 1)
        return calls and lock.token in calls[0]["args"]

    server.client.execute_command("TEST.FAULT", "ADD", "LOCK.RENEW", "ERROR", "ERR not now")
    send = server.client.execute_command

    def send_late(*words):
        if words[0] == "LOCK.RELEASE":
            lock._keeper.join(0.2)  # which may have closed the connection by then
        return send(*words)

    monkeypatch.setattr(server.client, "execute_command", send_late)
    try:
        lock = Lock(server.client, "lock", ttl=6, session=True)
        assert lock.acquire()
        wait(refused)
        assert lock.release()
    finally:
        server.client.execute_command("TEST.FAULT", "CLEAR")


def test_an_acquisition_whose_reply_is_lost_is_found_out_by_asking_again(server, lossy):
    lock = Lock(redis.Redis.from_url(lossy.url), "lock", ttl=PATIENCE_S * 10, wait=0)
    assert lock.acquire() and lossy.has_lost
    assert server.info("lock")["fence"] == lock.fence and server.client.get("lock") == lock.token


def test_a_lock_serves_again_and_a_second_release_is_refused(server):
    lock = Lock(server.client, "lock")
    assert not lock.release()
    with lock:
        first = lock.fence
    with lock:
        assert lock.fence > first
    assert not lock.release()


def test_a_client_that_decodes_nothing_and_speaks_resp2_will_do(server):
    client = redis.Redis.from_url(server.url, protocol=2)
    with pytest.raises(LockLost, match="overwritten"), Lock(client, b"lock\xff") as lock:
        client.set(b"lock\xff", "another")
        wait(lambda: lock.lost)


def together(count, work):
    """Runs a function in several threads at the same time; fails as one of them does."""
    with concurrent.futures.ThreadPoolExecutor(count) as threads:
        for done in [threads.submit(work, number) for number in range(count)]:
            done.result(PATIENCE_S)


def test_threads_that_share_a_lock_object_exclude_each_other(server):
    lock, inside, fences = Lock(server.client, "lock", ttl=PATIENCE_S), [], []

    def work(number):
        for _ in range(10):
            with lock as held:
                inside.append(number)
                server.client.ping()
                assert inside == [number] and lock.fence == held.fence
                fences.append(held.fence)
                inside.remove(number)

    together(4, work)
    assert fences == sorted(set(fences)) and len(fences) == 40 and server.client.get("lock") is None


def test_threads_that_name_the_same_owner_hold_a_lock_together_and_its_last_release_frees_it(server):
    for terms in {}, {"shared": True}, {"permits": 1, "of": 3}:
        lock = Lock(server.client, "lock", ttl=PATIENCE_S, owner="worker", **terms)
        at_once = threading.Barrier(4)

        def work(number):
            for _ in range(10):
                with lock as held:
                    with Lock(server.client, "lock", ttl=PATIENCE_S, owner="worker", **terms) as inner:
                        at_once.wait(PATIENCE_S)
                        assert inner.fence == held.fence
                    assert server.client.execute_command("LOCK.FENCE", "lock", "worker") == held.fence
                    at_once.wait(PATIENCE_S)

        together(4, work)
        assert server.client.get("lock") is None


def test_a_client_that_an_owner_has_used_is_freed(server):
    client = redis.Redis.from_url(server.url)
    assert Lock(client, "lock", owner="worker").acquire().release()
    client.close()
    freed = weakref.ref(client)
    del client
    gc.collect()
    wait(lambda: freed() is None)


def test_a_thread_that_waits_for_another_of_its_owner_waits_no_longer_than_it_is_to(server):
    server.client.set("lock", "other")
    patient, hasty = (Lock(server.client, "lock", ttl=PATIENCE_S, owner="worker", wait=time_s) for time_s in (None, 0.01))

    def refused(number):
        assert not hasty.acquire()
        with pytest.raises(NotAcquired), hasty:
            pass

    with concurrent.futures.ThreadPoolExecutor(1) as other:
        first = other.submit(patient.acquire)
        wait(lambda: server.waiting("lock") == 1)
        together(2, refused)
        server.client.delete("lock")
        held = first.result(PATIENCE_S)
    with hasty as again:
        assert again.fence == held.fence and held.release()
        again.check()
    assert server.client.get("lock") is None


def test_a_thread_that_waits_for_another_of_its_owner_and_is_interrupted_lets_the_next_one_in(server):
    server.client.set("lock", "other")
    lock, has_come = Lock(server.client, "lock", ttl=PATIENCE_S, owner="worker"), threading.Event()

    def interrupt(*_):
        if not has_come.is_set():
            has_come.set()
            raise KeyboardInterrupt

    def interrupted():
        while not has_come.wait(0.1):  # a signal just before the wait is noticed only after it
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    with concurrent.futures.ThreadPoolExecutor(1) as other:
        first = other.submit(lock.acquire)
        wait(lambda: server.waiting("lock") == 1)
        before = signal.signal(signal.SIGINT, interrupt)
        try:
            threading.Thread(target=interrupted, daemon=True).start()
            with pytest.raises(KeyboardInterrupt):
                lock.acquire()
        finally:
            has_come.set()
            signal.signal(signal.SIGINT, before)
        server.client.delete("lock")
        assert first.result(PATIENCE_S).release()
    assert lock.acquire().release()


def test_a_thread_that_was_refused_releases_nothing_of_another_one_with_the_same_object(server):
    lock = Lock(server.client, "lock", wait=0)

    def refused(number):
        assert not lock.acquire() and not lock.release()
        with pytest.raises(NotAcquired), lock:
            pass

    with lock as held:
        together(1, refused)
        held.check()
        assert server.info("lock")["fence"] == held.fence


def test_a_thread_that_holds_a_lock_is_refused_it_and_waits_for_itself_no_longer_than_it_is_to(server):
    for wait_s in 0, 0.01:
        lock = Lock(server.client, "lock", wait=wait_s)
        with lock as held:
            assert not lock.acquire()
            with pytest.raises(NotAcquired), lock:
                pass
            held.check()


def test_a_thread_that_holds_a_lock_and_would_wait_for_itself_for_ever_is_told_so(server):
    for options in {}, {"shared": True}, {"permits": 2, "of": 3}:
        lock = Lock(server.client, "lock", **options)
        with lock as held:
            with pytest.raises(Deadlock, match="itself"):
                lock.acquire()
            held.check()
        assert server.client.get("lock") is None


def test_a_thread_takes_permits_again_as_long_as_there_are_any(server):
    lock = Lock(server.client, "lock", permits=1, of=2)
    with lock as first:
        with lock as second:
            assert second.fence > first.fence and server.info("lock")["free"] == 0
        assert server.info("lock")["free"] == 1
        first.check()
    assert server.client.get("lock") is None


def test_an_early_release_in_the_body_is_no_loss(server):
    lock = Lock(server.client, "lock")
    with lock as held:
        assert lock.release() and not lock.release() and not held.release()
        held.check()
    with lock:
        assert lock.release() and lock.acquire()
    assert server.client.get("lock") is None


def test_who_is_told_of_a_loss_can_acquire_again_for_the_body_whose_end_releases(server):
    acquired = queue.Queue()
    lock = Lock(server.client, "lock", ttl=PATIENCE_S * 10, on_lost=lambda held: acquired.put(lock.acquire()))
    with lock as first:
        server.client.delete("lock")
        second = acquired.get(timeout=PATIENCE_S)
        assert second.fence > first.fence and lock.fence == second.fence and lock.lost is None
        with pytest.raises(LockLost, match="deleted"):
            first.check()
    assert server.client.get("lock") is None


def test_several_locks_of_a_session_can_be_acquired_again_by_who_is_told_of_their_loss(server):
    server.client.config_set("session-grace-ms", PATIENCE_S * 10_000)
    acquired = queue.Queue()
    lock = Lock(
        server.client, ["lock", "other"], ttl=PATIENCE_S * 10, session=True, on_lost=lambda _: acquired.put(lock.acquire())
    )
    assert lock.acquire()
    server.client.delete("lock")
    assert acquired.get(timeout=PATIENCE_S) and lock.release()


def test_a_thread_can_hand_its_lock_to_another(server):
    lock = Lock(server.client, "lock")
    held = lock.acquire()
    together(1, lambda number: held.check() or held.release())
    assert server.client.get("lock") is None and not lock.release()
    together(1, lambda number: lock.acquire())
    assert lock.release()  # of a thread that has ended
    assert server.client.get("lock") is None


def test_a_forked_process_does_not_hold_the_lock_of_its_parent(server):
    lock = Lock(server.client, "lock", ttl=PATIENCE_S)
    with lock as held:
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                with pytest.raises(LockLost, match="forked"):
                    lock.check()
                with pytest.raises(LockLost, match="forked"):
                    held.check()
                assert not held.release() and not lock.release() and lock.fence is None
                grandchild = os.fork()
                with pytest.raises(LockLost, match="forked"):
                    lock.check()
                if grandchild == 0:
                    os._exit(7)
                os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        held.check()
        assert server.info("lock")["fence"] == held.fence


def test_a_release_over_a_stuck_connection_that_is_to_be_looked_at_first_is_sent_over_another(server, moving):
    host, port = moving.address
    client = redis.Redis(host=host, port=port, health_check_interval=0.001, socket_timeout=PATIENCE_S)
    client.ping()
    lock = Lock(client, "lock", ttl=6)
    assert lock.acquire()
    moving.stall()
    assert lock.release() and server.client.get("lock") is None


def test_a_release_that_is_never_answered_is_an_error_and_not_a_loss(server):
    lock = Lock(redis.Redis.from_url(server.url), "lock", ttl=PATIENCE_S * 10)
    assert lock.acquire()
    server.client.execute_command("TEST.FAULT", "ADD", "LOCK.RELEASE", "DROP")
    try:
        with pytest.raises(redis.ConnectionError):
            lock.release()
    finally:
        server.client.execute_command("TEST.FAULT", "CLEAR")
    assert not lock.release()  # it is final
