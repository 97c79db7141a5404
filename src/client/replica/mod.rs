//! Replicas of this server: clients that are sent a snapshot of the data, and from its cut on the log.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::config::HostPort;
use crate::persist::LogReader;
use crate::store::NEVER;
use crate::time::clock::Now;

mod acknowledgements;
pub(crate) mod feed;
mod list;

pub(crate) use acknowledgements::WaitingForReplicas;
pub(crate) use list::{LaggingReplica, Replicas, WaitingReplica};

/// State of a replica's synchronisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplicaState {
    /// The replica waits for a snapshot.
    Waiting,
    /// The replica is sent a snapshot while it is written, or waits until it is written to a file.
    Snapshot,
    /// The replica is sent the file of a snapshot.
    File,
    /// The replica was sent a snapshot, and has not acknowledged it.
    Loading,
    /// The replica is sent the log.
    Online,
}

impl ReplicaState {
    /// Returns the name of the state in INFO.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ReplicaState::Waiting | ReplicaState::Snapshot => "wait_bgsave",
            ReplicaState::File | ReplicaState::Loading => "send_bulk",
            ReplicaState::Online => "online",
        }
    }
}

/// Part of the data that a replica asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WantedData {
    pub(crate) keys: bool,
    /// Libraries of functions.
    pub(crate) libraries: bool,
}

impl WantedData {
    pub(crate) const ALL: WantedData = WantedData { keys: true, libraries: true };
}

/// One replica, as its own connection, INFO and WAIT see it.
pub(crate) struct Replica {
    /// The id of the client.
    pub(crate) client: u64,
    /// Address that the replica announces, or from which it has connected.
    pub(crate) ip: Mutex<String>,
    /// Port that the replica announces, which may be any number; 0 before.
    pub(crate) port: AtomicI64,
    /// Set if the replica can read a snapshot of unknown length (`capa eof`).
    pub(crate) has_eof: AtomicBool,
    /// Set if the replica can continue with another replication ID (`capa psync2`).
    pub(crate) has_psync2: AtomicBool,
    /// Set if the replica has asked by SYNC, and so is told neither the replication ID nor the offset.
    pub(crate) is_old: AtomicBool,
    /// Part of the data that the replica asks for.
    pub(crate) wanted: Mutex<WantedData>,
    /// Set if the connection ends after the snapshot.
    pub(crate) is_snapshot_only: AtomicBool,
    /// Number of steps of the server's clock when the replica last introduced itself, before it asks for the time.
    pub(crate) clock_steps: AtomicU64,
    state: AtomicU8,
    /// Position up to which the log was sent; [`NEVER`] before the snapshot was cut.
    position: AtomicU64,
    /// Position up to which the replica says that it has executed the log.
    acknowledged: AtomicU64,
    /// Time of the replica's last sign of life, in monotonic milliseconds: an acknowledgement, or an empty line.
    acknowledged_ms: AtomicU64,
    /// Position up to which the replica says that it has the log in an fsynced append-only file.
    synced: AtomicU64,
    /// Number of bytes written to the replica by the last call of [`Replica::stalled_ms`].
    bytes_out: AtomicU64,
    /// Time at which [`Replica::stalled_ms`] last found progress, or nothing to read, in monotonic milliseconds.
    moved_ms: AtomicU64,
}

impl Replica {
    /// Creates a replica that has connected from an address and has not asked for anything, after a number of steps of the
    /// server's clock.
    pub(crate) fn new(client: u64, ip: &str, clock_steps: u64) -> Self {
        Replica {
            client,
            ip: Mutex::new(ip.to_owned()),
            port: AtomicI64::new(0),
            has_eof: AtomicBool::new(false),
            has_psync2: AtomicBool::new(false),
            is_old: AtomicBool::new(false),
            wanted: Mutex::new(WantedData::ALL),
            is_snapshot_only: AtomicBool::new(false),
            clock_steps: AtomicU64::new(clock_steps),
            state: AtomicU8::new(ReplicaState::Waiting as u8),
            position: AtomicU64::new(NEVER),
            acknowledged: AtomicU64::new(0),
            acknowledged_ms: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
            moved_ms: AtomicU64::new(0),
        }
    }

    /// Returns the address at which clients reach the replica.
    pub(crate) fn address(&self) -> HostPort {
        HostPort { host: self.ip.lock().clone(), port: u16::try_from(self.port.load(Relaxed)).unwrap_or(0) }
    }

    /// Returns the name of the replica in the server's log.
    pub(crate) fn shown_name(&self) -> String {
        match self.port.load(Relaxed) {
            0 => format!("{}:<unknown-replica-port>", self.ip.lock()),
            port => format!("{}:{port}", self.ip.lock()),
        }
    }

    /// Returns the line that grants a partial resynchronisation, with the present replication ID if the replica
    /// understands it.
    pub(crate) fn continue_line(&self, id: &str) -> Bytes {
        if self.has_psync2.load(Relaxed) {
            format!("+CONTINUE {id}\r\n").into()
        } else {
            Bytes::from_static(b"+CONTINUE\r\n")
        }
    }

    pub(crate) fn state(&self) -> ReplicaState {
        match self.state.load(Relaxed) {
            0 => ReplicaState::Waiting,
            1 => ReplicaState::Snapshot,
            2 => ReplicaState::File,
            3 => ReplicaState::Loading,
            _ => ReplicaState::Online,
        }
    }

    pub(crate) fn set_state(&self, state: ReplicaState) {
        self.state.store(state as u8, Relaxed);
    }

    /// Returns the position up to which the replica has executed the log.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Relaxed)
    }

    /// Returns the position up to which the log was sent to the replica; `None` before its snapshot was cut.
    pub(crate) fn position(&self) -> Option<u64> {
        Some(self.position.load(Relaxed)).filter(|position| *position != NEVER)
    }

    /// Records the position up to which the log was sent to the replica.
    pub(crate) fn set_position(&self, position: u64) {
        self.position.store(position, Relaxed);
    }

    /// Returns true if the replica acknowledges what it has executed, as it does if it knows positions.
    pub(crate) fn acknowledges(&self) -> bool {
        !self.is_old.load(Relaxed)
    }

    /// Records that the replica has executed the log up to a position, and, if it says so, has it in an fsynced file up
    /// to another one. Positions beyond what was sent do not count.
    pub(crate) fn acknowledge(&self, position: u64, synced: Option<u64>, now: Now) {
        let sent = self.position().unwrap_or(0);
        self.acknowledged.fetch_max(position.min(sent), Relaxed);
        if let Some(synced) = synced {
            self.synced.fetch_max(synced.min(sent), Relaxed);
        }
        self.restart_lag(now);
    }

    /// Returns true if the replica has acknowledged what a client waits for.
    pub(super) fn has(&self, awaited: &AwaitedReplicas) -> bool {
        let reached = if awaited.must_be_synced { &self.synced } else { &self.acknowledged };
        reached.load(Relaxed) >= awaited.position
    }

    /// Restarts the times for which the replica has sent nothing and read nothing.
    pub(super) fn restart(&self, now: Now) {
        self.restart_lag(now);
        self.moved_ms.store(now.mono_ms(), Relaxed);
    }

    /// Restarts the time for which the replica has sent nothing.
    pub(crate) fn restart_lag(&self, now: Now) {
        self.acknowledged_ms.store(now.mono_ms(), Relaxed);
    }

    /// Returns for how many milliseconds the replica has read nothing of its pending output; `bytes_out` is the number
    /// of bytes written to it. To be called regularly.
    pub(crate) fn stalled_ms(&self, bytes_out: u64, has_output: bool, now: Now) -> u64 {
        let before = self.bytes_out.swap(bytes_out, Relaxed);
        if before != bytes_out || !has_output {
            self.moved_ms.store(now.mono_ms(), Relaxed);
        }
        now.mono_ms().saturating_sub(self.moved_ms.load(Relaxed))
    }

    /// Returns for how many milliseconds the replica has sent nothing.
    pub(crate) fn lag_ms(&self, now: Now) -> u64 {
        now.mono_ms().saturating_sub(self.acknowledged_ms.load(Relaxed))
    }
}

/// A part of a synchronisation: of a snapshot, or of what lies in an append-only file.
pub(crate) enum SyncPart {
    /// The first line; the reader begins behind the data that is sent.
    Begin(Bytes, LogReader),
    /// The line before data from a file, which tells its length, or that the replica may continue.
    File(Bytes),
    /// The next bytes.
    Bytes(Bytes),
    /// The end. If the length was not told in advance, the replica has to acknowledge the data before anything may
    /// follow.
    End { waits: bool },
}

/// Acknowledgements that a client waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AwaitedReplicas {
    /// Number of replicas.
    pub(crate) count: usize,
    /// Position up to which the replicas must have executed the log.
    pub(crate) position: u64,
    /// True if the replicas must have the log up to there in an fsynced file.
    pub(crate) must_be_synced: bool,
}

/// The clients that wait, by their ids.
pub(super) type Waiters = Mutex<BTreeMap<u64, AwaitedReplicas>>;
