//! Large values: the cost of a request, and the resources for a value of 512 MiB.

use std::io::{BufRead, BufReader, Read, Write};
use std::time::{Duration, Instant};

use super::commands::{Row, table};
use crate::load::{Load, Spec};
use crate::measure::{cpu_us, medians, peak, reset_peak};
use crate::redis_benchmark::CLIENTS;
use crate::report::{Table, number, ratio, short};
use crate::server::{Kind, Server};
use crate::workload::{GET, SET, Workload};
use crate::{Context, Result};

/// Values and the pipeline depths at which they are measured.
const SIZES: [(usize, &[usize]); 3] = [(10_000, &[1, 16, 64]), (100_000, &[1, 16]), (1_000_000, &[1, 16])];
/// Number of bytes that a test stores.
const TOTAL: usize = 100_000_000;
/// Size from which on a value has fewer connections and a longer window.
const LARGE_MIN: usize = 100_000;
const LARGE_CLIENTS: usize = 8;
const LARGE_WINDOWS: u32 = 4;

/// Length of the longest value that redis-server accepts by default.
const HUGE: usize = 512 << 20;
/// Number of bytes written and read at once.
const PIECE: usize = 1 << 20;
/// Maximum time without an answer from the server.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const HUGE_UNITS: [&str; 3] = ["CPU ms", "wall ms", "peak MB"];

pub fn run(context: &mut Context, section: &str) -> Result<()> {
    let (warm_up, window) = (context.effort.warm_up, context.effort.window);
    let row = |workload: &'static Workload, size: usize, depth| Row {
        test: format!("{} of {} bytes", workload.name, short(size as f64)),
        spec: Spec {
            workload,
            connections: if size < LARGE_MIN { CLIENTS } else { LARGE_CLIENTS },
            depth,
            keys: (TOTAL / size) as u64,
            value_len: size,
        },
    };
    let sizes = SIZES.iter().flat_map(|&(size, depths)| depths.iter().map(move |&depth| (size, depth)));
    let rows: Vec<Row<'_>> =
        sizes.flat_map(|(size, depth)| [&SET, &GET].map(|workload| row(workload, size, depth))).collect();
    let how = format!(
        "our generator in closed loop, {} MB of values, {CLIENTS} connections ({LARGE_CLIENTS} for values of 100 kB \
         and more), each row the median of {} interleaved rounds of {} ms ({LARGE_WINDOWS} times as long for those). \
         The null server keeps and returns no value.",
        TOTAL / 1_000_000,
        context.effort.rounds,
        window.as_millis()
    );
    // memcached would keep only a part.
    let is_wanted = |kind: Kind| kind.is_store() || kind == Kind::Null;
    let servers = context.start(is_wanted)?;
    table(context, section, &how, &servers, &rows, |server, spec| {
        let windows = if spec.value_len < LARGE_MIN { 1 } else { LARGE_WINDOWS };
        Ok(Load::closed(server, spec)?.measure(warm_up, window * windows)?.sample())
    })?;
    huge(context, section)
}

/// Measures a value of 512 MiB on new servers.
fn huge(context: &mut Context, section: &str) -> Result<()> {
    let rounds = context.effort.rounds.min(3);
    let readings = context.each_anew(rounds, Kind::is_store, |server| {
        println!("512 MiB, {}", server.kind.name());
        // A server that rejects such a value is left out.
        Ok(set_and_get(&server).inspect_err(|error| println!("left out: {error}")).ok())
    })?;
    let of_server = |(kind, rounds): (Kind, Vec<Option<[[f64; 3]; 2]>>)| {
        let rounds = rounds.into_iter().collect::<Option<Vec<_>>>()?;
        Some((kind, [0, 1].map(|at| medians(&rounds.iter().map(|round| round[at]).collect::<Vec<_>>()))))
    };
    let servers: Vec<_> = readings.into_iter().filter_map(of_server).collect();
    let redis =
        servers.iter().find(|(kind, _)| *kind == Kind::Redis).map_or([[f64::NAN; 3]; 2], |(_, figures)| *figures);
    let mut table = Table::new(&["test", "server", "CPU ms", "x redis", "wall ms", "x redis", "peak MB", "x redis"]);
    for (at, test) in ["SET of 512 MiB", "GET of 512 MiB"].into_iter().enumerate() {
        for (kind, figures) in &servers {
            let mut cells = vec![test.to_owned(), kind.name().to_owned()];
            for (unit, (&value, &redis)) in HUGE_UNITS.iter().zip(figures[at].iter().zip(&redis[at])) {
                context.figures.set(section, test, *kind, unit, value);
                cells.extend([number(value), ratio(value, redis)]);
            }
            table.row(cells);
        }
    }
    let how = format!(
        "one `SET` and one `GET` of {HUGE} bytes over one connection to a new server, medians of {rounds} rounds: \
         CPU time of the server, time until the reply was complete, and the server's peak resident memory (`VmHWM`) \
         beyond what was resident before the request: 537 MB of it are the value, for `GET` before."
    );
    context.publish(section, &how, &table.markdown())
}

/// Returns the figures of `SET` and `GET`, in the order of [`HUGE_UNITS`].
fn set_and_get(server: &Server) -> Result<[[f64; 3]; 2]> {
    let mut stream = server.connect()?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut piece = vec![b'x'; PIECE];
    let set = figures_of(server, || {
        write!(stream, "*3\r\n$3\r\nSET\r\n$4\r\nhuge\r\n${HUGE}\r\n")?;
        (0..HUGE / PIECE).try_for_each(|_| stream.write_all(&piece))?;
        stream.write_all(b"\r\n")?;
        expect(&mut reader, "+OK")
    })?;
    let get = figures_of(server, || {
        stream.write_all(b"*2\r\n$3\r\nGET\r\n$4\r\nhuge\r\n")?;
        expect(&mut reader, &format!("${HUGE}"))?;
        (0..HUGE / PIECE).try_for_each(|_| reader.read_exact(&mut piece))?;
        expect(&mut reader, "")
    })?;
    Ok([set, get])
}

/// Returns the figures of a request, in the order of [`HUGE_UNITS`].
fn figures_of(server: &Server, request: impl FnOnce() -> Result<()>) -> Result<[f64; 3]> {
    let pid = server.pid();
    let before = reset_peak(pid)?;
    let (started, cpu) = (Instant::now(), cpu_us(pid)?);
    request()?;
    let wall_ms = started.elapsed().as_secs_f64() * 1e3;
    Ok([(cpu_us(pid)? - cpu) / 1e3, wall_ms, (peak(pid)? - before) / 1e6])
}

/// Reads a line.
fn expect(reader: &mut impl BufRead, line: &str) -> Result<()> {
    let mut reply = String::new();
    reader.read_line(&mut reply)?;
    if reply.trim_end() == line { Ok(()) } else { Err(format!("the answer was {:?}", reply.trim_end()).into()) }
}
