//! Calls that wait for the cluster while the admission state changes: a pause, users, clients that are told to close.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::etcd::Etcd;
use crate::engine::locks::linked_fleet;
use crate::engine::proxy::{Passage, Proxy, Way};
use crate::engine::{Fleet, engine_info};
use crate::harness::{Client, wait_until};

/// Number of reads of a key that must not change.
const LOOKS: usize = 20;

/// Two servers. The first has a call in flight to the cluster, and one behind it that waits for its outcome.
struct Waiting {
    fleet: Fleet,
    links: Vec<Proxy>,
    admin: Client,
    /// Client that sets the key `k` to `first`. Its call was sent to the cluster.
    first: Client,
    /// Client that sets the key `k` to `second`. Its call was not sent.
    second: Client,
}

impl Waiting {
    /// Makes two clients send their calls; the second client has sent `before`, and sends `request`. Returns `None`
    /// without etcd.
    fn start(before: &[&str], request: &str) -> Option<Self> {
        let etcd = Etcd::shared()?;
        let (fleet, links) = linked_fleet(&etcd)?;
        let [mut admin, mut first, mut second] = [0; 3].map(|server| fleet.servers[server].client());
        admin.expect(&[("CONFIG SET etcd-timeout 100000", "+OK"), ("ACL SETUSER app on nopass ~* &* +@all", "+OK")]);
        admin.expect(&[("SET k zero", "+OK")]);
        before.iter().for_each(|words| _ = second.call(words));
        links.iter().for_each(|link| link.cut(Way::There, Passage::Held));
        for (client, words, counter) in
            [(&mut first, "SET k first", "engine_transactions"), (&mut second, request, "engine_calls")]
        {
            let counted = engine_info(&mut admin, counter);
            client.send(format!("{words}\r\n").as_bytes());
            wait_until(|| engine_info(&mut admin, counter) != counted);
        }
        Some(Waiting { fleet, links, admin, first, second })
    }

    /// Changes the admission state by a command; returns its reply, which waits for the sent call.
    fn publish(&mut self, words: &str) -> String {
        let mut publisher = self.fleet.servers[0].client();
        let before = calls_of(&mut self.admin, words);
        publisher.send(format!("{words}\r\n").as_bytes());
        wait_until(|| calls_of(&mut self.admin, words) != before); // the change is visible
        assert_silent(&mut publisher);
        self.links.iter().for_each(Proxy::heal);
        assert_eq!(self.first.reply(), "+OK");
        publisher.reply()
    }

    /// Asserts that the unsent call is not executed.
    fn assert_unsent(&mut self) {
        let mut other = self.fleet.servers[1].client();
        for _ in 0..LOOKS {
            self.admin.expect(&[("GET k", "$5 first")]);
            other.expect(&[("GET k", "$5 first")]);
        }
    }
}

/// Returns the statistics of a command, with its subcommand, from INFO.
fn calls_of(client: &mut Client, words: &str) -> Option<String> {
    let name: Vec<String> = words.split(' ').take(2).map(str::to_lowercase).collect();
    let text = client.call("INFO commandstats");
    let shown = text.split(' ').find(|line| line.starts_with(&format!("cmdstat_{}:", name.join("|"))))?;
    shown.split(',').next().map(str::to_owned)
}

/// Asserts that a client has got no reply.
fn assert_silent(client: &mut Client) {
    client.stream_mut().set_nonblocking(true).expect("a mode");
    let peeked = client.stream_mut().peek(&mut [0]);
    assert_eq!(peeked.expect_err("nothing comes").kind(), ErrorKind::WouldBlock);
    client.stream_mut().set_nonblocking(false).expect("a mode");
}

#[test]
fn no_write_is_made_after_a_pause_was_acknowledged_although_it_was_admitted_before() {
    for request in ["SET k second", "EXEC"] {
        let queued: &[&str] = if request == "EXEC" { &["MULTI", "SET k second"] } else { &[] };
        let Some(mut waiting) = Waiting::start(queued, request) else { return };
        assert_eq!(waiting.publish("CLIENT PAUSE 1000000 WRITE"), "+OK");
        waiting.assert_unsent();
        assert_silent(&mut waiting.second);
        waiting.admin.expect(&[("CLIENT UNPAUSE", "+OK")]);
        assert_eq!(waiting.second.reply(), if request == "EXEC" { "*1 +OK" } else { "+OK" });
        waiting.admin.expect(&[("GET k", "$6 second")]);
    }
}

#[test]
fn a_write_that_a_pause_holds_back_is_made_when_its_time_is_over() {
    let Some(mut waiting) = Waiting::start(&[], "SET k second") else { return };
    assert_eq!(waiting.publish("CLIENT PAUSE 300 WRITE"), "+OK");
    assert_eq!(waiting.second.reply(), "+OK");
    waiting.admin.expect(&[("GET k", "$6 second")]);
}

#[test]
fn a_client_that_is_killed_or_whose_user_is_deleted_writes_nothing_more() {
    for by in ["CLIENT KILL USER app", "ACL DELUSER app"] {
        let Some(mut waiting) = Waiting::start(&["AUTH app x"], "SET k second") else { return };
        assert_eq!(waiting.publish(by), ":1", "{by}");
        assert!(waiting.second.read_to_end().is_empty(), "{by}");
        waiting.assert_unsent();
    }
}

#[test]
fn what_a_client_has_begun_is_refused_once_its_user_may_not_do_it_any_more() {
    let denied = "-NOPERM this user has no permissions to run the 'set' command";
    let in_exec = "*1 -NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. \
                   This command is no longer allowed for the following reason: no permission to execute the command or \
                   subcommand";
    let abort =
        "-EXECABORT Transaction discarded because of: NOPERM this user has no permissions to run the 'exec' command";
    for (before, request, rule, reply) in [
        (&["AUTH app x"][..], "SET k second", "-set", denied),
        (&["AUTH app x", "MULTI", "SET k second"], "EXEC", "-set", in_exec),
        (&["AUTH app x", "MULTI", "SET k second"], "EXEC", "-exec", abort),
    ] {
        let Some(mut waiting) = Waiting::start(before, request) else { return };
        assert_eq!(waiting.publish(&format!("ACL SETUSER app {rule}")), "+OK");
        assert_eq!(waiting.second.reply(), reply);
        waiting.assert_unsent();
        assert_eq!(waiting.admin.call("ACL LOG").matches("username").count(), 1, "{rule}");
    }
}

#[test]
fn settings_may_change_while_calls_wait_for_the_cluster() {
    let Some(mut waiting) = Waiting::start(&["AUTH app x"], "SET k second") else { return };
    assert_eq!(waiting.publish("ACL SETUSER other on"), "+OK");
    assert_eq!(waiting.second.reply(), "+OK");
}

#[test]
fn a_blocked_client_takes_nothing_during_a_pause_whoever_has_filled_its_list() {
    let Some(fleet) = Fleet::start(2) else { return };
    let [mut one, mut other] = fleet.two_clients();
    let mut blocked = fleet.servers[0].block("BLPOP list 0");
    one.expect(&[("LLEN list", ":0"), ("CLIENT PAUSE 1000000 WRITE", "+OK")]);
    other.expect(&[("RPUSH list element", ":1")]);
    for _ in 0..LOOKS {
        one.expect(&[("LLEN list", ":1")]);
        other.expect(&[("LLEN list", ":1")]);
    }
    assert_silent(&mut blocked);
    one.expect(&[("CLIENT UNPAUSE", "+OK")]);
    assert_eq!(blocked.reply(), "*2 $4 list $7 element");
}

#[test]
fn a_pause_is_acknowledged_although_no_majority_answers_once_the_writes_before_it_are() {
    let Some(etcd) = Etcd::start(1).map(Arc::new) else { return };
    let Some(fleet) = Fleet::start_on(etcd.clone(), 1) else { return };
    let [mut admin, mut writer] = [0; 2].map(|server| fleet.servers[server].client());
    admin.expect(&[("CONFIG SET etcd-timeout 1000", "+OK"), ("SET k v", "+OK")]);
    etcd.stop(0);
    let before = engine_info(&mut admin, "engine_transactions");
    writer.send(b"SET k w\r\n");
    wait_until(|| engine_info(&mut admin, "engine_transactions") != before);
    admin.expect(&[("CLIENT PAUSE 1000000 WRITE", "+OK")]);
    writer.stream_mut().set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    let reply = writer.reply();
    assert!(reply.starts_with("-UNCERTAIN") || reply == "+OK", "{reply}"); // the node may have answered before the stop
    etcd.go_on(0);
}
