//! Histories in which the outcome of some operations is not known: each of them may have been executed at any time
//! after it was called, however late, or never.
//!
//! The checker is told of such an operation that its reply came after everything else and is whatever the model says.
//! One that was never executed is then the same as one that was executed at the very end, where nobody sees it any
//! more.

use std::collections::VecDeque;

use todc_utils::{Action, History, Specification, WGLChecker};

use super::model::{Command, KEYS, Map, array, bulk};
use crate::harness::encode;

/// What is asked of an object: three keys, or a list.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// A command on the keys.
    Keys(Command),
    /// Appends a value to the list.
    Push(i64),
    /// Takes the first value of the list.
    Pop,
    /// Takes the first value of the list, for which it waits up to a number of milliseconds; answered as [`Request::Pop`].
    BlockingPop(u64),
    /// The length of the list.
    Len,
    /// The whole list.
    List,
}

impl Request {
    /// Returns the bytes to send, the names of the keys prefixed.
    pub(crate) fn bytes(&self, prefix: &str) -> Vec<u8> {
        let list = format!("{prefix}{}", KEYS[0]);
        match self {
            Request::Keys(command) => command.requests(prefix),
            Request::Push(value) => encode(&["RPUSH", &list, &value.to_string()]),
            Request::Pop => encode(&["LPOP", &list]),
            Request::BlockingPop(ms) => encode(&["BLPOP", &list, &format!("{}.{:03}", ms / 1000, ms % 1000)]),
            Request::Len => encode(&["LLEN", &list]),
            Request::List => encode(&["LRANGE", &list, "0", "-1"]),
        }
    }

    /// Returns the replies that come before the one that counts.
    pub(crate) fn replies_before_the_last(&self) -> Vec<&'static str> {
        match self {
            Request::Keys(command) => command.replies_before_the_last(),
            _ => Vec::new(),
        }
    }

    /// Returns a reply in the form that the model knows.
    pub(crate) fn known_form(&self, reply: String) -> String {
        match (self, &reply[..]) {
            (Request::BlockingPop(_), "*-1") => bulk(None),
            (Request::BlockingPop(_), _) if reply.starts_with("*2 ") => {
                let words: Vec<&str> = reply.split(' ').collect();
                words[words.len() - 2..].join(" ")
            }
            _ => reply,
        }
    }

    /// Returns whether it changes nothing, whatever the state is.
    pub(crate) fn is_read(&self) -> bool {
        match self {
            Request::Keys(command) => is_read(command),
            Request::Push(_) | Request::Pop | Request::BlockingPop(_) => false,
            Request::Len | Request::List => true,
        }
    }

    /// Executes it and returns the reply.
    fn run(&self, state: &mut State) -> String {
        let list = &mut state.list;
        match self {
            Request::Keys(command) => command.run(&mut state.map),
            Request::Push(value) => {
                list.push_back(*value);
                format!(":{}", list.len())
            }
            Request::Pop | Request::BlockingPop(_) => bulk(list.pop_front()),
            Request::Len => format!(":{}", list.len()),
            Request::List => array(list.iter().map(|value| bulk(Some(*value))).collect()),
        }
    }
}

/// Returns whether a command changes nothing, whatever the keys are.
fn is_read(command: &Command) -> bool {
    match command {
        Command::Get(_) | Command::Mget => true,
        Command::Exec(commands) => commands.iter().all(is_read),
        _ => false,
    }
}

/// An operation: when it was called and when its reply came, in ticks.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    /// When it was called.
    pub(crate) called: u64,
    /// What was asked.
    pub(crate) request: Request,
    /// The reply and its time; `None` if it is not known whether it was executed, or ever will be.
    pub(crate) reply: Option<(u64, String)>,
}

/// The state of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    map: Map,
    list: VecDeque<i64>,
}

/// The model of an object.
struct ObjectSpec;

impl Specification for ObjectSpec {
    type State = State;
    type Operation = Span;

    fn init() -> State {
        State::default()
    }

    fn apply(span: &Span, state: &State) -> (bool, State) {
        let mut after = state.clone();
        let Some((_, reply)) = &span.reply else {
            span.request.run(&mut after);
            return (true, after);
        };
        // A key may have been touched and set back to what it was: an abort is always right.
        let is_abort = reply == "*-1" && matches!(span.request, Request::Keys(Command::Swap { .. }));
        match is_abort || span.request.run(&mut after) == *reply {
            true if is_abort => (true, state.clone()),
            true => (true, after),
            false => (false, state.clone()),
        }
    }
}

/// Returns whether one order of the operations explains all replies.
pub(crate) fn is_linearizable(spans: &[Span]) -> bool {
    let mut events: Vec<(u64, usize, Action<Span>)> = Vec::new();
    // Reads of which no reply came are no evidence of anything.
    let spans = spans.iter().filter(|span| span.reply.is_some() || !span.request.is_read());
    for (number, span) in spans.enumerate() {
        let replied = span.reply.as_ref().map_or(u64::MAX, |(tick, _)| *tick);
        events.push((span.called, number, Action::Call(span.clone())));
        events.push((replied, number, Action::Response(span.clone())));
    }
    events.sort_by_key(|(tick, ..)| *tick);
    let actions: Vec<_> = events.into_iter().map(|(_, number, action)| (number, action)).collect();
    actions.is_empty() || WGLChecker::<ObjectSpec>::is_linearizable(History::from_actions(actions))
}

/// Turns operations, `(called, replied, request, reply)`, into spans; those without a reply are uncertain.
fn spans(operations: &[(u64, u64, Request, &str)]) -> Vec<Span> {
    let span = |(called, replied, request, reply): &(u64, u64, Request, &str)| {
        let reply = (!reply.is_empty()).then(|| (*replied, (*reply).to_owned()));
        Span { called: *called, request: request.clone(), reply }
    };
    operations.iter().map(span).collect()
}

#[test]
fn an_uncertain_write_may_be_seen_late_or_never_but_not_before_it_was_called() {
    let set = |called, value, reply| (called, called + 1, Request::Keys(Command::Set(0, value)), reply);
    let get = |called, reply| (called, called + 1, Request::Keys(Command::Get(0)), reply);
    assert!(is_linearizable(&spans(&[set(0, 1, "+OK"), set(2, 2, ""), get(4, "$1 1"), get(6, "$1 1")])));
    assert!(is_linearizable(&spans(&[set(0, 1, "+OK"), set(2, 2, ""), get(4, "$1 1"), get(6, "$1 2")])));
    assert!(is_linearizable(&spans(&[set(0, 2, ""), set(2, 1, "+OK"), get(4, "$1 1"), get(6, "$1 2")])));
    assert!(!is_linearizable(&spans(&[set(0, 1, "+OK"), get(2, "$1 2"), set(4, 2, "")])), "before it was called");
    assert!(!is_linearizable(&spans(&[set(0, 2, ""), get(2, "$1 2"), set(4, 1, "+OK"), get(6, "$1 2")])), "twice");
}

#[test]
fn an_uncertain_increment_counts_once_at_most() {
    let incr = |called, reply| (called, called + 1, Request::Keys(Command::Incr(0)), reply);
    assert!(is_linearizable(&spans(&[incr(0, ":1"), incr(2, ""), incr(4, ":2"), incr(6, ":4")])));
    assert!(is_linearizable(&spans(&[incr(0, ":1"), incr(2, ""), incr(4, ":2"), incr(6, ":3")])));
    assert!(!is_linearizable(&spans(&[incr(0, ":1"), incr(2, ""), incr(4, ":2"), incr(6, ":5")])));
    assert!(!is_linearizable(&spans(&[incr(0, ":1"), incr(2, ":3")])), "nobody has made 2");
}

#[test]
fn an_acknowledged_write_that_is_lost_has_no_explanation() {
    let push = |called, value, reply| (called, called + 1, Request::Push(value), reply);
    let pop = |called, reply| (called, called + 1, Request::Pop, reply);
    assert!(is_linearizable(&spans(&[push(0, 7, ":1"), pop(2, "$1 7"), pop(4, "$-1")])));
    assert!(is_linearizable(&spans(&[push(0, 7, ":1"), pop(2, ""), pop(4, "$-1")])), "the uncertain one took it");
    assert!(!is_linearizable(&spans(&[push(0, 7, ":1"), pop(2, "$-1")])));
    assert!(!is_linearizable(&spans(&[push(0, 7, ":1"), pop(2, "$1 7"), pop(4, "$1 7")])), "taken twice");
    let list = (6, 7, Request::List, "*1 $1 8");
    assert!(is_linearizable(&spans(&[push(0, 7, ":1"), push(2, 8, ":2"), pop(4, "$1 7"), list.clone()])));
    assert!(!is_linearizable(&spans(&[push(0, 7, ":1"), push(2, 8, ":2"), pop(4, "$1 8"), list])), "not in order");
}
