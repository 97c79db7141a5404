//! Clients that were given a lock while their own tasks were held up: the replies they get when these tasks continue.
//! The tests take the place of the connections, so that each continues at a given time.

use crate::command::handlers;
use crate::command::played_client::{PlayedClient, SendResult};
use crate::config::Config;
use crate::dispatch::{Continuation, Wait};
use crate::namespace::Namespace;
use crate::time::clock::Clock;

struct Connection<'n> {
    namespace: &'n Namespace,
    client: PlayedClient,
    /// The continuation of the request that the connection waits for.
    rest: Option<Box<dyn Continuation>>,
}

impl<'n> Connection<'n> {
    fn open(namespace: &'n Namespace) -> Self {
        Connection { namespace, client: PlayedClient::new(namespace), rest: None }
    }

    /// Sends a request; returns the reply, unless the request waits.
    fn send(&mut self, line: &str) -> Option<String> {
        match self.client.send(self.namespace, line) {
            SendResult::Replied(reply) => Some(reply),
            SendResult::Waits(rest) => {
                self.rest = Some(rest);
                None
            }
        }
    }

    /// Sends a request that must wait.
    #[track_caller]
    fn wait(&mut self, line: &str) {
        assert_eq!(self.send(line), None, "{line}");
    }

    /// Sends requests that must be answered at once.
    #[track_caller]
    fn expect(&mut self, script: &[(&str, &str)]) {
        for (line, reply) in script {
            assert_eq!(self.send(line).as_deref(), Some(*reply), "after {line}");
        }
    }

    /// Runs the connection's task until it waits again; returns the reply, if the request is answered by then.
    fn go_on(&mut self) -> Option<String> {
        let mut rest = self.rest.take().expect("it waits");
        let woken = match rest.wait() {
            Wait::Blocked(blocked) => blocked.ended(self.namespace.clock.now(), true),
            _ => unreachable!("a client in a queue is blocked"),
        };
        let reply = woken.and_then(|woken| self.client.resume(self.namespace, &mut *rest, woken));
        if reply.is_none() {
            self.rest = Some(rest);
        }
        reply
    }

    /// Returns the fencing token in the reply to a connection.
    #[track_caller]
    fn fence(&mut self) -> i64 {
        fence(self.go_on())
    }
}

#[track_caller]
fn fence(reply: Option<String>) -> i64 {
    let fence = reply.as_ref().and_then(|reply| reply.strip_prefix(':')?.parse().ok());
    fence.unwrap_or_else(|| panic!("no fence but {reply:?}"))
}

/// Creates a server with the system's clock: a steered clock would stand still while tasks are held up.
fn namespace() -> Namespace {
    Namespace::for_test(&handlers().commands, Config::default(), Clock::system())
}

/// Waits until the key is gone, or has another value.
fn wait_until_lost(client: &mut Connection<'_>) {
    while client.send("GET k").as_deref() == Some("$4 late") {}
}

#[test]
fn a_client_that_is_late_is_told_no_fence_of_a_lock_that_another_one_has_and_keeps_its_place() {
    let namespace = namespace();
    let [mut holder, mut late, mut behind, mut last] = [0; 4].map(|_| Connection::open(&namespace));
    let first = fence(holder.send("LOCK.ACQUIRE k held PX 100000"));
    late.wait("LOCK.ACQUIRE k late PX 1 BLOCK 0");
    behind.wait("LOCK.ACQUIRE k behind PX 100000 BLOCK 0");
    holder.expect(&[("LOCK.RELEASE k held", ":1")]);
    wait_until_lost(&mut holder);
    holder.expect(&[("LOCK.ACQUIRE k other PX 100000", "$-1"), ("GET k", "$6 behind")]);
    let second = behind.fence();
    last.wait("LOCK.ACQUIRE k last PX 100000 BLOCK 0");
    assert_eq!(late.go_on(), None);
    holder.expect(&[("LOCK.RELEASE k behind", ":1")]);
    wait_until_lost(&mut holder);
    // By then the late client has had the lock once more.
    assert!(first < second && second < last.fence());
}

#[test]
fn a_client_whose_lock_has_expired_before_it_was_told_is_given_it_again_if_it_is_free() {
    let namespace = namespace();
    let [mut holder, mut late] = [0; 2].map(|_| Connection::open(&namespace));
    let before = fence(holder.send("LOCK.ACQUIRE k held PX 100000"));
    late.wait("LOCK.ACQUIRE k late PX 1 BLOCK 0");
    holder.expect(&[("LOCK.RELEASE k held", ":1")]);
    wait_until_lost(&mut holder);
    assert_eq!(late.go_on(), None);
    // The first step suffices, unless it takes a millisecond again.
    let told = std::iter::repeat_with(|| late.go_on()).find(Option::is_some).flatten();
    assert!(fence(told) > before);
}

#[test]
fn a_client_that_others_have_taken_the_lock_from_before_it_was_told_is_told_of_that_lock() {
    let namespace = namespace();
    let [mut holder, mut late] = [0; 2].map(|_| Connection::open(&namespace));
    for lost in ["DEL k", "FLUSHALL", "SWAPDB 0 1", "LOCK.RELEASE k late", "PEXPIRE k -1"] {
        holder.expect(&[("SET k held", "+OK")]);
        late.wait("LOCK.ACQUIRE k late PX 100000 BLOCK 0");
        holder.expect(&[("DEL k", ":1")]);
        let given = fence(holder.send("LOCK.FENCE k late"));
        holder.send(lost);
        assert_eq!(late.fence(), given, "after {lost}"); // no order explains another one: others have seen this lock
        late.expect(&[("EXISTS k", ":0")]);
    }
}

#[test]
fn a_client_whose_lock_was_renewed_before_it_was_told_has_it() {
    let namespace = namespace();
    let [mut holder, mut late] = [0; 2].map(|_| Connection::open(&namespace));
    loop {
        holder.expect(&[("SET k held", "+OK")]);
        late.wait("LOCK.ACQUIRE k late PX 20 BLOCK 0");
        holder.expect(&[("DEL k", ":1")]);
        let end_ms = namespace.clock.now().ms_later(20);
        let renewed = holder.send("LOCK.RENEW k late PX 100000");
        while namespace.clock.now().mono_ms() <= end_ms {}
        if renewed.as_ref().is_some_and(|reply| reply.starts_with(':')) {
            return assert_eq!(late.fence(), fence(renewed));
        }
        late = Connection::open(&namespace); // this thread was stopped for too long
    }
}

#[test]
fn a_client_that_is_late_gets_null_once_it_need_not_wait_any_more() {
    let namespace = namespace();
    let [mut holder, mut late] = [0; 2].map(|_| Connection::open(&namespace));
    holder.expect(&[("SET k held", "+OK")]);
    late.wait("LOCK.ACQUIRE k late PX 1 BLOCK 1");
    let end_ms = namespace.clock.now().ms_later(1); // its own task ends the wait, and does not run
    holder.expect(&[("DEL k", ":1")]);
    wait_until_lost(&mut holder);
    while namespace.clock.now().mono_ms() <= end_ms {}
    assert_eq!(late.go_on().as_deref(), Some("$-1"));
    fence(late.send("LOCK.ACQUIRE k late PX 100000"));
}

#[test]
fn a_client_that_has_one_of_several_locks_no_more_waits_for_all_of_them() {
    let namespace = namespace();
    let [mut holder, mut late] = [0; 2].map(|_| Connection::open(&namespace));
    loop {
        holder.expect(&[("SET k held", "+OK")]);
        late.wait("LOCK.ACQUIREMULTI 2 k other late PX 20 BLOCK 0");
        holder.expect(&[("DEL k", ":1")]);
        let is_renewed = holder.send("LOCK.RENEW other late PX 100000").is_some_and(|reply| reply.starts_with(':'));
        wait_until_lost(&mut holder);
        if is_renewed {
            break;
        }
        late = Connection::open(&namespace); // this thread was stopped for too long
    }
    holder.expect(&[("SET k held", "+OK"), ("GET other", "$4 late")]);
    assert_eq!(late.go_on(), None);
    holder.expect(&[("EXISTS other", ":0")]);
}

#[test]
fn a_shared_lock_that_a_client_is_told_late_of_is_looked_at_too() {
    let namespace = namespace();
    let [mut holder, mut late, mut reader] = [0; 3].map(|_| Connection::open(&namespace));
    holder.expect(&[("SET k held", "+OK")]);
    late.wait("LOCK.ACQUIRE k late SHARED PX 1 BLOCK 0");
    reader.wait("LOCK.ACQUIRE k reader SHARED PX 100000 BLOCK 0");
    holder.expect(&[("DEL k", ":1")]);
    reader.fence();
    while holder.send("LOCK.INFO k").is_some_and(|shown| shown.contains(" late ")) {}
    assert_eq!(late.go_on(), None);
}
