//! Stand-in for `engine` in a build without the feature etcd: a start that asks for an engine fails.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use crate::config::EngineKind;
use crate::dispatch::Handlers;
use crate::namespace::Namespace;

/// An uninhabited type: there is no engine.
pub(super) struct RunningEngine(Infallible);

impl RunningEngine {
    /// Unreachable.
    #[expect(clippy::unused_async, reason = "the counterpart waits for the engine")]
    pub(super) async fn end(&mut self) {
        match self.0 {}
    }
}

/// An uninhabited type: there is nothing to be waited for.
pub(super) struct Ready(Infallible);

impl Ready {
    /// Unreachable.
    ///
    /// # Errors
    ///
    /// None.
    #[expect(clippy::unused_async, reason = "the counterpart waits for the engine")]
    pub(super) async fn wait(self) -> io::Result<()> {
        match self.0 {}
    }
}

/// Starts no engine.
///
/// # Errors
/// If the settings ask for an engine.
pub(super) fn begin(
    namespace: &Arc<Namespace>,
    _: &'static Handlers,
) -> io::Result<(Option<RunningEngine>, Option<Ready>)> {
    match namespace.settings.current().engine {
        EngineKind::Memory => Ok((None, None)),
        EngineKind::Etcd => {
            Err(io::Error::new(io::ErrorKind::Unsupported, "keylatch was built without the feature etcd"))
        }
    }
}
