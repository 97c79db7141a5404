//! The engine of a namespace whose data is in a cluster.

use std::sync::Arc;

use crate::client::engine::Engine;
use crate::namespace::Namespace;
use crate::namespace::restrictions::ON_ENGINE;

impl Namespace {
    /// Returns the engine, if the data is in a cluster.
    pub(crate) fn engine(&self) -> Option<&dyn Engine> {
        self.engine.get().map(|engine| &**engine)
    }

    /// Sets the engine, before the first client is served.
    pub(crate) fn set_engine(&self, engine: Arc<dyn Engine>) {
        let is_first = self.engine.set(engine).is_ok();
        debug_assert!(is_first, "a namespace has one engine");
        self.restrictions.set(ON_ENGINE, true);
    }
}
