//! Stand-in for `metrics_port` in a build without metrics: a startup that asks for the port fails.

use std::io;
use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::dispatch::Handlers;
use crate::namespace::Namespace;

/// Stand-in for the metrics port.
pub(crate) struct MetricsPort;

impl MetricsPort {
    /// Opens nothing.
    ///
    /// # Errors
    /// If the settings ask for the port.
    pub(crate) fn open(config: &Config) -> io::Result<Self> {
        match config.metrics_port {
            0 => Ok(MetricsPort),
            _ => Err(io::Error::new(io::ErrorKind::Unsupported, "keylatch was built without the feature metrics")),
        }
    }

    /// Serves nothing.
    pub(crate) fn serve(self, _: &Arc<Namespace>, _: &'static Handlers, _: &TaskTracker, _: &TaskTracker) {}
}
