//! Bytes per element besides its payload, and against the size of a collection.

use std::thread;

use crate::load::send;
use crate::measure::memory as memory_of;
use crate::plot::{Axis, Line, Panel, Plot, Scale};
use crate::report::{Table, number, ratio, short};
use crate::server::{Kind, Server};
use crate::{Context, Result};

const VALUE: &str = "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv";
/// Number of elements of a small collection.
const SMALL: u64 = 10;
const ELEMENTS: Axis = Axis { label: "elements", scale: Scale::Log { base: 10.0 } };
const BYTES: Axis = Axis { label: "bytes per element beside its payload", scale: Scale::Linear };

struct Case {
    name: &'static str,
    /// Number of elements that a request adds.
    adds: u64,
    /// Number of bytes of an element's payload, with its share of the key.
    payload: f64,
    /// Returns the request with a number; `elements` are added altogether.
    request: fn(number: u64, elements: u64) -> String,
}

/// Returns a text of sixteen digits, in an order without a pattern.
fn digits(number: u64) -> String {
    format!("{:016}", number.wrapping_mul(2_654_435_761) % 1_000_000_000_000_000)
}

/// Returns a request with ten elements.
fn ten(command: &str, number: u64, element: impl Fn(u64) -> String) -> String {
    let elements: Vec<String> = (0..SMALL).map(element).collect();
    format!("{command}:{number:010} {}", elements.join(" "))
}

const LARGE: [Case; 6] = [
    Case { name: "hash", adds: 1, payload: 48.0, request: |at, _| format!("HSET hash {} {VALUE}", digits(at)) },
    Case { name: "set", adds: 1, payload: 16.0, request: |at, _| format!("SADD set {}", digits(at)) },
    Case { name: "set of integers", adds: 1, payload: 4.0, request: |at, _| format!("SADD integers {}", at * 7) },
    Case {
        name: "sorted set",
        adds: 1,
        payload: 24.0,
        request: |at, all| format!("ZADD zset {} {}", at * 31 % all, digits(at)),
    },
    Case { name: "list", adds: 1, payload: 32.0, request: |_, _| format!("RPUSH list {VALUE}") },
    Case { name: "stream", adds: 1, payload: 33.0, request: |_, _| format!("XADD stream * f {VALUE}") },
];

const SMALL_ONES: [Case; 4] = [
    Case {
        name: "hashes of 10",
        adds: SMALL,
        payload: 25.2,
        request: |at, _| ten("HSET h", at, |at| format!("field:{at:02} value:{at:010}")),
    },
    Case {
        name: "sorted sets of 10",
        adds: SMALL,
        payload: 15.2,
        request: |at, _| ten("ZADD z", at, |at| format!("{} member:{at:05}", at * 100)),
    },
    Case {
        name: "lists of 10",
        adds: SMALL,
        payload: 17.2,
        request: |at, _| ten("RPUSH l", at, |at| format!("value:{at:010}")),
    },
    Case {
        name: "sets of 10",
        adds: SMALL,
        payload: 13.2,
        request: |at, _| ten("SADD s", at, |at| format!("member:{at:05}")),
    },
];

fn is_compared(kind: Kind) -> bool {
    matches!(kind, Kind::Keylatch | Kind::Redis | Kind::Valkey)
}

pub fn run(context: &mut Context, section: &str) -> Result<()> {
    // A hundredth, a tenth, and all.
    let most = context.effort.keys_max.min(1_000_000);
    let counts = [most / 100, most / 10, most];
    context.figures.forget(section);
    let mut table = Table::new(&["elements of", "server", "number", "bytes per element", "x redis"]);
    let mut panels = Vec::new();
    for case in LARGE.iter().chain(&SMALL_ONES) {
        println!("{}", case.name);
        let settle = context.effort.window * 2;
        let readings = context.each_anew(1, is_compared, |server| beside_payload(&server, case, &counts, settle))?;
        let redis = readings.iter().find(|(kind, _)| *kind == Kind::Redis);
        for (kind, rounds) in &readings {
            for (at, (&count, &bytes)) in counts.iter().zip(&rounds[0]).enumerate() {
                let workload = format!("{} {}", case.name, short(count as f64));
                context.figures.set(section, &workload, *kind, "bytes", bytes);
                let redis = redis.map_or(f64::NAN, |(_, rounds)| rounds[0][at]);
                table.row([
                    case.name.to_owned(),
                    kind.name().to_owned(),
                    short(count as f64),
                    number(bytes),
                    ratio(bytes, redis),
                ]);
            }
        }
        let line = |(kind, rounds): &(Kind, Vec<Vec<f64>>)| Line {
            server: *kind,
            points: counts.iter().map(|&count| count as f64).zip(rounds[0].iter().copied()).collect(),
        };
        panels.push(Panel { title: case.name.to_owned(), y: BYTES, lines: readings.iter().map(line).collect() });
    }
    let title = "Memory of collections beside the payload of their elements".to_owned();
    context.draw(section, &Plot { title, x: ELEMENTS, panels })?;
    let how = "bytes per element beside its payload (field, value, member, score, and its share of the key's name), from \
               the server's Pss (`/proc/PID/smaps_rollup`) above what it had when it was empty. A hash of 16 and 32 \
               bytes, a set and a sorted set of 16, lists and streams of 32.";
    context.publish(section, how, &table.markdown())
}

/// Returns the memory of an element besides its payload, in bytes, at each of these numbers of elements. The server is
/// left alone for `settle` before its memory is read.
fn beside_payload(server: &Server, case: &Case, counts: &[u64], settle: std::time::Duration) -> Result<Vec<f64>> {
    send(server, std::iter::once("PING".to_owned()))?;
    thread::sleep(settle);
    let (empty, mut filled) = (memory_of(server.pid())?, 0);
    let all = counts.last().copied().unwrap_or(1);
    let at = |&count: &u64| {
        send(server, (filled / case.adds..count / case.adds).map(|number| (case.request)(number, all)))?;
        filled = count;
        thread::sleep(settle);
        Ok((memory_of(server.pid())? - empty) / count as f64 - case.payload)
    };
    counts.iter().map(at).collect()
}
