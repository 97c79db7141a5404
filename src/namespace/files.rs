//! Restrictions on calls by the state of the files: data is being loaded, or cannot be saved; data that cannot be served.

use crate::config::AppendFsync;
use crate::namespace::Namespace;
use crate::namespace::restrictions::{FAILS_TO_SAVE, LOADING_BESIDE, LOADING_DATA};
use crate::persist::aof::FsyncPolicy;
use crate::store::{Cx, Origin};

/// Reason for rejected writes, which would not be saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SaveFailure {
    /// The last snapshot could not be saved.
    Snapshot,
    /// The append-only file cannot be written, with the reason.
    Log(String),
}

impl Namespace {
    /// Fails if a node of a cluster, which has one database, has loaded keys of others.
    pub(crate) fn check_databases(&self) -> Result<(), String> {
        if self.node().is_none() {
            return Ok(());
        }
        let mut hold = self.store.exclusive();
        let mut view = hold.view(0, Cx::new(self.clock.now(), Origin::HOST));
        let mut others = view.used_databases().into_iter().filter(|db| *db != 0);
        match others.find(|db| view.in_db(*db, |view| view.key_count() > 0)) {
            Some(db) => Err(format!("the data has keys in database {db}, and a cluster has database 0 only")),
            None => Ok(()),
        }
    }

    /// Returns the reason for which writes must be rejected, by the figures and the settings, if they must.
    pub(crate) fn save_failure(&self) -> Option<SaveFailure> {
        let config = self.settings.current();
        let needs_snapshots = config.stop_writes_on_bgsave_error && config.has_snapshots();
        self.persistence.read(|figures| match &figures.log {
            _ if needs_snapshots && figures.saves.error.is_some() => Some(SaveFailure::Snapshot),
            Some(log) => log.error.clone().map(SaveFailure::Log),
            None => None,
        })
    }

    /// Rejects writes, or ends that, after a change of the figures or the settings.
    pub(crate) fn follow_files(&self) {
        if self.restrictions.set(FAILS_TO_SAVE, self.save_failure().is_some()) {
            self.store.renew_generation();
        }
    }

    /// Has the thread that writes files check changed settings.
    pub(super) fn follow_file_settings(&self) {
        self.persistence.follow_policy(|| self.log_policy());
        self.persistence.follow_settings(self.settings.current().appendonly);
    }

    /// Returns the policy for syncs of the append-only file, by the settings.
    pub(crate) fn log_policy(&self) -> FsyncPolicy {
        match self.settings.current().appendfsync {
            AppendFsync::Always => FsyncPolicy::Always,
            AppendFsync::EverySecond => FsyncPolicy::EverySec,
            AppendFsync::No => FsyncPolicy::No,
        }
    }

    /// Declares that data is being loaded, so that few commands are served, or that the load is over.
    pub(crate) fn set_loading(&self, is_loading: bool) {
        self.restrict_loading(LOADING_DATA, is_loading);
    }

    /// Declares that data is being loaded beside the present data, so that a few commands are not served, or that the
    /// load is over.
    pub(crate) fn set_loading_beside(&self, is_loading: bool) {
        self.restrict_loading(LOADING_BESIDE, is_loading);
    }

    fn restrict_loading(&self, restriction: u32, is_loading: bool) {
        if self.restrictions.set(restriction, is_loading) {
            self.store.renew_generation();
            self.upkeep.sweep_notify.notify_one(); // expired keys stay until the data is loaded
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Requester};
    use crate::persist::LogFigures;
    use crate::spec::sample::commands;
    use crate::time::clock::Clock;

    fn fails(namespace: &Namespace) -> bool {
        namespace.restrictions.bits() & FAILS_TO_SAVE != 0
    }

    fn configure(namespace: &Namespace, name: &str, value: &str) {
        let pairs = [(name.as_bytes(), value.as_bytes())];
        let changed = namespace.settings.update(|config| config.set(&pairs, Requester::default()));
        changed.expect("accepted");
        namespace.apply_settings();
    }

    #[test]
    fn a_failed_snapshot_rejects_writes_while_the_settings_want_that() {
        let namespace = Namespace::for_test(commands(), Config::default(), Clock::manual());
        let generation = namespace.store.generation();
        namespace.follow_files();
        assert!(!fails(&namespace) && namespace.store.generation() == generation);
        namespace.persistence.update(|figures| figures.saves.error = Some("No space left on device".into()));
        namespace.follow_files();
        assert!(fails(&namespace) && namespace.store.generation() != generation);
        assert_eq!(namespace.save_failure(), Some(SaveFailure::Snapshot));
        for (name, off, on) in [("stop-writes-on-bgsave-error", "no", "yes"), ("save", "", "60 1")] {
            configure(&namespace, name, off);
            assert!(!fails(&namespace), "{name}");
            configure(&namespace, name, on);
            assert!(fails(&namespace), "{name}");
        }
        namespace.persistence.update(|figures| figures.saves.error = None);
        namespace.follow_files();
        assert!(!fails(&namespace));
    }

    #[test]
    fn an_append_only_file_that_cannot_be_written_rejects_writes_until_it_can() {
        let namespace = Namespace::for_test(commands(), Config::default(), Clock::manual());
        let log = |error: Option<&str>| Some(LogFigures { error: error.map(Into::into), ..LogFigures::default() });
        for (figures, failure) in [
            (log(None), None),
            (log(Some("No space left on device")), Some(SaveFailure::Log("No space left on device".into()))),
            (None, None),
        ] {
            namespace.persistence.update(|known| known.log = figures);
            namespace.follow_files();
            assert_eq!((namespace.save_failure(), fails(&namespace)), (failure.clone(), failure.is_some()));
        }
    }
}
