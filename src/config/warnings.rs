//! Warnings about the settings at startup, such as settings without effect, and refusals of settings that a server must
//! not start with.

use crate::config::{Config, EngineKind, Unsupported, ignored_changes};
use crate::store::EvictionPolicy;

/// Memory limit, in bytes, below which the limit is probably a mistake.
const MEMORY_MIN: u64 = 1 << 20;

/// Returns the warnings to log when a server starts with these settings, one line each; none where it does not start.
pub(crate) fn start_warnings(config: &Config) -> Vec<String> {
    if refusal(config).is_some() {
        return Vec::new();
    }
    let unknown = config.directives.unknown_variables.iter();
    let mut lines: Vec<String> =
        unknown.map(|name| format!("the environment variable {name} names no setting and has no effect")).collect();
    lines.extend(
        ignored_changes(config).iter().map(|name| format!("the setting '{name}' is accepted and has no effect")),
    );
    if (1..MEMORY_MIN).contains(&config.maxmemory) {
        let bytes = config.maxmemory;
        lines.push(format!("maxmemory is {bytes} bytes, less than 1 MB: is this what you want?"));
    }
    lines
}

/// Returns the reason for which a server must not start with these settings, if there is one: something that they ask
/// for is missing, and a server without it would do something else.
pub(crate) fn refusal(config: &Config) -> Option<String> {
    if config.cluster_enabled && config.replicaof.is_some() {
        return Some("replicaof directive not allowed in cluster mode".into());
    }
    if let Err(reason) = config.refuse_beside_engine().and_then(|()| config.refuse_beside_test_tls()) {
        return Some(reason);
    }
    let ignored = ignored_changes(config);
    (config.unsupported_settings == Unsupported::Refuse && !ignored.is_empty()).then(|| {
        let names: Vec<String> = ignored.iter().map(|name| format!("'{name}'")).collect();
        format!("unsupported-settings is 'refuse', and these settings have no effect: {}", names.join(", "))
    })
}

impl Config {
    /// Fails if the settings ask for an engine together with a setting that it does not support, or without
    /// `etcd-endpoints`.
    pub(super) fn refuse_beside_engine(&self) -> Result<(), String> {
        if self.engine == EngineKind::Memory {
            return Ok(());
        }
        let refused = [
            ("save", "it writes no files, the data is in etcd", !self.save_points.is_empty()),
            ("appendonly", "it writes no files, the data is in etcd", self.appendonly),
            ("replicaof", "all processes are equal, there are no replicas", self.replicaof.is_some()),
            ("maxmemory-policy", "it evicts no keys", self.maxmemory_policy != EvictionPolicy::Noeviction),
            ("test-mode", "its clock is not that of the other processes", self.test_mode),
        ];
        if self.etcd_endpoints.is_none() {
            return Err("engine etcd needs the addresses of the cluster: the setting 'etcd-endpoints'".to_owned());
        }
        match refused.into_iter().find(|(_, _, is_refused)| *is_refused) {
            Some((name, reason, _)) => Err(format!("the setting '{name}' is not possible with engine etcd: {reason}")),
            None => Ok(()),
        }
    }

    /// Fails if the settings ask for a certificate of the server's own out of test mode, or beside another one.
    pub(super) fn refuse_beside_test_tls(&self) -> Result<(), String> {
        if !self.test_tls {
            return Ok(());
        }
        if !self.test_mode {
            return Err("the setting 'test-tls' is for tests alone: it needs the setting 'test-mode'".to_owned());
        }
        let refused = [
            ("tls-cert-file", self.tls_cert_file.is_some()),
            ("tls-key-file", self.tls_key_file.is_some()),
            ("tls-key-file-pass", self.tls_key_file_pass.is_some()),
        ];
        match refused.into_iter().find(|(_, is_refused)| *is_refused) {
            Some((name, _)) => Err(format!(
                "the setting '{name}' is not possible with test-tls: the server makes its certificate itself"
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;
    use crate::spec::sample::commands;

    #[test]
    fn what_asks_for_a_cluster_prevents_the_start_and_the_rest_if_that_is_wanted() {
        let refusal = |text: &str| refusal(&load(commands(), None, Some(text.as_bytes()), b"").expect("valid"));
        for text in [
            "",
            "replicaof no one",
            "slaveof NO ONE",
            "replicaof h 1",
            "cluster-enabled yes",
            "save 1 1\nappendonly yes",
        ] {
            assert_eq!(refusal(text), None, "{text}");
        }
        for (text, names) in [
            ("cluster-enabled yes\nreplicaof h 1", &["replicaof directive"][..]),
            (
                "unsupported-settings refuse\nappendonly yes\nsyslog-enabled yes\nactiverehashing no",
                &["'syslog-enabled'", "'activerehashing'"],
            ),
        ] {
            let reason = refusal(text).expect("refused");
            assert!(names.iter().all(|name| reason.contains(name)), "{text}: {reason}");
        }
        for (text, name) in [
            ("test-tls yes", "'test-mode'"),
            ("test-tls yes\ntest-mode yes\ntls-cert-file c", "'tls-cert-file'"),
            ("test-tls yes\ntest-mode yes\ntls-key-file k", "'tls-key-file'"),
            ("test-tls yes\ntest-mode yes\ntls-key-file-pass p", "'tls-key-file-pass'"),
        ] {
            assert!(refusal(text).expect("refused").contains(name), "{text}");
        }
        assert_eq!(refusal("test-tls yes\ntest-mode yes\ntls-port 7000\ntls-protocols TLSv1.2"), None);
        assert_eq!(refusal("unsupported-settings refuse\nsave 60 1\nappendonly yes\ntimeout 5"), None);
    }

    #[test]
    fn what_needs_no_warning_has_none() {
        let warnings = |text: &str| start_warnings(&load(commands(), None, Some(text.as_bytes()), b"").expect("valid"));
        for text in
            ["", "dir /\nsave ''\nmaxmemory 1mb\nreplicaof no one", "save 60 1\nappendonly yes\nappendfsync always"]
        {
            assert_eq!(warnings(text), Vec::<String>::new(), "{text}");
        }
        for (text, said) in [
            ("maxmemory 1kb", "maxmemory is 1024 bytes"),
            ("syslog-enabled yes", "the setting 'syslog-enabled' is accepted and has no effect"),
        ] {
            assert!(warnings(text).iter().any(|line| line.contains(said)), "{text}: {:?}", warnings(text));
        }
    }
}
