//! The sections of this benchmark; each can be run alone and replaces only its own figures and plot.

mod clients;
mod collections;
mod commands;
mod curves;
mod disturbed;
mod footprint;
mod growth;
mod keys;
mod latency;
mod libraries;
mod locks;

use std::thread;
use std::time::Duration;

use crate::figures::Figures;
use crate::measure::{Sample, interleaved};
use crate::plot::{Axis, Line, Panel, Scale};
use crate::report::{Table, number, short};
use crate::server::{Kind, Server};
use crate::{Context, Result};

/// A section: the area of its figures, what it is about, and how it is measured.
pub struct Section {
    pub name: &'static str,
    pub about: &'static str,
    pub run: fn(&mut Context, &str) -> Result<()>,
}

/// All sections, in the order of a full run.
pub const SECTIONS: &[Section] = &[
    Section { name: "redis-benchmark", about: "commands, loaded by redis-benchmark", run: commands::redis_benchmark },
    Section { name: "commands", about: "commands, loaded by our generator", run: commands::own },
    Section { name: "earlier", about: "this build beside an earlier one", run: commands::earlier },
    Section { name: "depth", about: "cost against pipeline depth", run: curves::depth },
    Section { name: "keys", about: "cost against the number of keys", run: keys::cost },
    Section { name: "memory", about: "bytes per key against the number of keys", run: keys::memory },
    Section { name: "size", about: "cost and throughput against the size of values", run: curves::size },
    Section { name: "connections", about: "cost and throughput against connections", run: curves::connections },
    Section { name: "latency", about: "latency at a fixed rate, in open loop", run: latency::run },
    Section { name: "lock-cycles", about: "lock cycles", run: locks::run },
    Section { name: "scripts", about: "the release of a lock by a script", run: locks::scripts },
    Section { name: "script-libraries", about: "JSON and MessagePack in scripts", run: libraries::run },
    Section { name: "fairness", about: "one client beside eight that flood", run: clients::fairness },
    Section { name: "disturbed", about: "one client beside others that misbehave", run: disturbed::run },
    Section { name: "clients", about: "ten thousand clients of which a tenth is active", run: clients::many },
    Section { name: "footprint", about: "start-up, idle memory, binary, idle connections", run: footprint::run },
    Section { name: "collections", about: "commands on collections", run: collections::cost::run },
    Section {
        name: "collections-size",
        about: "cost against the size of a collection",
        run: collections::cost::by_size,
    },
    Section { name: "collections-memory", about: "bytes per element of collections", run: collections::memory::run },
    Section {
        name: "collections-stalls",
        about: "others' wait beside large collections",
        run: collections::stalls::run,
    },
    Section { name: "growth", about: "the worst stall while keys are loaded", run: growth::run },
];

const CPU: Axis = Axis { label: "server CPU per request, µs", scale: Scale::Log { base: 10.0 } };
const CPU_LINEAR: Axis = Axis { label: "server CPU per request, µs", scale: Scale::Linear };
const THROUGHPUT: Axis = Axis { label: "requests per second", scale: Scale::Log { base: 10.0 } };

/// What was measured at some values of x, for each server.
struct Sweep {
    servers: Vec<Kind>,
    points: Vec<(f64, Vec<Sample>)>,
}

impl Sweep {
    /// Measures at each x; a server that cannot serve one has NaN there.
    fn measure(
        context: &Context,
        servers: &[Server],
        xs: &[f64],
        mut measure: impl FnMut(&Server, f64) -> Result<Sample>,
    ) -> Result<Sweep> {
        let mut points = Vec::new();
        for &x in xs {
            let samples = interleaved(servers, context.effort.rounds, |server| measure(server, x))?;
            points.push((x, samples.iter().map(|samples| Sample::median(samples)).collect()));
        }
        Ok(Sweep { servers: servers.iter().map(|server| server.kind).collect(), points })
    }

    /// Joins sweeps of one x each.
    fn joined(sweeps: Vec<Sweep>) -> Sweep {
        let servers = sweeps.first().map(|sweep| sweep.servers.clone()).unwrap_or_default();
        Sweep { servers, points: sweeps.into_iter().flat_map(|sweep| sweep.points).collect() }
    }

    /// Notes the figures of all points; `workload` names one by its x.
    fn record(&self, figures: &mut Figures, section: &str, workload: impl Fn(&str) -> String) {
        for (x, samples) in &self.points {
            for (&kind, sample) in self.servers.iter().zip(samples) {
                figures.set_sample(section, &workload(&short(*x)), kind, "req/s", sample);
            }
        }
    }

    fn panel(&self, title: &str, y: Axis, figure: fn(&Sample) -> f64) -> Panel {
        let line = |(at, &server): (usize, &Kind)| {
            let points = self.points.iter().map(|(x, samples)| (*x, figure(&samples[at])));
            Line { server, points: points.filter(|point| point.1.is_finite()).collect() }
        };
        Panel { title: title.to_owned(), y, lines: self.servers.iter().enumerate().map(line).collect() }
    }
}

/// A column per server: the title before its name, and the figure that is shown.
struct Columns<'a> {
    title: &'static str,
    sweep: &'a Sweep,
    figure: fn(&Sample) -> f64,
}

/// Sets sweeps over the same values beside each other in a table, with a row for each value of x.
fn pivot(x: &str, columns: &[Columns<'_>]) -> String {
    let heads = |columns: &Columns<'_>| -> Vec<String> {
        columns.sweep.servers.iter().map(|server| format!("{} {}", columns.title, server.name())).collect()
    };
    let head: Vec<String> = std::iter::once(x.to_owned()).chain(columns.iter().flat_map(heads)).collect();
    let mut table = Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    for (at, (x, _)) in columns[0].sweep.points.iter().enumerate() {
        let cells = |columns: &Columns<'_>| -> Vec<String> {
            columns.sweep.points[at].1.iter().map(|sample| number((columns.figure)(sample))).collect()
        };
        table.row(std::iter::once(short(*x)).chain(columns.iter().flat_map(cells)));
    }
    table.markdown()
}

/// Sleeps.
fn wait(duration: Duration) -> Result<()> {
    thread::sleep(duration);
    Ok(())
}
