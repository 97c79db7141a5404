//! Histories in which the outcome of some operations is unknown: each of them may have been executed at any time after
//! its call, however late, or never.
//!
//! For the checker, such an operation has got its reply after everything else, and the reply is the model's. An
//! operation that was never executed is then the same as one that was executed at the very end, where it has no visible
//! effect.

use std::collections::VecDeque;

use todc_utils::{Action, History, Specification, WGLChecker};

use super::model::{Command, KEYS, Map, array, bulk};
use crate::harness::encode;

/// Request about an object: three keys, or a list.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// Executes a command on the keys.
    Keys(Command),
    /// Appends a value to the list.
    Push(i64),
    /// Takes the first value of the list.
    Pop,
    /// Takes the first value of the list, and waits for it up to a number of milliseconds; answered as
    /// [`Request::Pop`].
    BlockingPop(u64),
    /// Returns the length of the list.
    Len,
    /// Returns the whole list.
    List,
}

impl Request {
    /// Returns the encoded request, with a prefix of the keys' names.
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

    /// Returns the replies before the relevant one.
    pub(crate) fn replies_before_the_last(&self) -> Vec<&'static str> {
        match self {
            Request::Keys(command) => command.replies_before_the_last(),
            _ => Vec::new(),
        }
    }

    /// Returns a reply in the model's form.
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

    /// Returns whether the request never changes the state.
    pub(crate) fn is_read(&self) -> bool {
        match self {
            Request::Keys(command) => is_read(command),
            Request::Push(_) | Request::Pop | Request::BlockingPop(_) => false,
            Request::Len | Request::List => true,
        }
    }

    /// Executes the request and returns the reply.
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

/// Returns whether a command never changes the keys.
fn is_read(command: &Command) -> bool {
    match command {
        Command::Get(_) | Command::Mget => true,
        Command::Exec(commands) => commands.iter().all(is_read),
        _ => false,
    }
}

/// Operation with the times of its call and its reply, in ticks.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) called: u64,
    pub(crate) request: Request,
    /// Reply with its time; `None` if it is unknown whether the operation was or will be executed.
    pub(crate) reply: Option<(u64, String)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    map: Map,
    list: VecDeque<i64>,
}

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
        // A key may have been touched and set back to its value: an abort is always valid.
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
    // Reads without a reply prove nothing.
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

/// Converts operations, `(called, replied, request, reply)`, into spans; those without a reply are uncertain.
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
