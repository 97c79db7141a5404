//! One replica: what it has said of itself, and what it has.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::client::replica::awaited::Awaited;
use crate::config::Address;
use crate::store::NEVER;
use crate::time::clock::Now;

/// How far a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplicaState {
    /// It waits for a snapshot.
    Waiting,
    /// It is sent a snapshot as that is written, or waits until it is written to a file.
    Snapshot,
    /// It is sent the file of a snapshot.
    File,
    /// It was sent a snapshot, and has not acknowledged that.
    Loading,
    /// It is sent the log.
    Online,
}

impl ReplicaState {
    /// Returns its name in INFO.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ReplicaState::Waiting | ReplicaState::Snapshot => "wait_bgsave",
            ReplicaState::File | ReplicaState::Loading => "send_bulk",
            ReplicaState::Online => "online",
        }
    }
}

/// What of the data a replica asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// The keys.
    pub(crate) keys: bool,
    /// The libraries of functions.
    pub(crate) libraries: bool,
}

impl Wanted {
    /// Everything.
    pub(crate) const ALL: Wanted = Wanted { keys: true, libraries: true };
}

/// One replica, as its own connection, INFO and WAIT see it.
pub(crate) struct Replica {
    /// The id of the client.
    pub(crate) client: u64,
    /// The address that it announces, or that it has connected from.
    pub(crate) ip: Mutex<String>,
    /// The port that it announces, which may be any number; 0 before.
    pub(crate) port: AtomicI64,
    /// Whether it can read a snapshot whose length is not known.
    pub(crate) has_eof: AtomicBool,
    /// Whether it can continue with another id of the data.
    pub(crate) has_psync2: AtomicBool,
    /// Whether it has asked by SYNC, and so is told neither the id of the data nor the position.
    pub(crate) is_old: AtomicBool,
    /// What it asks for, and whether the connection ends behind the snapshot.
    pub(crate) wanted: Mutex<Wanted>,
    pub(crate) is_snapshot_only: AtomicBool,
    state: AtomicU8,
    /// Up to where in the log it has been sent everything; [`NEVER`] before its snapshot was cut.
    position: AtomicU64,
    /// Up to where in the log it has executed everything, as it says, and when it said so, in monotonic milliseconds. An
    /// empty line also says that it is there.
    acknowledged: AtomicU64,
    acknowledged_ms: AtomicU64,
    /// Up to where it has everything in an append-only file that is fsynced, as it says.
    synced: AtomicU64,
    /// How many bytes had been written to it when that last was a change, and when, in monotonic milliseconds.
    bytes_out: AtomicU64,
    moved_ms: AtomicU64,
}

impl Replica {
    /// Creates a replica that has connected from an address and has not asked for anything.
    pub(crate) fn new(client: u64, ip: &str) -> Self {
        Replica {
            client,
            ip: Mutex::new(ip.to_owned()),
            port: AtomicI64::new(0),
            has_eof: AtomicBool::new(false),
            has_psync2: AtomicBool::new(false),
            is_old: AtomicBool::new(false),
            wanted: Mutex::new(Wanted::ALL),
            is_snapshot_only: AtomicBool::new(false),
            state: AtomicU8::new(ReplicaState::Waiting as u8),
            position: AtomicU64::new(NEVER),
            acknowledged: AtomicU64::new(0),
            acknowledged_ms: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            moved_ms: AtomicU64::new(0),
        }
    }

    /// Returns where clients reach it.
    pub(crate) fn address(&self) -> Address {
        Address { host: self.ip.lock().clone(), port: u16::try_from(self.port.load(Relaxed)).unwrap_or(0) }
    }

    /// Returns its name in the log.
    pub(crate) fn shown_name(&self) -> String {
        match self.port.load(Relaxed) {
            0 => format!("{}:<unknown-replica-port>", self.ip.lock()),
            port => format!("{}:{port}", self.ip.lock()),
        }
    }

    /// Returns the line that lets it continue where it was, with the present id of the data.
    pub(crate) fn continue_line(&self, id: &str) -> Bytes {
        match self.has_psync2.load(Relaxed) {
            true => format!("+CONTINUE {id}\r\n").into(),
            false => Bytes::from_static(b"+CONTINUE\r\n"),
        }
    }

    /// Returns how far it is.
    pub(crate) fn state(&self) -> ReplicaState {
        match self.state.load(Relaxed) {
            0 => ReplicaState::Waiting,
            1 => ReplicaState::Snapshot,
            2 => ReplicaState::File,
            3 => ReplicaState::Loading,
            _ => ReplicaState::Online,
        }
    }

    /// Sets how far it is.
    pub(crate) fn set_state(&self, state: ReplicaState) {
        self.state.store(state as u8, Relaxed);
    }

    /// Returns up to where in the log it has executed everything.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Relaxed)
    }

    /// Returns up to where in the log it has been sent everything; `None` before its snapshot was cut.
    pub(crate) fn position(&self) -> Option<u64> {
        Some(self.position.load(Relaxed)).filter(|position| *position != NEVER)
    }

    /// Records up to where in the log it has been sent everything.
    pub(crate) fn set_position(&self, position: u64) {
        self.position.store(position, Relaxed);
    }

    /// Returns whether it says what it has executed: it does if it knows positions.
    pub(crate) fn acknowledges(&self) -> bool {
        !self.is_old.load(Relaxed)
    }

    /// Records that it has executed the log up to a position, and has it in an fsynced file up to another one, if it says so.
    /// What it was not sent does not count.
    pub(crate) fn acknowledge(&self, position: u64, synced: Option<u64>, now: Now) {
        let sent = self.position().unwrap_or(0);
        self.acknowledged.fetch_max(position.min(sent), Relaxed);
        if let Some(synced) = synced {
            self.synced.fetch_max(synced.min(sent), Relaxed);
        }
        self.restart_lag(now);
    }

    /// Returns whether it has what a client waits for.
    pub(super) fn has(&self, awaited: &Awaited) -> bool {
        let reached = if awaited.must_be_synced { &self.synced } else { &self.acknowledged };
        reached.load(Relaxed) >= awaited.position
    }

    /// Begins to count the time for which it says and reads nothing.
    pub(super) fn restart(&self, now: Now) {
        self.restart_lag(now);
        self.moved_ms.store(now.mono_ms(), Relaxed);
    }

    /// Begins to count the time for which it says nothing.
    pub(crate) fn restart_lag(&self, now: Now) {
        self.acknowledged_ms.store(now.mono_ms(), Relaxed);
    }

    /// Returns for how many milliseconds it has read nothing of what there is for it, when `bytes_out` have been written to
    /// it. To be asked from time to time.
    pub(crate) fn stalled_ms(&self, bytes_out: u64, has_output: bool, now: Now) -> u64 {
        let before = self.bytes_out.swap(bytes_out, Relaxed);
        if before != bytes_out || !has_output {
            self.moved_ms.store(now.mono_ms(), Relaxed);
        }
        now.mono_ms().saturating_sub(self.moved_ms.load(Relaxed))
    }

    /// Returns for how many milliseconds it has said nothing.
    pub(crate) fn lag_ms(&self, now: Now) -> u64 {
        now.mono_ms().saturating_sub(self.acknowledged_ms.load(Relaxed))
    }
}
