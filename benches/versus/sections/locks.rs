//! The documented lock pattern: acquire and release cycles, takeover cycles; and release by a script.

use std::io::{Read, Write};

use crate::load::{Load, Spec, fill, is_able};
use crate::measure::{Sample, interleaved};
use crate::report::{Table, number, ratio};
use crate::server::{Kind, Server};
use crate::workload::{LOCK, REFUSED_RELEASE, RELEASE, RELEASE_SHA, SCRIPTED_LOCK, SET, TAKEOVER, Workload};
use crate::{Context, Result};

const LOCKS: u64 = 100_000;
const CONNECTIONS: usize = 50;
/// Length of a lock's value, a time stamp.
const VALUE_LEN: usize = 10;

pub fn run(context: &mut Context, section: &str) -> Result<()> {
    let mut servers = context.start(|kind| kind.is_store() || kind == Kind::Null)?;
    servers.retain(|server| [LOCK, TAKEOVER].iter().all(|cycle| is_able(server, cycle, VALUE_LEN)));
    let table = cycles(context, section, &servers, &[LOCK, TAKEOVER])?;
    let how = format!(
        "{CONNECTIONS} connections, each with a lock drawn from {LOCKS} per cycle, so contention is rare. The first cycle \
         takes a free lock and releases it, the second takes one over that another holds. At P=1 every request waits for \
         the reply before it; P=64 is 32 cycles per pipeline. Latencies are those of a request, or of a whole pipeline."
    );
    context.publish(section, &how, &table.markdown())
}

/// Measures the script with which libraries release a lock that they hold.
pub fn scripts(context: &mut Context, section: &str) -> Result<()> {
    let servers = context.start(|kind| matches!(kind, Kind::Keylatch | Kind::Redis | Kind::Valkey))?;
    servers.iter().try_for_each(load_script)?;
    let table = cycles(context, section, &servers, &[REFUSED_RELEASE, SCRIPTED_LOCK])?;
    let how = format!(
        "{CONNECTIONS} connections, {LOCKS} locks. `EVALSHA` runs the script that deletes a lock where it holds the caller's \
         token: first on locks that another client holds, so that it only reads, then in cycles of `SET` with `NX PX` \
         and release."
    );
    context.publish(section, &how, &table.markdown())
}

/// Loads the script that releases a lock into a server.
///
/// # Errors
/// An error when the server does not accept it.
pub fn load_script(server: &Server) -> Result<()> {
    let mut client = server.connect()?;
    write!(client, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n${}\r\n{RELEASE}\r\n", RELEASE.len())?;
    let mut reply = [0; 64];
    let len = client.read(&mut reply)?;
    let is_loaded = reply[..len].ends_with(format!("{RELEASE_SHA}\r\n").as_bytes());
    if is_loaded { Ok(()) } else { Err(format!("{} does not take the script", server.kind.name()).into()) }
}

/// Measures cycles on all servers, at each depth, and returns the table.
fn cycles(context: &mut Context, section: &str, servers: &[Server], workloads: &[Workload]) -> Result<Table> {
    let redis = servers.iter().position(|server| server.kind == Kind::Redis).ok_or("there is no redis")?;
    let mut table =
        Table::new(&["cycle", "P", "server", "cycles/s", "x redis", "CPU us/cycle", "x redis", "p50 ms", "p99 ms"]);
    context.figures.forget(section);
    for workload in workloads {
        for &depth in workload.depths {
            println!("{} P={depth}", workload.name);
            let readings =
                interleaved(servers, context.effort.rounds, |server| measure(context, server, workload, depth))?;
            let medians: Vec<Sample> = readings.iter().map(|samples| Sample::median(samples)).collect();
            for (server, sample) in servers.iter().zip(&medians) {
                context.figures.set_sample(
                    section,
                    &format!("{} P={depth}", workload.name),
                    server.kind,
                    "cycles/s",
                    sample,
                );
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
    Ok(table)
}

/// Removes the keys of a workload that acquires free locks, and stores the keys of any other workload.
///
/// # Errors
/// The errors of [`fill`].
pub fn prepare(server: &Server, workload: &Workload, keys: u64, value_len: usize) -> Result<()> {
    let is_of_free = workload.name == LOCK.name || workload.name == SCRIPTED_LOCK.name;
    let nothing = Workload { name: "DEL", steps: &["DEL {key}"], ..SET };
    fill(server, if is_of_free { &nothing } else { &SET }, 0..keys, value_len)
}

/// Measures cycles in place of requests.
fn measure(context: &Context, server: &Server, workload: &Workload, depth: usize) -> Result<Sample> {
    prepare(server, workload, LOCKS, VALUE_LEN)?;
    let spec = Spec { workload, connections: CONNECTIONS, depth, keys: LOCKS, value_len: VALUE_LEN };
    let sample = Load::closed(server, spec)?.measure(context.effort.warm_up, context.effort.window)?.sample();
    let requests = workload.steps.len() as f64;
    Ok(Sample { per_second: sample.per_second / requests, cpu_us: sample.cpu_us * requests, ..sample })
}
