//! The page on locks: every block of code on it is executed. Sessions, scripts and settings are executed here, programs
//! by `tests/clients/locks_page.py`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::files::{dir, start_in};
use crate::harness::TestServer;
use crate::process::{Process, binary, text};
use crate::tidy::{root, rust_files};
use crate::transcripts::{self, comparable};

/// Languages of blocks, with the minimum number of blocks of each. The clients' tests run the languages after `sh`.
const LANGUAGES: [(&str, usize); 8] =
    [("redis", 5), ("sh", 3), ("conf", 1), ("python", 3), ("js", 1), ("go", 1), ("java", 1), ("rust", 1)];

/// Returns the blocks of code, each with its language.
fn blocks() -> Vec<(String, String)> {
    let page = fs::read_to_string(root().join("docs/LOCKS.md")).expect("the page");
    let mut blocks: Vec<(String, String)> = Vec::new();
    let mut is_code = false;
    for line in page.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            is_code = !is_code;
            if is_code {
                blocks.push((language.to_owned(), String::new()));
            }
        } else if is_code {
            blocks.last_mut().expect("a block").1.push_str(&format!("{line}\n"));
        }
    }
    blocks
}

fn of_language(language: &str) -> Vec<String> {
    blocks().into_iter().filter(|block| block.0 == language).map(|block| block.1).collect()
}

/// Returns the output promised in a block's comments, line by line.
fn promised(block: &str) -> Vec<&str> {
    let lines = block.lines().filter_map(|line| line.strip_prefix("# prints: "));
    lines.map(str::trim_end).collect()
}

#[test]
fn every_block_of_code_has_a_language_that_is_run() {
    let blocks = blocks();
    let unknown: Vec<&String> =
        blocks.iter().map(|block| &block.0).filter(|name| LANGUAGES.iter().all(|known| known.0 != *name)).collect();
    assert!(unknown.is_empty(), "nothing runs blocks of {unknown:?}");
    for (language, count_min) in LANGUAGES {
        let count = blocks.iter().filter(|block| block.0 == language).count();
        assert!(count >= count_min, "{count} blocks of {language}");
    }
}

#[test]
fn the_sessions_of_the_page_run() {
    of_language("redis").iter().for_each(|example| transcripts::run(example));
}

#[test]
fn the_scripts_of_the_page_print_what_they_say() {
    let server = TestServer::start_in_real_time();
    let folder = programs(server.addr().port());
    let path = [folder.path().as_os_str(), &std::env::var_os("PATH").expect("a PATH")].join(OsStr::new(":"));
    for script in of_language("sh") {
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).env("PATH", &path).env("USER", "ann").env_remove("REDISCLI_AUTH");
        let output = shell.current_dir(folder.path()).stdin(Stdio::null()).output().expect("a shell");
        assert!(output.status.success(), "{output:?}");
        let (said, promised) = (text(&output.stdout), promised(&script));
        assert!(!promised.is_empty(), "it does not say what it prints:\n{script}");
        assert_eq!(printed(&said), printed(&promised.join("\n")), "the command's, and the page's:\n{said}");
        assert_eq!(server.client().call("DBSIZE"), ":0", "it has released its locks:\n{script}");
    }
}

/// Returns a folder with `keylatch` and `redis-cli`, both the binary, for the server with this port.
fn programs(port: u16) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let (binary, link) = (binary().display(), folder.path().join("cli/redis-cli"));
    fs::create_dir(folder.path().join("cli")).expect("a folder");
    std::os::unix::fs::symlink(crate::process::binary(), &link).expect("a link");
    let commands = [
        ("keylatch", format!("name=$1; shift; exec '{binary}' \"$name\" -p {port} \"$@\"")),
        ("redis-cli", format!("exec '{}' -p {port} \"$@\"", link.display())),
    ];
    for (name, command) in commands {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{command}\n")).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
    }
    folder
}

/// Returns the words of an output, without parts that differ from run to run: fences, ages and TTLs, hosts and ports.
fn printed(output: &str) -> Vec<Vec<String>> {
    let word = |word: &str| {
        let is_time = word.strip_suffix('s').is_some_and(|digits| digits.parse::<f64>().is_ok());
        let (user, host) = word.split_once('@').unwrap_or((word, ""));
        match host.split_once(':') {
            _ if is_time => "TIME".to_owned(),
            Some((_, rest)) => format!("{user}@HOST:{}", rest.trim_start_matches(|c: char| c.is_ascii_digit())),
            None => word.to_owned(),
        }
    };
    comparable(output).lines().map(|line| line.split_whitespace().map(word).collect()).collect()
}

#[test]
fn the_settings_of_the_page_keep_locks_and_sessions_over_a_restart() {
    for block in of_language("conf") {
        let settings: Vec<(&str, &str)> = block
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_once(' ').expect("a setting and its value"))
            .collect();
        is_loaded_from_a_file(&block, &settings);
        let dir = dir();
        let server = start_in(dir.path(), &settings);
        let mut client = server.client();
        let fence = client.int("LOCK.ACQUIRE lock:report token-a PX 30000");
        client.int("LOCK.ACQUIRE lock:page token-a SESSION");
        server.end();
        let server = start_in(dir.path(), &settings);
        let mut other = server.client();
        other.expect(&[
            ("LOCK.ACQUIRE lock:report token-b PX 1", "$-1"),
            ("LOCK.ACQUIRE lock:page token-b PX 1", "$-1"),
        ]);
        assert_eq!(other.int("LOCK.FENCE lock:report token-a"), fence);
        let resumed = other.call("LOCK.RESUME token-a");
        assert!(resumed.starts_with("*2 ") && resumed.contains("lock:page"), "{resumed}");
    }
}

/// Starts the binary with these settings in a file.
fn is_loaded_from_a_file(block: &str, settings: &[(&str, &str)]) {
    let dir = dir();
    let path = dir.path().join("keylatch.conf");
    fs::write(&path, block).expect("a file");
    let mut server = Process::start(&[path.to_str().expect("a path of text")]);
    let mut client = server.client();
    for (name, value) in settings {
        let shown = client.call(&format!("CONFIG GET {name}"));
        assert!(shown.ends_with(&format!(" {value}")), "{shown}");
    }
}

#[test]
fn every_test_that_the_page_names_exists() {
    let page = fs::read_to_string(root().join("docs/LOCKS.md")).expect("the page");
    let (_, list) = page.split_once("The tests that show it").expect("the list");
    let (list, _) = list.split_once("\n# ").expect("the next part");
    let sources: String = rust_files("tests/it").into_iter().map(|file| file.text).collect();
    let named: Vec<&str> = list.split('`').skip(1).step_by(2).filter(|name| !name.contains('/')).collect();
    assert!(named.len() > 10, "{named:?}");
    for name in named {
        assert!(sources.contains(&format!("fn {name}()")), "there is no test {name}");
    }
}
