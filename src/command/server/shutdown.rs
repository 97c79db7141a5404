//! How a server is asked to stop: by SHUTDOWN or by a signal, with the same options.
//!
//! There is nothing to save data to, so `save` fails, and a server that is asked for it goes on with its data unless
//! `force` says otherwise. Without `save` the data goes, as the settings said at the start it would.

use tracing::{info, warn};

use crate::config::ShutdownOptions;
use crate::namespace::Namespace;

/// Stops the server, or returns that it goes on.
pub(crate) fn shut_down(namespace: &Namespace, options: ShutdownOptions) -> bool {
    info!("User requested shutdown...");
    if options.save {
        warn!("keylatch keeps data in memory only and has nowhere to save it");
        if !options.force {
            warn!("Error trying to save the DB, can't exit.");
            warn!("Errors trying to shut down the server. Check the logs for more information.");
            return false;
        }
        warn!("Error trying to save the DB. Exit anyway.");
    }
    namespace.begin_to_stop();
    true
}
