//! Warnings about the settings at startup: what is accepted but has no effect.

use std::path::Path;

use crate::config::{Config, Setting, ignored_changes};

/// Returns the warnings to log when a server starts with these settings, one line each.
pub(crate) fn start_warnings(config: &Config) -> Vec<String> {
    let unknown = config.directives.unknown_variables.iter();
    let mut lines: Vec<String> =
        unknown.map(|name| format!("the environment variable {name} names no setting and has no effect")).collect();
    lines.extend(
        ignored_changes(config).iter().map(|name| format!("the setting '{name}' is accepted and has no effect")),
    );
    if text(config, "appendonly") == "yes" {
        lines.push("appendonly is on, but nothing is written: the data is lost when the server stops".into());
    }
    lines.extend(
        saved_data(config)
            .map(|file| format!("{file} exists, but data is not loaded from files: the server starts without keys")),
    );
    lines
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
