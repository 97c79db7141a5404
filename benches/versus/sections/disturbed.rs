//! One client with light load while other clients misbehave: flooding, never reading, or sending slowly.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use super::wait;
use crate::load::{Load, Spec, beside, fill};
use crate::measure::{interleaved, median};
use crate::report::{Table, number, ratio};
use crate::server::{Kind, Server};
use crate::workload::{GET, SET};
use crate::{Context, Result};

const KEYS: u64 = 100_000;
/// Length of the values, in bytes: large enough that unread replies pile up.
const VALUE_LEN: usize = 1_000;
const FLOODS: usize = 8;
const FLOOD_DEPTH: usize = 512;
/// Number of clients that never read, number of requests that each sends at once, and the interval.
const DEAF: usize = 20;
const DEAF_DEPTH: usize = 16;
const DEAF_EVERY: Duration = Duration::from_millis(10);
/// Number of clients that send a byte each second.
const SLOW: usize = 1_000;
const REQUEST: &[u8] = b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000001\r\n";

type Disturbance = fn(&Server, Duration) -> Result<()>;

const DISTURBANCES: [(&str, Disturbance); 4] = [
    ("nobody", |_, window| wait(window)),
    ("8 that flood", flood),
    ("20 that never read", never_read),
    ("1000 that send a byte a second", dribble),
];

pub fn run(context: &mut Context, section: &str) -> Result<()> {
    let servers = context.start(Kind::is_store)?;
    servers.iter().try_for_each(|server| fill(server, &SET, 0..KEYS, VALUE_LEN))?;
    let window = context.effort.window * 4;
    context.figures.forget(section);
    let mut table = Table::new(&["beside", "server", "p50 ms", "p99 ms", "x redis", "p99.9 ms"]);
    for (name, disturb) in DISTURBANCES {
        let readings = interleaved(&servers, context.effort.rounds, |server| {
            let (latency, ()) = beside(server, &GET, || disturb(server, window))?;
            Ok([0.5, 0.99, 0.999].map(|share| latency.value_at_quantile(share) as f64 / 1e6))
        })?;
        let medians: Vec<[f64; 3]> = readings
            .iter()
            .map(|rounds| std::array::from_fn(|figure| median(rounds.iter().map(|round| round[figure]))))
            .collect();
        let redis = servers.iter().position(|server| server.kind == Kind::Redis).ok_or("there is no redis")?;
        for (server, &[p50, p99, p999]) in servers.iter().zip(&medians) {
            let x_redis = ratio(p99, medians[redis][1]);
            for (unit, value) in [("p50 ms", p50), ("p99 ms", p99), ("p99.9 ms", p999)] {
                context.figures.set(section, &format!("GET beside {name}"), server.kind, unit, value);
            }
            let shown = server.kind.name().to_owned();
            table.row([name.to_owned(), shown, number(p50), number(p99), x_redis, number(p999)]);
        }
    }
    let how = format!(
        "round trips of one client that sends a `GET` of {VALUE_LEN} bytes every 0.2 ms, beside {FLOODS} connections with \
         pipelines of {FLOOD_DEPTH} `GET`s each; beside {DEAF} that send {DEAF_DEPTH} `GET`s every {} ms and never read; and \
         beside {SLOW} that send one byte of a request each second.",
        DEAF_EVERY.as_millis()
    );
    context.publish(section, &how, &table.markdown())
}

fn flood(server: &Server, window: Duration) -> Result<()> {
    let spec = Spec { workload: &GET, connections: FLOODS, depth: FLOOD_DEPTH, keys: KEYS, value_len: VALUE_LEN };
    Load::closed(server, spec)?.measure(Duration::ZERO, window)?;
    Ok(())
}

fn never_read(server: &Server, window: Duration) -> Result<()> {
    let mut clients = crowd(server, DEAF)?;
    let (began, requests) = (Instant::now(), REQUEST.repeat(DEAF_DEPTH));
    while began.elapsed() < window {
        for client in &mut clients {
            send(client, &requests)?;
        }
        thread::sleep(DEAF_EVERY);
    }
    Ok(())
}

fn dribble(server: &Server, window: Duration) -> Result<()> {
    let mut clients = crowd(server, SLOW)?;
    let (began, pause) = (Instant::now(), Duration::from_secs(1) / SLOW as u32);
    for round in 0.. {
        let byte = [REQUEST[round % REQUEST.len()]];
        for client in &mut clients {
            if began.elapsed() >= window {
                return Ok(());
            }
            send(client, &byte)?;
            thread::sleep(pause);
        }
    }
    Ok(())
}

fn crowd(server: &Server, count: usize) -> Result<Vec<TcpStream>> {
    (0..count)
        .map(|_| {
            let client = server.connect()?;
            client.set_nonblocking(true)?;
            Ok(client)
        })
        .collect()
}

/// Sends as much as the socket accepts. A disconnected client is expected.
fn send(client: &mut TcpStream, bytes: &[u8]) -> Result<()> {
    match client.write(bytes) {
        Err(error)
            if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) =>
        {
            Err(error.into())
        }
        _ => Ok(()),
    }
}
