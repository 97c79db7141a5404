//! A link to a primary, from the first connection to the end of its term.

use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tracing::{info, warn};

use crate::config::HostPort;
use crate::dispatch::Handlers;
use crate::durability::{ReceivedData, ReplicaLoader};
use crate::namespace::Namespace;
use crate::namespace::role::LinkState;
use crate::persist::disk::{Disk, write_all};
use crate::replication::acknowledgements::Acknowledgements;
use crate::replication::handshake::{Answer, shake_hands};
use crate::replication::payload::{KeepAliveReader, PayloadEnd, PayloadReader};
use crate::replication::stream::PrimaryStream;
use crate::replication::wire::{Wire, is_timeout};
use crate::text::system_text;
use crate::time::clock::Clock;
use crate::time::estimate::TimeSample;

/// Pause before the next connection, after one that could not be opened.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Pause between checks that the append-only file is up to date enough to execute more.
const FILE_PAUSE: Duration = Duration::from_millis(10);

/// Number of bytes that are written to a file at once.
const COPY_LEN: usize = 256 << 10;

/// The pause after the first of several short links in a row, and the duration from which on a link is not short, in
/// milliseconds.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LASTING_MS: u64 = 1000;

/// The pause before the next connection.
#[derive(Default)]
struct Pause(Duration);

impl Pause {
    /// Sets the pause after a link that was up for `up_ms` milliseconds, or not at all. After a long link there is
    /// none, as the primary may have kept the next records; after short links it becomes longer and longer, so that a
    /// primary which sends commands that cannot be executed does not have to send all data at once again.
    fn after_link(&mut self, up_ms: Option<u64>) {
        self.0 = match up_ms {
            None => RETRY_AFTER,
            Some(LASTING_MS..) => Duration::ZERO,
            Some(_) => (self.0 * 2).clamp(FIRST_PAUSE, RETRY_AFTER),
        };
    }
}

/// The link of a replica to its primary.
pub(super) struct Link {
    namespace: Arc<Namespace>,
    handlers: &'static Handlers,
    take_over: ReplicaLoader,
    term: u64,
    primary: HostPort,
    /// True if the present data may be of the primary's history.
    continues: bool,
    /// The database that is selected at the end of the own log.
    db: usize,
}

/// Error after a change of the role, or when the server stops.
struct TermOver;

/// Reason for which a connection has ended.
enum Broken {
    Term,
    Lost(io::Error),
    /// The commands of the primary cannot be executed, for this reason: all data is requested again, as in Redis.
    Corrupt(String),
}

impl From<io::Error> for Broken {
    fn from(cause: io::Error) -> Self {
        Broken::Lost(cause)
    }
}

impl From<TermOver> for Broken {
    fn from(_: TermOver) -> Self {
        Broken::Term
    }
}

impl Link {
    pub(super) fn new(
        (namespace, handlers, disk): (&Arc<Namespace>, &'static Handlers, Arc<dyn Disk>),
        term: u64,
        primary: HostPort,
    ) -> Self {
        let (take_over, namespace) = (ReplicaLoader::new(namespace, handlers, disk), namespace.clone());
        Link { namespace, handlers, take_over, term, primary, continues: false, db: 0 }
    }

    /// Runs the link until the term is over.
    pub(super) fn run(mut self) {
        self.take_over.wait_until_loaded();
        let namespace = self.namespace.clone();
        (self.continues, self.db) = (namespace.role.continues(), namespace.log.copied_db().unwrap_or(0));
        let (mut pause, clock) = (Pause::default(), Clock::system());
        let ms_now = || clock.now().mono_ms();
        loop {
            wait(pause.0);
            let begun_ms = ms_now();
            let attempt = namespace.instance.panics.catch("link to the primary", || self.connect());
            let state = namespace.role.link().state;
            let was_up = state == LinkState::Connected;
            let now = namespace.clock.now();
            let is_current = self.note(|link| {
                link.state = LinkState::Connect;
                if was_up {
                    link.down_since_ms = Some(now.mono_ms());
                }
            });
            match attempt {
                _ if is_current.is_err() => return,
                Some(Err(Broken::Term)) => return,
                Some(Err(Broken::Lost(cause))) => self.report_loss(state, &cause),
                Some(Err(Broken::Corrupt(reason))) => {
                    self.report_loss(state, &io::Error::new(ErrorKind::InvalidData, reason));
                }
                Some(Ok(())) | None => {}
            }
            pause.after_link(was_up.then(|| ms_now() - begun_ms));
        }
    }

    /// Logs the reason for which the connection has ended, in words that tools look for in the log of Redis.
    fn report_loss(&self, state: LinkState, cause: &io::Error) {
        let what = match state {
            LinkState::Connected if is_timeout(cause) => "MASTER timeout: no data nor PING received...",
            LinkState::Connected => "Connection with master lost.",
            LinkState::Sync if is_timeout(cause) => {
                "Timeout receiving bulk data from MASTER... If the problem persists try to set the 'repl-timeout' \
                 parameter in redis.conf to a larger value."
            }
            LinkState::Sync => "I/O error trying to sync with MASTER.",
            _ if is_timeout(cause) => "Timeout connecting to the MASTER...",
            _ => "Error condition on socket for SYNC.",
        };
        let HostPort { host, port } = &self.primary;
        warn!("{what} The link to {host}:{port} has ended: {}", system_text(cause));
    }

    /// Connects, synchronises and follows the primary until the connection ends.
    fn connect(&mut self) -> Result<(), Broken> {
        self.note(|link| link.state = LinkState::Connecting)?;
        info!("Connecting to MASTER {}:{}", self.primary.host, self.primary.port);
        let config = self.namespace.settings.current();
        let mut wire = Wire::connect(&self.primary, &config)?;
        info!("MASTER <-> REPLICA sync started");
        if !self.namespace.role.connected(self.term, Some(wire.connection()?)) || self.is_stopping() {
            return Err(Broken::Term);
        }
        let result = self.synchronize(&mut wire);
        self.namespace.role.connected(self.term, None);
        result
    }

    fn synchronize(&mut self, wire: &mut Wire) -> Result<(), Broken> {
        self.note(|link| link.state = LinkState::Handshake)?;
        let answer = shake_hands(wire, &self.namespace, self.continues);
        self.settle_failover(answer.as_ref().err())?;
        let (answer, time) = answer?;
        self.note(|link| link.tells_time = time.is_some())?;
        match answer {
            Answer::Continue { id } => self.continue_as(id, time)?,
            Answer::Full { id, position } => self.receive(wire, id, position, time)?,
        }
        self.continues = true;
        self.follow(wire)
    }

    /// Ends a failover, if there is one: the replica has answered that it is the primary, or has refused to be.
    fn settle_failover(&self, error: Option<&io::Error>) -> Result<(), TermOver> {
        let namespace = &self.namespace;
        if namespace.failover.stage().is_none() {
            return Ok(());
        }
        match error {
            None => namespace.end_failover(),
            Some(cause) if cause.kind() == ErrorKind::ConnectionRefused => {
                let _alone = namespace.store.exclusive();
                namespace.abort_failover("Failover target rejected psync request");
                return Err(TermOver);
            }
            Some(_) => {} // the replica is asked again
        }
        Ok(())
    }

    /// Continues with the present data, perhaps under another replication ID.
    fn continue_as(&self, id: Option<String>, time: Option<TimeSample>) -> Result<(), Broken> {
        if let Some(time) = time {
            self.namespace.hear_time(self.term, time);
        }
        if !self.namespace.continue_with_primary(self.term, id) {
            return Err(Broken::Term);
        }
        info!("MASTER <-> REPLICA sync: Master accepted a Partial Resynchronization.");
        Ok(())
    }

    /// Receives and loads all data of the primary.
    fn receive(&mut self, wire: &mut Wire, id: String, position: u64, time: Option<TimeSample>) -> Result<(), Broken> {
        let now = self.namespace.clock.now();
        self.note(|link| {
            link.state = LinkState::Sync;
            link.hear(now);
        })?;
        let end = PayloadEnd::read(wire)?;
        let (len, config) = (end.len(), self.namespace.settings.current());
        self.note(|link| (link.total, link.received) = (len, 0))?;
        let how = len.map_or("streamed RDB".to_owned(), |len| format!("{len} bytes"));
        let term = self.term;
        let is_empty = self.namespace.held_locks().is_some_and(|totals| totals.keys == 0);
        let is_swapped = config.loads_beside();
        let loaded = if config.loads_diskless(is_empty) {
            info!("MASTER <-> REPLICA sync: receiving {how} from master to parser");
            let content = PayloadReader::new(Watched { source: &mut *wire, link: self }, end);
            let received =
                ReceivedData { content, len, path: "the data of the primary".into(), id, position, term, time };
            if is_swapped { self.take_over.swap(received) } else { self.take_over.replace(received) }
        } else {
            info!("MASTER <-> REPLICA sync: receiving {how} from master to disk");
            let path = self.spool(wire, end)?;
            let (file, len) = self.take_over.disk().read(&path)?;
            let (content, len) = (KeepAliveReader::new(file, wire), Some(len));
            let loaded =
                self.take_over.replace(ReceivedData { content, len, path: path.clone(), id, position, term, time });
            self.take_over.keep(&path, matches!(loaded, Ok(Some(_))));
            loaded
        };
        match loaded {
            Ok(Some(db)) => self.db = db,
            Ok(None) => return Err(Broken::Term),
            Err(reason) => {
                self.continues &= is_swapped; // the former data is still there
                return Err(Broken::Lost(io::Error::new(ErrorKind::InvalidData, reason)));
            }
        }
        Ok(())
    }

    /// Writes the data of the primary to a file, so that the present data is served until all of it has arrived;
    /// returns its path.
    fn spool(&self, wire: &mut Wire, end: PayloadEnd) -> Result<PathBuf, Broken> {
        let (dir, now) = (self.namespace.settings.current().dir.clone(), self.namespace.clock.now());
        // Another replica with this directory may be in the same process, or in a container with the same process ID.
        let unique = getrandom::u64().map_err(|cause| io::Error::other(cause.to_string()))?;
        let name = format!("temp-{}.{}.{unique:016x}.rdb", now.wall_ms().div_euclid(1000), std::process::id());
        let (path, disk) = (dir.join(name), self.take_over.disk());
        let mut content = PayloadReader::new(Watched { source: wire, link: self }, end);
        let written = disk.create(&path).and_then(|file| {
            let mut buffer = vec![0; COPY_LEN];
            loop {
                match content.read(&mut buffer)? {
                    0 => return file.sync_data(),
                    len => write_all(&*file, &buffer[..len])?,
                }
            }
        });
        if let Err(cause) = written {
            let _ = disk.remove(&path); // if the file exists
            return Err(cause.into());
        }
        Ok(path)
    }

    /// Executes the commands that the primary sends.
    fn follow(&mut self, wire: &mut Wire) -> Result<(), Broken> {
        let namespace = self.namespace.clone();
        if !namespace.link_is_up(self.term) || self.is_stopping() {
            return Err(Broken::Term);
        }
        let mut stream = PrimaryStream::new(&namespace, wire.peer()?, self.db);
        let result = self.follow_stream(wire, &mut stream);
        self.continues &= !matches!(result, Err(Broken::Corrupt(_)));
        self.db = namespace.log.copied_db().unwrap_or(0);
        result
    }

    fn follow_stream(&self, wire: &mut Wire, stream: &mut PrimaryStream) -> Result<(), Broken> {
        let namespace = &self.namespace;
        let mut acknowledgements = Acknowledgements::new(wire.now_ms());
        loop {
            let wait = acknowledgements.tell(wire, namespace, stream.take_question())?;
            if namespace.log.is_behind() && !self.is_stopping() && namespace.role.term() == self.term {
                self::wait(FILE_PAUSE); // the primary keeps the unread bytes
                continue;
            }
            let bytes = wire.take(wait)?;
            if bytes.is_empty() {
                continue;
            }
            match stream.execute((namespace, self.handlers), self.term, &bytes) {
                Ok(true) if namespace.hear_primary(self.term, bytes.len()) && !self.is_stopping() => {}
                Ok(_) => return Err(Broken::Term),
                Err(reason) => return Err(Broken::Corrupt(reason)),
            }
        }
    }

    /// Updates the state of the link, unless the term is over.
    fn note(&self, change: impl FnOnce(&mut crate::namespace::role::LinkStatus)) -> Result<(), TermOver> {
        if self.namespace.update_link(self.term, change) && !self.is_stopping() { Ok(()) } else { Err(TermOver) }
    }

    fn is_stopping(&self) -> bool {
        self.namespace.tenant.stop.is_cancelled()
    }
}

/// Waits for a time, which passes even while the clock of the data stands still.
fn wait(time: Duration) {
    let clock = Clock::system();
    let until_ms = clock.now().mono_ms() + time.as_millis() as u64;
    // A thread that has helped to load may wake this one by its end.
    while let left @ 1.. = until_ms.saturating_sub(clock.now().mono_ms()) {
        thread::park_timeout(Duration::from_millis(left));
    }
}

/// Reader of a primary's data that notes the number of bytes received.
struct Watched<'l, 'w> {
    source: &'w mut Wire,
    link: &'l Link,
}

impl Read for Watched<'_, '_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = self.source.read(into)?;
        let now = self.link.namespace.clock.now();
        self.link.namespace.observed.stats.count_link_input(len);
        let noted = self.link.note(|link| {
            link.received += len as u64;
            link.hear(now);
        });
        noted.map_err(|TermOver| io::Error::new(ErrorKind::ConnectionAborted, "the role has changed"))?;
        Ok(len)
    }
}
