//! Footprint of an idle server: start time, memory, disk, and memory per connection.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::measure::{median, memory, open_files_max};
use crate::report::{Table, number, ratio};
use crate::server::{Kind, Server, say_hello};
use crate::{Context, Result};

const STARTS: usize = 15;
const CONNECTIONS: usize = 5_000;
const SETTLE: Duration = Duration::from_millis(500);
const MB: f64 = 1e6;

pub fn run(context: &mut Context, section: &str) -> Result<()> {
    let starts = context.each_anew(STARTS, |_| true, |server| Ok(server.start.as_secs_f64() * 1e3))?;
    let connections = CONNECTIONS.min(open_files_max().saturating_sub(100));
    let rest = context.each_anew(
        context.effort.rounds.min(3),
        |_| true,
        |server| {
            thread::sleep(SETTLE);
            let idle = memory(server.pid())?;
            let connections = connections.min(server.kind.clients_max());
            Ok((idle / MB, per_connection(&server, connections)?))
        },
    )?;
    let head = ["server", "start ms", "x redis", "idle MB", "binary MB", "stripped MB", "bytes per idle connection"];
    let mut table = Table::new(&head);
    let start_of = |rounds: &[f64]| median(rounds.iter().copied());
    let redis = starts.iter().find(|(kind, _)| *kind == Kind::Redis).map_or(f64::NAN, |(_, rounds)| start_of(rounds));
    context.figures.forget(section);
    for ((peer, (kind, starts)), (_, rest)) in context.peers.iter().zip(&starts).zip(&rest) {
        let (start, idle) = (start_of(starts), median(rest.iter().map(|round| round.0)));
        let connection = median(rest.iter().map(|round| round.1));
        let binary = fs::metadata(&peer.program)?.len() as f64 / MB;
        let stripped = stripped(&peer.program).unwrap_or(f64::NAN);
        let figures = [
            ("start ms", start),
            ("idle MB", idle),
            ("binary MB", binary),
            ("stripped MB", stripped),
            ("bytes per idle connection", connection),
        ];
        for (figure, value) in figures {
            context.figures.set(section, "process", *kind, figure, value);
        }
        table.row([
            kind.name().to_owned(),
            number(start),
            ratio(start, redis),
            number(idle),
            number(binary),
            number(stripped),
            format!("{connection:.0}"),
        ]);
    }
    let how = format!(
        "start is the time from spawning the process to its first `+PONG`, median of {STARTS}; memory is Pss from \
         `/proc/PID/smaps_rollup` half a second later, and what {connections} connections add that asked once and are idle \
         (fewer where fewer are accepted). Binaries are those that ran."
    );
    context.publish(section, &how, &table.markdown())
}

fn per_connection(server: &Server, connections: usize) -> Result<f64> {
    let before = memory(server.pid())?;
    let mut idle = Vec::new();
    for _ in 0..connections {
        let mut client = server.connect()?;
        say_hello(&mut client, server.kind.protocol())?;
        idle.push(client);
    }
    thread::sleep(SETTLE * 2);
    Ok((memory(server.pid())? - before) / connections as f64)
}

/// Returns the size of a program without debug information, if `strip` is available.
fn stripped(program: &Path) -> Option<f64> {
    let copy = tempfile::NamedTempFile::new().ok()?;
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(copy.path()).arg(program).stderr(Stdio::null());
    if !strip.status().ok()?.success() {
        return None;
    }
    Some(fs::metadata(copy.path()).ok()?.len() as f64 / MB)
}
