//! Linearizability: a sequential order of the commands explains the replies to many concurrent connections.
//!
//! Threads send commands on a few keys and record the times of each call and of its reply. A checker (Wing, Gong and
//! Lowe's algorithm) then searches for an order of the commands that keeps the order of non-overlapping ones and of
//! each pipeline, and in which a plain map gives all the replies. The times are ticks of a shared counter, not of a
//! clock. The checker itself is tested with histories that have no such order.

#[cfg(feature = "lua")]
mod mixed;
pub(crate) mod model;
#[cfg(feature = "etcd")]
pub(crate) mod uncertain;

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Barrier, Mutex};
use std::thread;

use todc_utils::{Action, History, WGLChecker};

use self::model::{CONNECTIONS, Command, KEYS, MapSpec, Operation};
use crate::harness::{self, Client, TestServer};

/// Call or reply: its tick, the connection, and the operation (with its reply once it is known).
type Event = (u64, usize, Action<Operation>);

/// Record of one round of all connections.
#[derive(Default)]
struct Recording {
    events: Mutex<Vec<Event>>,
}

impl Recording {
    /// Returns the events in the order of their ticks.
    fn into_events(self) -> Vec<Event> {
        let mut events = self.events.into_inner().expect("every thread has ended well");
        events.sort_by_key(|(tick, ..)| *tick);
        events
    }
}

fn is_linearizable(events: &[Event]) -> bool {
    let actions = events.iter().map(|(_, process, action)| (*process, action.clone())).collect();
    WGLChecker::<MapSpec>::is_linearizable(History::from_actions(actions))
}

/// Counts the calls that were made while another connection waited for its reply.
fn overlapping(events: &[Event]) -> usize {
    let mut pending = 0;
    let mut count = 0;
    for (.., action) in events {
        match action {
            Action::Call(_) => {
                count += usize::from(pending > 0);
                pending += 1;
            }
            Action::Response(_) => pending -= 1,
        }
    }
    count
}

/// One connection of a round: its client, its random generator, and its record.
struct Recorder<'a> {
    client: &'a mut Client,
    connection: usize,
    ticks: &'a AtomicU64,
    /// Prefix of the round's keys, so that every round starts without data.
    prefix: String,
    dice: Dice,
    turns: usize,
    events: Vec<Event>,
}

impl Recorder<'_> {
    /// Sends commands in one write, records that all of them were called, and then each reply as it is read.
    fn call(&mut self, commands: Vec<Command>) -> Vec<String> {
        let bytes: Vec<u8> = commands.iter().flat_map(|command| command.requests(&self.prefix)).collect();
        let (connection, first) = (self.connection, self.turns);
        let operation = |(index, command)| Operation { connection, turn: first + index, command, reply: None };
        let operations: Vec<Operation> = commands.into_iter().enumerate().map(operation).collect();
        self.turns += operations.len();
        operations.iter().for_each(|operation| self.note(Action::Call(operation.clone())));
        self.client.send(&bytes);
        operations.into_iter().map(|operation| self.read(operation)).collect()
    }

    fn read(&mut self, operation: Operation) -> String {
        for queued in operation.command.replies_before_the_last() {
            assert_eq!(self.client.reply(), queued);
        }
        let reply = self.client.reply();
        self.note(Action::Response(Operation { reply: Some(reply.clone()), ..operation }));
        reply
    }

    fn note(&mut self, action: Action<Operation>) {
        self.events.push((self.ticks.fetch_add(1, SeqCst), self.connection, action));
    }

    /// Changes a key between WATCH and EXEC.
    fn swap_watched(&mut self) {
        let (key, to) = (self.dice.key(), self.dice.value());
        let words = ["WATCH".to_owned(), format!("{}{}", self.prefix, KEYS[key])];
        assert_eq!(self.client.call_args(&words), "+OK");
        let seen = model::value(&self.call(vec![Command::Get(key)])[0]);
        self.call(vec![Command::Swap { key, seen, to }]);
    }

    /// Changes a key only if it still holds the value read before.
    fn swap_compared(&mut self) {
        let (key, other, to) = (self.dice.key(), self.dice.key(), self.dice.value());
        let seen = model::value(&self.call(vec![Command::Get(key)])[0]);
        let command = match (seen, self.dice.below(3)) {
            (None, _) => Command::SetNx(key, to),
            (Some(seen), 0) => Command::SetIfEq { key, seen, to },
            (Some(seen), 1) => Command::DelEx { key, seen },
            (Some(seen), _) => {
                Command::ExecIfEq { key, seen, commands: vec![Command::Incr(key), Command::GetSet(other, to)] }
            }
        };
        self.call(vec![command]);
    }
}

fn plain_command(recorder: &mut Recorder<'_>) -> Command {
    let (key, other, value) = (recorder.dice.key(), recorder.dice.key(), recorder.dice.value());
    match recorder.dice.below(16) {
        0 | 1 => Command::Get(key),
        2 => Command::Set(key, value),
        3 | 4 => Command::SetNx(key, value),
        5 | 6 => Command::GetSet(key, value),
        7 | 8 => Command::Del(vec![key]),
        9 | 10 => Command::Incr(key),
        11 => Command::Del(vec![key, other]),
        12 => Command::Mset(vec![(key, value), ((key + 1) % KEYS.len(), value)]),
        13 => Command::Mget,
        14 => Command::Exec(vec![Command::Incr(key), Command::GetSet(other, value)]),
        _ => Command::Exec(vec![Command::Get(key), Command::SetNx(other, value), Command::Mget]),
    }
}

/// Generator with a seed of its own for every connection.
struct Dice {
    numbers: harness::Dice,
    values: i64,
}

impl Dice {
    fn new(connection: usize) -> Self {
        Dice { numbers: harness::Dice::new(connection as u64 + 1), values: connection as i64 * 1_000_000_000 }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.numbers.roll(end)
    }

    fn key(&mut self) -> usize {
        self.below(KEYS.len() as u64) as usize
    }

    /// Returns a number that is written only once, with room for INCR below the next.
    fn value(&mut self) -> i64 {
        self.values += 10_000;
        self.values
    }
}

/// Mix of operations of a run.
#[derive(Clone, Copy)]
struct Plan {
    rounds: usize,
    /// Number of writes of each connection in a round.
    turns: usize,
    /// Maximum number of commands in one write.
    burst: u64,
    /// Function that generates the next command.
    draw: fn(&mut Recorder<'_>) -> Command,
}

/// Runs all connections through the plan's rounds and returns each round's events.
fn record(server: &TestServer, plan: Plan) -> Vec<Vec<Event>> {
    let (barrier, ticks) = (Barrier::new(CONNECTIONS), AtomicU64::new(0));
    let recordings: Vec<Recording> = (0..plan.rounds).map(|_| Recording::default()).collect();
    thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let (barrier, ticks, recordings) = (&barrier, &ticks, &recordings);
            scope.spawn(move || {
                let mut client = server.client();
                let mut dice = Dice::new(connection);
                for (round, recording) in recordings.iter().enumerate() {
                    let prefix = format!("{round}.");
                    let (client, turns, events) = (&mut client, 0, Vec::new());
                    let mut recorder = Recorder { client, connection, ticks, prefix, dice, turns, events };
                    barrier.wait();
                    for _ in 0..plan.turns {
                        take_turn(&mut recorder, plan);
                    }
                    recording.events.lock().expect("no thread has panicked").append(&mut recorder.events);
                    dice = recorder.dice;
                }
            });
        }
    });
    recordings.into_iter().map(Recording::into_events).collect()
}

fn take_turn(recorder: &mut Recorder<'_>, plan: Plan) {
    match recorder.dice.below(12) {
        0 => return recorder.swap_watched(),
        1 | 2 => return recorder.swap_compared(),
        _ => {}
    }
    let commands = (0..=recorder.dice.below(plan.burst)).map(|_| (plan.draw)(recorder)).collect();
    recorder.call(commands);
}

#[track_caller]
fn assert_linearizable(histories: &[Vec<Event>]) {
    let calls: usize = histories.iter().map(|events| events.len() / 2).sum();
    let overlapping: usize = histories.iter().map(|events| overlapping(events)).sum();
    assert!(overlapping * 2 > calls, "{overlapping} of {calls} calls overlapped: no concurrency to speak of");
    for (round, events) in histories.iter().enumerate() {
        assert!(is_linearizable(events), "round {round} has no explanation: {events:#?}");
    }
}

#[test]
fn concurrent_commands_on_two_parallel_workers_are_linearizable() {
    let server = TestServer::start_on_workers(2);
    assert_linearizable(&record(&server, Plan { rounds: 300, turns: 15, burst: 1, draw: plain_command }));
}

#[test]
fn long_histories_are_linearizable() {
    let server = TestServer::start_on_workers(2);
    assert_linearizable(&record(&server, Plan { rounds: 10, turns: 60, burst: 1, draw: plain_command }));
}

#[test]
fn concurrent_pipelines_are_linearizable() {
    let server = TestServer::start_on_workers(2);
    assert_linearizable(&record(&server, Plan { rounds: 100, turns: 5, burst: 4, draw: plain_command }));
}

#[test]
fn a_recorded_history_with_one_reply_changed_is_not_linearizable() {
    let server = TestServer::start_on_workers(2);
    for mut events in record(&server, Plan { rounds: 20, turns: 5, burst: 1, draw: plain_command }) {
        assert!(is_linearizable(&events));
        let read = events.iter_mut().rev().find_map(|(.., action)| match action {
            Action::Response(Operation { command: Command::Get(_), reply: Some(reply), .. }) => Some(reply),
            _ => None,
        });
        *read.expect("every round reads") = "$2 -1".to_owned(); // a value that is never written
        assert!(!is_linearizable(&events));
    }
}

/// Turns spans, `(called, replied, command, reply)`, into events; each span is a connection of its own.
fn history(spans: &[(u64, u64, Command, &str)]) -> Vec<Event> {
    let mut events = Vec::new();
    for (connection, (called, replied, command, reply)) in spans.iter().enumerate() {
        let operation = |reply| Operation { connection, turn: 0, command: command.clone(), reply };
        events.push((*called, connection, Action::Call(operation(None))));
        events.push((*replied, connection, Action::Response(operation(Some((*reply).to_owned())))));
    }
    events.sort_by_key(|(tick, ..)| *tick);
    events
}

#[test]
fn the_checker_accepts_any_order_of_overlapping_commands_and_only_one_of_others() {
    let write = |called, replied| (called, replied, Command::Set(0, 7), "+OK");
    let missed = |called, replied| (called, replied, Command::Get(0), "$-1");
    assert!(is_linearizable(&history(&[write(0, 2), missed(1, 3)])));
    assert!(!is_linearizable(&history(&[write(0, 1), missed(2, 3)])), "a stale read");
    assert!(is_linearizable(&history(&[missed(0, 1), write(2, 3)])));
}

#[test]
fn the_checker_rejects_a_lock_with_two_winners() {
    let won = |called, replied, value| (called, replied, Command::SetNx(0, value), ":1");
    assert!(!is_linearizable(&history(&[won(0, 2, 1), won(1, 3, 2)])));
    let deleted = (0, 5, Command::Del(vec![0]), ":1");
    assert!(is_linearizable(&history(&[won(0, 2, 1), won(1, 3, 2), deleted])), "unless it was deleted in between");
}

#[test]
fn the_checker_rejects_a_takeover_seen_by_two_clients() {
    let crashed = (0, 1, Command::Set(0, 100), "+OK");
    let took_over = |called, replied, value| (called, replied, Command::GetSet(0, value), "$3 100");
    assert!(!is_linearizable(&history(&[crashed, took_over(2, 4, 211), took_over(3, 5, 212)])));
}

#[test]
fn the_checker_rejects_a_compare_and_set_with_two_winners() {
    let held = (0, 1, Command::Set(0, 7), "+OK");
    let renewed = |called, replied, to| (called, replied, Command::SetIfEq { key: 0, seen: 7, to }, "+OK");
    let released = |reply| (3, 5, Command::DelEx { key: 0, seen: 7 }, reply);
    assert!(!is_linearizable(&history(&[held.clone(), renewed(2, 4, 8), renewed(3, 5, 9)])));
    assert!(!is_linearizable(&history(&[held.clone(), renewed(2, 4, 8), released(":1")])));
    assert!(is_linearizable(&history(&[held.clone(), renewed(2, 4, 8), released(":0")])));
    let commands = vec![Command::Set(1, 1)];
    let exec = |reply| (3, 5, Command::ExecIfEq { key: 0, seen: 7, commands: commands.clone() }, reply);
    assert!(is_linearizable(&history(&[held.clone(), renewed(2, 4, 8), exec("*1 +OK")])), "it came before");
    assert!(!is_linearizable(&history(&[held, renewed(2, 2, 8), exec("*1 +OK")])), "it came after");
}

#[test]
fn the_checker_rejects_a_pipeline_carried_out_of_order() {
    let command =
        |turn, command, reply: &str| Operation { connection: 0, turn, command, reply: Some(reply.to_owned()) };
    let pipeline = |seen| {
        let operations = [command(0, Command::Set(0, 7), "+OK"), command(1, Command::Get(0), seen)];
        let calls = operations.iter().map(|operation| (0, 0, Action::Call(operation.clone())));
        let replies = operations.iter().map(|operation| (1, 0, Action::Response(operation.clone())));
        calls.chain(replies).collect::<Vec<Event>>()
    };
    assert!(is_linearizable(&pipeline("$1 7")));
    assert!(!is_linearizable(&pipeline("$-1")));
}

#[test]
fn the_checker_rejects_a_lost_increment() {
    let incremented = |called, replied| (called, replied, Command::Incr(0), ":1");
    assert!(!is_linearizable(&history(&[incremented(0, 2), incremented(1, 3)])));
}

#[test]
fn the_checker_rejects_a_transaction_seen_half_done() {
    let exec = Command::Exec(vec![Command::Set(0, 1), Command::Set(1, 2)]);
    let seen = |reply| history(&[(0, 3, exec.clone(), "*2 +OK +OK"), (1, 2, Command::Mget, reply)]);
    assert!(is_linearizable(&seen("*3 $-1 $-1 $-1")));
    assert!(is_linearizable(&seen("*3 $1 1 $1 2 $-1")));
    assert!(!is_linearizable(&seen("*3 $1 1 $-1 $-1")));
}

#[test]
fn the_checker_rejects_an_exec_that_overlooks_a_change_of_its_watched_key() {
    let seen = (0, 1, Command::Get(0), "$-1");
    let changed = (2, 3, Command::Set(0, 1), "+OK");
    let swap = |reply| (4, 5, Command::Swap { key: 0, seen: None, to: 2 }, reply);
    assert!(!is_linearizable(&history(&[seen.clone(), changed.clone(), swap("*1 +OK")])));
    assert!(is_linearizable(&history(&[seen, changed, swap("*-1")])));
}
