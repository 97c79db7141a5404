//! Mark of a running server: a file in `dir` that a shutdown removes unless locks are held, so that a start that finds
//! the file follows a crash or such a shutdown.
//!
//! The locks are gone then, while their holders still rely on them. With `restart-grace-ms` the server serves no keys
//! for as long as holders may do so.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tracing::warn;

use crate::config::Config;
use crate::namespace::Namespace;

/// The mark of this server; removed when it is dropped.
pub(super) struct RestartMark {
    path: PathBuf,
    /// Locked while the server runs, so that no other server takes the mark for its own.
    file: File,
    /// True if the mark was there before: the previous server has crashed, or stopped while locks were held.
    is_left: bool,
    /// True if the mark stays for the next start.
    stays: bool,
    grace_ms: u64,
}

impl RestartMark {
    /// Sets the mark of a server, if its settings ask for one.
    ///
    /// # Errors
    /// If the file cannot be created: a crash would go unnoticed.
    pub(super) fn of(config: &Config) -> io::Result<Option<Self>> {
        let tls_port = if config.test_tls { 0 } else { config.tls_port }; // that of test mode may be another each time
        let (grace_ms, port) = (config.restart_grace_ms, config.port.max(tls_port));
        if grace_ms == 0 {
            return Ok(None);
        }
        // Absolute, because the working directory changes with `dir`.
        let path = std::path::absolute(config.dir.join(format!("keylatch-{port}.running")))?;
        let failed = |cause: io::Error| {
            let text = format!("Can't create '{}', which restart-grace-ms needs: {cause}", path.display());
            io::Error::new(cause.kind(), text)
        };
        let is_left = path.try_exists().map_err(failed)?;
        let write = || {
            let mut file = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
            // A file system without locks is no reason not to start.
            if let Err(Errno::WOULDBLOCK) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another running server has it"));
            }
            file.set_len(0)?;
            writeln!(file, "{}", std::process::id())?;
            file.sync_all()?;
            // The file must be there after a power failure, too.
            path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())?;
            Ok(file)
        };
        let file = write().map_err(failed)?;
        Ok(Some(RestartMark { path, file, is_left, stays: false, grace_ms }))
    }

    /// Refuses all keys for `grace_ms` if the last process left its mark.
    pub(super) fn begin_grace(&self, namespace: &Namespace) {
        if self.is_left {
            warn!(
                "The last server has crashed, or stopped while locks were held: no keys are served for {} ms",
                self.grace_ms
            );
            namespace.restrictions.begin_grace(self.grace_ms, namespace.clock.now());
        }
    }

    /// Leaves the mark for the next start.
    pub(super) fn leave(mut self) {
        self.stays = true;
    }
}

impl Drop for RestartMark {
    fn drop(&mut self) {
        // A mark that stays behind only delays the next start.
        if !self.stays {
            let _ = fs::remove_file(&self.path);
        }
        // Closing the file alone would not do: a process that is being forked has it open until it executes its
        // program.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}
