//! Warnings about the settings at startup: what is accepted but has no effect.

use std::path::Path;

use crate::config::{Config, Setting, Unsupported, ignored_changes};

/// A smaller limit of memory, in bytes, is probably a mistake.
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
    if config.asks_for_snapshots() {
        lines.push("save points are set, but nothing is written: the data is lost when the server stops".into());
    }
    if config.asks_for_log() {
        lines.push("appendonly is on, but nothing is written: the data is lost when the server stops".into());
    }
    lines.extend(
        saved_data(config)
            .map(|file| format!("{file} exists, but data is not loaded from files: the server starts without keys")),
    );
    lines
}

/// Returns why a server must not start with these settings, if there is a reason: what they ask for is missing, and a
/// server without it would do something else.
pub(crate) fn refusal(config: &Config) -> Option<String> {
    if !text(config, "replicaof").is_empty() {
        return Some(
            "the setting 'replicaof' asks for a replica, but there is no replication: the server would be an empty primary"
                .into(),
        );
    }
    if text(config, "cluster-enabled") == "yes" {
        return Some(
            "the setting 'cluster-enabled' asks for a cluster, but the server would be a standalone one".into(),
        );
    }
    let ignored = ignored_changes(config);
    (config.unsupported_settings == Unsupported::Refuse && !ignored.is_empty()).then(|| {
        let names: Vec<String> = ignored.iter().map(|name| format!("'{name}'")).collect();
        format!("unsupported-settings is 'refuse', and these settings have no effect: {}", names.join(", "))
    })
}

fn text(config: &Config, name: &str) -> String {
    let setting = Setting::find(name.as_bytes()).map(|(_, setting)| setting.get(config));
    String::from_utf8_lossy(&setting.unwrap_or_default()).into_owned()
}

/// Returns the existing files that a server with persistence would load.
fn saved_data(config: &Config) -> impl Iterator<Item = String> {
    let (dump, log, logs) = (text(config, "dbfilename"), text(config, "appendfilename"), text(config, "appenddirname"));
    let logged = [Path::new(&log).into(), Path::new(&logs).join(format!("{log}.manifest"))];
    let (dir, is_logging) = (config.dir.clone(), text(config, "appendonly") == "yes");
    let named =
        (!dump.is_empty()).then(|| dump.into()).into_iter().chain(logged.into_iter().filter(move |_| is_logging));
    named.map(move |file| dir.join(file)).filter(|path| path.is_file()).map(|path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;
    use crate::spec::sample::commands;

    #[test]
    fn what_asks_for_a_replica_or_a_cluster_prevents_the_start_and_the_rest_if_that_is_wanted() {
        let refusal = |text: &str| refusal(&load(commands(), None, Some(text.as_bytes()), b"").expect("valid"));
        for text in ["", "replicaof no one", "slaveof NO ONE", "cluster-enabled no", "save 1 1\nappendonly yes"] {
            assert_eq!(refusal(text), None, "{text}");
        }
        for (text, names) in [
            ("replicaof h 1", &["'replicaof'"][..]),
            ("slaveof h 1\nunsupported-settings warn", &["'replicaof'"]),
            ("cluster-enabled yes", &["'cluster-enabled'"]),
            ("unsupported-settings refuse\nsave 3600 1 300 100 60 10000", &["'save'"]),
            (
                "unsupported-settings refuse\nappendonly yes\nsyslog-enabled yes\nsave 1 1",
                &["'appendonly'", "'syslog-enabled'", "'save'"],
            ),
        ] {
            let reason = refusal(text).expect("refused");
            assert!(names.iter().all(|name| reason.contains(name)), "{text}: {reason}");
        }
        assert_eq!(refusal("unsupported-settings refuse\nsave ''\nappendonly no\ntimeout 5"), None);
    }

    #[test]
    fn what_needs_no_warning_has_none() {
        let warnings = |text: &str| start_warnings(&load(commands(), None, Some(text.as_bytes()), b"").expect("valid"));
        assert_eq!(warnings("dir /\nsave ''\nmaxmemory 1mb\nreplicaof no one"), Vec::<String>::new());
        for (text, said) in [
            ("maxmemory 1kb", "maxmemory is 1024 bytes"),
            ("save 3600 1 300 100 60 10000", "save points are set, but nothing is written"),
        ] {
            assert!(warnings(text).iter().any(|line| line.contains(said)), "{text}: {:?}", warnings(text));
        }
    }

    #[test]
    fn a_start_next_to_saved_data_warns_that_it_is_not_loaded() {
        let dir = tempfile::tempdir().expect("a directory");
        let config = |more: &str| {
            let text = format!("dir {}\n{more}", dir.path().display());
            load(commands(), None, Some(text.as_bytes()), b"").expect("valid")
        };
        assert_eq!(start_warnings(&config("")), Vec::<String>::new());
        std::fs::write(dir.path().join("dump.rdb"), "x").expect("writable");
        std::fs::write(dir.path().join("appendonly.aof"), "x").expect("writable");
        let lines = start_warnings(&config(""));
        assert!(lines.len() == 1 && lines[0].contains("/dump.rdb exists, but data is not loaded"), "{lines:?}");
        let lines = start_warnings(&config("appendonly yes\ndbfilename ''\n"));
        let expected =
            ["'appendonly' is accepted", "'dbfilename' is accepted", "appendonly is on, but", "/appendonly.aof exists"];
        assert_eq!(lines.len(), expected.len(), "{lines:?}");
        assert!(expected.iter().all(|part| lines.iter().any(|line| line.contains(part))), "{lines:?}");
    }
}
