//! Latency at fixed rates: the whole distribution, counted from the time at which a request was due.

use crate::load::{Load, Spec, fill};
use crate::measure::{interleaved, median};
use crate::plot::{Axis, Line, Panel, Plot, Scale};
use crate::report::{Table, number, short};
use crate::workload::SET;
use crate::{Context, Result};

const RATES: [f64; 4] = [10e3, 20e3, 40e3, 60e3];
const CONNECTIONS: usize = 50;
const KEYS: u64 = 100_000;
/// The percentiles of the table.
const SHOWN: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

pub fn run(context: &mut Context, section: &str) -> Result<()> {
    let servers = context.start(|_| true)?;
    servers.iter().try_for_each(|server| fill(server, &SET, 0..KEYS, 3))?;
    // Between half and 99.99 % of the requests, evenly on the plot.
    let shares: Vec<f64> = (0..=74).map(|at| 1.0 - 10f64.powf(-0.3 - f64::from(at) * 0.05)).collect();
    let mut table =
        Table::new(&["due/s", "server", "replies/s", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "CPU us/req"]);
    let (mut panels, mut figures) = (Vec::new(), Vec::new());
    for rate in RATES {
        println!("{rate} per second");
        let outcomes = interleaved(&servers, context.effort.rounds, |server| {
            let spec = Spec { workload: &SET, connections: CONNECTIONS, depth: 1, keys: KEYS, value_len: 3 };
            Load::open(server, spec, rate)?.measure(context.effort.warm_up * 2, context.effort.window * 4)
        })?;
        let mut lines = Vec::new();
        for (server, outcomes) in servers.iter().zip(&outcomes) {
            let at = |share: f64| median(outcomes.iter().map(|outcome| outcome.quantile_ms(share)));
            let per_second = median(outcomes.iter().map(|outcome| outcome.per_second));
            let cpu_us = median(outcomes.iter().map(|outcome| outcome.cpu_us));
            let mut row = vec![format!("{rate:.0}"), server.kind.name().to_owned(), format!("{per_second:.0}")];
            row.extend(SHOWN.map(|share| number(at(share))));
            row.push(number(cpu_us));
            table.row(row);
            let workload = format!("SET, {rate:.0} due/s");
            for (unit, value) in [("replies/s", per_second), ("CPU us", cpu_us)] {
                figures.push((workload.clone(), server.kind, unit.to_owned(), value));
            }
            for share in SHOWN {
                figures.push((workload.clone(), server.kind, format!("p{} ms", short(share * 100.0)), at(share)));
            }
            lines.push(Line { server: server.kind, points: shares.iter().map(|&share| (share, at(share))).collect() });
        }
        let y = Axis { label: "latency, ms", scale: Scale::Log { base: 10.0 } };
        panels.push(Panel { title: format!("{rate:.0} SET per second"), y, lines });
    }
    let plot = Plot {
        title: "Latency in open loop, from the time a request was due".to_owned(),
        x: Axis { label: "share of requests that took at most this", scale: Scale::Percentile },
        panels,
    };
    let how = format!(
        "`SET` due at a fixed rate over {CONNECTIONS} connections, whether the server keeps up or not; a latency counts from \
         the time at which its request was due (no coordinated omission). The generator keeps one core busy."
    );
    context.figures.forget(section);
    for (workload, kind, unit, value) in figures {
        context.figures.set(section, &workload, kind, &unit, value);
    }
    context.draw(section, &plot)?;
    context.publish(section, &how, &table.markdown())
}
