//! The process around the server: working directory, log, pid file, threads, signals.
//!
//! This is what makes the binary behave as redis-server does when it is started and stopped; an
//! embedded server needs none of it.

use std::io;
use std::path::{Path, PathBuf};
use std::process;

use sd_notify::NotifyState;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use crate::config::{Supervisor, inert_changes};
use crate::{Config, Server, logging, worker};

/// Serves until SIGTERM or SIGINT. Calls `announce` once it is ready on a port that was free to choose, with a line of
/// JSON that tells which.
///
/// # Errors
/// When the directory, the log file or an address cannot be used.
pub fn run(config: Config, config_file: Option<PathBuf>, announce: impl FnOnce(&str)) -> io::Result<()> {
    std::env::set_current_dir(&config.dir)?;
    logging::start(&config)?;
    // The blank before PID is what tools look for in the log of redis-server.
    info!("keylatch {} is starting, PID: {}", env!("CARGO_PKG_VERSION"), process::id());
    for name in inert_changes(&config) {
        warn!("the setting '{name}' is accepted and has no effect");
    }
    let pidfile = config.pidfile.clone();
    write_pidfile(pidfile.as_deref());
    let served = serve(config, config_file, announce);
    if let Some(path) = pidfile {
        // Whoever removed it before us has done our work.
        let _ = std::fs::remove_file(path);
    }
    served
}

fn serve(config: Config, config_file: Option<PathBuf>, announce: impl FnOnce(&str)) -> io::Result<()> {
    let workers = worker::start(config.worker_threads as usize)?;
    let (is_free_port, supervisor) = (config.port == 0, config.supervised);
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let builder = Server::builder().config(config).config_file(config_file).workers(workers);
        #[cfg(feature = "jemalloc")]
        let builder = builder.allocator(jemalloc_stats);
        let server = builder.start().await?;
        info!("Server initialized");
        info!("Ready to accept connections tcp");
        notify(supervisor, NotifyState::Ready);
        if is_free_port {
            let (addr, pid) = (server.addr(), process::id());
            announce(&format!(r#"{{"ready":true,"host":"{}","port":{},"pid":{pid}}}"#, addr.ip(), addr.port()));
        }
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        info!("Received {name}, finishing the replies in flight");
        notify(supervisor, NotifyState::Stopping);
        server.shutdown().await;
        info!("keylatch is now ready to exit, bye bye...");
        Ok(())
    })
}

/// Tells systemd, if it is the supervisor, how the server is doing.
fn notify(supervisor: Supervisor, state: NotifyState<'_>) {
    if matches!(supervisor, Supervisor::Systemd | Supervisor::Auto)
        && let Err(error) = sd_notify::notify(&[state])
    {
        warn!(cause = %error, "failed to notify systemd");
    }
}

/// Asks jemalloc, which `main.rs` has made this process's allocator.
#[cfg(feature = "jemalloc")]
fn jemalloc_stats() -> crate::namespace::AllocatorStats {
    use tikv_jemalloc_ctl::{epoch, stats, version};
    // Compiled in, these readings have no way to fail; the epoch brings them up to date.
    let _ = epoch::advance();
    crate::namespace::AllocatorStats {
        name: version::read().unwrap_or_default(),
        allocated: stats::allocated::read().unwrap_or_default(),
        active: stats::active::read().unwrap_or_default(),
        resident: stats::resident::read().unwrap_or_default(),
    }
}

/// Writes the process id; a start does not fail for want of a file that few look at.
fn write_pidfile(path: Option<&Path>) {
    if let Some(path) = path
        && let Err(error) = std::fs::write(path, format!("{}\n", process::id()))
    {
        warn!(path = %path.display(), cause = %error, "failed to write the process id");
    }
}
