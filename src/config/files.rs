//! Settings that name files, and servers that write none unless told: test doubles, embedded servers, private
//! instances.
//!
//! A server that another program starts for its tests must not leave files where that program runs, nor load files that
//! lie there. So its defaults differ from those of Redis: no save points, and no name of a snapshot file.

use std::path::PathBuf;

use crate::config::{Config, EngineKind, Setting};

/// Error of a private instance whose settings ask for files.
const PRIVATE: &str = "a private instance writes no files";

impl Config {
    /// Gives settings that were not set the defaults of a server that touches no files. A setting of `dir`, save points
    /// or the name of the snapshot file asks for that file.
    pub(crate) fn use_memory_defaults(&mut self) {
        if !self.named.contains("save") {
            self.save_points.clear();
        }
        if !self.asks_for_snapshot_file() || self.engine != EngineKind::Memory {
            self.dbfilename = None;
        }
    }

    /// Returns the path of the file with the ids of a node, for a node of a cluster that keeps files, or is told to keep this one.
    pub(crate) fn node_file(&self) -> Option<PathBuf> {
        let keeps_files = self.dbfilename.is_some() || self.named.contains("cluster-config-file");
        let name = self.cluster_config_file.as_deref().filter(|_| self.cluster_enabled && keeps_files)?;
        Some(self.dir.join(String::from_utf8_lossy(name).as_ref()))
    }

    /// Returns true if snapshots are saved automatically: there are save points, and a file.
    pub(crate) fn has_snapshots(&self) -> bool {
        !self.save_points.is_empty() && self.dbfilename.is_some()
    }

    /// Makes the settings those of a private instance, which has no files and no secrets, whatever the process has.
    pub(crate) fn make_private(&mut self) {
        self.forget_secrets();
        self.save_points.clear();
        self.dbfilename = None;
        self.appendonly = false;
        self.own.extend(["save", "dbfilename", "appendonly"]);
    }

    /// Makes the settings those of a node of a topology at this port, of a cluster or not, whatever the process is.
    pub(crate) fn join_topology(&mut self, is_clustered: bool, port: u16, is_tls: bool) {
        self.cluster_enabled = is_clustered;
        (self.port, self.tls_port) = if is_tls { (0, port) } else { (port, 0) };
        self.own.extend(["cluster-enabled", "port", "tls-port"]);
    }

    /// Replaces the values of all settings that are secrets by their defaults, for good.
    fn forget_secrets(&mut self) {
        for setting in Setting::all().filter(|setting| setting.secret) {
            setting.store(self, setting.default.into());
            self.own.insert(setting.name);
        }
    }

    /// Records that a setting was set. If it asks for a snapshot file, the file gets its default name, unless a name
    /// was chosen.
    pub(super) fn note_named(&mut self, setting: &'static str) {
        self.named.insert(setting);
        if self.dbfilename.is_none() && !self.named.contains("dbfilename") && self.asks_for_snapshot_file() {
            self.dbfilename = Setting::find(b"dbfilename").map(|(_, setting)| PathBuf::from(setting.default));
        }
    }

    /// Returns true if a setting was set, even if to its default.
    pub(crate) fn has_named(&self, setting: &str) -> bool {
        self.named.contains(setting)
    }

    /// Takes the port for TLS that the system has chosen for a server with `test-tls`.
    pub(crate) fn choose_tls_port(&mut self, port: u16) {
        self.tls_port = port;
        self.named.remove("tls-port");
    }

    /// Returns whether a setting has the value that `test-tls` has given it, and nobody else.
    pub(super) fn has_from_test_tls(&self, setting: &str) -> bool {
        let is_affected = ["tls-port", "tls-auth-clients"].contains(&setting);
        is_affected && self.test_certificate.is_some() && !self.has_named(setting)
    }

    /// Fails if the settings of a private instance ask for files.
    pub(super) fn refuse_files(&self) -> Result<(), String> {
        if self.appendonly || !self.save_points.is_empty() {
            return Err(PRIVATE.to_owned());
        }
        Ok(())
    }

    /// Returns true if a setting was set that asks for a snapshot file.
    fn asks_for_snapshot_file(&self) -> bool {
        let has_points = !self.save_points.is_empty();
        self.has_named("dbfilename") || self.has_named("dir") || self.has_named("save") && has_points
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Requester, load};
    use crate::spec::sample::commands;

    fn with_memory_defaults(text: &str) -> Config {
        let mut config = load(commands(), None, Some(text.as_bytes()), b"").expect("valid");
        config.use_memory_defaults();
        config
    }

    /// Returns save points, snapshot file and append-only file.
    fn files(config: &Config) -> String {
        let shown = |name: &[u8]| Setting::find(name).map(|(_, setting)| setting.get(config)).unwrap_or_default();
        let shown = |name: &[u8]| String::from_utf8(shown(name)).expect("the tests use ASCII");
        format!("{}|{}|{}", shown(b"save"), shown(b"dbfilename"), shown(b"appendonly"))
    }

    #[test]
    fn a_server_in_memory_touches_only_the_files_that_were_asked_for() {
        for (settings, expected) in [
            ("", "||no"),
            ("timeout 5\nsave ''", "||no"),
            ("appendonly yes", "||yes"),
            ("save 60 1", "60 1|dump.rdb|no"),
            ("save 3600 1 300 100 60 10000", "3600 1 300 100 60 10000|dump.rdb|no"),
            ("dir .", "|dump.rdb|no"),
            ("dbfilename dump.rdb", "|dump.rdb|no"),
            ("dbfilename other.rdb", "|other.rdb|no"),
            ("save 60 1\ndbfilename ''", "60 1||no"),
        ] {
            assert_eq!(files(&with_memory_defaults(settings)), expected, "{settings}");
        }
        assert_eq!(files(&Config::default()), "3600 1 300 100 60 10000|dump.rdb|no");
    }

    #[test]
    fn a_file_that_is_asked_for_later_has_its_name_unless_it_was_chosen() {
        let by = Requester::default();
        let saving = |config: &Config| config.set(&[(b"save", b"60 1")], by).expect("accepted");
        assert_eq!(files(&saving(&with_memory_defaults(""))), "60 1|dump.rdb|no");
        assert_eq!(files(&saving(&with_memory_defaults("dbfilename ''"))), "60 1||no");
        let unset = with_memory_defaults("").set(&[(b"save", b"")], by).expect("accepted");
        assert_eq!(files(&unset), "||no");
    }

    #[test]
    fn a_private_instance_has_no_files_and_cannot_ask_for_any() {
        let process = with_memory_defaults("save 60 1\nappendonly yes");
        let mut own = process.clone();
        own.make_private();
        assert_eq!(files(&own.on_top_of(&process)), "||no");
        let by = Requester { is_local: true, is_private: true };
        for (name, value) in [("save", "60 1"), ("appendonly", "yes")] {
            let refused = own.set(&[(name.as_bytes(), value.as_bytes())], by).expect_err("refused").to_string();
            assert!(refused.ends_with("a private instance writes no files"), "{refused}");
        }
        assert!(own.set(&[(b"save", b""), (b"appendonly", b"no"), (b"timeout", b"5")], by).is_ok());
    }
}
