//! Calls that are executed behind a script which keeps their process busy: who publishes something then is not told when they
//! are settled.

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

#[test]
fn a_call_is_not_sent_whose_client_is_told_to_close_while_a_script_runs_before_it() {
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
    let [mut first, mut script, mut last] = std::array::from_fn(|_| ModelConnection::open(&namespace));
    send(&mut first, &process, &["SET", "k", "first"]);
    let (sent, _) = process.turn();
    let [EngineAction::Commit(lane, _)] = sent[..] else { panic!("the first call is sent, and not {sent:?}") };
    send(&mut script, &process, &["EVAL", "while true do end", "1", "k"]);
    send(&mut last, &process, &["SET", "k", "last"]);
    let (told, is_over) = (last.info(), AtomicBool::new(false));
    let sent = thread::scope(|scope| {
        let _ending = Ending(&is_over);
        scope.spawn(|| {
            while !namespace.store.busy_flag().is_occupied() && !is_over.load(SeqCst) {
                thread::yield_now();
            }
            namespace.clients.kill(&told);
            namespace.store.renew_generation();
            while !is_over.load(SeqCst) {
                let _ = namespace.scripts.control.kill(false); // it is executed again, without the call behind it
                thread::yield_now();
            }
        });
        process.core.done(lane, Ok(TransactionResult { revision: 2, is_committed: true, read: Vec::new() }));
        process.turn().0
    });
    assert!(!sent.iter().any(|action| matches!(action, EngineAction::Commit(..))), "{sent:?}");
    assert_eq!(last.poll(&namespace).as_deref(), Some(""), "it is answered nothing");
}
