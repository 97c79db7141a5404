//! The longest wait of one client while another works on large collections: removes, reads, combines, fills them.

use std::time::{Duration, Instant};

use super::{Collection, HASH, LIST, SET, SORTED_SET, STREAM};
use crate::load::{beside, send};
use crate::report::{Table, number};
use crate::sections::wait;
use crate::server::{Kind, Server};
use crate::workload::GET;
use crate::{Context, Result};

/// How long the unloaded server is looked at, before each reading, and the server after a removal, whose deadline may be
/// that far away.
const LOOK: Duration = Duration::from_secs(1);

/// What removes a collection.
const REMOVALS: [(&str, &str); 4] =
    [("DEL", "DEL victim"), ("UNLINK", "UNLINK victim"), ("EXPIRE", "PEXPIRE victim 100"), ("SET", "SET victim x")];

/// The elements that are read or combined as a share of those that are removed.
const READ_SHARE: u64 = 10;

/// The waits of one case, in milliseconds.
struct Reading {
    case: String,
    unloaded: f64,
    worst: f64,
    /// How long the work took.
    took: f64,
}

fn is_compared(kind: Kind) -> bool {
    matches!(kind, Kind::Keylatch | Kind::Redis | Kind::Valkey)
}

pub fn run(context: &mut Context, section: &str) -> Result<()> {
    let most = context.effort.keys_max;
    let mut readings: Vec<(Kind, Vec<Reading>)> = Vec::new();
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
            let Reading { case, unloaded, worst, took } = &readings[at];
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
         elements filled and removed, {} read. Unloaded is the same client for {} s before.",
        most / READ_SHARE,
        LOOK.as_secs()
    );
    context.publish(section, &how, &table.markdown())
}

/// Measures all cases of one type on a new server.
fn of_collection(server: &Server, collection: &Collection, most: u64) -> Result<Vec<Reading>> {
    let name = collection.name;
    let read = match name {
        "hash" => Some("HGETALL hash"),
        "set" => Some("SMEMBERS set"),
        "zset" => Some("ZUNIONSTORE victim 1 zset"),
        _ => None,
    };
    let mut readings = Vec::new();
    let first = most / READ_SHARE;
    let fill = |from: u64, to: u64| collection.fill(server, from..to);
    fill(0, first)?;
    if let Some(request) = read {
        let command = request.split(' ').next().unwrap_or(request);
        readings.push(reading(server, format!("{command} of {first}"), || one(server, request))?);
        one(server, "UNLINK victim")?;
    }
    readings.push(reading(server, format!("{name} grows to {most}"), || fill(first, most))?);
    for (word, request) in REMOVALS {
        one(server, &format!("COPY {name} victim"))?;
        readings.push(reading(server, format!("{word}, {name} of {most}"), || {
            one(server, request)?;
            wait(LOOK)
        })?);
    }
    Ok(readings)
}

/// Sends one request and waits for its reply.
fn one(server: &Server, request: &str) -> Result<()> {
    send(server, std::iter::once(request.to_owned()))
}

/// Measures what another client waits for, before and during some work.
fn reading(server: &Server, case: String, work: impl FnOnce() -> Result<()>) -> Result<Reading> {
    let ms = |nanoseconds: u64| nanoseconds as f64 / 1e6;
    let (unloaded, ()) = beside(server, &GET, || wait(LOOK))?;
    let started = Instant::now();
    let (loaded, ()) = beside(server, &GET, work)?;
    let took = started.elapsed().as_secs_f64();
    Ok(Reading { case, unloaded: ms(unloaded.max()), worst: ms(loaded.max()), took })
}
