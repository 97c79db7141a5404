//! `keylatch lock --list`, `--watch` and `--release`: their output for people and programs.

use crate::harness::TestServer;
use crate::lock_command::{Running, at, run, run_failing, wait_for_queue};
use crate::process::text;

/// Name that would clear a terminal.
const EVIL: &[u8] = b"evil\x1b[2J\xff";

/// Returns the output.
#[track_caller]
fn printed(server: &TestServer, args: &[&str]) -> String {
    let output = run(&at(server), args);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    text(&output.stdout)
}

#[test]
fn a_list_has_every_lock_with_its_holder() {
    let server = TestServer::start();
    let mut holder = server.client();
    assert_eq!(printed(&server, &["--list"]), "NAME  HOLDER  AGE  TTL  WAITING  FENCE\n");
    assert_eq!(printed(&server, &["--list", "--json"]), "");
    holder.expect(&[("CLIENT SETNAME ann", "+OK")]);
    let first = holder.int("LOCK.ACQUIRE job:1 t PX 60000 META nightly");
    let second = holder.int("LOCK.ACQUIRE job:2 t SESSION");
    let _waiter = server.block("LOCK.ACQUIRE job:2 u PX 1000 BLOCK 0");
    server.advance_ms(1500);
    let addr = holder.local_addr();
    let (row, padding) = (format!("ann, nightly ({addr})"), " ".repeat("nightly, ".len()));
    let expected = [
        format!("job:1  {row}  1.5s  58s  0        {first}"),
        format!("job:2  ann ({addr}){padding}  1.5s  -    1        {second}"),
    ];
    let list = printed(&server, &["--list"]);
    assert_eq!(list.lines().skip(1).collect::<Vec<_>>(), expected, "{list}");
    let json = |name: &str, meta: &str, ttl: &str, waiting, fence| {
        format!(
            r#"{{"name":"{name}","client-name":"ann","meta":{meta},"addr":"{addr}","user":"default","age-ms":1500,"ttl-ms":{ttl},"waiting":{waiting},"fence":{fence}}}"#
        )
    };
    let objects = [json("job:1", "\"nightly\"", "58500", 0, first), json("job:2", "null", "null", 1, second)];
    assert_eq!(printed(&server, &["--list", "--json"]).lines().collect::<Vec<_>>(), objects);
    assert_eq!(printed(&server, &["--list", "*:2", "--json"]), format!("{}\n", objects[1]));
}

#[test]
fn a_list_of_many_locks_has_each_once() {
    let server = TestServer::start();
    let mut holder = server.client();
    for number in 0..1000 {
        holder.int(&format!("LOCK.ACQUIRE job:{number:03} t PX 60000"));
    }
    let list = printed(&server, &["--list"]);
    let names: Vec<&str> = list.lines().skip(1).filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, (0..1000).map(|number| format!("job:{number:03}")).collect::<Vec<_>>());
}

#[test]
fn nothing_that_others_have_chosen_steers_the_terminal() {
    let server = TestServer::start();
    let mut holder = server.client();
    holder.call_args(&[b"LOCK.ACQUIRE", EVIL, b"t", b"PX", b"60000", b"META", b"\x1b]0;title\x07\r\nline"]);
    let name = std::ffi::OsStr::new(std::str::from_utf8(&EVIL[..8]).expect("text"));
    let list = printed(&server, &["--list"]);
    assert!(list.contains(r"evil\u{1b}[2J\xff  \u{1b}]0;title\u{7}\r\nline ("), "{list}");
    let json = printed(&server, &["--list", "--json"]);
    assert!(
        json.contains(
            r#""name":"evil\u001b[2J\ufffd","client-name":null,"meta":"\u001b]0;title\u0007\u000d\u000aline""#
        ),
        "{json}"
    );
    holder.call_args(&[b"LOCK.ACQUIRE", &EVIL[..8], b"t", b"PX", b"60000", b"META", b"\x9b1m"]);
    let complaint = run_failing(&at(&server), &["-n", name.to_str().expect("text"), "--", "echo"], 75);
    assert!(complaint.starts_with(r"keylatch lock: evil\u{1b}[2J is held by \x9b1m ("), "{complaint}");
}

#[test]
fn a_watch_prints_a_line_for_each_change() {
    let server = TestServer::start();
    let mut holder = server.client();
    holder.expect(&[("CLIENT SETNAME ann", "+OK")]);
    let addr = holder.local_addr();
    let (one, all) = (Running::start(&at(&server), &["--watch", "job"]), Running::start(&at(&server), &["--watch"]));
    assert_eq!(one.line(), "job: free");
    let fence = holder.int("LOCK.ACQUIRE job t PX 60000");
    let held = |waiting| format!("job: held by ann ({addr}), {waiting} waiting, fence {fence}");
    assert_eq!((one.line(), all.line()), (held(0), held(0)));
    let waiter = server.block("LOCK.ACQUIRE job u PX 1000 BLOCK 0");
    assert_eq!((one.line(), all.line()), (held(1), held(1)));
    drop(waiter);
    wait_for_queue(&server, 0);
    assert_eq!((one.line(), all.line()), (held(0), held(0)));
    holder.expect(&[("LOCK.RELEASE job t", ":1")]);
    assert_eq!((one.line(), all.line()), ("job: free".to_owned(), "job: free".to_owned()));
    for (watch, signal) in [(one, "INT"), (all, "TERM")] {
        watch.signal(signal);
        assert_eq!(watch.end(), (Some(0), String::new()));
    }
}

#[test]
fn a_watch_outlives_its_connection() {
    let server = TestServer::start();
    let mut client = server.client();
    let watch = Running::start(&at(&server), &["--watch", "job"]);
    assert_eq!(watch.line(), "job: free");
    client.call("CLIENT KILL TYPE normal SKIPME yes");
    assert_eq!(watch.complaint(), "keylatch lock: lost the connection: Server closed the connection; trying again");
    client.int("LOCK.ACQUIRE job t PX 60000");
    assert!(watch.line().starts_with("job: held by "));
}

#[test]
fn a_lock_is_released_by_force_and_without_a_terminal_only_so() {
    let server = TestServer::start();
    let (mut holder, at) = (server.client3(), at(&server));
    let fence = holder.int("LOCK.ACQUIRE job token PX 60000 NOTIFY");
    let complaint = run_failing(&at, &["--release", "job"], 64);
    assert!(complaint.contains("see --force"), "{complaint}");
    holder.expect(&[("EXISTS job", ":1")]);
    assert_eq!(run_failing(&at, &["--release", "job", "--force"], 0), "");
    assert_eq!(holder.reply(), format!(">5 $9 lock-lost $3 job $5 token :{fence} $8 released"));
    assert_eq!(run_failing(&at, &["--release", "job", "--force"], 1), "keylatch lock: job is not held\n");
    holder.expect(&[("SET plain token", "+OK")]);
    assert_eq!(run_failing(&at, &["--release", "plain", "--force"], 0), "");
    holder.expect(&[("EXISTS plain", ":0"), ("RPUSH list x", ":1")]);
    let complaint = run_failing(&at, &["--release", "list", "--force"], 77);
    assert_eq!(complaint, "keylatch lock: list is no lock: the key holds data of another type\n");
}
