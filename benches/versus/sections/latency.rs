//! Latency at fixed rates: the whole distribution, counted from the time at which a request was due.

use crate::load::{Load, Outcome, Spec, fill};
use crate::measure::{interleaved, median};
use crate::plot::{Axis, Line, Panel, Plot, Scale};
use crate::report::{Table, number, short};
use crate::server::Server;
use crate::workload::SET;
use crate::{Context, Result};

const RATES: [f64; 3] = [10e3, 30e3, 60e3];
const CONNECTIONS: [usize; 2] = [50, 500];
const KEYS: u64 = 100_000;
/// Percentiles of the table.
const SHOWN: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

pub fn run(context: &mut Context, section: &str) -> Result<()> {
    let servers = context.start(|_| true)?;
    servers.iter().try_for_each(|server| fill(server, &SET, 0..KEYS, 3))?;
    let head = ["due/s", "connections", "server", "replies/s", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "CPU us/req"];
    let mut table = Table::new(&head);
    let mut panels = Vec::new();
    context.figures.forget(section);
    for (rate, connections) in RATES.into_iter().flat_map(|rate| CONNECTIONS.map(|connections| (rate, connections))) {
        println!("{rate} per second, {connections} connections");
        let spec = Spec { workload: &SET, connections, depth: 1, keys: KEYS, value_len: 3 };
        let outcomes = interleaved(&servers, context.effort.rounds, |server| {
            Load::open(server, spec, rate)?.measure(context.effort.warm_up * 2, context.effort.window * 4)
        })?;
        for (server, outcomes) in servers.iter().zip(&outcomes) {
            let of = |figure: &dyn Fn(&Outcome) -> f64| median(outcomes.iter().map(figure));
            let (per_second, cpu_us) = (of(&|outcome| outcome.per_second), of(&|outcome| outcome.cpu_us));
            let latencies = SHOWN.map(|share| of(&|outcome| outcome.quantile_ms(share)));
            let workload = format!("SET, {rate:.0} due/s, {connections} connections");
            let mut figures = vec![("replies/s".to_owned(), per_second), ("CPU us".to_owned(), cpu_us)];
            figures.extend(SHOWN.map(|share| format!("p{} ms", short(share * 100.0))).into_iter().zip(latencies));
            for (unit, value) in figures {
                context.figures.set(section, &workload, server.kind, &unit, value);
            }
            let mut row = vec![format!("{rate:.0}"), connections.to_string(), server.kind.name().to_owned()];
            row.push(format!("{per_second:.0}"));
            row.extend(latencies.map(number));
            row.push(number(cpu_us));
            table.row(row);
        }
        panels.push(panel(format!("{rate:.0} SET per second, {connections} connections"), &servers, &outcomes));
    }
    let plot = Plot {
        title: "Latency in open loop, from the time a request was due".to_owned(),
        x: Axis { label: "share of requests that took at most this", scale: Scale::Percentile },
        panels,
    };
    let how = "`SET` due at a fixed rate over 50 or 500 connections in turn, whether the server keeps up or not; a \
               latency counts from the time at which its request was due (no coordinated omission). The generator \
               keeps one core busy.";
    context.draw(section, &plot)?;
    context.publish(section, how, &table.markdown())
}

/// Returns the distributions of the servers, with the median at each share.
fn panel(title: String, servers: &[Server], outcomes: &[Vec<Outcome>]) -> Panel {
    // Between half and 99.99 % of the requests, evenly on the plot.
    let shares = || (0..=74).map(|at| 1.0 - 10f64.powf(-0.3 - f64::from(at) * 0.05));
    let line = |(server, outcomes): (&Server, &Vec<Outcome>)| {
        let at = |share| (share, median(outcomes.iter().map(|outcome| outcome.quantile_ms(share))));
        Line { server: server.kind, points: shares().map(at).collect() }
    };
    let y = Axis { label: "latency, ms", scale: Scale::Log { base: 10.0 } };
    Panel { title, y, lines: servers.iter().zip(outcomes).map(line).collect() }
}
