//! The process around the server: working directory, log, pid file, threads, signals.
//!
//! The binary behaves as redis-server when it is started and stopped; an embedded server needs none of this.

use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf, absolute};
use std::process::{self, ExitCode};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use sd_notify::NotifyState;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tracing::{info, warn};

use crate::app::daemon;
use crate::app::daemon::ForkedProcess;
use crate::app::logging::{LogHandle, is_ready_told};
use crate::app::oom_score::OomAdjustment;
use crate::app::ready::{self, AuthorityFile, temporary_folder};
use crate::config::{Config, SetError, Settings, ShutdownOptions, Supervisor, start_warnings};
use crate::net::listener::{ListenError, has_plain_port};
use crate::net::server::Server;
use crate::runtime::worker;
use crate::text::system_text;

/// The timeout of a shutdown: longer than clients have to read their last replies, and shorter than the ten seconds
/// after which Docker and systemd kill a process.
const GRACE: Duration = Duration::from_secs(8);

/// Message in test mode; no warning, because a caller that asks for warnings only reads the line of JSON first.
const TEST_MODE: &str = "test mode is on: every client can steer time, inject faults and, as a user ns-* with any \
password, enter a private instance; never for a server that keeps data";

/// Number of file descriptors reserved for other uses than clients, as in Redis.
const RESERVED_FILES: u64 = 32;

/// The pid file of a daemon without `pidfile`, as in Redis.
const DEFAULT_PIDFILE: &str = "/var/run/redis.pid";

/// Functions that print to the user who has started the process.
#[derive(Clone, Copy)]
pub struct Console {
    /// Prints a line on standard output.
    pub say: fn(&str),
    /// Prints a line on standard error.
    pub complain: fn(&str),
}

/// Failure because of which the process exits with status 1.
struct Failure {
    cause: io::Error,
    /// True if the reason has reached standard output already, because the log goes there.
    is_known: bool,
}

impl From<io::Error> for Failure {
    fn from(cause: io::Error) -> Self {
        Failure { cause, is_known: false }
    }
}

/// Serves until SHUTDOWN, SIGTERM or SIGINT, with `daemonize` in the background. With `port 0`,
/// `exit-on-stdin-close` or `test-tls`, prints the port as a line of JSON once the server is ready. Must be called before the process
/// has a second thread.
pub(crate) fn run(mut config: Config, config_file: Option<PathBuf>, console: Console) -> ExitCode {
    if !config.daemonize || config.supervised.detected().is_some() {
        let ready = |line: Option<&str>| {
            if let Some(line) = line {
                (console.say)(line);
            }
        };
        let served = serve_process(config, config_file, ready);
        return served.map_or_else(|failure| fail(&failure, console), |()| ExitCode::SUCCESS);
    }
    if config.exit_on_stdin_close {
        let cause = io::Error::new(io::ErrorKind::InvalidInput, "exit-on-stdin-close needs a server in the foreground");
        return fail(&Failure::from(cause), console);
    }
    match daemon::fork() {
        Ok(ForkedProcess::Starter(Ok(text))) => {
            text.lines().for_each(console.say);
            ExitCode::SUCCESS
        }
        Ok(ForkedProcess::Starter(Err(cause))) | Err(cause) => fail(&Failure::from(cause), console),
        Ok(ForkedProcess::Daemon(report)) => {
            restart_allocator_threads();
            config.pidfile.get_or_insert_with(|| DEFAULT_PIDFILE.into());
            let mut report = Some(report);
            let ready = |line: Option<&str>| {
                if let Some(report) = report.take() {
                    report.ready(line.unwrap_or_default());
                }
            };
            let Err(failure) = serve_process(config, config_file, ready) else { return ExitCode::SUCCESS };
            if let Some(report) = report.take() {
                report.failed(&failure.cause.to_string());
            }
            ExitCode::FAILURE
        }
    }
}

/// Reports a failure once.
fn fail(failure: &Failure, console: Console) -> ExitCode {
    if !failure.is_known {
        (console.complain)(&failure.cause.to_string());
    }
    ExitCode::FAILURE
}

/// Starts jemalloc's background threads, which return memory, again after a fork: they exist only in the parent.
fn restart_allocator_threads() {
    #[cfg(feature = "jemalloc")]
    if let Err(cause) = tikv_jemalloc_ctl::background_thread::write(true) {
        warn!(%cause, "failed to start the allocator's background threads");
    }
}

/// Serves in this process, calls `ready` once, and logs a failure.
fn serve_process(config: Config, file: Option<PathBuf>, ready: impl FnOnce(Option<&str>)) -> Result<(), Failure> {
    let temporary = temporary_folder();
    std::env::set_current_dir(&config.dir).map_err(|cause| {
        let (dir, reason) = (config.dir.display(), system_text(&cause));
        io::Error::new(cause.kind(), format!("Can't change to the directory '{dir}': {reason}"))
    })?;
    let log = LogHandle::start(&config).map_err(|cause| {
        let version = env!("CARGO_PKG_VERSION");
        let path = config.logfile.as_deref().unwrap_or(Path::new(""));
        let reason = format!("Can't open the log file '{}': {}", path.display(), system_text(&cause));
        io::Error::new(cause.kind(), format!("\n*** FATAL CONFIG FILE ERROR (keylatch {version}) ***\n{reason}"))
    })?;
    let is_known = config.logfile.is_none();
    let served = serve_with_log(config, (file, temporary), log.clone(), ready).map_err(|cause| {
        match cause.get_ref().and_then(|cause| cause.downcast_ref::<ListenError>()) {
            // The message that test suites look for.
            Some(ListenError { port: Some(port), .. }) => {
                warn!("Failed listening on port {port} (tcp), aborting: {cause}");
            }
            _ if cause.to_string().starts_with("Aborting") => warn!("{cause}"),
            _ => warn!("Aborting: {cause}"),
        }
        Failure { cause, is_known }
    });
    log.flush();
    served
}

fn serve_with_log(
    mut config: Config,
    paths: (Option<PathBuf>, PathBuf),
    log: LogHandle,
    ready: impl FnOnce(Option<&str>),
) -> io::Result<()> {
    // Tools look for the blank before PID in the log of redis-server.
    info!("keylatch {} is starting, PID: {}", env!("CARGO_PKG_VERSION"), process::id());
    if config.always_show_logo || config.logfile.is_none() && io::stdout().is_terminal() {
        show_logo(&config);
    }
    start_warnings(&config).iter().for_each(|line| warn!("{line}"));
    if config.test_mode {
        info!("{TEST_MODE}");
    }
    if !config.has_snapshots() && !config.appendonly {
        info!("Data is kept in memory only: it is lost when the server stops");
    }
    refuse_modules(&config)?;
    config.maxclients = files_for_clients(config.maxclients);
    let served = serve(config, paths, log, ready);
    if served.is_ok() {
        info!("keylatch is now ready to exit, bye bye...");
    }
    served
}

fn show_logo(config: &Config) {
    let mode = if config.cluster_enabled { "cluster" } else { "standalone" };
    info!("keylatch {}, {} bit, {mode} mode", env!("CARGO_PKG_VERSION"), usize::BITS);
    info!("Port: {}", config.port);
    info!(" PID: {}", process::id());
}

/// Fails if modules are configured, because a server without them would do something else.
fn refuse_modules(config: &Config) -> io::Result<()> {
    let reason = if let Some(path) = config.directives.modules.first().and_then(|words| words.first()) {
        format!("Can't load module from {}: server aborting", path.escape_ascii())
    } else if let Some(name) = config.directives.module_settings.first() {
        format!("{} is a setting of a module that is not loaded: server aborting", name.escape_ascii())
    } else {
        return Ok(());
    };
    Err(io::Error::other(reason))
}

/// Raises the limit on open files for `clients` clients as high as possible; returns for how many clients it suffices.
fn files_for_clients(clients: u32) -> u32 {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = u64::from(clients) + RESERVED_FILES;
    let Some(current) = limit.current.filter(|current| *current < wanted) else { return clients };
    let best = limit.maximum.map_or(wanted, |max| max.min(wanted));
    limit.current = Some(best);
    let raised = match setrlimit(Resource::Nofile, limit) {
        Ok(()) => best,
        Err(cause) => {
            warn!(%cause, "failed to raise the limit on open files");
            current
        }
    };
    if raised >= wanted {
        info!("Increased maximum number of open files to {wanted} (it was originally set to {current}).");
        return clients;
    }
    warn!("maxclients {clients} needs {wanted} open files, and only {raised} are allowed: raise 'ulimit -n'");
    u32::try_from(raised.saturating_sub(RESERVED_FILES)).unwrap_or(clients).max(1)
}

/// Applies changed settings to the process, step by step: if one fails, the ones before it are undone.
fn follow_settings(settings: &Settings, log: LogHandle, oom: OomAdjustment) {
    let refused = |name: &str, reason| SetError::Refused { name: name.to_owned(), reason };
    settings.on_change(move |old, new| {
        if old.dir == new.dir {
            return Ok(());
        }
        std::env::set_current_dir(&new.dir).map_err(|cause| refused("dir", system_text(&cause)))
    });
    settings.on_change(move |old, new| {
        if old.maxclients != new.maxclients {
            let enough = files_for_clients(new.maxclients);
            if enough != new.maxclients {
                let reason = "The operating system is not able to handle the specified number of clients, try with";
                return Err(refused("maxclients", format!("{reason} {enough}")));
            }
        }
        Ok(())
    });
    settings.on_change(move |old, new| {
        if old.loglevel != new.loglevel {
            log.set_level(new.loglevel);
        }
        Ok(())
    });
    settings.on_change(move |old, new| oom.follow(old, new));
}

fn serve(
    config: Config,
    (config_file, temporary): (Option<PathBuf>, PathBuf),
    log: LogHandle,
    ready: impl FnOnce(Option<&str>),
) -> io::Result<()> {
    let workers = worker::start(config.worker_threads as usize)?;
    let (is_ready_told, supervisor) = (is_ready_told(&config), config.supervised);
    let unixsocket = config.unixsocket.clone();
    let (has_plain_port, has_tls_port) = (has_plain_port(&config), config.tls_port != 0 || config.test_tls);
    let (port_file, pid_file, has_parent) =
        (config.port_file.clone(), config.pidfile.clone(), config.exit_on_stdin_close);
    let input = Input::watched(has_parent)?;
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        let mut signals = Signals::new()?;
        let log_queue = log.queue().clone();
        let builder = Server::builder()
            .of_program()
            .config(config)
            .config_file(config_file)
            .workers(workers)
            .log_queue(log_queue);
        #[cfg(feature = "jemalloc")]
        let builder = builder.allocator(jemalloc_stats);
        let server = tokio::select! {
            server = builder.start() => server?,
            name = signals.end() => {
                warn!("Received {name} while the data is loaded: exiting now");
                return Ok(());
            }
        };
        let oom = OomAdjustment::default();
        // A failure is logged and does not prevent the start.
        let _ = oom.apply(&server.namespace().settings.current());
        follow_settings(&server.namespace().settings, log.clone(), oom);
        server.leave_data();
        // Written once the ports are bound: a start that fails touches no file of the server that runs.
        let _pid_file = pid_file.and_then(write_pid_file);
        let _port_file = port_file.map(|path| write_port_file(path, server.addr().port())).transpose()?;
        let authority_file = AuthorityFile::of(&server, &temporary)?;
        let ports = [(has_plain_port, "tcp"), (has_tls_port, "tls")];
        for (_, kind) in ports.iter().filter(|(is_open, _)| *is_open) {
            info!("Ready to accept connections {kind}");
        }
        if unixsocket.is_some() {
            info!("Ready to accept connections unix");
        }
        if let Some(file) = &authority_file {
            info!("Clients of port {} have to trust {}", server.namespace().settings.current().tls_port, file.path());
        }
        notify(supervisor, NotifyState::Ready);
        log.flush(); // a caller that waits for the server may look at its log then
        let line = ready::line(&server, authority_file.as_ref());
        ready(is_ready_told.then_some(&line));
        signals.until_stopped(&server, input, &log).await?;
        end_in_time(log)?;
        notify(supervisor, NotifyState::Stopping);
        tokio::select! {
            () = server.shutdown() => Ok(()),
            _ = signals.interrupt.recv() => Err(insisted()),
        }
    })
}

/// Returns the error of a shutdown that a second SIGINT cuts short.
fn insisted() -> io::Error {
    warn!("You insist... exiting now.");
    io::Error::other("ended by a second SIGINT")
}

/// File with a line about the running server; removed on drop, unless it has another content by then, because it
/// belongs to another server.
struct OwnFile {
    path: PathBuf,
    text: String,
}

impl OwnFile {
    /// Describes a file with this line. The path is absolute, because the working directory may change.
    fn new(path: &Path, line: impl Display) -> io::Result<Self> {
        Ok(OwnFile { path: absolute(path)?, text: format!("{line}\n") })
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        if std::fs::read_to_string(&self.path).is_ok_and(|text| text == self.text) {
            let _ = std::fs::remove_file(&self.path); // somebody may have removed it just now
        }
    }
}

/// Writes the port file, atomically.
fn write_port_file(path: PathBuf, port: u16) -> io::Result<OwnFile> {
    let written = OwnFile::new(&path, port).and_then(|file| {
        let mut part = file.path.clone().into_os_string();
        part.push(format!(".{}", process::id()));
        let written = std::fs::write(&part, &file.text).and_then(|()| std::fs::rename(&part, &file.path));
        written.map(|()| file).inspect_err(|_| {
            let _ = std::fs::remove_file(&part); // if it is there
        })
    });
    written.map_err(|cause| {
        let reason = format!("Can't write the port file {}: {}", path.display(), system_text(&cause));
        io::Error::new(cause.kind(), reason)
    })
}

/// Writes the pid file; a failure does not prevent the start.
fn write_pid_file(path: PathBuf) -> Option<OwnFile> {
    let written =
        OwnFile::new(&path, process::id()).and_then(|file| std::fs::write(&file.path, &file.text).map(|()| file));
    written.inspect_err(|cause| warn!(path = %path.display(), %cause, "failed to write the pid file")).ok()
}

/// Standard input, if its end stops the server.
struct Input(Option<oneshot::Receiver<()>>);

impl Input {
    /// Starts to read standard input, on a thread of its own because a read cannot be cancelled.
    fn watched(is_watched: bool) -> io::Result<Self> {
        if !is_watched {
            return Ok(Input(None));
        }
        let (ended, end) = oneshot::channel();
        thread::Builder::new().name("stdin".into()).spawn(move || {
            // A read error counts as the end of the input.
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            // Nobody listens any more when the server has stopped for another reason.
            let _ = ended.send(());
        })?;
        Ok(Input(Some(end)))
    }

    /// Waits for the end of the input; once.
    async fn closed(&mut self) {
        match &mut self.0 {
            Some(end) => {
                // The sender is dropped only after it has sent.
                let _ = end.await;
                self.0 = None;
            }
            None => std::future::pending().await,
        }
    }
}

/// Exits when the shutdown takes longer than [`GRACE`], whatever the cause.
fn end_in_time(log: LogHandle) -> io::Result<()> {
    let (kept, never) = mpsc::channel::<()>();
    thread::Builder::new().name("last-resort".into()).spawn(move || {
        let _ = never.recv_timeout(GRACE);
        drop(kept);
        warn!("The shutdown has not finished after {} seconds. Exit anyway.", GRACE.as_secs());
        log.flush();
        process::exit(1)
    })?;
    Ok(())
}

/// The signals that are handled.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    alarm: Signal,
    abort: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        let listen = |raw: rustix::process::Signal| signal(SignalKind::from_raw(raw.as_raw()));
        use rustix::process::Signal as S;
        Ok(Signals {
            terminate: listen(S::TERM)?,
            interrupt: listen(S::INT)?,
            hangup: listen(S::HUP)?,
            alarm: listen(S::ALARM)?,
            abort: listen(S::ABORT)?,
        })
    }

    /// Waits for a signal that ends the server; returns its name.
    async fn end(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// Waits until SHUTDOWN or a signal stops the server.
    ///
    /// # Errors
    /// If SIGINT comes while a shutdown waits.
    async fn until_stopped(&mut self, server: &Server, mut input: Input, log: &LogHandle) -> io::Result<()> {
        loop {
            let options = |config: &Config, name: &str| match name {
                "SIGTERM" => config.shutdown_on_sigterm,
                _ => config.shutdown_on_sigint,
            };
            let name = tokio::select! {
                () = server.stopped() => return Ok(()),
                () = input.closed() => {
                    info!("Standard input was closed: shutting down");
                    server.namespace().shut_down(ShutdownOptions::default());
                    continue;
                }
                _ = self.terminate.recv() => "SIGTERM",
                _ = self.interrupt.recv() => {
                    if server.namespace().pending_shutdown.is_running() {
                        server.remove_unfinished();
                        return Err(insisted());
                    }
                    "SIGINT"
                }
                _ = self.hangup.recv() => {
                    reload(server);
                    continue;
                }
                _ = self.alarm.recv() => {
                    warn!("Received SIGALRM");
                    continue;
                }
                _ = self.abort.recv() => crash(rustix::process::Signal::ABORT, log),
            };
            warn!("Received {name} scheduling shutdown...");
            let config = server.namespace().settings.current();
            server.namespace().shut_down(options(&config, name));
        }
    }
}

/// Handles SIGHUP: the server keeps running when a terminal closes, and reloads renewed certificates, for which
/// administrators send the signal.
fn reload(server: &Server) {
    let settings = &server.namespace().settings;
    if settings.current().tls_port == 0 {
        return info!("Received SIGHUP");
    }
    // Stores the same settings as a new version, so that everything built from files is rebuilt.
    match settings.update(|config| Ok(config.clone())) {
        Ok(()) => info!("Received SIGHUP, TLS certificate files were reloaded for new connections"),
        Err(cause) => warn!(%cause, "failed to reload the TLS certificate files"),
    }
}

/// Logs and ends the process as a fatal signal does.
pub(crate) fn crash(signal: rustix::process::Signal, log: &LogHandle) -> ! {
    warn!("keylatch {} crashed by signal: {}", env!("CARGO_PKG_VERSION"), signal.as_raw());
    log.flush();
    if signal != rustix::process::Signal::ABORT {
        // If sending the signal fails, abort.
        let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
    }
    process::abort()
}

/// Notifies systemd, if it is the supervisor, of the server's state.
fn notify(supervisor: Supervisor, state: NotifyState<'_>) {
    if matches!(supervisor, Supervisor::Systemd | Supervisor::Auto)
        && let Err(error) = sd_notify::notify(&[state])
    {
        warn!(cause = %error, "failed to notify systemd");
    }
}

/// Reads the statistics of jemalloc, which `main.rs` has made the allocator of this process.
#[cfg(feature = "jemalloc")]
fn jemalloc_stats() -> crate::memory::AllocatorStats {
    use tikv_jemalloc_ctl::{Access, AsName, epoch, stats, version};
    let quantum = || Access::<usize>::read(b"arenas.quantum\0"[..].name()).ok();
    debug_assert_eq!(quantum(), Some(crate::memory::heap::QUANTUM), "jemalloc has the size classes it was built for");
    // These reads are compiled in and cannot fail; advancing the epoch refreshes the statistics.
    let _ = epoch::advance();
    crate::memory::AllocatorStats {
        name: version::read().unwrap_or_default(),
        allocated: stats::allocated::read().unwrap_or_default().saturating_sub(crate::memory::slab::free_bytes()),
        active: stats::active::read().unwrap_or_default(),
        resident: stats::resident::read().unwrap_or_default(),
        muzzy: muzzy_pages() * PAGE_LEN,
        purge: purge_jemalloc,
        without_cache: without_thread_cache,
        report: report_jemalloc,
    }
}

/// The page size of jemalloc, in bytes.
#[cfg(feature = "jemalloc")]
const PAGE_LEN: usize = 4096;

/// Returns how many pages of all arenas the operating system may reclaim.
#[cfg(feature = "jemalloc")]
fn muzzy_pages() -> usize {
    use tikv_jemalloc_ctl::{Access, AsName};
    // Arena 4096 stands for all arenas.
    b"stats.arenas.4096.pmuzzy\0"[..].name().read().unwrap_or_default()
}

/// Sets the time that unused pages are kept to 0, which returns them at once, and then back.
#[cfg(feature = "jemalloc")]
fn purge_jemalloc() -> bool {
    use tikv_jemalloc_ctl::{Access, AsName, arenas};
    let arenas = arenas::narenas::read().unwrap_or(0);
    let mut is_purged = true;
    for arena in 0..arenas {
        let name = format!("arena.{arena}.dirty_decay_ms\0");
        // An arena that was never used has no such time.
        let Ok(kept_ms) = Access::<isize>::read(name.as_bytes().name()) else { continue };
        let set = |ms: isize| name.as_bytes().name().write(ms);
        is_purged &= set(0).and_then(|()| set(kept_ms)).is_ok();
    }
    is_purged
}

/// Runs a closure with this thread's cache of freed allocations disabled, so that it allocates from, and frees to, the
/// allocator's pages directly.
#[cfg(feature = "jemalloc")]
fn without_thread_cache(act: &mut dyn FnMut()) {
    use tikv_jemalloc_ctl::{Access, AsName};
    let set = |is_enabled: bool| b"thread.tcache.enabled\0"[..].name().write(is_enabled);
    let is_switched = set(false).is_ok();
    act();
    if is_switched && set(true).is_err() {
        warn!("failed to re-enable the allocator's thread cache");
    }
}

#[cfg(feature = "jemalloc")]
fn report_jemalloc() -> String {
    use tikv_jemalloc_ctl::stats_print;
    let mut report = Vec::new();
    match stats_print::stats_print(&mut report, stats_print::Options::default()) {
        Ok(()) => String::from_utf8_lossy(&report).into_owned(),
        Err(error) => format!("no allocator statistics: {error}"),
    }
}
