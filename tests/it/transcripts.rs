//! Examples of pages that are sessions with a server, in the form of redis-cli.

use std::collections::BTreeMap;

use keylatch::internals::resp::Frame;
use keylatch::{Clock, Server};

use crate::harness::{Client, TestServer, wait_until};

/// Number of digits of a fence, or of another number that differs from run to run.
const DIGITS_OF_FENCE: usize = 13;

/// Clients of an example by name, each with its id. A client whose name ends with 3 speaks RESP3.
type Clients = BTreeMap<String, (Client, i64)>;

pub fn start() -> TestServer {
    TestServer::start_with_workers(Server::builder().test_mode().clock(Clock::manual()), 1)
}

/// Runs an example: `a> COMMAND` is a request of client `a`, followed by its reply, or `(waits)`; `a: ..` is a message
/// that it gets later. A fence in a request stands for the one at its place in an earlier reply.
pub fn run(example: &str) {
    let server = start();
    let mut clients = Clients::new();
    for (name, _) in example.lines().filter_map(|line| line.split_once("> ")) {
        clients.entry(name.to_owned()).or_insert_with(|| {
            let mut client = if name.ends_with('3') { server.client3() } else { server.client() };
            let id = client.int("CLIENT ID");
            (client, id)
        });
    }
    let mut admin = server.client();
    let mut shown = String::new();
    let mut lines = example.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some((name, request)) = line.split_once("> ") {
            let (client, id) = clients.get_mut(name).expect("a client");
            let request = translated(request, example, &shown);
            shown.push_str(&format!("{name}> {request}\n"));
            client.send(&crate::harness::encode(&words(&request)));
            if lines.peek() == Some(&"(waits)") {
                wait_until(|| admin.call(&format!("CLIENT LIST ID {id}")).contains(" flags=b "));
                shown.push_str("(waits)\n");
            } else {
                shown.push_str(&typed(&client.read_frame().expect("a reply"), 0));
            }
        } else if let Some((name, _)) = line.split_once(": ").filter(|(name, _)| clients.contains_key(*name)) {
            let (client, _) = clients.get_mut(name).expect("a client");
            let reply = typed(&client.read_frame().expect("a reply"), name.len() + 2);
            shown.push_str(&format!("{name}: {reply}"));
        }
    }
    assert_eq!(comparable(&shown), comparable(example), "the server's, and the page's:\n{shown}");
}

/// Replaces the fences in a request of the page by those of the server.
fn translated(request: &str, page: &str, shown: &str) -> String {
    let (of_page, given) = (fences(page), fences(shown));
    let pairs: BTreeMap<&str, &str> = of_page.into_iter().zip(given).collect();
    let fences = fences(request);
    fences.into_iter().fold(request.to_owned(), |request, fence| match pairs.get(fence) {
        Some(given) => request.replace(fence, given),
        None => request,
    })
}

fn fences(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_ascii_digit()).filter(|digits| digits.len() >= DIGITS_OF_FENCE).collect()
}

/// Splits a request into words, some of which are quoted.
fn words(request: &str) -> Vec<&str> {
    let parts = request.split('"').enumerate();
    parts.flat_map(|(at, part)| if at % 2 == 1 { vec![part] } else { part.split_whitespace().collect() }).collect()
}

/// Formats a reply like redis-cli.
fn typed(frame: &Frame, indent: usize) -> String {
    let list = |items: &[Frame]| {
        if items.is_empty() {
            return "(empty array)\n".to_owned();
        }
        let width = items.len().to_string().len();
        let each = items.iter().enumerate().map(|(at, item)| {
            let margin = if at == 0 { 0 } else { indent };
            format!("{:margin$}{:>width$}) {}", "", at + 1, typed(item, indent + width + 2))
        });
        each.collect()
    };
    match frame {
        Frame::Null | Frame::NullArray => "(nil)\n".to_owned(),
        Frame::Integer(value) => format!("(integer) {value}\n"),
        Frame::Error(line) => format!("(error) {}\n", String::from_utf8_lossy(line)),
        Frame::Bulk(_) => format!("\"{}\"\n", text(frame)),
        Frame::Simple(_) => format!("{}\n", text(frame)),
        Frame::Array(items) | Frame::Push(items) => list(items),
        other => panic!("{other:?}"),
    }
}

pub fn text(frame: &Frame) -> String {
    String::from_utf8_lossy(frame.as_bytes().expect("a text")).into_owned()
}

/// Returns true if a text ends where a port follows: behind an address, or as the field of a map.
fn precedes_port(text: &str) -> bool {
    let is_field = |before: &str| before.lines().nth_back(1).is_some_and(|line| line.ends_with("\"port\""));
    text.ends_with("127.0.0.1:") || text.strip_suffix("(integer) ").is_some_and(is_field)
}

/// Replaces parts that differ from run to run: ports, and each fence by its number among the different ones, so that
/// equal fences stay equal.
pub fn comparable(example: &str) -> String {
    let mut known: Vec<String> = Vec::new();
    let mut shown = String::new();
    let mut digits = String::new();
    for letter in example.chars().chain(['\n']) {
        if letter.is_ascii_digit() {
            digits.push(letter);
            continue;
        }
        if digits.len() >= DIGITS_OF_FENCE {
            let place = known.iter().position(|fence| *fence == digits).unwrap_or(known.len());
            if place == known.len() {
                known.push(digits.clone());
            }
            shown.push_str(&format!("<{place}>"));
        } else if digits.len() >= 4 && precedes_port(&shown) {
            shown.push_str("PORT");
        } else {
            shown.push_str(&digits);
        }
        digits.clear();
        shown.push(letter);
    }
    shown.trim_end().to_owned()
}
