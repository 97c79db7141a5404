//! keylatch compared with other servers: speed, memory, fairness, scaling, and the verdicts on the goals.
//!
//! ```text
//! cargo bench --bench versus [-- [--quick] [--only SECTION[,SECTION]] [--rounds N]]
//! ```
//!
//! Section `earlier` compares with another build of keylatch, whose binary the variable `KEYLATCH_EARLIER` names.
//!
//! Needs `redis-server` and `redis-benchmark`, and matplotlib for the plots; `valkey-server`, `pogocache` and
//! `memcached` take part if they are on the PATH, and a null server that replies `+OK` to everything shows the upper
//! bound. Every server has its defaults, without snapshots, on a free port of the loopback, and is loaded in turn with
//! the others. Tables are printed; plots and figures go into `benches/plots`, the verdicts on the goals and the
//! measured commits into `benches/RECORD.md`. A full run takes about 45 minutes. `--quick` takes about 5, and writes
//! below `target/versus` instead, so that rough figures never replace measured ones.
//!
//! Section `wire` needs root and iproute2, and is left out of a run without them.
//!
//! `load` is our generator of requests and `redis_benchmark` the other one, `measure` reads the kernel's accounting,
//! `workload` defines the requests; each file in `sections` is a table or a plot, `goals` judges.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark measures the time, waits for it to pass, and prints"
)]

mod figures;
mod goals;
mod load;
mod measure;
mod plot;
#[path = "../process.rs"]
mod process;
mod redis_benchmark;
mod replies;
mod report;
mod sections;
mod server;
mod wire;
mod workload;

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use figures::Figures;
use plot::Plot;
use sections::{SECTIONS, Section};
use server::{Kind, Peer, Protocol, Server};
use wire::Wire;

/// Result with an error for the user who runs the benchmark.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Amount of measuring.
struct Effort {
    is_quick: bool,
    rounds: usize,
    /// Time that a load runs before it is measured, and while it is.
    warm_up: Duration,
    window: Duration,
    /// Maximum number of keys that a test stores.
    keys_max: u64,
}

/// Context of every section.
struct Context {
    peers: Vec<Peer>,
    /// Cores of the machine, also while this process is pinned to one of them.
    cores: NonZero<usize>,
    effort: Effort,
    figures: Figures,
    /// Path of `benches/RECORD.md`, or of a copy of it.
    document: PathBuf,
    plots: PathBuf,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("versus: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let (effort, sections) = options(std::env::args().skip(1))?;
    let mut context = Context::new(effort)?;
    let mut failures = Vec::new();
    for section in sections {
        let started = Instant::now();
        println!("\n== {}: {}", section.name, section.about);
        // A failed section does not stop the others.
        if let Err(error) = (section.run)(&mut context, section.name) {
            println!("failed: {error}");
            failures.push(format!("{}: {error}", section.name));
        }
        println!("({} took {:.0} s)", section.name, started.elapsed().as_secs_f64());
    }
    context.figures.write()?;
    let goals = goals::judge(&context.figures);
    println!("\n{goals}");
    report::replace_block(&context.document, "goals", &goals)?;
    report::replace_block(&context.document, "areas", &sections::table(&context.figures))?;
    println!("\nwritten: {}, {}", context.document.display(), context.plots.display());
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

/// Parses the command line, to which cargo adds `--bench`.
fn options(args: impl Iterator<Item = String>) -> Result<(Effort, Vec<&'static Section>)> {
    let names: Vec<&str> = SECTIONS.iter().map(|section| section.name).collect();
    let usage = || format!("usage: [--quick] [--only SECTION[,SECTION]] [--rounds N]; sections: {}", names.join(", "));
    let (mut is_quick, mut rounds, mut sections) = (false, None, SECTIONS.iter().collect());
    let mut args = args.filter(|arg| arg != "--bench");
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => is_quick = true,
            "--rounds" => {
                let value = args.next().and_then(|value| value.parse().ok()).filter(|&value| value > 0);
                rounds = Some(value.ok_or_else(usage)?);
            }
            "--only" => {
                let only = args.next().ok_or_else(usage)?;
                let section = |name| SECTIONS.iter().find(|section| section.name == name).ok_or_else(usage);
                sections = only.split(',').map(section).collect::<std::result::Result<_, _>>()?;
            }
            _ => return Err(usage().into()),
        }
    }
    let milliseconds = Duration::from_millis;
    let effort = if is_quick {
        Effort { is_quick, rounds: 1, warm_up: milliseconds(50), window: milliseconds(200), keys_max: 1_000_000 }
    } else {
        Effort { is_quick, rounds: 5, warm_up: milliseconds(100), window: milliseconds(400), keys_max: 10_000_000 }
    };
    Ok((Effort { rounds: rounds.unwrap_or(effort.rounds), ..effort }, sections))
}

impl Context {
    fn new(effort: Effort) -> Result<Context> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (mut document, mut plots) = (root.join("benches/RECORD.md"), root.join("benches/plots"));
        if effort.is_quick {
            let rough = server::target_dir().join("versus");
            plots = rough.join("benches/plots");
            fs::create_dir_all(&plots)?;
            fs::copy(&document, rough.join("benches/RECORD.md"))?;
            document = rough.join("benches/RECORD.md");
        }
        fs::create_dir_all(&plots)?;
        let peers = Peer::find_all()?;
        let figures = Figures::read(&plots.join("figures.tsv"), source(root, &peers));
        Ok(Context { peers, cores: thread::available_parallelism()?, effort, figures, document, plots })
    }

    /// Starts the servers of a section that this machine has.
    fn start(&self, is_wanted: impl Fn(Kind) -> bool) -> Result<Vec<Server>> {
        self.peers.iter().filter(|peer| is_wanted(peer.kind)).map(Peer::start).collect()
    }

    /// Starts the servers that speak RESP at the other end of a wire.
    fn start_across(&self, wire: &Wire) -> Result<Vec<Server>> {
        let peers = self.peers.iter().filter(|peer| peer.kind.protocol() == Protocol::Resp);
        peers.map(|peer| peer.start_across(wire)).collect()
    }

    /// Measures newly started servers, one after the other, so that they share no state.
    fn each_anew<T>(
        &self,
        rounds: usize,
        is_wanted: impl Fn(Kind) -> bool,
        mut measure: impl FnMut(Server) -> Result<T>,
    ) -> Result<Vec<(Kind, Vec<T>)>> {
        let peers: Vec<&Peer> = self.peers.iter().filter(|peer| is_wanted(peer.kind)).collect();
        let mut readings: Vec<(Kind, Vec<T>)> = peers.iter().map(|peer| (peer.kind, Vec::new())).collect();
        for _ in 0..rounds {
            for (peer, (kind, readings)) in peers.iter().zip(&mut readings) {
                readings.push(measure(peer.start()?).map_err(|error| format!("{}: {error}", kind.name()))?);
            }
        }
        Ok(readings)
    }

    /// Prints a table and the method by which its figures were measured.
    fn publish(&self, name: &str, how: &str, table: &str) -> Result<()> {
        let versions: Vec<String> =
            self.peers.iter().filter(|peer| !peer.version.is_empty()).map(Peer::shown).collect();
        let cores = self.cores;
        let quick = if self.effort.is_quick { "quick and rough; " } else { "" };
        let head = format!("{name} ({quick}{cores} cores; {}): {how}", versions.join(", "));
        println!("\n{}\n\n{table}", report::wrapped(&head));
        Ok(())
    }

    /// Draws a plot.
    fn draw(&self, name: &str, plot: &Plot) -> Result<()> {
        plot.write(&self.plots.join(format!("{name}.svg")))
    }
}

/// Returns the measured versions: the commit of keylatch with its date, and the version of Redis.
fn source(root: &Path, peers: &[Peer]) -> String {
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).current_dir(root).output().ok();
        let text = output.filter(|output| output.status.success()).map(|output| output.stdout);
        text.map_or_else(|| "unknown".to_owned(), |text| String::from_utf8_lossy(&text).trim().to_owned())
    };
    let (commit, date) =
        (git(&["describe", "--always", "--dirty", "--exclude=*"]), git(&["log", "-1", "--format=%cs"]));
    let redis = peers.iter().find(|peer| peer.kind == Kind::Redis).map_or_else(String::new, Peer::shown);
    format!("{commit} of {date}, {redis}")
}
