//! Calls behind a script that keeps their process busy: its end, and the end of their clients meanwhile.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use crate::engine::cluster::TransactionResult;
use crate::engine::core::EngineAction;
use crate::engine::model::process::{ModelConnection, Process};
use crate::engine::names::NamePrefix;

/// Ends a thread, also when the test fails.
struct Ending<'e>(&'e AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Sends a request that waits for its outcome.
fn send(client: &mut ModelConnection, process: &Process, request: &[&str]) {
    let words: Vec<String> = request.iter().map(|word| (*word).to_owned()).collect();
    assert_eq!(client.send(&process.namespace, &words), None);
}

/// Starts a process where a call of the first client is on its way to the cluster, and behind it wait a script of the
/// second one, without end, and a call of the third; returns the lane of the first call, too.
fn with_script() -> (Process, u32, [ModelConnection; 3]) {
    let mut process = Process::start(&NamePrefix::new(b"keylatch/"), 0);
    process.core.replace(Vec::new(), 1);
    process.register(1);
    let namespace = process.namespace.clone();
    let changed = namespace.settings.update(|config| {
        let mut config = config.clone();
        config.busy_reply_threshold_ms = 1;
        Ok(config)
    });
    changed.expect("no check refuses it");
    let mut clients: [ModelConnection; 3] = std::array::from_fn(|_| ModelConnection::open(&namespace));
    send(&mut clients[0], &process, &["SET", "k", "first"]);
    send(&mut clients[1], &process, &["EVAL", "while true do end", "1", "k"]);
    send(&mut clients[2], &process, &["SET", "k", "last"]);
    let (sent, _) = process.turn();
    let [EngineAction::Commit(lane, _)] = sent[..] else { panic!("the first call alone is sent, and not {sent:?}") };
    (process, lane, clients)
}

/// Confirms the transaction on a lane, while `once_busy` runs on another thread as soon as a script is busy, and then
/// scripts are killed.
fn confirm(process: &mut Process, lane: u32, once_busy: impl FnOnce() + Send) {
    let (namespace, is_over) = (process.namespace.clone(), AtomicBool::new(false));
    thread::scope(|scope| {
        let _ending = Ending(&is_over);
        scope.spawn(|| {
            while !namespace.store.busy_flag().is_occupied() && !is_over.load(SeqCst) {
                thread::yield_now();
            }
            once_busy();
            while !is_over.load(SeqCst) {
                let _ = namespace.scripts.control.kill(false);
                thread::yield_now();
            }
        });
        process.core.done(lane, Ok(TransactionResult { revision: 2, is_committed: true, read: Vec::new() }));
    });
}

#[test]
fn a_call_is_not_sent_whose_client_is_told_to_close_while_a_script_runs_before_it() {
    let (mut process, lane, [_first, _script, mut last]) = with_script();
    let (namespace, told) = (process.namespace.clone(), last.info());
    confirm(&mut process, lane, || {
        namespace.clients.kill(&told);
        namespace.store.renew_generation();
    });
    let sent = process.core.take_actions();
    assert!(!sent.iter().any(|action| matches!(action, EngineAction::Commit(..))), "{sent:?}");
    assert_eq!(last.poll(&namespace).as_deref(), Some(""), "it is answered nothing");
}

#[test]
fn a_killed_script_is_answered_at_once_and_the_call_behind_it_is_sent() {
    let (mut process, lane, [_first, mut script, mut last]) = with_script();
    let namespace = process.namespace.clone();
    confirm(&mut process, lane, || {});
    let sent = process.core.take_actions();
    assert_eq!(sent.iter().filter(|action| matches!(action, EngineAction::Commit(..))).count(), 1, "{sent:?}");
    let reply = script.poll(&namespace).expect("it has its reply before the cluster has the other call");
    assert!(reply.starts_with("-ERR Script killed by user"), "{reply}");
    assert_eq!(last.poll(&namespace), None);
    let mut next = ModelConnection::open(&namespace);
    send(&mut next, &process, &["SET", "k", "next"]);
    let (sent, _) = process.turn();
    assert!(!sent.iter().any(|action| matches!(action, EngineAction::Commit(..))), "the key is not free: {sent:?}");
}
