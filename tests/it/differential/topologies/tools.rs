//! Redis' own tools, run against the nodes of a deployment, and what they print: without what depends on the run.

use std::io::{ErrorKind, Read, Seek, Write};
use std::process::{Command, Stdio};

use tempfile::tempfile;

use super::Node;
use super::mask::named;
use crate::harness::wait_for_exit;

/// Beginnings of lines about a node or a key, in the order in which the asked node has them; lines behind them belong to them if they
/// are indented.
const ABOUT_NODES: [&str; 7] =
    ["M: ", "S: ", "127.0.0.1:", ">>> Node ", "[WARNING] Node ", "Migrating ", "ERR setting node-timeout for "];

/// Returns whether a tool is installed.
#[cfg_attr(not(feature = "lua"), allow(dead_code, reason = "its stories need scripts"))]
pub(super) fn is_there(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").stdout(Stdio::null()).status();
    match found {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => panic!("{tool} does not start: {error}"),
    }
}

/// Runs a tool with its arguments, or `tool arguments << answer`; shows its output, that to standard error behind `!`, and its exit
/// status.
pub(super) fn run(line: &str, nodes: &[Node], dir: &str) -> Vec<String> {
    let (call, answer) =
        line.split_once(" << ").map_or((line, String::new()), |(call, text)| (call, format!("{text}\n")));
    let mut words = call.split(' ');
    let (mut input, mut output, mut errors) = (file(&answer), file(""), file(""));
    let again = |file: &std::fs::File| file.try_clone().expect("a file of one's own");
    input.rewind().expect("a file of one's own");
    let mut child = Command::new(words.next().expect("a tool"))
        .args(words)
        .env("TERM", "dumb")
        .env_remove("REDISCLI_AUTH")
        .stdin(input)
        .stdout(again(&output))
        .stderr(again(&errors))
        .spawn()
        .expect("a tool that is installed");
    let status = wait_for_exit(&mut child);
    let mut shown = lines(&content(&mut output), nodes, dir);
    let complaints = lines(&content(&mut errors), nodes, dir);
    shown.extend(sorted_if_written_by_node(complaints).into_iter().map(|line| format!("! {line}")));
    shown.push(format!("exit {}", status.code().unwrap_or(-1)));
    shown
}

/// Creates a file without a name.
fn file(content: &str) -> std::fs::File {
    let mut file = tempfile().expect("a temporary file");
    file.write_all(content.as_bytes()).expect("a temporary file");
    file
}

fn content(file: &mut std::fs::File) -> String {
    let mut bytes = Vec::new();
    file.rewind().expect("a file of one's own");
    file.read_to_end(&mut bytes).expect("a file of one's own");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the lines of an output that say something, with the names of nodes for their ids and ports, sorted by node where their
/// order is that of a hash table.
fn lines(output: &str, nodes: &[Node], dir: &str) -> Vec<String> {
    let mut output = output.replace(dir, "<dir>");
    for Node { name, id, .. } in nodes.iter().filter(|node| !node.id.is_empty()) {
        output = output.replace(&format!("({}...)", &id[..8]), &format!("(<{name}>...)"));
    }
    let (mut shown, mut about_nodes) = (Vec::new(), Vec::<Vec<String>>::new());
    for line in output.lines().map(|line| named(line, nodes)) {
        let line = shortened(line.trim_end());
        if line.is_empty() {
            continue;
        } else if ABOUT_NODES.iter().any(|begin| line.starts_with(begin)) {
            about_nodes.push(vec![line]);
        } else if let Some(node) = about_nodes.last_mut().filter(|_| line.starts_with("   ")) {
            node.push(line);
        } else {
            shown.extend(in_order(&mut about_nodes));
            shown.push(line);
        }
    }
    shown.extend(in_order(&mut about_nodes));
    shown
}

/// Returns the lines about nodes in the order of these.
fn in_order(about_nodes: &mut Vec<Vec<String>>) -> impl Iterator<Item = String> + use<> {
    about_nodes.sort_by_key(|lines| lines[0].split("<port-").nth(1).unwrap_or_default().to_owned() + &lines[0]);
    std::mem::take(about_nodes).into_iter().flatten()
}

/// Removes the marks of progress from a line: dots for seconds, and a sign for each slot that has moved.
fn shortened(line: &str) -> String {
    match line.len() {
        _ if line.bytes().all(|byte| byte == b'.') => String::new(),
        count if count > 0 && line.bytes().all(|byte| byte == b'#') => format!("# {count} times"),
        _ => line.to_owned(),
    }
}

/// Sorts the reports of a backup, and masks the lengths of snapshots, in which each server notes something about itself.
fn sorted_if_written_by_node(mut lines: Vec<String>) -> Vec<String> {
    const SNAPSHOT: &str = "SYNC sent to master, writing ";
    let has_snapshots = lines.iter().any(|line| line.starts_with(SNAPSHOT));
    for line in &mut lines {
        if let Some((_, file)) = line.strip_prefix(SNAPSHOT).and_then(|rest| rest.split_once(' ')) {
            *line = format!("{SNAPSHOT}(masked) {file}");
        }
    }
    if has_snapshots {
        lines.sort();
    }
    lines
}
