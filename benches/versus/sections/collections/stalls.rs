//! The longest wait of one client while another one removes, reads, combines and fills large collections.

use std::time::{Duration, Instant};

use super::{Collection, HASH, LIST, SET, SORTED_SET, STREAM};
use crate::load::{beside, send};
use crate::report::{Table, number};
use crate::sections::wait;
use crate::server::{Kind, Server};
use crate::workload::GET;
use crate::{Context, Result};

/// Time for which the unloaded server is observed before each reading, and the server after a removal, whose deadline
/// may be that far away.
const LOOK: Duration = Duration::from_secs(1);

/// Number of measurements of each case. The smallest of the worst waits counts: delays by the server occur every time,
/// other delays by the machine do not.
const REPEATS: usize = 2;

/// Commands that remove a collection.
const REMOVALS: [(&str, &str); 4] =
    [("DEL", "DEL victim"), ("UNLINK", "UNLINK victim"), ("EXPIRE", "PEXPIRE victim 100"), ("SET", "SET victim x")];

/// Ratio of removed elements to elements that are read or combined.
const READ_SHARE: u64 = 10;

/// Waits of one case, in milliseconds.
#[derive(Clone, Copy)]
struct Reading {
    unloaded: f64,
    worst: f64,
    /// Duration of the work.
    took: f64,
}

fn is_compared(kind: Kind) -> bool {
    matches!(kind, Kind::Keylatch | Kind::Redis | Kind::Valkey)
}

pub fn run(context: &mut Context, section: &str) -> Result<()> {
    let most = context.effort.keys_max;
    let mut readings: Vec<(Kind, Vec<(String, Reading)>)> = Vec::new();
    for collection in [HASH, SET, SORTED_SET, LIST, STREAM] {
        println!("{}", collection.name);
        for (kind, rounds) in context.each_anew(1, is_compared, |server| of_collection(&server, &collection, most))? {
            match readings.iter_mut().find(|(other, _)| *other == kind) {
                Some((_, readings)) => readings.extend(rounds.into_iter().flatten()),
                None => readings.push((kind, rounds.into_iter().flatten().collect())),
            }
        }
    }
    context.figures.forget(section);
    let mut table = Table::new(&["case", "server", "worst unloaded ms", "worst ms", "ms above unloaded", "took s"]);
    for at in 0..readings.first().map_or(0, |(_, readings)| readings.len()) {
        for (kind, readings) in &readings {
            let (case, Reading { unloaded, worst, took }) = &readings[at];
            let above = (worst - unloaded).max(0.0);
            for (unit, value) in [("worst unloaded ms", *unloaded), ("worst ms", *worst), ("ms above unloaded", above)]
            {
                context.figures.set(section, case, *kind, unit, value);
            }
            table.row([
                case.clone(),
                kind.name().to_owned(),
                number(*unloaded),
                number(*worst),
                number(above),
                number(*took),
            ]);
        }
    }
    let how = format!(
        "round trips of a client that sends a `GET` every 0.2 ms while another fills, removes and reads collections: {most} \
         elements filled and removed, {} read. Unloaded is the same client for {} s before. Each wait is the smallest of \
         {REPEATS} repetitions.",
        most / READ_SHARE,
        LOOK.as_secs()
    );
    context.publish(section, &how, &table.markdown())
}

/// Measures all cases of one type on a new server.
fn of_collection(server: &Server, collection: &Collection, most: u64) -> Result<Vec<(String, Reading)>> {
    let name = collection.name;
    let read = match name {
        "hash" => Some("HGETALL hash"),
        "set" => Some("SMEMBERS set"),
        "zset" => Some("ZUNIONSTORE victim 1 zset"),
        _ => None,
    };
    let mut readings = Vec::new();
    let first = most / READ_SHARE;
    let fill = || collection.fill(server, first..most);
    collection.fill(server, 0..first)?;
    if let Some(request) = read {
        let command = request.split(' ').next().unwrap_or(request);
        let again = || one(server, "UNLINK victim");
        readings.push((format!("{command} of {first}"), reading(server, again, || one(server, request))?));
    }
    let again = || {
        one(server, &format!("UNLINK {name}"))?;
        collection.fill(server, 0..first)
    };
    readings.push((format!("{name} grows to {most}"), reading(server, again, fill)?));
    for (word, request) in REMOVALS {
        let again = || one(server, &format!("COPY {name} victim REPLACE"));
        let work = || {
            one(server, request)?;
            wait(LOOK)
        };
        readings.push((format!("{word}, {name} of {most}"), reading(server, again, work)?));
    }
    Ok(readings)
}

/// Sends one request and waits for its reply.
fn one(server: &Server, request: &str) -> Result<()> {
    send(server, std::iter::once(request.to_owned()))
}

/// Measures the waits of another client before and during some work, which `make_ready` prepares each time.
fn reading(server: &Server, make_ready: impl Fn() -> Result<()>, work: impl Fn() -> Result<()>) -> Result<Reading> {
    let ms = |nanoseconds: u64| nanoseconds as f64 / 1e6;
    let mut least = Reading { unloaded: f64::INFINITY, worst: f64::INFINITY, took: f64::INFINITY };
    for _ in 0..REPEATS {
        make_ready()?;
        let (unloaded, ()) = beside(server, &GET, || wait(LOOK))?;
        let started = Instant::now();
        let (loaded, ()) = beside(server, &GET, &work)?;
        least = Reading {
            unloaded: least.unloaded.min(ms(unloaded.max())),
            worst: least.worst.min(ms(loaded.max())),
            took: least.took.min(started.elapsed().as_secs_f64()),
        };
    }
    Ok(least)
}
