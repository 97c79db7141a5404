//! The engine of a server whose data is in a cluster.

use std::io;
use std::sync::Arc;

use crate::config::EngineKind;
use crate::dispatch::Handlers;
use crate::engine::start;
pub(super) use crate::engine::{Ready, RunningEngine};
use crate::namespace::Namespace;

/// Starts the engine that the settings ask for, if any.
///
/// # Errors
/// The reason for which the engine cannot be started.
pub(super) fn begin(
    namespace: &Arc<Namespace>,
    handlers: &'static Handlers,
) -> io::Result<(Option<RunningEngine>, Option<Ready>)> {
    match namespace.settings.current().engine {
        EngineKind::Memory => Ok((None, None)),
        EngineKind::Etcd => start(namespace, handlers).map(|(running, ready)| (Some(running), Some(ready))),
    }
}
