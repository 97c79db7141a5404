//! Worker threads: keylatch with one and with two.

use super::locks::{load_script, prepare};
use crate::load::{Load, Spec, is_able};
use crate::measure::{interleaved, medians};
use crate::redis_benchmark::{CLIENTS, KEYS};
use crate::report::{Table, number, ratio};
use crate::server::{Kind, Server};
use crate::workload::{GET, REFUSED_RELEASE, SCRIPTED_LOCK, SET, TRANSACTION, Workload};
use crate::{Context, Result};

/// Numbers of threads, with their names in rows and figures.
const WORKERS: [(&str, &str); 2] = [("1", "1 worker"), ("2", "2 workers")];
/// Workloads, of which one cycle counts as one request: its steps are sent together.
const CASES: [Workload; 5] =
    [Workload { depths: &[16], ..SET }, Workload { depths: &[16], ..GET }, TRANSACTION, REFUSED_RELEASE, SCRIPTED_LOCK];
const VALUE_LEN: usize = 3;
const UNITS: [&str; 4] = ["req/s", "CPU us", "generator CPU us", "req per CPU s"];

pub fn run(context: &mut Context, section: &str) -> Result<()> {
    let keylatch = context.peers.iter().find(|peer| peer.kind == Kind::Keylatch).ok_or("there is no keylatch")?;
    let mut servers = Vec::new();
    for (count, _) in WORKERS {
        servers.push(keylatch.start_with(&["--worker-threads", count])?);
    }
    servers.extend(context.start(|kind| matches!(kind, Kind::Redis | Kind::Valkey | Kind::Pogocache))?);
    servers.iter().filter(|server| server.kind.is_complete()).try_for_each(load_script)?;
    let mut head = vec!["test", "P", "server", "req/s", "x 1 worker", "CPU us/req", "x 1 worker"];
    head.extend(["generator us/req", "req per CPU s", "estimated req/s"]);
    let mut table = Table::new(&head);
    context.figures.forget(section);
    for (workload, depth) in CASES.iter().flat_map(|case| case.depths.iter().map(move |&depth| (case, depth))) {
        println!("{} P={depth}", workload.name);
        let able: Vec<&Server> = servers.iter().filter(|server| is_able(server, workload, VALUE_LEN)).collect();
        let readings = interleaved(&able, context.effort.rounds, |server| measure(context, server, workload, depth))?;
        let rows: Vec<(Kind, [f64; 4])> =
            able.iter().zip(&readings).map(|(server, rounds)| (server.kind, medians(rounds))).collect();
        record(context, section, &format!("{} P={depth}", workload.name), &rows);
        for (at, (kind, figures)) in rows.iter().enumerate() {
            let mut cells = cells(at, *kind, figures, &rows[0].1);
            cells.splice(0..0, [workload.name.to_owned(), depth.to_string()]);
            table.row(cells);
        }
    }
    let how = format!(
        "our generator in closed loop, {CLIENTS} connections, {KEYS} keys, values of {VALUE_LEN} bytes, medians of \
         {} interleaved rounds. A request is a `SET`, a `GET`, an `EVALSHA` that releases nothing, or a transaction \
         or a cycle of a lock that is sent as a whole; P is the number of requests in flight on each connection. The \
         generator needs a core of its own, so two workers do not have two: the figure that says what a worker costs \
         is requests per second of the server's CPU time. Estimated is that times the workers, which no generator \
         has shown. The others have their defaults.",
        context.effort.rounds
    );
    context.publish(section, &how, &table.markdown())
}

/// Returns the figures of a request in the order of [`UNITS`].
fn measure(context: &Context, server: &Server, workload: &Workload, depth: usize) -> Result<[f64; 4]> {
    prepare(server, workload, KEYS, VALUE_LEN)?;
    let steps = workload.steps.len();
    let spec = Spec { workload, connections: CLIENTS, depth: depth * steps, keys: KEYS, value_len: VALUE_LEN };
    let load = Load::closed(server, spec)?;
    let outcome = load.measure(context.effort.warm_up, context.effort.window)?;
    let [cpu_us, generator_us] = [outcome.cpu_us, outcome.generator_us].map(|us| us * steps as f64);
    let per_second = outcome.per_second / steps as f64;
    Ok([per_second, cpu_us, generator_us, 1e6 / cpu_us])
}

/// Records figures. The first ones are keylatch's by its workers; each of them is shown with the figures of the others.
fn record(context: &mut Context, section: &str, test: &str, rows: &[(Kind, [f64; 4])]) {
    for (workers, (_, name)) in WORKERS.into_iter().enumerate() {
        let workload = format!("{test}, {name}");
        for (kind, figures) in rows[workers..].iter().take(1).chain(&rows[WORKERS.len()..]) {
            for (unit, &value) in UNITS.into_iter().zip(figures) {
                context.figures.set(section, &workload, *kind, unit, value);
            }
        }
        let [times, by_cpu] = [0, 3].map(|unit| rows[workers].1[unit] / rows[0].1[unit]);
        context.figures.set(section, &workload, Kind::Keylatch, "x 1 worker", times);
        let estimated = by_cpu * (workers + 1) as f64;
        context.figures.set(section, &workload, Kind::Keylatch, "x 1 worker, estimated", estimated);
    }
}

/// Returns the cells of a row after its test; `one` has the figures of one worker.
fn cells(at: usize, kind: Kind, figures: &[f64; 4], one: &[f64; 4]) -> Vec<String> {
    let workers = WORKERS.get(at);
    let name = workers.map_or_else(|| kind.name().to_owned(), |(_, name)| format!("{}, {name}", kind.name()));
    let [per_second, cpu_us, generator_us, per_cpu_second] = *figures;
    let estimated = if workers.is_some() { per_cpu_second * (at + 1) as f64 } else { f64::NAN };
    vec![
        name,
        format!("{per_second:.0}"),
        ratio(per_second, one[0]),
        number(cpu_us),
        ratio(cpu_us, one[1]),
        number(generator_us),
        number(per_cpu_second),
        number(estimated),
    ]
}
