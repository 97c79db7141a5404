//! Comparison of commands at fixed pipeline depths, with both generators.

use crate::load::{Load, Spec, fill, is_able};
use crate::measure::{Sample, interleaved};
use crate::redis_benchmark::{self, CLIENTS, KEYS};
use crate::report::{Table, number, ratio};
use crate::server::{Kind, Protocol, Server};
use crate::workload::{COMMANDS, SET, Workload};
use crate::{Context, Result};

/// Length of values here, equal to redis-benchmark's.
pub const VALUE_LEN: usize = 3;

/// Workload of a row; workloads of the same name and depth differ in `test`.
pub struct Row<'a> {
    pub test: String,
    pub spec: Spec<'a>,
}

/// Returns the rows of the command tables.
fn command_rows() -> Vec<Row<'static>> {
    let row = |workload: &'static Workload, depth| {
        let spec = Spec { workload, connections: CLIENTS, depth, keys: KEYS, value_len: VALUE_LEN };
        Row { test: workload.name.to_owned(), spec }
    };
    COMMANDS.iter().flat_map(|workload| workload.depths.iter().map(move |&depth| row(workload, depth))).collect()
}

pub fn own(context: &mut Context, section: &str) -> Result<()> {
    let (warm_up, window) = (context.effort.warm_up, context.effort.window);
    let how = format!(
        "our generator in closed loop, {CLIENTS} connections, {KEYS} keys of 16 bytes, values of {VALUE_LEN} bytes, each row the \
         median of {} interleaved rounds of {} ms. P is the pipeline depth; latencies are those of a whole pipeline. `DEL`, \
         `SETNX` and `SET NX PX` soon find their key gone or taken; the lock cycles below delete and create on every \
         request.",
        context.effort.rounds,
        window.as_millis()
    );
    let servers = context.start(|_| true)?;
    table(context, section, &how, &servers, &command_rows(), |server, spec| {
        Ok(Load::closed(server, spec)?.measure(warm_up, window)?.sample())
    })
}

pub fn redis_benchmark(context: &mut Context, section: &str) -> Result<()> {
    let share = if context.effort.is_quick { 8 } else { 1 };
    let how = format!(
        "the same by `redis-benchmark`, {CLIENTS} clients, {KEYS} keys, values of {VALUE_LEN} bytes, each row the median of \
         {} interleaved rounds. memcached does not speak its language.",
        context.effort.rounds
    );
    let servers = context.start(|kind| kind.protocol() == Protocol::Resp)?;
    table(context, section, &how, &servers, &command_rows(), |server, Spec { workload, depth, .. }| {
        // Most readings take about a second; requests with ten keys are fewer.
        let requests = 50_000 * depth.min(12) / share / workload.keys.min(4);
        redis_benchmark::load(server, workload, depth, requests)
    })
}

/// Workloads for the comparison with an earlier build.
const COMPARED: [&str; 2] = ["SET", "GET"];

pub fn earlier(context: &mut Context, section: &str) -> Result<()> {
    let servers = context.start(|kind| matches!(kind, Kind::Keylatch | Kind::Earlier))?;
    let [now, earlier] = &servers[..] else {
        println!("nothing to compare with: no variable names the binary of an earlier build");
        return Ok(());
    };
    let head = [
        "test",
        "P",
        "req/s earlier",
        "req/s",
        "x",
        "CPU us/req earlier",
        "CPU us/req",
        "x",
        "p99 ms earlier",
        "p99 ms",
    ];
    let mut table = Table::new(&head);
    context.figures.forget(section);
    for workload in COMMANDS.iter().filter(|workload| COMPARED.contains(&workload.name)) {
        for &depth in workload.depths {
            println!("{} P={depth}", workload.name);
            let samples = interleaved(&[now, earlier], context.effort.rounds, |server| {
                fill(server, &SET, 0..KEYS, VALUE_LEN)?;
                redis_benchmark::load(server, workload, depth, 50_000 * depth.min(12))
            })?;
            let (now, earlier) = (Sample::median(&samples[0]), Sample::median(&samples[1]));
            let test = format!("{} P={depth}", workload.name);
            context.figures.set_sample(section, &test, Kind::Keylatch, "req/s", &now);
            context.figures.set_sample(section, &test, Kind::Earlier, "req/s", &earlier);
            table.row([
                workload.name.to_owned(),
                depth.to_string(),
                format!("{:.0}", earlier.per_second),
                format!("{:.0}", now.per_second),
                ratio(now.per_second, earlier.per_second),
                number(earlier.cpu_us),
                number(now.cpu_us),
                ratio(now.cpu_us, earlier.cpu_us),
                number(earlier.p99_ms),
                number(now.p99_ms),
            ]);
        }
    }
    let how = format!(
        "this build beside an earlier one, by `redis-benchmark`, {CLIENTS} clients, {KEYS} keys, values of {VALUE_LEN} bytes, \
         each row the median of {} interleaved rounds.",
        context.effort.rounds
    );
    context.publish(section, &how, &table.markdown())
}

/// Measures rows on servers in turn, records their figures and prints their table.
///
/// # Errors
/// The errors of `measure`.
pub fn table(
    context: &mut Context,
    section: &str,
    how: &str,
    servers: &[Server],
    tests: &[Row<'_>],
    mut measure: impl FnMut(&Server, Spec<'_>) -> Result<Sample>,
) -> Result<()> {
    let mut head =
        vec!["test", "P", "server", "req/s", "x redis", "CPU us/req", "x redis", "x null", "p50 ms", "p99 ms"];
    // redis-benchmark does not report it.
    head.extend((!matches!(section, "redis-benchmark" | "wire")).then_some("p99.9 ms"));
    let mut table = Table::new(&head);
    context.figures.forget(section);
    for &Row { ref test, spec } in tests {
        let name = format!("{test} P={}", spec.depth);
        println!("{name}");
        let able = servers.iter().filter(|server| is_able(server, spec.workload, spec.value_len));
        let able: Vec<&Server> = able.collect();
        let samples = interleaved(&able, context.effort.rounds, |server| {
            // Deleted keys are restored.
            fill(server, &SET, 0..spec.keys, spec.value_len)?;
            measure(server, spec)
        })?;
        let medians: Vec<(Kind, Sample)> =
            able.iter().zip(&samples).map(|(server, samples)| (server.kind, Sample::median(samples))).collect();
        rows(&mut table, head.len(), test, spec.depth, &medians);
        for (kind, median) in &medians {
            context.figures.set_sample(section, &name, *kind, "req/s", median);
        }
    }
    context.publish(section, how, &table.markdown())
}

fn rows(table: &mut Table, columns: usize, test: &str, depth: usize, medians: &[(Kind, Sample)]) {
    let of = |wanted: Kind, figure: fn(&Sample) -> f64| {
        medians.iter().find(|(kind, _)| *kind == wanted).map_or(f64::NAN, |(_, sample)| figure(sample))
    };
    for (kind, sample) in medians {
        let cells = [
            test.to_owned(),
            depth.to_string(),
            kind.name().to_owned(),
            format!("{:.0}", sample.per_second),
            ratio(sample.per_second, of(Kind::Redis, |sample| sample.per_second)),
            number(sample.cpu_us),
            ratio(sample.cpu_us, of(Kind::Redis, |sample| sample.cpu_us)),
            ratio(sample.cpu_us, of(Kind::Null, |sample| sample.cpu_us)),
            number(sample.p50_ms),
            number(sample.p99_ms),
            number(sample.p999_ms),
        ];
        table.row(cells.into_iter().take(columns));
    }
}
