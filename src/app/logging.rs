//! The log: written to standard output or to the file of `logfile`, by a thread of its own, in the format of
//! redis-server, which test suites and tools parse:
//!
//! ```text
//! 4711:M 21 Nov 2026 12:00:00.123 * the text field=value
//! ```
//!
//! The mark before the text is the level: `.` debug, `-` verbose, `*` notice, `#` warning. Times are in UTC.

use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;

use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, layer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Config, LogLevel};
use crate::net::listener::takes_free_port;
use crate::runtime::log_queue::{self, LogQueue};
use crate::time::clock::Clock;

/// Handle of the running log.
#[derive(Clone)]
pub(crate) struct LogHandle {
    filter: reload::Handle<LevelFilter, Registry>,
    queue: Arc<LogQueue>,
}

impl LogHandle {
    /// Starts the log by the settings, and the thread that writes it; to be called after a fork, which no thread
    /// survives.
    ///
    /// # Errors
    /// If the log file cannot be opened.
    pub(crate) fn start(config: &Config) -> io::Result<Self> {
        let (filter, handle) = reload::Layer::new(filter(config.loglevel));
        let registry = tracing_subscriber::registry().with(filter);
        let (clock, pid) = (Clock::system(), std::process::id());
        let about_dropped = about_dropped(clock.clone(), pid);
        // Lines that cannot be written are lost: there is nobody to tell.
        let queue = match &config.logfile {
            // A program that reads standard output gets a line of JSON there, and nothing else.
            None if is_ready_told(config) => {
                log_queue::start(|lines| drop(io::stderr().write_all(lines)), about_dropped)?
            }
            None => log_queue::start(|lines| drop(io::stdout().write_all(lines)), about_dropped)?,
            Some(path) => {
                let mut file = LogFile::open(path)?;
                log_queue::start(move |lines| drop(file.current().write_all(lines)), about_dropped)?
            }
        };
        let (entry, line) = (Entry(queue.clone()), Line { clock, pid, queue: queue.clone() });
        registry.with(layer().with_ansi(false).event_format(line).with_writer(move || entry.clone())).init();
        Ok(LogHandle { filter: handle, queue })
    }

    /// Waits a moment for the lines that are not written yet; called at the end of the process.
    pub(crate) fn flush(&self) {
        self.queue.flush();
    }

    /// Returns the queue of the lines that are not written yet.
    pub(crate) fn queue(&self) -> &Arc<LogQueue> {
        &self.queue
    }

    /// Sets the minimum level of logged messages.
    pub(crate) fn set_level(&self, level: LogLevel) {
        // The filter exists as long as the process.
        let _ = self.filter.reload(filter(level));
    }
}

/// Returns true if a line of JSON on standard output reports that the server is ready, and the log goes to standard
/// error.
pub(crate) fn is_ready_told(config: &Config) -> bool {
    takes_free_port(config) || config.exit_on_stdin_close || config.test_tls
}

/// Writer of the subscriber, which queues each line as a whole.
#[derive(Clone)]
struct Entry(Arc<LogQueue>);

impl Write for Entry {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// File of `logfile`, which is reopened after it was renamed or removed, as by logrotate.
struct LogFile {
    path: PathBuf,
    opened: Opened,
}

/// An open file with its identity.
struct Opened {
    file: File,
    identity: Identity,
}

/// Device and inode.
type Identity = (u64, u64);

impl LogFile {
    fn open(path: &Path) -> io::Result<Self> {
        // The server changes its working directory later.
        let path = absolute(path)?;
        Ok(LogFile { opened: Opened::at(&path)?, path })
    }

    /// Returns the file for the next lines. If it cannot be reopened, they go to the old one.
    fn current(&mut self) -> &File {
        if identity(std::fs::metadata(&self.path)).ok() != Some(self.opened.identity)
            && let Ok(another) = Opened::at(&self.path)
        {
            self.opened = another;
        }
        &self.opened.file
    }
}

impl Opened {
    fn at(path: &Path) -> io::Result<Self> {
        // A pipe that is opened for writing alone would wait for a reader.
        let is_pipe = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo());
        let file = OpenOptions::new().create(true).read(is_pipe).append(true).open(path)?;
        Ok(Opened { identity: identity(file.metadata())?, file })
    }
}

fn identity(metadata: io::Result<Metadata>) -> io::Result<Identity> {
    metadata.map(|metadata| (metadata.dev(), metadata.ino()))
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Debug => LevelFilter::TRACE,
        LogLevel::Verbose => LevelFilter::DEBUG,
        LogLevel::Notice => LevelFilter::INFO,
        LogLevel::Warning => LevelFilter::WARN,
        LogLevel::Nothing => LevelFilter::OFF,
    }
}

/// Format of an event as a line.
struct Line {
    clock: Clock,
    pid: u32,
    queue: Arc<LogQueue>,
}

/// Returns the beginning of a line at the present time, with the role of the server, as in Redis.
fn head(clock: &Clock, pid: u32, queue: &LogQueue, mark: char) -> String {
    let role = if queue.is_replica() { 'S' } else { 'M' };
    format!("{pid}:{role} {} {mark} ", moment(clock.wall_us().div_euclid(1000)))
}

/// Returns the function that formats the line about dropped lines.
fn about_dropped(clock: Clock, pid: u32) -> impl Fn(&LogQueue, u64) -> String + Send {
    move |queue, count| {
        let head = head(&clock, pid, queue, '#');
        format!("{head}{count} log lines were dropped: the log is not written fast enough\n")
    }
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut to: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mark = match *event.metadata().level() {
            Level::TRACE => '.',
            Level::DEBUG => '-',
            Level::INFO => '*',
            Level::WARN | Level::ERROR => '#',
        };
        to.write_str(&head(&self.clock, self.pid, &self.queue, mark))?;
        context.format_fields(to.by_ref(), event)?;
        writeln!(to)
    }
}

/// Formats milliseconds since 1970 as `21 Nov 2026 12:00:00.123`.
fn moment(unix_ms: i64) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, ms) = (unix_ms.div_euclid(86_400_000), unix_ms.rem_euclid(86_400_000));
    // The year begins in March here, so that the leap day is its last.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = era * 400 + year_of_era + i64::from(month < 2);
    let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{day:02} {} {year} {hours:02}:{minutes:02}:{seconds:02}.{:03}", MONTHS[month as usize], ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_redis_writes_them() {
        for (unix_ms, expected) in [
            (0, "01 Jan 1970 00:00:00.000"),
            (951_782_399_999, "28 Feb 2000 23:59:59.999"),
            (951_782_400_000, "29 Feb 2000 00:00:00.000"),
            (1_795_262_400_123, "21 Nov 2026 12:00:00.123"),
            (4_107_542_400_000, "01 Mar 2100 00:00:00.000"),
            (-1, "31 Dec 1969 23:59:59.999"),
        ] {
            assert_eq!(moment(unix_ms), expected);
        }
    }
}
