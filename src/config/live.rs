//! Settings in force, and the followers that apply changes of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tracing::warn;

use crate::config::{Config, SetError};

/// Function that applies a change of the settings from the first to the second, or returns the setting that cannot be
/// applied; to undo a change, it is called to go back from the second to the first. It must not call [`Settings`].
type Follower = Box<dyn Fn(&Config, &Config) -> Result<(), SetError> + Send + Sync>;

/// The settings in force; connections keep a copy and compare the version to see whether it is stale.
///
/// Readers never wait, even while a change is being applied, which may bind ports and read files.
pub struct Settings {
    current: ArcSwap<Config>,
    version: AtomicU64,
    /// Locked while a change is applied.
    followers: Mutex<Vec<Follower>>,
}

impl Settings {
    /// Creates the settings of a server that starts.
    pub fn new(config: Config) -> Self {
        Settings { current: ArcSwap::from_pointee(config), version: AtomicU64::new(0), followers: Mutex::default() }
    }

    /// Returns the settings in force.
    pub fn current(&self) -> Arc<Config> {
        self.current.load_full()
    }

    /// Returns a number that changes with every change of the settings.
    pub fn version(&self) -> u64 {
        self.version.load(Relaxed)
    }

    /// Registers a function that applies every change, given the settings before and after it.
    pub fn on_change(&self, follow: impl Fn(&Config, &Config) -> Result<(), SetError> + Send + Sync + 'static) {
        self.followers.lock().push(Box::new(follow));
    }

    /// Replaces the settings by the result of `change`; if it fails, or its result cannot be applied, they are
    /// unchanged.
    ///
    /// # Errors
    /// The error of `change` or of a follower.
    pub fn update(&self, change: impl FnOnce(&Config) -> Result<Config, SetError>) -> Result<(), SetError> {
        let followers = self.followers.lock();
        let current = self.current();
        let changed = change(&current)?;
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
        self.current.store(Arc::new(changed));
        self.version.fetch_add(1, Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn the_settings_are_read_while_a_change_of_them_is_applied_and_waits() {
        let settings = Arc::new(Settings::new(Config::default()));
        let ((begun, has_begun), (go_on, may_go_on)) = (channel(), channel::<()>());
        let may_go_on = Mutex::new(may_go_on);
        settings.on_change(move |_, _| {
            begun.send(()).expect("the test waits for it");
            may_go_on.lock().recv().expect("the test lets it go on");
            Ok(())
        });
        let changing = settings.clone();
        let change = std::thread::spawn(move || {
            changing.update(|config| {
                let mut changed = config.clone();
                changed.timeout_s = 7;
                Ok(changed)
            })
        });
        has_begun.recv().expect("it is applied");
        assert_eq!((settings.current().timeout_s, settings.version()), (0, 0));
        go_on.send(()).expect("it waits for that");
        change.join().expect("no panic").expect("accepted");
        assert_eq!((settings.current().timeout_s, settings.version()), (7, 1));
    }
}
