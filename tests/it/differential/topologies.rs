//! Stories about whole topologies, played on a real one and on one that keylatch simulates: clusters of three primaries
//! and three replicas, and a primary with two replicas under three sentinels.
//!
//! A text is one history of one deployment; its paragraphs begin with new connections. A line is a request to a node, or
//! what happens to one:
//!
//! ```text
//! p0: GET k                 the node p0 is sent a request, and its reply is read
//! p0.b: GET k               over another connection, named b
//! p0> BLPOP k 0             sent, and not read: the node shows one more blocked client, or has answered
//! p0<                       a reply, a push message, or the end of the connection
//! p0<<                      all messages up to now
//! ~ p0: CLUSTER NODES       the lines or items of the reply in any order
//! != p0<                    keylatch replies otherwise, for a reason that stands above the line
//! ? p0 cluster_state:ok     waited for: a line of INFO or CLUSTER INFO
//! ! STOP p0                 see [`Play::control`]
//! $ redis-cli -p {port n0}  a tool is run, and its output compared; `<< yes` is what it reads
//! {p0}  {port p0}           the id and the port of a node in a request; {addr p0}, {dir}: its address, a directory
//! ```
//!
//! The nodes of a cluster are its primaries in the order of their slots, `p0`, `p1`, `p2`, and their replicas, `r0`, `r1`,
//! `r2`; those of the second deployment `m`, `r0`, `r1` and the sentinels `s0`, `s1`, `s2`; nodes of no cluster are `n0` to `n7`, and
//! the server beside them `x`. A name stays with the process,
//! whatever its role becomes. Of the replies, [`mask`] replaces what depends on the run.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::oracle::Peer;
use super::record::{FOLDER, lines};
use super::script::words;
use crate::harness::{encode, wait_for};
use crate::skipped;
use crate::tidy::root;

mod deployment;
mod mask;
mod network;
mod real;
mod real_sentinels;
mod real_strangers;
mod simulated;
mod tools;

use deployment::Kind;
pub(super) use deployment::{Deployment, Node};

/// Mark of a line to which keylatch does not reply as Redis does.
const OTHERWISE: &str = "!= ";

/// Time after which a reply is missing.
const REPLY_PATIENCE: Duration = Duration::from_secs(10);

/// Number of plays in which the real deployment must once do what is recorded: its processes time each other, so on a busy
/// machine another one of them may be the first.
const REAL_PLAYS_MAX: usize = 3;

/// Number of differences after which they are only counted.
const SHOWN_MAX: usize = 30;

/// Number of lines of a paragraph that are repeated above a differing reply.
const TOLD_MAX: usize = 15;

/// Plays a text on a cluster of Redis, on one of keylatch, and fails with all differences between the two or with the
/// record of that name.
#[track_caller]
pub(super) fn tell(name: &str, text: &str) {
    compare(Kind::Cluster, name, text);
}

/// Plays a text as [`tell`] does, on a primary with replicas and sentinels.
#[track_caller]
pub(super) fn tell_sentinels(name: &str, text: &str) {
    compare(Kind::Sentinels, name, text);
}

/// Plays a text as [`tell`] does, on nodes of no cluster yet and a server that is no node, which tools of Redis make clusters of.
#[cfg_attr(not(feature = "lua"), allow(dead_code, reason = "its stories need scripts"))]
#[track_caller]
pub(super) fn tell_tools(name: &str, text: &str) {
    if tools::is_there("redis-cli") {
        compare(Kind::Strangers, name, text);
    } else {
        skipped::without("redis-cli");
    }
}

#[track_caller]
fn compare(kind: Kind, name: &str, text: &str) {
    // A story with scripts is told where there are scripts.
    if !cfg!(feature = "lua") && ["EVAL", "SCRIPT ", "FCALL", "FUNCTION "].iter().any(|word| text.contains(word)) {
        return;
    }
    let module = Path::new(Location::caller().file()).file_stem().expect("a file").to_owned();
    let file = root().join(FOLDER).join(module).join(format!("{name}.txt"));
    let recorded = fs::read_to_string(&file).unwrap_or_default();
    let play_real = || kind.start_real(text.contains("! CUT")).map(|real| Play::on(real, text));
    let mut real = play_real();
    if real.is_none() {
        skipped::with_record_only("redis-server");
    } else if std::env::var_os("KEYLATCH_BLESS").is_some() {
        fs::create_dir_all(file.parent().expect("a folder")).expect("a writable repository");
        fs::write(&file, real.as_deref().map(told).unwrap_or_default()).expect("a writable repository");
    } else {
        for _ in 1..REAL_PLAYS_MAX {
            if real.as_deref().map(told).as_deref() != Some(&*recorded) {
                real = play_real();
            }
        }
        assert_recorded(&file, &recorded, &real.as_deref().map(told).unwrap_or_default());
    }
    let expected = real.unwrap_or_else(|| read(&file, &recorded, text));
    let simulated = Play::on(kind.start_simulated(), text);
    report(&expected, &simulated);
}

/// Line of a story with the lines of its reply, as they are shown.
struct Told {
    line: String,
    begins_paragraph: bool,
    reply: Vec<String>,
}

/// Writes a record.
fn told(story: &[Told]) -> String {
    let mut text = String::new();
    for (at, told) in story.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}{}", if told.begins_paragraph && at > 0 { "\n" } else { "" }, told.line);
        for line in &told.reply {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

#[track_caller]
fn assert_recorded(file: &Path, recorded: &str, told: &str) {
    let differing = recorded.lines().zip(told.lines()).enumerate().find(|(_, (a, b))| a != b);
    let shown = differing.map(|(at, (a, b))| format!("{}: {a}\n  now: {b}", at + 1)).unwrap_or_default();
    assert!(recorded == told, "stale; KEYLATCH_BLESS=1 regenerates it\n  {}:{shown}", file.display());
}

/// Reads the record of a text.
#[track_caller]
fn read(file: &Path, recorded: &str, text: &str) -> Vec<Told> {
    let mut story: Vec<Told> = Vec::new();
    let mut begins_paragraph = true;
    for line in recorded.lines() {
        match (line.strip_prefix("  "), story.last_mut()) {
            (Some(reply), Some(told)) => told.reply.push(reply.to_owned()),
            _ if line.is_empty() => begins_paragraph = true,
            _ => {
                let begins_paragraph = std::mem::take(&mut begins_paragraph);
                story.push(Told { line: line.to_owned(), begins_paragraph, reply: Vec::new() });
            }
        }
    }
    let is_same = story.iter().map(|told| &*told.line).eq(lines(text));
    assert!(is_same, "{} is stale: KEYLATCH_BLESS=1 regenerates it where redis-server is on PATH", file.display());
    story
}

/// Fails if a reply of keylatch is not that of Redis.
#[track_caller]
fn report(redis: &[Told], keylatch: &[Told]) {
    let (mut count, mut text, mut before) = (0, String::new(), Vec::new());
    for (theirs, ours) in redis.iter().zip(keylatch) {
        if theirs.begins_paragraph {
            before.clear();
        }
        before.push(&*theirs.line);
        let is_same = theirs.reply == ours.reply;
        if is_same == theirs.line.starts_with(OTHERWISE) {
            count += 1;
            if count <= SHOWN_MAX {
                let told = before[before.len().saturating_sub(TOLD_MAX)..].join("\n  ");
                let (theirs, ours) = (theirs.reply.join("\n            "), ours.reply.join("\n            "));
                let _ = writeln!(text, "\n  {told}\n  redis:    {theirs}\n  keylatch: {ours}");
            }
        }
    }
    assert!(count == 0, "{count} replies differ from those of Redis:\n{text}");
}

/// Text while it is played on a deployment.
struct Play {
    on: Box<dyn Deployment>,
    /// A directory for files of tools.
    dir: TempDir,
    clients: BTreeMap<String, Peer>,
}

impl Play {
    /// Plays a text, and returns what was replied to each line.
    fn on(deployment: Box<dyn Deployment>, text: &str) -> Vec<Told> {
        let (mut play, mut story) = (
            Play { on: deployment, dir: tempfile::tempdir().expect("a directory"), clients: BTreeMap::new() },
            Vec::new(),
        );
        for paragraph in text.split("\n\n") {
            play.clients.clear();
            for (at, line) in lines(paragraph).enumerate() {
                let reply = play.line(line);
                story.push(Told { line: line.to_owned(), begins_paragraph: at == 0, reply });
            }
        }
        story
    }

    fn line(&mut self, line: &str) -> Vec<String> {
        if let Some(control) = line.strip_prefix("! ") {
            let words: Vec<&str> = control.split(' ').collect();
            self.control(words[0], &words[1..]);
            return Vec::new();
        }
        let line = line.strip_prefix(OTHERWISE).unwrap_or(line);
        if let Some(call) = line.strip_prefix("$ ") {
            return tools::run(&self.filled(call), self.on.nodes(), &self.dir.path().to_string_lossy());
        }
        if let Some(awaited) = line.strip_prefix("? ") {
            let (name, text) = awaited.split_once(' ').expect("a node and a text");
            wait_for(self.on.patience(), || {
                ["INFO", "CLUSTER INFO"].iter().any(|request| self.on.shows(name, request, text))
            });
            return Vec::new();
        }
        let (is_unordered, call) = line.strip_prefix("~ ").map_or((false, line), |call| (true, call));
        let end = call.find([':', '<', '>']).unwrap_or_else(|| panic!("a line of a story: {line}"));
        let (client, request) = (&call[..end], call[end + 1..].trim_start());
        match &call[end..=end] {
            ":" => {
                self.send(client, request);
                self.hear(client, request, is_unordered)
            }
            "<" if request == "<" => self.hear_messages(client, is_unordered),
            "<" => self.hear(client, request, is_unordered),
            _ => {
                let name = name_of(client);
                let before = self.on.blocked_clients(name);
                self.send(client, request);
                let (client, patience) = (self.clients.get_mut(client).expect("it has sent"), self.on.patience());
                wait_for(patience, || {
                    client.hears_within(Duration::from_millis(1)) || self.on.blocked_clients(name) > before
                });
                Vec::new()
            }
        }
    }

    /// Applies to nodes what is done to them in another way for each deployment.
    ///
    /// - `STOP`, `PAUSE`: the processes end, or stand still, until the others have drawn their conclusions
    /// - `START`, `RESUME`: one is back, and the others have learnt of it
    /// - `FAILOVER`: a replica becomes primary, as its operator wants
    /// - `CUT`, `HEAL`: nodes and the rest do not reach each other, or do again
    /// - `FIND-OUT`: both sides have found that the other one does not answer
    /// - `AGREE`: all nodes that are up see the same cluster
    /// - `CAUGHT-UP`: the replicas have what their primaries have
    /// - `PASS`: so many milliseconds pass
    fn control(&mut self, verb: &str, names: &[&str]) {
        match verb {
            "STOP" => self.on.stop(names),
            "PAUSE" => self.on.pause(names),
            "START" => {
                self.clients.retain(|client, _| name_of(client) != names[0]);
                self.on.start(names[0]);
            }
            "RESUME" => self.on.resume(names[0]),
            "FAILOVER" => self.on.fail_over(names[0]),
            "CUT" => self.on.cut(names),
            "FIND-OUT" => self.on.find_out(names),
            "HEAL" => self.on.heal(),
            "AGREE" => self.on.agree(),
            "CAUGHT-UP" => self.on.catch_up(),
            "PASS" => self.on.pass(names[0].parse().expect("milliseconds")),
            verb => panic!("{verb} is unknown"),
        }
    }

    fn client(&mut self, client: &str) -> &mut Peer {
        let addr = self.on.node(name_of(client)).addr;
        self.clients.entry(client.to_owned()).or_insert_with(|| Peer::to(addr))
    }

    /// Replaces the marks of nodes in a request by what they are in this deployment.
    fn filled(&self, request: &str) -> String {
        let mut request = request.replace("{dir}", &self.dir.path().to_string_lossy());
        for node in self.on.nodes() {
            let Node { name, id, bus, .. } = node;
            for (mark, value) in [
                (format!("{{{name}}}"), id.clone()),
                (format!("{{port {name}}}"), node.port().to_string()),
                (format!("{{addr {name}}}"), format!("127.0.0.1:{}", node.port())),
                (format!("{{bus {name}}}"), bus.to_string()),
            ] {
                request = request.replace(&mark, &value);
            }
        }
        request
    }

    fn send(&mut self, client: &str, request: &str) {
        let request = self.filled(request);
        self.client(client).send(&encode(&words(&request)));
    }

    /// Reads what a subscriber was sent before it asks for more.
    fn hear_messages(&mut self, client: &str, is_unordered: bool) -> Vec<String> {
        let (mut messages, mut own) = (Vec::new(), Vec::new());
        self.send(client, "PING");
        while !own.first().is_some_and(|message: &String| message.contains("\"pong\"") || message == "(closed)") {
            messages.append(&mut own);
            own = self.hear(client, "PING", false);
        }
        messages.retain(|message| mask::is_steady(message));
        if messages.iter().any(|message| message.contains("\"+config-update-from\"")) {
            // It has followed another one, and may have asked for the opinion of the others before.
            messages.retain(|message| !message.contains("\"+odown\""));
        }
        // How many sentinels have agreed depends on when the first has asked, and which one brings the news on who is first.
        for message in &mut messages {
            message.truncate(message.find(" #quorum").unwrap_or(message.len()));
            let news = "\"+config-update-from\"";
            message.truncate(message.find(news).map_or(message.len(), |at| at + news.len()));
        }
        if is_unordered {
            messages.sort();
        }
        messages
    }

    fn hear(&mut self, client: &str, request: &str, is_unordered: bool) -> Vec<String> {
        let peer = self.client(client);
        if !peer.hears_within(REPLY_PATIENCE) {
            return vec!["(no reply)".into()];
        }
        let Some(reply) = peer.reply() else { return vec!["(closed)".into()] };
        mask::shown(&reply, request, is_unordered, self.on.nodes())
    }
}

/// Returns the name of the node that a client is connected to.
fn name_of(client: &str) -> &str {
    client.split('.').next().unwrap_or(client)
}

/// Returns the directory of a real node, which is made.
fn directory_of(dir: &TempDir, name: &str) -> PathBuf {
    let path = dir.path().join(name);
    fs::create_dir_all(&path).expect("a directory");
    path
}
