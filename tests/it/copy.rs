//! `keylatch copy`: the copied keys, its reports, and its limits.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use keylatch::internals::resp::Frame;

use crate::differential::oracle::Oracle;
use crate::harness::{Client, Dice, PATIENCE, ReservedPort, TestServer};
use crate::process::{binary, text};

/// Keys of all types in two databases, some with TTLs, as commands.
const KEYS: &str = "\
SET string value
SET number 12345
SET lock:1 token PX 60000
SETRANGE long 70000 end
RPUSH list a b 3
HSET hash f v g 17
SADD numbers 3 1 2
SADD set a b c
ZADD sorted 1 a 2.5 b
XADD stream 1-1 f v
XGROUP CREATE stream group 0
XREADGROUP GROUP group me STREAMS stream >
PFADD visits a b c
SETBIT bits 99 1
PEXPIRE hash 120000
SELECT 3
SET other value EX 1000
RPUSH list z";

fn url(server: &TestServer) -> String {
    format!("redis://{}", server.addr())
}

/// Returns the address of a server that listens on a Unix socket.
fn socket(oracle: &Oracle) -> String {
    format!("unix://{}", oracle.socket().display())
}

fn copy_with(password: Option<&str>, args: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.arg("copy").args(args).env_remove("KEYLATCH_FROM_AUTH").env_remove("KEYLATCH_TO_AUTH");
    command.envs(password.map(|password| ("KEYLATCH_FROM_AUTH", password)));
    command.stdin(Stdio::null()).output().expect("the binary starts")
}

fn copy(args: &[&str]) -> Output {
    copy_with(None, args)
}

/// Copies, and asserts success and a report that begins with this text.
#[track_caller]
fn copy_all(args: &[&str], expected: &str) {
    let output = copy(args);
    let said = text(&output.stdout);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(said.starts_with(expected) && said.lines().count() == 1, "{said:?} is not {expected:?}");
}

/// Copies, and asserts a failure with this status; returns standard error.
#[track_caller]
fn copy_failing(args: &[&str], status: i32) -> String {
    let output = copy(args);
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    text(&output.stderr)
}

fn start() -> TestServer {
    TestServer::start_with(&[("enable-debug-command", "yes")])
}

/// Starts a server with keys of all types.
fn filled() -> TestServer {
    let server = start();
    let mut client = server.client();
    for line in KEYS.lines() {
        let reply = client.call(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    server
}

/// Returns the sorted names of the keys of the selected database.
fn names<S: Read + Write>(client: &mut Client<S>) -> Vec<Vec<u8>> {
    let Frame::Array(names) = client.frame(&["KEYS", "*"]) else { panic!("a list") };
    let mut names: Vec<Vec<u8>> = names.iter().map(|name| name.as_bytes().expect("a name").to_vec()).collect();
    names.sort();
    names
}

/// Returns the replies to a command for every key of databases 0 and 3.
fn seen<S: Read + Write>(client: &mut Client<S>, command: &[&str]) -> Vec<(Vec<u8>, Frame)> {
    let mut seen = Vec::new();
    for db in ["0", "3"] {
        client.frame(&["SELECT", db]);
        for name in names(client) {
            let words: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).chain([&name[..]]).collect();
            let value = client.frame(&words);
            seen.push((name, value));
        }
    }
    seen
}

/// Proxy that passes on the requests of several connections after inspecting them, and measures the size of the
/// server's replies.
struct Proxy {
    addr: SocketAddr,
    /// Maximum number of bytes that the server has sent between two requests.
    most: Arc<AtomicUsize>,
}

impl Proxy {
    /// Starts a proxy for a number of connections; `look` returns whether a request is passed on.
    fn start(server: &TestServer, connections: usize, look: impl FnMut(&[u8]) -> bool + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let (addr, most) = (listener.local_addr().expect("bound"), Arc::new(AtomicUsize::new(0)));
        let (to, measured, look) = (server.addr(), most.clone(), Arc::new(Mutex::new(look)));
        std::thread::spawn(move || {
            for client in listener.incoming().take(connections) {
                let (client, server) = (client.expect("it connects"), TcpStream::connect(to).expect("it accepts"));
                let (look, since, most) = (look.clone(), Arc::new(AtomicUsize::new(0)), measured.clone());
                let (from, into, sent) = twins(&client, &server, &since);
                pass(from, into, move |request| {
                    sent.store(0, Ordering::SeqCst);
                    look.lock().expect("no panic")(request)
                });
                pass(server, client, move |reply| {
                    let sent = since.fetch_add(reply.len(), Ordering::SeqCst) + reply.len();
                    most.fetch_max(sent, Ordering::SeqCst);
                    true
                });
            }
        });
        Proxy { addr, most }
    }

    fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }
}

/// Returns duplicates of the handles.
fn twins<T>(a: &TcpStream, b: &TcpStream, shared: &Arc<T>) -> (TcpStream, TcpStream, Arc<T>) {
    (a.try_clone().expect("a handle"), b.try_clone().expect("a handle"), shared.clone())
}

/// Passes on bytes on a thread that ends with one of the connections.
fn pass(mut from: TcpStream, mut to: TcpStream, mut look: impl FnMut(&[u8]) -> bool + Send + 'static) {
    std::thread::spawn(move || {
        let mut chunk = [0; 64 * 1024];
        while let Ok(len @ 1..) = from.read(&mut chunk) {
            if !look(&chunk[..len]) || to.write_all(&chunk[..len]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)); // the other end may be closed already
    });
}

fn contains(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|part| part == word.as_bytes())
}

#[test]
fn keys_of_all_types_in_all_databases_arrive_with_their_ttls() {
    let (source, target) = (filled(), start());
    copy_all(&[&url(&source), &url(&target)], "Copied 14 keys, 3 with a TTL, ");
    let (mut from, mut to) = (source.client(), target.client());
    for command in [&["DUMP"][..], &["PTTL"], &["DEBUG", "DIGEST-VALUE"]] {
        let expected = seen(&mut from, command);
        assert_eq!(seen(&mut to, command), expected, "{command:?}");
        assert_eq!(expected.len(), 14);
    }
}

#[test]
fn keys_travel_to_redis_and_back_unchanged() {
    let (source, back) = (filled(), start());
    let dir = tempfile::tempdir().expect("a directory");
    let Some(redis) = Oracle::start_in(dir.path(), &["--appendonly", "no"]) else { return };
    copy_all(&[&url(&source), &socket(&redis)], "Copied 14 keys, 3 with a TTL, ");
    copy_all(&[&socket(&redis), &url(&back)], "Copied 14 keys, 3 with a TTL, ");
    let mut between: Client<UnixStream> = Client::connect_unix(redis.socket());
    let (mut first, mut last) = (source.client(), back.client());
    let digests = seen(&mut first, &["DEBUG", "DIGEST-VALUE"]);
    assert_eq!(seen(&mut between, &["DEBUG", "DIGEST-VALUE"]), digests);
    let ordered = |mut dumps: Vec<(Vec<u8>, Frame)>| {
        dumps.retain(|(name, _)| name != b"set"); // Redis stores its members in another order
        dumps
    };
    assert_eq!(seen(&mut last, &["DEBUG", "DIGEST-VALUE"]), digests);
    assert!(ordered(seen(&mut last, &["DUMP"])) == ordered(seen(&mut first, &["DUMP"])), "a dump differs");
    let patience = i64::try_from(PATIENCE.as_millis()).expect("half a minute");
    let before = seen(&mut first, &["PTTL"]);
    for (client, ttls) in [("redis", seen(&mut between, &["PTTL"])), ("back", seen(&mut last, &["PTTL"]))] {
        for ((name, before), (_, after)) in before.iter().zip(ttls) {
            let (Frame::Integer(before), Frame::Integer(after)) = (before, after) else { panic!("{client}: a TTL") };
            let is_left = if *before < 0 { after == *before } else { (before - patience..=*before).contains(&after) };
            assert!(is_left, "{client}: {}: {before} and {after}", name.escape_ascii());
        }
    }
}

#[test]
fn a_value_that_the_target_refuses_is_named_and_the_others_arrive() {
    let source = start();
    let dir = tempfile::tempdir().expect("a directory");
    let Some(redis) = Oracle::start_in(dir.path(), &["--appendonly", "no"]) else { return };
    let mut client = source.client();
    client.expect(&[("HSET new f v", ":1"), ("HPEXPIRE new 100000 FIELDS 1 f", "*1 :1"), ("MSET a 1 b 2", "+OK")]);
    let output = copy(&[&url(&source), &socket(&redis)]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let complaint = text(&output.stderr);
    assert!(complaint.starts_with("1 key refused:\n  \"new\": ERR "), "{complaint}");
    assert!(text(&output.stdout).starts_with("Copied 2 keys, 0 with a TTL, "), "{output:?}");
    let mut arrived: Client<UnixStream> = Client::connect_unix(redis.socket());
    arrived.expect(&[("MGET a b new", "*3 $1 1 $1 2 $-1")]);
}

#[test]
fn keys_that_exist_at_the_target_are_kept_and_named_or_replaced() {
    let (source, target) = (start(), start());
    let (mut from, mut to) = (source.client(), target.client());
    for number in 10..22 {
        from.call(&format!("SET k{number} new"));
        to.call(&format!("SET k{number} old"));
    }
    from.expect(&[("SET free new", "+OK"), ("SELECT 1", "+OK"), ("SET k new", "+OK"), ("SELECT 0", "+OK")]);
    to.expect(&[("SELECT 1", "+OK"), ("SET k old", "+OK"), ("SELECT 0", "+OK")]);
    let (from, target) = (url(&source), url(&target));
    let complaint = copy_failing(&[&from, &target], 1);
    assert!(complaint.starts_with("13 keys not copied, because of the same name at the target (see --replace): \"k"));
    assert!(complaint.ends_with(", and 3 more\n") && complaint.matches('"').count() == 20, "{complaint}");
    to.expect(&[("MGET k10 k21 free", "*3 $3 old $3 old $3 new"), ("DBSIZE", ":13")]);
    let complaint = copy_failing(&[&format!("{from}/1"), &target], 1);
    assert!(complaint.contains("1 key not copied") && complaint.ends_with(": \"k\" in database 1\n"), "{complaint}");
    copy_all(&[&from, &target, "--replace"], "Copied 14 keys, 0 with a TTL, ");
    to.expect(&[("MGET k10 k21 free", "*3 $3 new $3 new $3 new"), ("SELECT 1", "+OK"), ("GET k", "$3 new")]);
}

#[test]
fn one_database_is_copied_into_the_one_that_is_named() {
    let (source, target) = (filled(), start());
    let mut to = target.client();
    copy_all(&[&format!("{}/3", url(&source)), &url(&target)], "Copied 2 keys, 1 with a TTL, ");
    copy_all(&[&format!("{}/3", url(&source)), &format!("{}/5", url(&target))], "Copied 2 keys, 1 with a TTL, ");
    to.expect(&[("DBSIZE", ":0"), ("SELECT 3", "+OK"), ("LLEN list", ":1"), ("SELECT 5", "+OK"), ("LLEN list", ":1")]);
    let complaint = copy_failing(&[&format!("{}/99", url(&source)), &url(&target)], 2);
    assert!(complaint.ends_with(" refuses SELECT 99: ERR DB index is out of range\n"), "{complaint}");
}

#[test]
fn a_database_that_the_target_lacks_is_named_and_the_others_arrive() {
    let (source, target) = (filled(), TestServer::start_with(&[("databases", "2")]));
    let complaint = copy_failing(&[&url(&source), &url(&target)], 1);
    assert_eq!(complaint, "Nothing of database 3 was copied: ERR DB index is out of range\n");
    target.client().expect(&[("DBSIZE", ":12")]);
}

#[test]
fn a_pattern_selects_keys_and_a_dry_run_writes_nothing() {
    let (source, target) = (filled(), start());
    let (from, to) = (url(&source), url(&target));
    copy_all(&[&from, &to, "--dry-run"], "Would copy 14 keys, 3 with a TTL, 0 bytes, ");
    target.client().expect(&[("DBSIZE", ":0"), ("SET list mine", "+OK")]);
    assert!(copy_failing(&[&from, &to, "--dry-run"], 1).ends_with("(see --replace): \"list\"\n"));
    copy_all(&[&from, &to, "--dry-run", "--replace"], "Would copy 14 keys, ");
    copy_all(&[&from, &to, "--match", "l[io][nc]*"], "Copied 2 keys, 1 with a TTL, ");
    target.client().expect(&[("DBSIZE", ":3"), ("EXISTS long lock:1", ":2"), ("GET list", "$4 mine")]);
}

#[test]
fn a_key_that_vanishes_meanwhile_is_passed_over() {
    let (source, target) = (start(), start());
    source.client().expect(&[("MSET a 1 b 2 c 3", "+OK")]);
    let mut other = source.client();
    let proxy = Proxy::start(&source, 1, move |request| {
        if contains(request, "DUMP") {
            other.call("DEL b"); // after SCAN has returned it
        }
        true
    });
    copy_all(&[&proxy.url(), &url(&target)], "Copied 2 keys, ");
    target.client().expect(&[("MGET a b c", "*3 $1 1 $-1 $1 3")]);
}

#[test]
fn the_transfer_extends_a_lock_and_never_shortens_it() {
    let source = Arc::new(start());
    let target = start();
    source.client().expect(&[("SET lock token PX 1000", "+OK")]);
    let slow = source.clone();
    let proxy = Proxy::start(&target, 8, move |request| {
        if contains(request, "RESTORE") {
            slow.advance_ms(400); // while the key is on its way
        }
        true
    });
    copy_all(&[&url(&source), &proxy.url()], "Copied 1 key, 1 with a TTL, ");
    source.client().expect(&[("PTTL lock", ":600")]);
    target.client().expect(&[("PTTL lock", ":1000"), ("GET lock", "$5 token")]);
}

#[test]
fn large_values_are_read_in_batches_of_a_few_megabytes() {
    const LEN: usize = 1 << 20;
    let (source, target) = (start(), start());
    let (mut from, mut to) = (source.client(), target.client());
    for number in 0..40 {
        let mut dice = Dice::new(number);
        let value: Vec<u8> = (0..LEN).map(|_| dice.roll(256) as u8).collect(); // incompressible
        from.call_args(&[b"SET", format!("large:{number}").as_bytes(), &value]);
        from.call(&format!("SET small:{number} v"));
    }
    let proxy = Proxy::start(&source, 1, |_| true);
    copy_all(&[&proxy.url(), &url(&target)], "Copied 80 keys, 0 with a TTL, ");
    for number in 0..40 {
        let name = format!("large:{number}");
        assert!(to.frame(&["GET", &name]) == from.frame(&["GET", &name]), "{name}");
    }
    let most = proxy.most.load(Ordering::SeqCst);
    assert!((LEN..9 * LEN).contains(&most), "{most} bytes at once");
}

#[test]
fn any_number_of_keys_is_copied_once_each() {
    let (source, target) = (start(), start());
    let mut client = source.client();
    for thousand in 0..5 {
        let words = (0..1000).flat_map(|one| [format!("key:{thousand}:{one}"), one.to_string()]);
        let words: Vec<String> = std::iter::once("MSET".to_owned()).chain(words).collect();
        assert_eq!(client.call_args(&words), "+OK");
    }
    copy_all(&[&url(&source), &url(&target)], "Copied 5000 keys, 0 with a TTL, ");
    let mut copied = target.client();
    assert_eq!(names(&mut copied), names(&mut client));
    copied.expect(&[("GET key:4:999", "$3 999")]);
}

#[test]
fn passwords_are_those_of_the_address_or_of_the_environment() {
    let (source, target) = (TestServer::start_with(&[("requirepass", "secret")]), start());
    let mut client = source.client();
    client.expect(&[("AUTH secret", "+OK"), ("SET k v", "+OK"), ("ACL SETUSER bob on >pw +@all ~*", "+OK")]);
    let (to, at) = (url(&target), source.addr());
    for login in [":secret@", "default:secret@", "bob:pw@"] {
        copy_all(&[&format!("redis://{login}{at}"), &to, "--replace"], "Copied 1 key, ");
    }
    for login in ["", "default@"] {
        let output = copy_with(Some("secret"), &[&format!("redis://{login}{at}"), &to, "--replace"]);
        assert!(output.status.success(), "{output:?}");
    }
    let wrong = format!("redis://:wrong@{at}");
    for args in [[&wrong, &to], [&to, &wrong]] {
        let complaint = copy_failing(&args.map(String::as_str), 2);
        assert!(complaint.starts_with(&format!("{at} refuses AUTH: WRONGPASS ")), "{complaint}");
        assert_eq!(complaint.lines().count(), 1);
    }
    let complaint = copy_failing(&[&to, &url(&source)], 2);
    assert_eq!(complaint, format!("{at} refuses PING: NOAUTH Authentication required.\n"));
}

#[test]
fn a_key_that_the_source_refuses_is_named_and_the_others_arrive() {
    let (source, target) = (start(), start());
    let mut client = source.client();
    client.expect(&[("MSET app:1 a other b", "+OK"), ("ACL SETUSER bob on >pw +@all ~app:*", "+OK")]);
    let from = format!("redis://bob:pw@{}", source.addr());
    let complaint = copy_failing(&[&from, &url(&target)], 1);
    assert!(complaint.starts_with("1 key refused:\n  \"other\": the source says: NOPERM "), "{complaint}");
    target.client().expect(&[("MGET app:1 other", "*2 $1 a $-1")]);
}

#[test]
fn without_a_connection_the_status_is_2_and_one_line_says_why() {
    let (server, free) = (start(), ReservedPort::on([127, 0, 0, 7]));
    let (there, gone) = (url(&server), format!("redis://{}", free.addr()));
    for args in [[&gone, &there], [&there, &gone]] {
        let complaint = copy_failing(&args.map(String::as_str), 2);
        assert_eq!(complaint, format!("Could not connect to {}: Connection refused\n", free.addr()));
    }
    let complaint = copy_failing(&["unix:///nonexistent/socket", &there], 2);
    assert_eq!(complaint, "Could not connect to /nonexistent/socket: No such file or directory\n");
    server.client().expect(&[("SET k v", "+OK")]);
    let proxy = Proxy::start(&server, 1, |request| !contains(request, "DUMP"));
    let complaint = copy_failing(&[&proxy.url(), &url(&start())], 2);
    assert!(complaint.starts_with(&format!("Lost the connection to {}: ", proxy.addr)), "{complaint}");
}

#[test]
fn the_help_says_what_the_copy_does_not_do_and_wrong_arguments_are_named() {
    let output = copy(&["--help"]);
    let help = text(&output.stdout);
    assert!(output.status.success() && help.lines().all(|line| line.chars().count() <= 105), "{help}");
    for part in [
        "Usage: keylatch copy [options] FROM TO",
        "--replace",
        "--match <PATTERN>",
        "--dry-run",
        "It does not stop writers: stop writers first, or run it twice",
        "keys deleted at the source meanwhile stay at the target.",
        "never ends early",
        "KEYLATCH_FROM_AUTH",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
    assert!(copy_failing(&["redis://a"], 2).contains("<TO>"));
    assert!(copy_failing(&["redis://a", "redis://b", "--nosuch"], 2).contains("'--nosuch'"));
    assert_eq!(copy_failing(&["redis://a/1", "redis://a:6379"], 2), "FROM and TO are the same\n");
}
