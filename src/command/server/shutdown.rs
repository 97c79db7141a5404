//! Shutdown, by SHUTDOWN or by a signal, with the same options.
//!
//! With save points, or with `save`, the server stops when a last snapshot is saved, and goes on if that fails, unless
//! `force` is given. Neither does it stop, without `force`, while the first base of an append-only file is written. A server
//! that is still loading its data saves none. A task finishes the shutdown, whether its client waits or not.

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::client::registry::Unblocked;
use crate::config::ShutdownOptions;
use crate::dispatch::{Continuation, Env, Wait};
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::persist::Figures;
use crate::resp::Reply;
use crate::store::View;

/// What a request to shut down has led to.
#[derive(Debug)]
pub(crate) enum Shutdown {
    /// The server stops.
    Begun,
    /// It stops when a snapshot is saved. The token is cancelled if it goes on instead.
    Saving(CancellationToken),
    /// It goes on.
    Refused,
}

/// Stops the server, if the options require it after a snapshot.
pub(crate) fn shut_down(namespace: &Namespace, options: ShutdownOptions) -> Shutdown {
    info!("User requested shutdown...");
    // The next start would load the append-only file, whatever is saved beside it.
    if namespace.persistence.read(Figures::begins_log) {
        if !options.force {
            warn!("Writing initial AOF, can't exit.");
            return refused();
        }
        warn!("Writing initial AOF. Exit anyway.");
    }
    let config = namespace.settings.current();
    let is_due = options.save || !options.nosave && !config.save_points.is_empty();
    // What is loaded so far must not replace the file that it comes from.
    if is_due && !namespace.restrictions.is_loading() {
        let refusal = match config.dbfilename {
            None => "there is no snapshot file: 'dbfilename' is empty",
            Some(_) => match namespace.shut_down_after_save(options.force) {
                Ok(goes_on) => {
                    info!("Saving the final RDB snapshot before exiting.");
                    return Shutdown::Saving(goes_on);
                }
                Err(_) => "this server writes no files",
            },
        };
        if options.save && !options.force {
            warn!("Error trying to save the DB, can't exit: {refusal}");
            return refused();
        }
        warn!("Error trying to save the DB: {refusal}. Exit anyway: the data is lost.");
    }
    namespace.begin_shutdown();
    Shutdown::Begun
}

fn refused() -> Shutdown {
    warn!("Errors trying to shut down the server. Check the logs for more information.");
    Shutdown::Refused
}

/// The rest of SHUTDOWN while the snapshot is saved. It replies to failures only: when the server stops, the connection
/// closes.
pub(super) struct Stopping(pub(super) CancellationToken);

impl Continuation for Stopping {
    fn wait(&mut self) -> Wait<'_> {
        Wait::Work(Box::pin(self.0.cancelled()))
    }

    fn step(&mut self, _: Env<'_>, _: &mut View<'_>, _: &mut Reply<'_>, _: Unblocked) -> Result<bool> {
        Err(failed())
    }

    fn needs_no_keys(&self) -> bool {
        true
    }
}

/// Returns the error of a SHUTDOWN after which the server goes on.
pub(super) fn failed() -> Error {
    Error::other("Errors trying to SHUTDOWN. Check logs.")
}
