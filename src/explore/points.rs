//! Points of a scenario: the calls of its runs without a fault, what may go wrong at each, and whether another run has come to
//! the same call.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::explore::kind::PointKind;
use crate::spec::marks::{
    DROPS_QUEUE, ENSURES_SCRIPTS, EXECUTES_QUEUE, OPENS_QUEUE, RUNS_DIGEST, RUNS_FUNCTION, SPARED_BY_FAULTS,
};
use crate::spec::{CommandSpec, DENY_OOM, WRITE};
use crate::test_mode::{CONTROL_CLIENT, Fault, ReceivedCall};

/// The range around a call within which numbers count as dates: 400 days, in milliseconds.
const DATES_WITHIN_MS: i64 = 400 * 24 * 60 * 60 * 1000;

/// A call at which something goes wrong.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) name: String,
    /// The index of the call.
    pub(super) call: usize,
    pub(super) fault: Fault,
    /// The key that the fault strikes.
    key: Option<Box<[u8]>>,
}

/// A difference of a run from those without a fault.
pub(super) struct Difference {
    pub(super) text: String,
    /// True if a call differs only in numbers within its arguments, such as those of a date.
    pub(super) is_of_numbers: bool,
}

/// Calls of a scenario without a fault: in the order of their arrival, and by the name of the client.
pub(super) struct Baseline {
    calls: Vec<Arc<ReceivedCall>>,
    /// Of each call, the arguments that are the same in every run so far.
    fixed: Mutex<Vec<Vec<bool>>>,
    /// Of each call, the keys that both runs had.
    keys: Vec<Vec<(Box<[u8]>, bool)>>,
    groups: BTreeMap<String, Vec<usize>>,
}

/// Returns the calls that are counted by faults, except those of the test itself.
fn counted(calls: &[Arc<ReceivedCall>]) -> Vec<Arc<ReceivedCall>> {
    let is_counted =
        |call: &&Arc<ReceivedCall>| !call.is_refused && call.command.is_some() && call.client_name != CONTROL_CLIENT;
    calls.iter().filter(is_counted).cloned().collect()
}

fn grouped(calls: &[Arc<ReceivedCall>]) -> BTreeMap<String, Vec<usize>> {
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, call) in calls.iter().enumerate() {
        groups.entry(call.client_name.clone()).or_default().push(at);
    }
    groups
}

/// Returns the calls of each name that have an order: where clients have names, what they send before they have them has
/// none.
fn ordered(calls: &[Arc<ReceivedCall>]) -> BTreeMap<String, Vec<usize>> {
    let mut groups = grouped(calls);
    if groups.len() > 1
        && let Some(unnamed) = groups.get_mut("")
    {
        unnamed.retain(|at| !is_of_handshake(&calls[*at]));
    }
    groups
}

/// Returns true for a call by which client libraries set up a connection.
fn is_of_handshake(call: &ReceivedCall) -> bool {
    let name = call.command.map_or("", |command| &command.name);
    matches!(name, "hello" | "auth" | "select") || name.starts_with("client|")
}

/// Returns the number of connections that have made calls without a name, and how many of them have a name later.
fn unnamed_connections(calls: &[Arc<ReceivedCall>]) -> (usize, usize) {
    let ids = |is_unnamed: bool| {
        let calls = calls.iter().filter(move |call| call.client_name.is_empty() == is_unnamed);
        calls.map(|call| call.client_id).collect::<BTreeSet<_>>()
    };
    let (unnamed, named) = (ids(true), ids(false));
    (unnamed.len(), unnamed.intersection(&named).count())
}

/// Returns advice, where several connections without a name have made calls.
fn hint(calls: &[Arc<ReceivedCall>]) -> &'static str {
    match unnamed_connections(calls) {
        (0 | 1, _) => "",
        _ => {
            "; connections are used at the same time: name each by CLIENT SETNAME, connect before threads or tasks start, \
             or use a pool of one connection"
        }
    }
}

impl Baseline {
    /// Compares the journals of two runs.
    ///
    /// # Errors
    /// The first difference other than of an argument.
    pub(super) fn new(first: &[Arc<ReceivedCall>], second: &[Arc<ReceivedCall>]) -> Result<Self, String> {
        let (calls, others) = (counted(first), counted(second));
        let fixed = calls.iter().map(|call| vec![true; call.args.len()]).collect();
        let keys = calls.iter().map(|call| call.keys.clone()).collect();
        let groups = grouped(&calls);
        let mut baseline = Baseline { calls, fixed: Mutex::new(fixed), keys, groups };
        let pairs = baseline.pairs(&others).map_err(|text| text + hint(&baseline.calls))?;
        baseline.mask(&pairs, &others);
        for (at, other) in pairs {
            let (one, two) = (&baseline.calls[at], &others[other]);
            baseline.keys[at].retain(|key| two.keys.contains(key) && dateless(&key.0, one.unix_ms) == *key.0);
        }
        Ok(baseline)
    }

    /// Pairs the calls that have an order with those of another run.
    ///
    /// # Errors
    /// The first difference other than of an argument.
    fn pairs(&self, others: &[Arc<ReceivedCall>]) -> Result<Vec<(usize, usize)>, String> {
        let (groups, mut other_groups) = (ordered(&self.calls), ordered(others));
        let mut pairs = Vec::new();
        for (name, group) in &groups {
            let other = other_groups.remove(name).unwrap_or_default();
            for at in 0..group.len().max(other.len()) {
                let (one, two) = (group.get(at).map(|at| &self.calls[*at]), other.get(at).map(|at| &others[*at]));
                if !one.zip(two).is_some_and(|(one, two)| is_same_command(one, two)) {
                    let [one, two] = [one, two].map(|call| call.map(|call| shown(call, &[])));
                    return Err(unlike(at, name, one, two));
                }
                pairs.push((group[at], other[at]));
            }
        }
        match other_groups.into_iter().find(|(_, group)| !group.is_empty()) {
            None => Ok(pairs),
            Some((name, other)) => Err(unlike(0, &name, None, Some(shown(&others[other[0]], &[])))),
        }
    }

    /// Masks the arguments that differ; returns whether any is masked now that was not.
    fn mask(&self, pairs: &[(usize, usize)], others: &[Arc<ReceivedCall>]) -> bool {
        let (mut fixed, mut is_changed) = (self.fixed.lock(), false);
        for (at, other) in pairs {
            let args = self.calls[*at].args.iter().zip(&others[*other].args);
            for (is_fixed, (one, two)) in fixed[*at].iter_mut().zip(args) {
                is_changed |= *is_fixed && one != two;
                *is_fixed &= one == two;
            }
        }
        is_changed
    }

    /// Masks the arguments in which a further run without a fault differs, if only in numbers; returns whether any is masked
    /// now that was not.
    pub(super) fn learn(&self, run: &[Arc<ReceivedCall>]) -> bool {
        let others = counted(run);
        self.pairs(&others).is_ok_and(|pairs| {
            let fixed = self.fixed.lock().clone();
            let is_alike =
                |(at, other): &(usize, usize)| self.is_alike_but_for_numbers(*at, &others[*other], &fixed[*at]);
            pairs.iter().all(is_alike) && self.mask(&pairs, &others)
        })
    }

    /// Returns the points of these kinds, and the number of those that were left out because their keys, or the order of the
    /// connections that are set up there, differ from run to run.
    pub(super) fn points(&self, kinds: &[PointKind], late_by: Duration) -> (Vec<Point>, usize) {
        let (mut points, mut left_out) = (Vec::new(), 0);
        let is_shuffled = unnamed_connections(&self.calls).1 > 1;
        for (at, call) in self.calls.iter().enumerate() {
            let Some(command) = call.command else { continue };
            for kind in PointKind::ALL.iter().filter(|kind| kinds.contains(kind)) {
                if !self.is_possible(at, command, *kind) {
                    continue;
                }
                if is_shuffled && call.client_name.is_empty() && is_of_handshake(call) {
                    left_out += 1;
                    continue;
                }
                let is_asked_for = |has_ttl: bool| *kind != PointKind::Expired || has_ttl;
                let mut keys: Vec<Option<&[u8]>> = vec![None];
                if matches!(kind, PointKind::Expired | PointKind::Evicted) {
                    keys = self.keys[at].iter().filter(|key| is_asked_for(key.1)).map(|key| Some(&*key.0)).collect();
                    left_out += call.keys.iter().filter(|key| is_asked_for(key.1)).count() - keys.len();
                }
                points.extend(keys.into_iter().map(|key| self.point(at, command, *kind, key, late_by)));
            }
        }
        (points, left_out)
    }

    fn is_possible(&self, at: usize, command: &CommandSpec, kind: PointKind) -> bool {
        let writes = || {
            let next = self.calls.get(at + 1);
            next.is_some_and(|next| next.offset > self.calls[at].offset)
        };
        match kind {
            PointKind::NoScript => command.is(RUNS_DIGEST | RUNS_FUNCTION) && !self.follows_load(at),
            PointKind::Failover => at > 0 && self.calls[at].offset > self.calls[at - 1].offset,
            PointKind::ReadOnly => command.flags & WRITE != 0 || writes(),
            PointKind::OutOfMemory => command.flags & DENY_OOM != 0,
            PointKind::Loading | PointKind::Busy => !command.is(SPARED_BY_FAULTS),
            _ => true,
        }
    }

    /// Returns true if the client has loaded a script or a library, or looked for it, by the call before this one or before
    /// its transaction.
    fn follows_load(&self, at: usize) -> bool {
        let group = &self.groups[&self.calls[at].client_name];
        let before = group.iter().take_while(|other| **other < at).filter_map(|before| self.calls[*before].command);
        let (mut is_loaded, mut is_in_transaction) = (false, false);
        for command in before {
            is_in_transaction =
                command.is(OPENS_QUEUE) || is_in_transaction && !command.is(EXECUTES_QUEUE | DROPS_QUEUE);
            is_loaded = command.is(ENSURES_SCRIPTS) || is_loaded && is_in_transaction;
        }
        is_loaded
    }

    fn point(&self, at: usize, command: &CommandSpec, kind: PointKind, key: Option<&[u8]>, late_by: Duration) -> Point {
        let call = &self.calls[at];
        let is_same =
            |other: &&usize| **other <= at && self.calls[**other].command.is_some_and(|c| c.name == command.name);
        let number = self.groups[&call.client_name].iter().filter(is_same).count();
        let mut name = format!("{}: {} {}", kind.name(), ordinal(number), shown_name(command));
        if !call.client_name.is_empty() {
            let _ = write!(name, " of \"{}\"", escaped(call.client_name.as_bytes())); // a string takes all
        }
        if let Some(key) = key {
            let _ = write!(name, ", key \"{}\"", escaped(key));
        }
        let fault = Fault::on(command.name.as_bytes()).client(&call.client_name).queued();
        let fault = fault.after(number as u64 - 1).times(1);
        Point { name, call: at, fault: kind.apply(fault, key.unwrap_or_default(), late_by), key: key.map(Into::into) }
    }

    /// Returns how a run differs from the others before the first of the points that it has come to; `None` if it does not.
    pub(super) fn difference(&self, points: &[Point], run: &[Arc<ReceivedCall>]) -> Option<Difference> {
        let (run, fixed) = (counted(run), self.fixed.lock());
        let differs = |text: String, is_of_numbers| Some(Difference { text: text + hint(&self.calls), is_of_numbers });
        let Some(struck) = run.iter().position(|call| call.fault.is_some()) else {
            let call = points[0].call;
            return differs(format!("it has not come to {}", shown(&self.calls[call], &fixed[call])), false);
        };
        let own = &run[struck].client_name;
        let (present, expected) = (&run[..=struck], [grouped(&self.calls), ordered(&self.calls)]);
        let mut groups = if self.groups.len() > 1 { ordered(present) } else { grouped(present) };
        if let Some(group) = grouped(present).remove(own) {
            groups.insert(own.clone(), group);
        }
        for (name, group) in groups {
            let expected = expected[usize::from(name != *own)].get(&name).map(Vec::as_slice).unwrap_or_default();
            for (at, call) in group.iter().map(|at| &run[*at]).enumerate() {
                let of_baseline = expected.get(at).copied();
                if !of_baseline.is_some_and(|other| self.is_alike(other, call, &fixed[other])) {
                    let is_of_numbers =
                        of_baseline.is_some_and(|other| self.is_alike_but_for_numbers(other, call, &fixed[other]));
                    let other = of_baseline.map(|other| shown(&self.calls[other], &fixed[other]));
                    return differs(unlike(at, &name, other, Some(shown(call, &[]))), is_of_numbers);
                }
            }
        }
        None
    }

    fn is_alike(&self, at: usize, call: &ReceivedCall, fixed: &[bool]) -> bool {
        let expected = &self.calls[at];
        let mut args = expected.args.iter().zip(&call.args).zip(fixed);
        is_same_command(expected, call)
            && args.all(|((one, other), is_fixed)| !is_fixed || one == other || self.differ_by_date(at, one, other))
    }

    fn is_alike_but_for_numbers(&self, at: usize, call: &ReceivedCall, fixed: &[bool]) -> bool {
        let expected = &self.calls[at];
        let mut args = expected.args.iter().zip(&call.args).zip(fixed);
        is_same_command(expected, call)
            && args.all(|((one, other), is_fixed)| !is_fixed || without_numbers(one) == without_numbers(other))
    }

    /// Returns true if two arguments at a call are alike but for dates near it, as the client's clock has them.
    fn differ_by_date(&self, at: usize, one: &[u8], other: &[u8]) -> bool {
        let near_ms = self.calls[at].unix_ms;
        dateless(one, near_ms) == dateless(other, near_ms)
    }
}

/// Returns a text with `*` for each date in it: a number that is a Unix time, in seconds, milliseconds or microseconds, less
/// than [`DATES_WITHIN_MS`] away from another one.
fn dateless(text: &[u8], near_ms: i64) -> Vec<u8> {
    let is_date = |number: &[u8]| {
        let Some(value) = str::from_utf8(number).ok().and_then(|text| text.parse::<i64>().ok()) else { return false };
        let unix_ms = match number.len() {
            10 => value * 1000,
            13 => value,
            16 => value / 1000,
            _ => return false,
        };
        (unix_ms - near_ms).abs() < DATES_WITHIN_MS
    };
    let mut parts = text.chunk_by(|one, other| one.is_ascii_digit() == other.is_ascii_digit()).peekable();
    let mut without = Vec::with_capacity(text.len());
    while let Some(part) = parts.next() {
        if !is_date(part) {
            without.extend(part);
            continue;
        }
        without.push(b'*');
        // The id of an entry of a stream has a number behind its date.
        if part.len() == 13
            && parts.next_if_eq(&&b"-"[..]).is_some()
            && parts.next_if(|next| next[0].is_ascii_digit()).is_none()
        {
            without.push(b'-');
        }
    }
    without
}

/// Returns a text with `*` for each number in it.
fn without_numbers(text: &[u8]) -> Vec<u8> {
    let parts = text.chunk_by(|one, other| one.is_ascii_digit() == other.is_ascii_digit());
    parts.flat_map(|part| if part[0].is_ascii_digit() { b"*" } else { part }).copied().collect()
}

/// Returns true if two calls are of one command, with as many arguments.
fn is_same_command(one: &ReceivedCall, two: &ReceivedCall) -> bool {
    one.args.len() == two.args.len()
        && one.command.map(|command| &command.name) == two.command.map(|command| &command.name)
}

/// Returns whether the calls that were struck name the keys of these points: a name with a date may be another one by then, and
/// nothing has happened to that key.
pub(super) fn names_the_keys(points: &[Point], run: &[Arc<ReceivedCall>]) -> bool {
    let struck: Vec<_> = run.iter().filter(|call| call.fault.is_some()).collect();
    let mut keys = points.iter().filter_map(|point| point.key.as_ref());
    keys.all(|key| struck.iter().any(|call| call.args.contains(key)))
}

/// Describes a call that came where another one was expected.
fn unlike(at: usize, client: &str, expected: Option<String>, call: Option<String>) -> String {
    let of = if client.is_empty() { String::new() } else { format!(" of \"{}\"", escaped(client.as_bytes())) };
    let or_nothing = |call: Option<String>| call.unwrap_or_else(|| "nothing".to_owned());
    format!("its {} call{of} was {}, not {}", ordinal(at + 1), or_nothing(call), or_nothing(expected))
}

/// Shows a call with its arguments, `*` for those that differ from run to run.
fn shown(call: &ReceivedCall, fixed: &[bool]) -> String {
    let is_fixed = |at: usize| fixed.get(at).copied().unwrap_or(true);
    let args = call.args.iter().enumerate().map(|(at, arg)| if is_fixed(at) { escaped(arg) } else { "*".to_owned() });
    args.collect::<Vec<_>>().join(" ")
}

/// Returns the name of a command in upper case, that of a subcommand behind a blank.
fn shown_name(command: &CommandSpec) -> String {
    command.name.to_ascii_uppercase().replace('|', " ")
}

fn ordinal(number: usize) -> String {
    let ending = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// Escapes quotes, backslashes, and bytes that are not printable text.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '"' | '\\' => text.extend(['\\', char]),
                char if char.is_control() => {
                    char.to_string().bytes().for_each(|byte| _ = write!(text, "\\x{byte:02x}"))
                }
                char => text.push(char),
            }
        }
        chunk.invalid().iter().for_each(|byte| _ = write!(text, "\\x{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{dateless, escaped, ordinal};

    #[test]
    fn dates_near_the_present_are_told_from_other_numbers() {
        let near_ms = 1_764_600_000_000;
        let shown = |text: &str| String::from_utf8(dateless(text.as_bytes(), near_ms)).expect("text");
        assert_eq!(shown("rate:7:1764600001:x"), "rate:7:*:x");
        assert_eq!(shown("1764600000000,1764600000000000,1764600000.25"), "*,*,*.25");
        assert_eq!(shown("1764600000000-7,1764600000-7,1764600000000-x"), "*,*-7,*-x");
        let others = ["1264600000", "17646000001", "176460000", "9999999999999", "12", ""];
        assert_eq!(others.map(shown), others);
    }

    #[test]
    fn numbers_and_bytes_are_shown_as_in_every_language() {
        let numbers = [1, 2, 3, 4, 11, 12, 13, 21, 22, 101, 111].map(ordinal);
        assert_eq!(numbers.join(" "), "1st 2nd 3rd 4th 11th 12th 13th 21st 22nd 101st 111th");
        assert_eq!(escaped(b"a\"b\\\n\xffz"), "a\\\"b\\\\\\x0a\\xffz");
        assert_eq!(escaped("é".as_bytes()), "é");
    }
}
