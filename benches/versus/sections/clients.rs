//! Many clients: one with light load while eight flood the server, and a thousand active ones among ten thousand.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use super::wait;
use crate::load::{Load, Outcome, Spec, beside, fill};
use crate::measure::{interleaved, median, medians, memory, open_files_max};
use crate::report::{Table, number, ratio};
use crate::server::{Kind, Server, say_hello};
use crate::workload::{GET, SET};
use crate::{Context, Result};

const KEYS: u64 = 100_000;
const FLOODS: usize = 8;
const FLOOD_DEPTH: usize = 512;
const CLIENTS: usize = 10_000;
const ACTIVE: usize = 1_000;
/// Number of files that this process needs besides its connections.
const FILES_SPARE: usize = 100;
const SETTLE: Duration = Duration::from_millis(500);

pub fn fairness(context: &mut Context, section: &str) -> Result<()> {
    let servers = context.start(|_| true)?;
    servers.iter().try_for_each(|server| fill(server, &SET, 0..KEYS, 3))?;
    let window = context.effort.window * 4;
    let readings = interleaved(&servers, context.effort.rounds, |server| {
        let (alone, ()) = beside(server, &GET, || wait(window))?;
        let spec = Spec { workload: &GET, connections: FLOODS, depth: FLOOD_DEPTH, keys: KEYS, value_len: 3 };
        let flood = Load::closed(server, spec)?;
        let (beside, flood) = beside(server, &GET, || flood.measure(Duration::ZERO, window))?;
        let ms = |nanoseconds: u64| nanoseconds as f64 / 1e6;
        let [alone_p50, alone_p99] = [0.5, 0.99].map(|share| ms(alone.value_at_quantile(share)));
        let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| ms(beside.value_at_quantile(share)));
        Ok([alone_p50, alone_p99, p50, p99, p999, flood.per_second])
    })?;
    let medians: Vec<[f64; 6]> = readings.iter().map(|rounds| medians(rounds)).collect();
    let redis = servers.iter().position(|server| server.kind == Kind::Redis).ok_or("there is no redis")?;
    let head = ["server", "alone p50 ms", "alone p99 ms", "p50 ms", "p99 ms", "x redis", "p99.9 ms", "flood req/s"];
    let mut table = Table::new(&head);
    context.figures.forget(section);
    for (server, &[alone_p50, alone_p99, p50, p99, p999, flood]) in servers.iter().zip(&medians) {
        let figures = [
            ("GET alone", "p50 ms", alone_p50),
            ("GET alone", "p99 ms", alone_p99),
            ("GET beside the flood", "p50 ms", p50),
            ("GET beside the flood", "p99 ms", p99),
            ("GET beside the flood", "p99.9 ms", p999),
            ("the flood", "req/s", flood),
        ];
        for (workload, unit, value) in figures {
            context.figures.set(section, workload, server.kind, unit, value);
        }
        table.row([
            server.kind.name().to_owned(),
            number(alone_p50),
            number(alone_p99),
            number(p50),
            number(p99),
            ratio(p99, medians[redis][3]),
            number(p999),
            format!("{flood:.0}"),
        ]);
    }
    let how = format!(
        "round trips of one client that sends a `GET` every 0.2 ms, alone and beside {FLOODS} connections with pipelines of \
         {FLOOD_DEPTH} `GET`s each; the last column is what those got."
    );
    context.publish(section, &how, &table.markdown())
}

/// Measurements with many clients connected.
struct Crowd {
    served: usize,
    outcome: Outcome,
    idle_bytes: f64,
    /// Time to list all clients and to close all but the asking one, in milliseconds.
    list_ms: f64,
    kill_ms: f64,
}

pub fn many(context: &mut Context, section: &str) -> Result<()> {
    let clients = CLIENTS.min(open_files_max().saturating_sub(FILES_SPARE));
    let active = ACTIVE.min(clients / 2);
    let (warm_up, window) = (context.effort.warm_up * 5, context.effort.window * 2);
    let readings = context.each_anew(
        context.effort.rounds.min(3),
        |kind| kind.clients_max() >= clients,
        |server| crowd(&server, clients, active, warm_up, window),
    )?;
    let mut table = Table::new(&[
        "server",
        "served",
        "req/s",
        "x redis",
        "CPU us/req",
        "x redis",
        "p99 ms",
        "bytes per idle client",
        "list all, ms",
        "kill all, ms",
    ]);
    let of = |rounds: &[Crowd], figure: fn(&Crowd) -> f64| median(rounds.iter().map(figure));
    let redis = readings.iter().find(|(kind, _)| *kind == Kind::Redis).ok_or("there is no redis")?;
    context.figures.forget(section);
    for (kind, rounds) in &readings {
        let served = rounds.iter().map(|crowd| crowd.served).min().unwrap_or_default();
        let (per_second, cpu) = (of(rounds, |c| c.outcome.per_second), of(rounds, |c| c.outcome.cpu_us));
        let idle = of(rounds, |c| c.idle_bytes);
        let (list_ms, kill_ms) = (of(rounds, |c| c.list_ms), of(rounds, |c| c.kill_ms));
        let p99 = of(rounds, |c| c.outcome.quantile_ms(0.99));
        let figures = [
            ("served", served as f64),
            ("req/s", per_second),
            ("CPU us", cpu),
            ("p99 ms", p99),
            ("bytes per idle client", idle),
            ("CLIENT LIST ms", list_ms),
            ("CLIENT KILL ms", kill_ms),
        ];
        for (unit, value) in figures {
            context.figures.set(section, "clients", *kind, unit, value);
        }
        table.row([
            kind.name().to_owned(),
            served.to_string(),
            format!("{per_second:.0}"),
            ratio(per_second, of(&redis.1, |c| c.outcome.per_second)),
            number(cpu),
            ratio(cpu, of(&redis.1, |c| c.outcome.cpu_us)),
            number(p99),
            format!("{idle:.0}"),
            number(list_ms),
            number(kill_ms),
        ]);
    }
    let how = format!(
        "{clients} clients connected, {active} of which send `GET` in closed loop, one request at a time. Served are those \
         that had replies, the idle ones asked at the end. The last columns are how long `CLIENT LIST` and `CLIENT KILL TYPE \
         normal` take to be answered then. `ulimit -n` must allow the connections."
    );
    context.publish(section, &how, &table.markdown())
}

fn crowd(server: &Server, clients: usize, active: usize, warm_up: Duration, window: Duration) -> Result<Crowd> {
    let protocol = server.kind.protocol();
    fill(server, &SET, 0..KEYS, 3)?;
    thread::sleep(SETTLE);
    let before = memory(server.pid())?;
    let mut idle = Vec::new();
    for _ in active..clients {
        let mut client = server.connect()?;
        say_hello(&mut client, protocol)?;
        idle.push(client);
    }
    thread::sleep(SETTLE);
    let idle_bytes = (memory(server.pid())? - before) / idle.len() as f64;
    let spec = Spec { workload: &GET, connections: active, depth: 1, keys: KEYS, value_len: 3 };
    let load = Load::closed(server, spec)?;
    let outcome = load.measure(warm_up, window)?;
    let active = load.served() as usize;
    // The check of the idle clients must not wait behind the active ones.
    drop(load);
    let still_there = idle.iter_mut().filter_map(|client| say_hello(client, protocol).ok()).count();
    let mut asker = server.connect()?;
    let list_ms = ask_ms(&mut asker, "CLIENT LIST")?;
    let kill_ms = ask_ms(&mut asker, "CLIENT KILL TYPE normal")?;
    Ok(Crowd { served: active + still_there, outcome, idle_bytes, list_ms, kill_ms })
}

/// Returns the time until the reply to a request, one line or a string, has arrived.
fn ask_ms(client: &mut TcpStream, request: &str) -> Result<f64> {
    let asked = Instant::now();
    client.write_all(format!("{request}\r\n").as_bytes())?;
    let mut reader = BufReader::new(client);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    if let Some(len) = line.strip_prefix('$') {
        let len: u64 = len.trim_end().parse()?;
        std::io::copy(&mut reader.take(len + 2), &mut std::io::sink())?;
    }
    Ok(asked.elapsed().as_secs_f64() * 1e3)
}
