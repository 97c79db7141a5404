//! Scripts, plain commands, transactions and Pub/Sub at once: one order explains all replies, and subscribers receive
//! every message.
//!
//! `KEYLATCH_SOAK_S=60 cargo test --release --test it mixed` runs for this many seconds.

use std::collections::BTreeMap;
use std::thread;

use keylatch::Clock;
use todc_utils::Action;

use super::model::{Command, KEYS, WORD};
use super::{CONNECTIONS, Event, Operation, Plan, Recorder, assert_linearizable, plain_command, record};
use crate::harness::{Client, TestServer, encode};

/// Messages, as `channel text`, with the number of times that each was received.
type Messages = BTreeMap<String, usize>;

const PLAN: Plan = Plan { rounds: 50, turns: 12, burst: 2, draw: mixed_command };

/// Message that is not sent during the rounds.
const END: &str = "the end";

fn mixed_command(recorder: &mut Recorder<'_>) -> Command {
    let (key, other, value) = (recorder.dice.key(), recorder.dice.key(), recorder.dice.value());
    match recorder.dice.below(10) {
        0 => Command::SetNx(key, value),
        1 => Command::Set(key, value),
        2 => Command::Release(key, value - 10_000),
        3 | 4 => Command::Exchange(key, other),
        5 | 6 => Command::Announce(key),
        7 => Command::Proclaim(key),
        8 => Command::Exec(vec![Command::Exchange(key, other), Command::Get(key), Command::Mget]),
        _ => plain_command(recorder),
    }
}

/// Reads messages up to the last one.
fn listen(mut listener: Client) -> Messages {
    let mut heard = Messages::new();
    loop {
        let message = listener.reply();
        let words: Vec<&str> = message.split(' ').collect();
        assert_eq!(words[..3], ["*4", "$8", "pmessage"], "{message}");
        let (channel, text) = (words[6], words[8..].join(" "));
        if text == END {
            return heard;
        }
        *heard.entry(format!("{channel} {text}")).or_default() += 1;
    }
}

/// Returns the messages that must have been received, derived from the replies.
fn sent(histories: &[Vec<Event>]) -> Messages {
    let mut sent = Messages::new();
    for (round, events) in histories.iter().enumerate() {
        for (.., action) in events {
            let Action::Response(Operation { command, reply: Some(reply), .. }) = action else { continue };
            let (key, text) = match command {
                Command::Announce(key) => (key, reply.trim_start_matches(':')),
                Command::Proclaim(key) => (key, WORD),
                _ => continue,
            };
            *sent.entry(format!("{round}.{} {text}", KEYS[*key])).or_default() += 1;
        }
    }
    sent
}

#[test]
fn mixed_scripts_commands_transactions_and_messages_are_linearizable_and_nothing_is_lost() {
    let clock = Clock::system();
    let until_ms =
        std::env::var("KEYLATCH_SOAK_S").map_or(0, |seconds| 1000 * seconds.parse::<u64>().expect("seconds"));
    let (mut calls, mut messages) = (0, 0);
    loop {
        let server = TestServer::start_on_workers(2);
        let mut listener = server.client();
        assert!(listener.call("PSUBSCRIBE *").starts_with("*3"));
        let listening = thread::spawn(move || listen(listener));
        let histories = record(&server, PLAN);
        server.client().send(&encode(&["PUBLISH", "x", END]));
        let heard = listening.join().expect("it hears the end");
        let sent = sent(&histories);
        assert_eq!(heard, sent);
        assert_linearizable(&histories);
        calls += histories.iter().map(|events| events.len() / 2).sum::<usize>();
        messages += sent.values().sum::<usize>();
        if clock.now().mono_ms() >= until_ms {
            break;
        }
    }
    assert!(calls > PLAN.rounds * PLAN.turns * CONNECTIONS && messages > calls / 10);
    if until_ms > 0 {
        let _ = std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!(
                "{calls} calls from {CONNECTIONS} connections are linearizable; {messages} messages all came\n"
            ),
        );
    }
}
