//! Shutdown, by SHUTDOWN or by a signal, with the same options.
//!
//! There is no persistence, so `save` fails, and the server then keeps running unless `force` is given. Without `save`
//! the data is dropped, as the settings announced at startup.

use tracing::{info, warn};

use crate::config::ShutdownOptions;
use crate::error::MEMORY_ONLY;
use crate::namespace::Namespace;

/// Stops the server; returns whether it keeps running.
pub(crate) fn shut_down(namespace: &Namespace, options: ShutdownOptions) -> bool {
    info!("User requested shutdown...");
    let config = namespace.settings.current();
    if options.save {
        warn!("Nothing can be saved: {MEMORY_ONLY}");
        if !options.force {
            warn!("Error trying to save the DB, can't exit.");
            warn!("Errors trying to shut down the server. Check the logs for more information.");
            return false;
        }
        warn!("Error trying to save the DB. Exit anyway.");
    } else if !options.nosave && (config.asks_for_snapshots() || config.asks_for_log()) {
        warn!("The settings ask for files, but {MEMORY_ONLY}: the data is lost");
    }
    namespace.begin_shutdown();
    true
}
