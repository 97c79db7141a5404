//! The mark of a running server: a file in `dir` that a clean shutdown removes, so that a start that finds it follows
//! a crash.
//!
//! After a crash the locks are gone while their holders still believe in them. With `restart-grace-ms` the server then
//! serves no keys for as long as such a belief may last.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use tracing::warn;

use crate::config::Config;
use crate::namespace::Namespace;

/// The mark of this server; removed when it is dropped.
pub(super) struct RestartMark {
    path: PathBuf,
    /// Whether it was there before: the server before this one has crashed.
    is_left: bool,
    grace_ms: u64,
}

impl RestartMark {
    /// Sets the mark of a server with these settings, if it is to have one.
    ///
    /// # Errors
    /// When the file cannot be created: a crash would go unnoticed.
    pub(super) fn of(config: &Config) -> io::Result<Option<Self>> {
        let (grace_ms, port) = (config.restart_grace_ms, config.port.max(config.tls_port));
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
            let mut file = File::create(&path)?;
            writeln!(file, "{}", std::process::id())?;
            file.sync_all()?;
            // It must be there after a power failure, too.
            path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
        };
        write().map_err(failed)?;
        Ok(Some(RestartMark { path, is_left, grace_ms }))
    }

    /// Lets a server that follows a crash serve no keys for the time that the settings say.
    pub(super) fn begin_grace(&self, namespace: &Namespace) {
        if self.is_left {
            warn!("The server has not been shut down cleanly: no keys are served for {} ms", self.grace_ms);
            namespace.begin_grace(self.grace_ms);
        }
    }

    /// Leaves the mark for the next start.
    pub(super) fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for RestartMark {
    fn drop(&mut self) {
        // One that stays behind only delays the next start.
        let _ = fs::remove_file(&self.path);
    }
}
