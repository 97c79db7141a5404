//! Replies as they are shown and compared: without what depends on the run.

use super::super::oracle::end_of_reply;
use super::super::record::{escaped, noted};
use super::{Node, real_sentinels};

/// Stand-in for what depends on the run.
const MASKED: &str = "(masked)";

/// Fields whose values depend on the run, in replies of names and values.
const VALUES: [&str; 20] = [
    "create-time",
    "events",
    "id",
    "info-refresh",
    "last-hello-message",
    "last-ok-ping-reply",
    "last-ping-reply",
    "last-ping-sent",
    "link-pending-commands",
    "master-link-down-time",
    "o-down-time",
    "replication-offset",
    "role-reported-time",
    "runid",
    "s-down-time",
    "send-buffer-allocated",
    "send-buffer-used",
    "slave-priority",
    "slave-repl-offset",
    "version",
];

/// Lines that are kept of INFO replication, of which keylatch shows more than Redis 7.0.
const REPLICATION: [&str; 9] = [
    "role:",
    "connected_slaves:",
    "slave:",
    "master_host:",
    "master_port:",
    "master_link_status:",
    "slave_read_only:",
    "replica_announced:",
    "master_failover_state:",
];

/// Events of sentinels whose number or time depends on the run: what the test has set, and when a sentinel has asked.
const EVENTS: [&str; 5] = ["\"+set\"", "\"+role-change\"", "\"-role-change\"", "\"+convert-to-slave\"", "\"-odown\""];

/// Returns whether a message is always the same.
pub(super) fn is_steady(message: &str) -> bool {
    EVENTS.iter().all(|event| !message.contains(event))
}

/// Shows a reply to a request on one line; or by its lines if it is a text of several, or by its items if their order
/// does not matter.
pub(super) fn shown(reply: &[u8], request: &str, is_unordered: bool, nodes: &[Node]) -> Vec<String> {
    let mut lines = match content(reply) {
        Some(text) if text.contains(&b'\n') => {
            let lines = text.strip_suffix(b"\n").unwrap_or(text).split(|byte| *byte == b'\n');
            lines.map(|line| escaped(line.strip_suffix(b"\r").unwrap_or(line))).collect()
        }
        _ if is_unordered && matches!(reply[0], b'*' | b'~') => items(reply),
        _ => vec![noted(Some(reply), false)],
    };
    let words: Vec<String> = request.split(' ').map(str::to_ascii_uppercase).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let short = format!("\"down-after-milliseconds\" \"{}\"", real_sentinels::SHORT);
    let long = format!("\"down-after-milliseconds\" \"{}\"", real_sentinels::LONG);
    for line in &mut lines {
        *line = named(line, nodes).replace(&short, &long);
        if words[0] == "CLUSTER" {
            *line = without_ids(line);
        }
        *line = match &words[..] {
            ["CLUSTER", "NODES" | "REPLICAS" | "SLAVES", ..] => without_times(line),
            ["INFO", ..] => without_offsets(line),
            ["ROLE"] => without_numbers(line),
            ["HELLO", ..] => VALUES.iter().fold(without_modules(line), |line, name| without_value(&line, name)),
            ["CLUSTER", "SHARDS"] => without_value(line, "replication-offset"),
            ["CLUSTER", "LINKS"] | ["SENTINEL", ..] => {
                VALUES.iter().fold(line.clone(), |line, name| without_value(&line, name))
            }
            _ => continue,
        };
    }
    match &words[..] {
        ["CLUSTER", "INFO"] => lines.retain(|line| !line.starts_with("cluster_stats_messages_")),
        ["INFO", "REPLICATION"] => lines.retain(|line| REPLICATION.iter().any(|name| line.starts_with(name))),
        _ => {}
    }
    if is_unordered {
        lines.sort();
    }
    lines
}

/// Returns the content of a reply that is a text.
fn content(reply: &[u8]) -> Option<&[u8]> {
    let start = reply.iter().position(|byte| *byte == b'\n')? + 1;
    let text = reply.get(start..reply.len() - 2)?;
    match reply[0] {
        b'$' => Some(text),
        b'=' => text.get(4..),
        _ => None,
    }
}

/// Shows each item of an array.
fn items(reply: &[u8]) -> Vec<String> {
    let mut at = reply.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    let mut items = Vec::new();
    while at < reply.len() {
        let end = end_of_reply(reply, at).expect("a whole item");
        items.push(noted(Some(&reply[at..end]), false));
        at = end;
    }
    items
}

/// Replaces ids and ports of nodes by their names: behind an `@` there are ports of the bus only, which may have the
/// number of another node's other port.
pub(super) fn named(line: &str, nodes: &[Node]) -> String {
    let mut line = line.to_owned();
    for Node { name, id, addr, bus, relays, .. } in nodes {
        if !id.is_empty() {
            line = line.replace(id, &format!("<{name}>"));
        }
        let [port, bus] = [(Some(addr.port()), "port"), (Some(*bus).filter(|bus| *bus != 0), "bus")];
        let relays = relays.map(|[data, bus]| [(Some(data), "port"), (Some(bus), "bus")]).unwrap_or_default();
        for (number, kind) in relays.into_iter().chain([port, bus]) {
            if let Some(number) = number {
                line = with_number(&line, number, kind == "bus", &format!("<{kind}-{name}>"));
            }
        }
    }
    line
}

/// Masks ids that nodes have given themselves, after `CLUSTER RESET HARD`.
fn without_ids(line: &str) -> String {
    let is_id = |word: &str| word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words = line.split(' ').map(|word| {
        let id = word.trim_matches(|char: char| !char.is_ascii_alphanumeric());
        if is_id(id) { word.replace(id, "(id)") } else { word.to_owned() }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Replaces a number by a name, wherever it is behind an `@` or is not, and not a part of a longer one.
fn with_number(line: &str, number: u16, is_behind_at: bool, name: &str) -> String {
    let number = number.to_string();
    let (mut shown, mut rest) = (String::new(), line);
    while let Some(at) = rest.find(&number) {
        let end = at + number.len();
        let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
        let is_part = is_digit(rest.as_bytes()[..at].last()) || is_digit(rest.as_bytes().get(end));
        shown.push_str(&rest[..at]);
        let is_meant = !is_part && shown.ends_with('@') == is_behind_at;
        shown.push_str(if is_meant { name } else { &number });
        rest = &rest[end..];
    }
    shown + rest
}

/// Masks the times in the line about a node.
fn without_times(line: &str) -> String {
    let mut fields: Vec<&str> = line.split(' ').collect();
    if fields.len() >= 8 {
        (fields[4], fields[5]) = (MASKED, MASKED);
    }
    fields.join(" ")
}

/// Masks positions and ages in a line of INFO.
fn without_offsets(line: &str) -> String {
    let fields = line.split(',').map(|field| match field.split_once('=') {
        Some((name @ ("offset" | "lag"), _)) => format!("{name}={MASKED}"),
        // Replicas are numbered as they have come.
        Some(("slave0:ip" | "slave1:ip", ip)) => format!("slave:ip={ip}"),
        _ => field.to_owned(),
    });
    fields.collect::<Vec<_>>().join(",")
}

/// Masks numbers that stand alone: positions in the log.
fn without_numbers(line: &str) -> String {
    let is_number = |word: &str| word.parse::<u64>().is_ok();
    let words = line.split(' ').map(|word| {
        let number = word.trim_matches(|char| matches!(char, ':' | '"' | '[' | ']'));
        if is_number(number) { word.replace(number, MASKED) } else { word.to_owned() }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Cuts off the modules, which are those of Redis 8, at the end of the reply to HELLO.
fn without_modules(line: &str) -> String {
    line.split(" \"modules\"").next().unwrap_or(line).to_owned()
}

/// Masks the value behind a name, in RESP2 or RESP3, unless it is the name of a node.
fn without_value(line: &str, name: &str) -> String {
    let (mut shown, mut rest, quoted) = (String::new(), line, format!("\"{name}\" "));
    while let Some(at) = rest.find(&quoted) {
        let start = at + quoted.len();
        let start = start + if rest[start..].starts_with("=> ") { 3 } else { 0 };
        let end = rest[start..].find([' ', ']', '}']).map_or(rest.len(), |len| start + len);
        shown.push_str(&rest[..start]);
        let is_name = rest[start..end].starts_with("\"<");
        shown.push_str(if is_name { &rest[start..end] } else { MASKED });
        rest = &rest[end..];
    }
    shown + rest
}

#[test]
fn what_depends_on_the_run_is_masked() {
    let node = |name, id: &str, port: u16, bus| Node {
        name,
        id: id.to_owned(),
        addr: ([127, 0, 0, 1], port).into(),
        bus,
        relays: None,
        is_up: true,
    };
    let nodes = [node("p0", &"a0".repeat(20), 4000, 5000), node("r0", &"b0".repeat(20), 40001, 4000)];
    let id = "a0".repeat(20);
    let line = format!("{id} 127.0.0.1:4000@5000 myself,master - 0 1796091632557 2 connected 0-5460\n");
    for (reply, request, is_unordered, expected) in [
        ("-MOVED 3300 127.0.0.1:4000\r\n", "GET b", false, "-MOVED 3300 127.0.0.1:<port-p0>"),
        (":4000\r\n", "x", false, ":<port-p0>"),
        (":40001\r\n", "x", false, ":<port-r0>"),
        (":40002\r\n", "x", false, ":40002"),
        ("+a:40001@4000\r\n", "x", false, "+a:<port-r0>@<bus-r0>"),
        (
            &format!("${}\r\n{line}\r\n", line.len()),
            "CLUSTER NODES",
            true,
            "<p0> 127.0.0.1:<port-p0>@<bus-p0> myself,master - (masked) (masked) 2 connected 0-5460",
        ),
        (
            "*2\r\n*2\r\n$11\r\ncreate-time\r\n:1\r\n*2\r\n$4\r\nnode\r\n:2\r\n",
            "CLUSTER LINKS",
            true,
            "[\"create-time\" (masked)]|[\"node\" :2]",
        ),
        ("%1\r\n$11\r\ncreate-time\r\n:1\r\n", "cluster links", false, "{\"create-time\" => (masked)}"),
        (
            "*3\r\n$6\r\nmaster\r\n:86\r\n*1\r\n*3\r\n$9\r\n127.0.0.1\r\n$4\r\n4000\r\n$1\r\n0\r\n",
            "ROLE",
            false,
            "[\"master\" :(masked) [[\"127.0.0.1\" \"<port-p0>\" \"(masked)\"]]]",
        ),
        ("$9\r\nrole:x\na:\r\n", "INFO replication", false, "role:x"),
    ] {
        assert_eq!(shown(reply.as_bytes(), request, is_unordered, &nodes).join("|"), expected);
    }
}
