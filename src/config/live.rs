//! The settings in force, and the followers that apply changes of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::RwLock;
use tracing::warn;

use crate::config::{Config, SetError};

/// Applies a change of the settings from the first to the second, or returns which one cannot be applied; it is then
/// called to go back from the second to the first. It must not call [`Settings`].
type Follower = Box<dyn Fn(&Config, &Config) -> Result<(), SetError> + Send + Sync>;
/// The settings in force; connections keep a copy and compare the version to see whether it is stale.
pub struct Settings {
    current: RwLock<Arc<Config>>,
    version: AtomicU64,
    followers: RwLock<Vec<Follower>>,
}

impl Settings {
    /// Creates the settings of a server that starts.
    pub fn new(config: Config) -> Self {
        let current = RwLock::new(Arc::new(config));
        Settings { current, version: AtomicU64::new(0), followers: RwLock::default() }
    }

    /// Returns the settings in force.
    pub fn current(&self) -> Arc<Config> {
        self.current.read().clone()
    }

    /// Returns a number that changes with every change of the settings.
    pub fn version(&self) -> u64 {
        self.version.load(Relaxed)
    }

    /// Registers a function that applies every change, given the settings before and after it.
    pub fn on_change(&self, follow: impl Fn(&Config, &Config) -> Result<(), SetError> + Send + Sync + 'static) {
        self.followers.write().push(Box::new(follow));
    }

    /// Replaces the settings by the result of `change`; when that fails, or cannot be applied, they are unchanged.
    ///
    /// # Errors
    /// The error of `change` or of a follower.
    pub fn update(&self, change: impl FnOnce(&Config) -> Result<Config, SetError>) -> Result<(), SetError> {
        let mut current = self.current.write();
        let changed = change(&current)?;
        let followers = self.followers.read();
        for (at, follow) in followers.iter().enumerate() {
            if let Err(refusal) = follow(&current, &changed) {
                warn!("failed to apply new settings, restoring the old ones: {refusal}");
                for undo in &followers[..at] {
                    if let Err(error) = undo(&changed, &current) {
                        warn!("failed to restore a setting: {error}");
                    }
                }
                return Err(refusal);
            }
        }
        *current = Arc::new(changed);
        self.version.fetch_add(1, Relaxed);
        Ok(())
    }
}
