//! The metrics port, through plain sockets: permitted peers, the content of answers, and limits for hostile peers.

mod locks;
mod release;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use keylatch::Clock;
use serde_json::Value;
use socket2::{Domain, Socket, Type};

use crate::harness::{Client, PATIENCE, ReservedPort, TestServer, wait_until};
use crate::tidy::root;

/// Maximum number of unanswered connections.
const PENDING_MAX: usize = 64;
/// Maximum number of pages that may follow at a time, in all and of one peer.
const FOLLOWERS_MAX: usize = 16;
const OF_PEER_MAX: usize = 8;

/// Server with a metrics port.
pub(crate) struct Observed {
    server: TestServer,
    addr: SocketAddr,
    _reserved: ReservedPort,
}

impl Observed {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(settings: &[(&str, &str)]) -> Self {
        Self::start_on(Clock::manual(), settings)
    }

    pub(crate) fn start_on(clock: Clock, settings: &[(&str, &str)]) -> Self {
        let reserved = ReservedPort::new();
        let port = reserved.port().to_string();
        let metrics = [("metrics-port", port.as_str()), ("metrics-bind", "127.0.0.1")];
        let server = TestServer::start_on(clock, &[&metrics[..], settings].concat());
        Observed { server, addr: reserved.addr(), _reserved: reserved }
    }

    pub(crate) fn client(&self) -> Client {
        self.server.client()
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.addr).expect("the port is open");
        stream.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        stream
    }

    /// Sends bytes and returns the whole answer.
    fn ask(&self, request: &str) -> Answer {
        let mut stream = self.connect();
        // A peer that is rejected early may be unable to send the rest.
        let _ = stream.write_all(request.as_bytes());
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        Answer::read(&bytes)
    }

    fn get(&self, path: &str) -> Answer {
        self.get_with(path, "")
    }

    fn get_with(&self, path: &str, headers: &str) -> Answer {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"))
    }

    /// Returns the metrics by their whole names, with and without labels.
    fn metrics(&self) -> BTreeMap<String, f64> {
        let answer = self.get("/metrics");
        assert_eq!(answer.status, 200, "{}", answer.body);
        samples(&answer.body)
    }

    /// Returns the state that is sent to a page.
    #[track_caller]
    pub(crate) fn page_state(&self) -> Value {
        self.follow("").shown()
    }

    pub(crate) fn follow(&self, headers: &str) -> Events {
        Self::follow_over(self.connect(), headers)
    }

    /// Follows the events as the peer with this address.
    fn follow_from(&self, ip: [u8; 4]) -> Events {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from((ip, 0)).into()).expect("an address of this machine");
        socket.connect(&self.addr.into()).expect("the port is open");
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
        Self::follow_over(stream, "")
    }

    fn follow_over(mut stream: TcpStream, headers: &str) -> Events {
        let request = format!("GET /events HTTP/1.1\r\nHost: 127.0.0.1:1\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).expect("the server reads");
        Events { stream, seen: Vec::new(), searched: 0 }
    }
}

/// HTTP answer.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    #[track_caller]
    fn read(bytes: &[u8]) -> Self {
        let text = String::from_utf8(bytes.to_vec()).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    #[track_caller]
    fn header(&self, name: &str) -> &str {
        let found = self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        found.unwrap_or_else(|| panic!("no {name} in {}", self.head))
    }
}

/// Stream of server-sent events.
pub(crate) struct Events {
    stream: TcpStream,
    seen: Vec<u8>,
    /// Number of bytes that are known not to contain the end of an event.
    searched: usize,
}

impl Events {
    /// Returns the name and the data of the next event; `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> Option<(String, String)> {
        loop {
            if let Some(end) = self.seen[self.searched..].windows(2).position(|two| two == b"\n\n") {
                let text: Vec<u8> = self.seen.drain(..self.searched + end + 2).collect();
                self.searched = 0;
                let text = String::from_utf8(text).expect("text");
                // The head of the answer, or the length of a chunk, may precede it.
                let event = &text[text.find("event: ").expect("an event")..];
                let (name, data) = event.trim_end().split_once("\ndata: ").expect("a name, then data");
                return Some((name["event: ".len()..].to_owned(), data.to_owned()));
            }
            self.searched = self.seen.len().saturating_sub(1);
            let mut chunk = [0; 64 * 1024];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(len) => self.seen.extend_from_slice(&chunk[..len]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no event: {error}"),
            }
        }
    }

    /// Returns the data of the next state event.
    #[track_caller]
    fn state(&mut self) -> String {
        loop {
            let (name, data) = self.next().expect("a state, not the end of the stream");
            if name == "state" {
                return data;
            }
        }
    }

    /// Returns the next state.
    #[track_caller]
    pub(crate) fn shown(&mut self) -> Value {
        serde_json::from_str(&self.state()).expect("JSON")
    }

    /// Reads up to the end of the stream.
    fn end(mut self) {
        while self.next().is_some() {}
    }
}

fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let parsed = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        (name.to_owned(), value.parse().expect("a number"))
    });
    let count = text.lines().filter(|line| !line.starts_with('#')).count();
    let samples: BTreeMap<String, f64> = parsed.collect();
    assert_eq!(samples.len(), count, "every metric is there once");
    samples
}

fn basic(user: &str, password: &str) -> String {
    format!("Authorization: Basic {}\r\n", base64(format!("{user}:{password}").as_bytes()))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let encode = |three: &[u8]| {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        let digit = |place: usize| {
            if place <= three.len() { char::from(DIGITS[(bits >> (18 - 6 * place)) as usize & 63]) } else { '=' }
        };
        (0..4).map(digit).collect::<String>()
    };
    bytes.chunks(3).map(encode).collect()
}

#[test]
fn there_is_no_port_unless_it_is_asked_for_and_it_stays_as_it_was_started() {
    let server = TestServer::start();
    server.client().expect(&[
        ("CONFIG GET metrics-port", "*2 $12 metrics-port $1 0"),
        ("CONFIG GET metrics-bind", "*2 $12 metrics-bind $14 127.0.0.1 -::1"),
        (
            "CONFIG SET metrics-port 9121",
            "-ERR CONFIG SET failed (possibly related to argument 'metrics-port') - can't set immutable config",
        ),
    ]);
}

#[test]
fn every_metric_has_a_description_and_a_type_in_both_forms() {
    let observed = Observed::start();
    observed.client().expect(&[
        ("SET k v", "+OK"),
        ("LPUSH k x", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
    ]);
    let old = observed.get("/metrics");
    assert_eq!(old.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let new = observed.get_with("/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n");
    assert_eq!(new.header("content-type"), "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(new.body.ends_with("\n# EOF\n") && !old.body.contains("# EOF"));
    let names = |text: &str, word: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix("# ")?.strip_prefix(word)?.split(' ').nth(1));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    for text in [&old.body, &new.body] {
        let (helps, types) = (names(text, "HELP"), names(text, "TYPE"));
        assert_eq!(helps, types);
        assert_eq!(types.iter().collect::<BTreeSet<_>>().len(), types.len(), "every metric is there once");
    }
    let (old, new) = (samples(&old.body), samples(&new.body));
    assert!(old.keys().eq(new.keys()), "both forms have the same metrics");
    assert_eq!(old["redis_up"], 1.0);
    assert_eq!(old["redis_errors_total{err=\"WRONGTYPE\"}"], 1.0);
    assert_eq!(old["redis_commands_failed_calls_total{cmd=\"lpush\"}"], 1.0);
}

#[test]
fn metrics_are_the_figures_of_info() {
    let observed = Observed::start();
    let mut client = observed.client();
    client.expect(&[("SET k v PX 100000", "+OK"), ("GET k", "$1 v"), ("GET missing", "$-1"), ("SELECT 3", "+OK")]);
    client.expect(&[("SET other v", "+OK")]);
    let metrics = observed.metrics();
    for (name, value) in [
        ("redis_connected_clients", 1.0),
        ("redis_commands_total{cmd=\"get\"}", 2.0),
        ("redis_keyspace_hits_total", 1.0),
        ("redis_keyspace_misses_total", 1.0),
        ("redis_db_keys{db=\"db0\"}", 1.0),
        ("redis_db_keys_expiring{db=\"db0\"}", 1.0),
        ("redis_db_avg_ttl_seconds{db=\"db0\"}", 100.0),
        ("redis_db_keys{db=\"db3\"}", 1.0),
        ("redis_commands_processed_total", 5.0),
    ] {
        assert_eq!(metrics[name], value, "{name}");
    }
    assert_eq!(observed.metrics()["redis_commands_processed_total"], 5.0, "a look is no command");
    assert!(metrics["redis_memory_used_bytes"] > 0.0);
    let identity = metrics.keys().find(|name| name.starts_with("redis_instance_info{")).expect("it is there");
    assert!(identity.contains("redis_version=\"8.4.0\"") && identity.contains("role=\"master\""), "{identity}");
}

#[test]
fn replicas_have_their_offsets_and_lags() {
    let observed = Observed::start();
    let (mut client, mut replica) = (observed.client(), observed.client());
    client.expect(&[("CONFIG SET repl-diskless-sync-delay 0", "+OK")]);
    replica.expect(&[("REPLCONF listening-port 7 ip-address host capa eof", "+OK")]);
    replica.send(b"PSYNC ? -1\r\n");
    let labels = "{slave_ip=\"host\",slave_port=\"7\",slave_state=\"online\"}";
    wait_until(|| {
        client.call("SET k v");
        replica.send(b"REPLCONF ACK 1000000\r\n");
        let metrics = observed.metrics();
        let lag = metrics.get(&format!("redis_connected_slave_lag_seconds{labels}"));
        let offset = metrics.get(&format!("redis_connected_slave_offset_bytes{labels}"));
        lag.is_some_and(|lag| *lag == 0.0) && offset.is_some_and(|offset| *offset > 0.0)
    });
}

#[test]
fn locks_are_counted_with_the_times_of_waits_and_holds() {
    let observed = Observed::start();
    let (mut holder, mut waiter) = (observed.client(), observed.client());
    assert!(holder.int("LOCK.ACQUIRE lock a PX 60000") > 0);
    waiter.send(b"LOCK.ACQUIRE lock b PX 60000 BLOCK 0\r\n");
    wait_until(|| observed.metrics()["keylatch_locks_waiting"] == 1.0);
    observed.server.advance_ms(2000);
    let metrics = observed.metrics();
    assert_eq!((metrics["keylatch_locks_held"], metrics["keylatch_locks_longest_wait_seconds"]), (1.0, 2.0));
    assert_eq!(metrics["redis_blocked_clients"], 1.0);
    assert_eq!(holder.int("LOCK.RELEASE lock a"), 1);
    assert!(waiter.reply().starts_with(':'));
    let metrics = observed.metrics();
    assert_eq!((metrics["keylatch_lock_acquired_total"], metrics["keylatch_lock_contended_total"]), (2.0, 1.0));
    for name in ["keylatch_lock_wait_seconds", "keylatch_lock_hold_seconds"] {
        let sum = metrics[&format!("{name}_sum")];
        assert!((1.98..=2.02).contains(&sum), "{name}: {sum}");
        let up_to = |bound: &str| metrics[&format!("{name}_bucket{{le=\"{bound}\"}}")];
        let count = metrics[&format!("{name}_count")];
        assert_eq!((up_to("1.0"), up_to("2.5"), up_to("+Inf")), (count - 1.0, count, count), "{name}");
    }
}

#[test]
fn a_password_is_needed_as_for_commands_and_a_wrong_one_is_in_the_acl_log() {
    let observed = Observed::start_with(&[("requirepass", "secret")]);
    let refused = observed.get("/metrics");
    assert_eq!(
        (refused.status, refused.header("www-authenticate")),
        (401, "basic realm=\"keylatch\", charset=\"utf-8\"")
    );
    for path in ["/", "/events"] {
        assert_eq!(observed.get(path).status, 401, "{path}");
    }
    for wrong in [basic("default", "wrong"), basic("nobody", "secret"), "Authorization: Bearer x\r\n".to_owned()] {
        assert_eq!(observed.get_with("/metrics", &wrong).status, 401, "{wrong}");
    }
    for right in [basic("default", "secret"), basic("", "secret")] {
        assert_eq!(observed.get_with("/metrics", &right).status, 200, "{right}");
    }
    let mut client = observed.client();
    assert_eq!(client.call("AUTH secret"), "+OK");
    let log = client.call("ACL LOG");
    assert!(log.contains("$6 reason $4 auth $7 context $8 toplevel $6 object $4 HTTP $8 username $6 nobody"), "{log}");
    assert_eq!(client.info("acl_access_denied_auth"), "2");
}

#[test]
fn a_user_sees_what_its_permissions_allow() {
    let observed = Observed::start();
    let mut client = observed.client();
    client.expect(&[
        ("ACL SETUSER prometheus on >p +info", "+OK"),
        ("ACL SETUSER nobody on >p +get ~*", "+OK"),
        ("ACL SETUSER viewer on >p +info +lock.list +client|list +slowlog|get", "+OK"),
    ]);
    let status = |user: &str, path: &str| observed.get_with(path, &basic(user, "p")).status;
    assert_eq!((status("prometheus", "/metrics"), status("prometheus", "/")), (200, 403));
    assert_eq!((status("nobody", "/metrics"), status("nobody", "/events")), (403, 403));
    assert_eq!((status("viewer", "/metrics"), status("viewer", "/")), (200, 200));
    let reason = observed.get_with("/", &basic("prometheus", "p")).body;
    assert!(reason.contains("'lock.list'"), "{reason}");
    assert!(client.call("ACL LOG 1").contains("object $9 lock.list"), "the refusal is in the ACL log");
    // An unnamed user without the permission is asked for a name.
    client.expect(&[("ACL SETUSER admin on nopass ~* &* +@all", "+OK"), ("AUTH admin x", "+OK")]);
    assert_eq!(client.call("ACL SETUSER default -info"), "+OK");
    assert_eq!((observed.get("/metrics").status, status("prometheus", "/metrics")), (401, 200));
}

#[test]
fn a_page_ends_when_its_user_may_not_see_it_any_longer() {
    let observed = Observed::start();
    let mut client = observed.client();
    let changes =
        ["ACL SETUSER viewer -slowlog", "ACL SETUSER viewer off", "ACL DELUSER viewer", "ACL SETUSER viewer resetpass"];
    for change in changes {
        assert_eq!(client.call("ACL SETUSER viewer reset on >p +@all ~* &*"), "+OK");
        let mut events = observed.follow(&basic("viewer", "p"));
        events.state();
        let reply = client.call(change);
        assert!(!reply.starts_with('-'), "{change}: {reply}");
        observed.server.advance_ms(1000);
        match change {
            // As for connections: an authenticated peer stays.
            "ACL SETUSER viewer resetpass" => drop(events.state()),
            _ => events.end(),
        }
    }
    let mut unnamed = observed.follow("");
    unnamed.state();
    assert_eq!(client.call("CONFIG SET requirepass secret"), "+OK");
    observed.server.advance_ms(1000);
    unnamed.end();
}

#[test]
fn a_page_is_sent_the_past_and_then_the_state_of_every_second() {
    let observed = Observed::start();
    let mut client = observed.client();
    assert_eq!(client.call("CONFIG SET slowlog-log-slower-than 0"), "+OK");
    assert!(client.int("LOCK.ACQUIRE lock secret-token PX 60000 META nightly-report") > 0);
    client.expect(&[("SET key secret-value", "+OK"), ("CLIENT SETNAME worker-1", "+OK")]);
    let mut waiter = observed.client();
    waiter.send(b"CLIENT SETNAME worker-2\r\nLOCK.ACQUIRE lock secret-waiter PX 60000 BLOCK 0\r\n");
    waiter.reply();
    wait_until(|| observed.metrics()["keylatch_locks_waiting"] == 1.0);
    let mut events = observed.follow("");
    let (name, past) = events.next().expect("an event");
    assert_eq!(name, "history");
    assert!(past.starts_with("{\"at\":["), "{past}");
    let first = events.state();
    observed.server.advance_ms(1500);
    let second = events.state();
    for (state, wait) in [(&first, "\"wait\":0"), (&second, "\"wait\":1500")] {
        for part in [
            "\"held\":1",
            "\"waiting\":1",
            "\"key\":\"lock\"",
            "\"meta\":\"nightly-report\"",
            "worker-1",
            "worker-2",
            "\"queued\":1",
            wait,
        ] {
            assert!(state.contains(part), "{part} in {state}");
        }
        let shown: Value = serde_json::from_str(state).expect("JSON");
        let slow = shown["slow"].as_array().expect("a list");
        for (command, key) in [("SET", "key"), ("LOCK.ACQUIRE", "lock")] {
            assert!(slow.iter().any(|call| call["command"] == command && call["key"] == key), "the slow log: {state}");
        }
        assert!(!state.contains("secret"), "no token, no value: {state}");
    }
    assert!(!observed.get("/metrics").body.contains("secret"));
}

#[test]
fn a_page_shows_who_acquired_a_lock_also_after_it_has_left_and_which_clients_wait_for_each_other() {
    let observed = Observed::start();
    let (mut one, mut two, mut gone) = (observed.client(), observed.client(), observed.client());
    let ids = [one.int("CLIENT ID"), two.int("CLIENT ID"), gone.int("CLIENT ID")];
    assert_eq!(gone.call("CLIENT SETNAME batch"), "+OK");
    assert!(gone.int("LOCK.ACQUIRE left t PX 600000") > 0);
    drop(gone);
    let key = "a".repeat(200);
    assert!(one.int(&format!("LOCK.ACQUIRE {key} t1 SESSION")) > 0);
    assert!(two.int("LOCK.ACQUIRE b t2 SESSION") > 0);
    one.send(b"LOCK.ACQUIRE b u1 SESSION BLOCK 0\r\n");
    wait_until(|| observed.metrics()["keylatch_locks_waiting"] == 1.0);
    assert!(two.call(&format!("LOCK.ACQUIRE {key} u2 SESSION BLOCK 0")).starts_with("-DEADLOCK "));
    assert_eq!(observed.metrics()["keylatch_lock_deadlocks_total"], 1.0);
    assert_eq!(two.call("CONFIG SET lock-deadlock wait"), "+OK");
    two.send(format!("LOCK.ACQUIRE {key} u2 SESSION BLOCK 0\r\n").as_bytes());
    wait_until(|| observed.metrics()["keylatch_locks_waiting"] == 2.0);
    let shown = observed.page_state();
    assert_eq!(shown["deadlocks_total"], 1.0);
    let lock = |key: &str| {
        let locks = shown["locks"].as_array().expect("a list");
        locks.iter().find(|lock| lock["key"].as_str().is_some_and(|name| name.starts_with(key))).expect(key)
    };
    let left = &lock("left")["holders"][0];
    let client = &left["client"];
    assert_eq!((&client["id"], &client["name"], &left["gone"]), (&ids[2].into(), &"batch".into(), &true.into()));
    assert!(lock("left")["cycle"].is_null());
    assert_eq!(lock("b")["holders"][0]["gone"], false);
    let cycle = lock("aaa")["cycle"].as_array().expect("a list");
    let clients: Vec<&Value> = cycle.iter().map(|link| &link["id"]).collect();
    assert_eq!(clients, [&Value::from(ids[0]), &ids[1].into()]);
    assert_eq!(cycle[1]["key"], "b");
}

#[test]
fn hostile_names_do_not_leave_their_place() {
    let observed = Observed::start();
    let mut client = observed.client();
    for key in [&b"</script><script>alert(1)</script>"[..], b"a\n\nevent: state\ndata: {}", b"\xff\0\"\\"] {
        let reply = client.call_args(&[b"LOCK.ACQUIRE", key, b"t", b"PX", b"60000"]);
        assert!(reply.starts_with(':'), "{reply}");
    }
    let state = observed.follow("").state();
    for shown in [
        "\"key\":\"</script><script>alert(1)</script>\"",
        r#""key":"\"a\\n\\nevent: state"#,
        r#""key":"\"\\xff\\x00\\\"\\\\\"""#,
    ] {
        assert!(state.contains(shown), "{shown} in {state}");
    }
}

#[test]
fn of_ten_thousand_locks_those_that_are_waited_for_longest_are_shown() {
    let observed = Observed::start();
    let mut client = observed.client();
    let acquire: Vec<String> = (0..10_000).map(|number| format!("LOCK.ACQUIRE lock:{number} t PX 600000")).collect();
    assert!(client.pipeline(&acquire).iter().all(|reply| reply.starts_with(':')));
    let waiters: Vec<Client> = [77, 4321]
        .map(|number| {
            let mut waiter = observed.client();
            waiter.send(format!("LOCK.ACQUIRE lock:{number} other PX 600000 BLOCK 0\r\n").as_bytes());
            wait_until(|| observed.metrics()["keylatch_locks_waiting"] >= if number == 77 { 1.0 } else { 2.0 });
            observed.server.advance_ms(1000);
            waiter
        })
        .into();
    let state = observed.follow("").state();
    assert!(state.contains("\"held\":10000"), "{state}");
    let keys: Vec<&str> = state.split("\"key\":\"lock:").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!((keys.len(), &keys[..2]), (200, &["77", "4321"][..]));
    drop(waiters);
}

#[test]
fn only_what_there_is_can_be_asked_for() {
    let observed = Observed::start();
    let page = observed.get("/");
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-") && !policy.contains("unsafe"), "{policy}");
    assert_eq!((page.header("x-content-type-options"), page.header("cache-control")), ("nosniff", "no-store"));
    for path in ["/", "/metrics", "/events"] {
        let head = observed.ask(&format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!((head.status, head.body.as_str()), (200, ""), "{path}");
    }
    for path in ["/favicon.ico", "/metrics/", "//", "/../etc/passwd", "/events?x=1/"] {
        let status = observed.ask(&format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).status;
        assert_eq!(status, if path.starts_with("/events?") { 200 } else { 404 }, "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT"] {
        let target = if method == "CONNECT" { "localhost:80" } else { "/metrics" };
        let answer =
            observed.ask(&format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"));
        assert_eq!((answer.status, answer.header("allow")), (405, "get, head"), "{method}");
    }
}

#[test]
fn a_page_of_another_site_cannot_ask_under_a_name_that_leads_here() {
    let observed = Observed::start();
    let ask = |request: &str| observed.ask(&format!("{request}\r\n\r\n")).status;
    for host in ["evil.example", "evil.example:9121", "localhost.evil.example", "127.0.0.1.evil.example"] {
        assert_eq!(ask(&format!("GET /metrics HTTP/1.1\r\nHost: {host}")), 403, "{host}");
    }
    assert_eq!(ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example"), 403);
    assert_eq!(ask("GET http://localhost/metrics HTTP/1.1\r\nHost: localhost"), 400);
    assert_eq!(ask("GET /metrics HTTP/1.1\r\nHost: [::1]:9121"), 200);
    assert_eq!(ask("GET /metrics HTTP/1.0"), 200);
}

#[test]
fn what_is_not_http_or_too_long_is_refused_without_harm() {
    let observed = Observed::start();
    let long = "x".repeat(1 << 20);
    for (request, status) in [
        ("*1\r\n$4\r\nPING\r\n".to_owned(), 400),
        ("GET /metrics HTTP/1.1\r\nbad header\r\n\r\n".to_owned(), 400),
        ("\u{16}\u{3}\u{1}\u{2}\r\n\r\n".to_owned(), 400),
        (format!("GET /{long} HTTP/1.1\r\n\r\n"), 414),
        (format!("GET / HTTP/1.1\r\nX: {long}\r\n\r\n"), 431),
        (format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100)), 431),
    ] {
        // The answer is lost if the server closes before the peer has sent everything.
        let answered = observed.ask(&request).status;
        assert!([0, status, 431].contains(&answered), "{answered} to {:.40}", request.escape_debug());
    }
    // The server does not wait for a body.
    assert_eq!(observed.get_with("/metrics", "Content-Length: 1000000\r\n").status, 200);
    let endless = observed.get_with("/metrics", &format!("Content-Length: {}\r\n", u64::MAX)).status;
    assert!([0, 400, 413, 431].contains(&endless), "{endless}");
    assert_eq!(observed.get("/metrics").status, 200);
    assert_eq!(observed.client().call("PING"), "+PONG");
}

#[test]
fn silent_connections_do_not_keep_others_out() {
    let observed = Observed::start();
    let mut silent: Vec<TcpStream> = (0..3 * PENDING_MAX).map(|_| observed.connect()).collect();
    silent[2 * PENDING_MAX].write_all(b"GET /metrics HTT").expect("it is connected");
    assert_eq!(observed.get("/metrics").status, 200);
    // The oldest connections were closed in favour of later ones.
    for stream in &mut silent[..PENDING_MAX] {
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    }
    assert_eq!(observed.client().call("PING"), "+PONG");
}

#[test]
fn only_some_pages_follow_at_a_time() {
    let observed = Observed::start();
    let all = |ips: &[[u8; 4]]| -> Vec<Events> {
        ips.iter().flat_map(|ip| (0..OF_PEER_MAX).map(|_| observed.follow_from(*ip))).collect()
    };
    let mut pages = all(&[[127, 0, 0, 1]]);
    pages.iter_mut().for_each(|page| drop(page.state()));
    let refused = observed.get("/events");
    assert_eq!((refused.status, refused.header("retry-after")), (503, "5"));
    let mut others = all(&[[127, 0, 0, 2]]);
    others.iter_mut().for_each(|page| drop(page.state()));
    assert_eq!(pages.len() + others.len(), FOLLOWERS_MAX);
    let read = |mut page: Events| {
        let mut head = [0; 12];
        page.stream.read_exact(&mut head).expect("an answer");
        String::from_utf8_lossy(&head).into_owned()
    };
    assert_eq!(read(observed.follow_from([127, 0, 0, 3])), "HTTP/1.1 503");
    assert_eq!(observed.get("/metrics").status, 200);
    drop(others.pop());
    wait_until(|| read(observed.follow_from([127, 0, 0, 3])) == "HTTP/1.1 200");
    assert_eq!(observed.get("/events").status, 503, "its peer has enough");
}

#[test]
fn a_page_of_another_site_takes_no_place() {
    let observed = Observed::start();
    let foreign = [
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n",
        "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Site: same-origin\r\n",
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Origin: http://localhost:1\r\n",
    ];
    for headers in foreign.iter().cycle().take(3 * FOLLOWERS_MAX) {
        assert_eq!(observed.get_with("/events", headers).status, 403, "{headers}");
    }
    let own = ["", "Sec-Fetch-Site: same-origin\r\n", "Sec-Fetch-Site: none\r\n", "Origin: http://127.0.0.1:1\r\n"];
    let mut pages: Vec<Events> = own.iter().map(|headers| observed.follow(headers)).collect();
    pages.iter_mut().for_each(|page| drop(page.state()));
    // The target of a link is shown, but not content that another page embeds or loads.
    let link = foreign[2];
    for path in ["/", "/metrics"] {
        assert_eq!(observed.get_with(path, link).status, 200, "{path}");
        assert_eq!(observed.get_with(path, &link.replace("document", "iframe")).status, 403, "{path}");
        assert_eq!(observed.get_with(path, foreign[0]).status, 403, "{path}");
    }
}

#[test]
fn a_page_that_does_not_read_is_closed() {
    let observed = Observed::start();
    let mut client = observed.client();
    let acquire: Vec<String> =
        (0..200).map(|number| format!("LOCK.ACQUIRE {number}:{} t PX 600000", "k".repeat(1000))).collect();
    assert!(client.pipeline(&acquire).iter().all(|reply| reply.starts_with(':')));
    let slow = observed.follow("");
    let mut quick = observed.follow("");
    assert!(quick.state().contains("\u{2026} (876 more bytes)"), "long names are cut");
    // Every state has fifty kilobytes; sockets buffer some of them, and the server one.
    for _ in 0..400 {
        observed.server.advance_ms(1000);
        quick.state();
    }
    slow.end();
    let mut pages: Vec<Events> = (0..OF_PEER_MAX - 1).map(|_| observed.follow("")).collect();
    assert!(pages.iter_mut().all(|page| page.next().is_some()), "its place is free");
}

#[test]
fn pages_end_with_the_server() {
    let observed = Observed::start();
    let mut events = observed.follow("");
    events.state();
    let mut silent = observed.connect();
    observed.client().send(b"SHUTDOWN NOSAVE\r\n");
    events.end();
    assert!(matches!(silent.read(&mut [0]), Ok(0) | Err(_)));
}

#[test]
fn the_dashboard_shows_metrics_that_there_are() {
    let observed = Observed::start();
    observed.client().expect(&[("SET k v PX 1000", "+OK"), ("INCR k", "-ERR value is not an integer or out of range")]);
    let metrics = observed.metrics();
    let there: BTreeSet<&str> = metrics.keys().map(|name| name.split('{').next().unwrap_or(name)).collect();
    let dashboard = std::fs::read_to_string(root().join("contrib/grafana-dashboard.json")).expect("the dashboard");
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words: BTreeSet<&str> = dashboard.split(|c| !is_part(c)).collect();
    let named: BTreeSet<&str> =
        words.into_iter().filter(|word| word.starts_with("redis_") || word.starts_with("keylatch_")).collect();
    assert!(named.len() > 15, "{named:?}");
    assert_eq!(named.difference(&there).collect::<Vec<_>>(), Vec::<&&str>::new());
}

#[test]
fn a_page_shows_a_lock_of_another_database_that_was_taken_by_set_nx_once_it_is_waited_for() {
    let observed = Observed::start();
    let (mut client, mut waiter) = (observed.client(), observed.client());
    client.expect(&[("SELECT 3", "+OK"), ("SET k mine NX", "+OK")]);
    waiter.expect(&[("SELECT 3", "+OK")]);
    waiter.send(b"LOCK.ACQUIRE k other PX 600000 BLOCK 0\r\n");
    wait_until(|| observed.metrics()["keylatch_locks_waiting"] == 1.0);
    let shown = observed.page_state();
    let locks = shown["locks"].as_array().expect("a list");
    assert_eq!((locks.len(), &locks[0]["key"], &locks[0]["db"]), (1, &"k".into(), &3.into()));
}
