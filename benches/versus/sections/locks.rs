//! The documented lock pattern: cycles that take and release, and cycles that take over.

use crate::load::{Load, Spec, fill, is_able};
use crate::measure::{Sample, interleaved};
use crate::report::{Table, number, ratio};
use crate::server::{Kind, Server};
use crate::workload::{LOCK, SET, TAKEOVER, Workload};
use crate::{Context, Result};

const LOCKS: u64 = 100_000;
const CONNECTIONS: usize = 50;
/// A lock holds a time stamp.
const VALUE_LEN: usize = 10;

pub fn run(context: &mut Context, section: &str) -> Result<()> {
    let mut servers = context.start(|kind| kind.is_store() || kind == Kind::Null)?;
    servers.retain(|server| is_able(server, &LOCK) && is_able(server, &TAKEOVER));
    let redis = servers.iter().position(|server| server.kind == Kind::Redis).ok_or("there is no redis")?;
    let mut table =
        Table::new(&["cycle", "P", "server", "cycles/s", "x redis", "CPU us/cycle", "x redis", "p50 ms", "p99 ms"]);
    for workload in [LOCK, TAKEOVER] {
        for &depth in workload.depths {
            println!("{} P={depth}", workload.name);
            let readings =
                interleaved(&servers, context.effort.rounds, |server| measure(context, server, &workload, depth))?;
            let medians: Vec<Sample> = readings.iter().map(|samples| Sample::median(samples)).collect();
            for (server, sample) in servers.iter().zip(&medians) {
                table.row([
                    workload.name.to_owned(),
                    depth.to_string(),
                    server.kind.name().to_owned(),
                    format!("{:.0}", sample.per_second),
                    ratio(sample.per_second, medians[redis].per_second),
                    number(sample.cpu_us),
                    ratio(sample.cpu_us, medians[redis].cpu_us),
                    number(sample.p50_ms),
                    number(sample.p99_ms),
                ]);
            }
        }
    }
    let how = format!(
        "{CONNECTIONS} connections, each with a lock drawn from {LOCKS} per cycle, so contention is rare. The first cycle \
         takes a free lock and releases it, the second takes one over that another holds. At P=1 every request waits for \
         the reply before it; P=64 is 32 cycles per pipeline. Latencies are those of a request, or of a whole pipeline."
    );
    context.publish(section, &how, &table.markdown())
}

/// Measures cycles, not requests.
fn measure(context: &Context, server: &Server, workload: &Workload, depth: usize) -> Result<Sample> {
    if workload.name == LOCK.name {
        let nothing = Workload { name: "DEL", steps: &["DEL {key}"], ..SET };
        fill(server, &nothing, 0..LOCKS, VALUE_LEN)?;
    } else {
        fill(server, &SET, 0..LOCKS, VALUE_LEN)?;
    }
    let spec = Spec { workload, connections: CONNECTIONS, depth, keys: LOCKS, value_len: VALUE_LEN };
    let sample = Load::closed(server, spec)?.measure(context.effort.warm_up, context.effort.window)?.sample();
    let requests = workload.steps.len() as f64;
    Ok(Sample { per_second: sample.per_second / requests, cpu_us: sample.cpu_us * requests, ..sample })
}
