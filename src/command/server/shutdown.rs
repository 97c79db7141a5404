//! Shutdown, by SHUTDOWN or by a signal, with the same options.
//!
//! There is no persistence, so `save` fails, and the server then keeps running unless `force` is given. Without `save`
//! the data is dropped, as the settings announced at startup.

use tracing::{info, warn};

use crate::config::ShutdownOptions;
use crate::namespace::Namespace;

/// Stops the server; returns whether it keeps running.
pub(crate) fn shut_down(namespace: &Namespace, options: ShutdownOptions) -> bool {
    info!("User requested shutdown...");
    if options.save {
        warn!("keylatch keeps data in memory only and cannot save it");
        if !options.force {
            warn!("Error trying to save the DB, can't exit.");
            warn!("Errors trying to shut down the server. Check the logs for more information.");
            return false;
        }
        warn!("Error trying to save the DB. Exit anyway.");
    }
    namespace.begin_shutdown();
    true
}
