//! Several addresses, sentinels, and failovers: the lock is that of the primary.

use crate::harness::{Client, TestServer, wait_until};
use crate::lock_command::{Running, UNTIL_TOLD, run, run_failing, shell};
use crate::process::text;

/// A primary with two replicas and three sentinels, in the process of a server.
struct Sentinels {
    server: TestServer,
    control: Client,
    ports: Vec<u16>,
}

impl Sentinels {
    fn new() -> Self {
        let server = TestServer::start_with(&[("test-mode", "yes")]);
        let mut control = server.client();
        let made = control.call("TEST.SENTINEL CREATE c DOWN-AFTER 100 SENTINEL-PASSWORD secret");
        let parts = made.split("port :").skip(1).filter_map(|rest| rest.split(' ').next()?.parse().ok());
        let ports: Vec<u16> = parts.collect();
        assert_eq!(ports.len(), 6, "{made}");
        Sentinels { server, control, ports }
    }

    /// Returns options with the addresses of data nodes.
    fn urls(&self, nodes: &[usize]) -> Vec<String> {
        let urls = nodes.iter().map(|node| format!("redis://127.0.0.1:{}", self.ports[*node]));
        urls.flat_map(|url| ["--url".to_owned(), url]).collect()
    }

    /// Returns options with the addresses of the sentinels.
    fn named(&self, master: &str) -> Vec<String> {
        let sentinels: Vec<_> = self.ports[3..].iter().map(|port| format!(":secret@127.0.0.1:{port}")).collect();
        ["--sentinel", &sentinels.join(","), "--master", master].map(str::to_owned).to_vec()
    }

    fn node(&self, number: usize) -> Client {
        Client::connect(([127, 0, 0, 1], self.ports[number]).into())
    }

    /// Makes a node the primary.
    fn fail_over(&mut self, rest: &str) {
        assert_eq!(self.control.call(&format!("TEST.SENTINEL FAILOVER c {rest}")), "+OK");
    }
}

#[test]
fn the_first_address_that_is_a_primary_and_answers_is_used() {
    let mut sentinels = Sentinels::new();
    let (all, replicas) = (sentinels.urls(&[1, 0, 2]), sentinels.urls(&[1, 2]));
    let output = run(&all, &["job", "--", "echo", "done"]);
    assert!(output.status.success() && text(&output.stdout) == "done\n" && output.stderr.is_empty(), "{output:?}");
    let complaint = run_failing(&replicas, &["job", "--", "echo"], 69);
    let [first, second] = [1, 2].map(|node| format!("127.0.0.1:{} is a replica", sentinels.ports[node]));
    assert_eq!(complaint, format!("keylatch lock: {first}; {second}\n"));
    let mut waiting = Running::start(&replicas, &shell(&["--wait", "1h", "job"], UNTIL_TOLD));
    assert_eq!(waiting.complaint(), format!("keylatch lock: {first}; {second}; trying again"));
    sentinels.fail_over("TO 2");
    assert_eq!(waiting.line(), "ready");
    let mut primary = sentinels.node(2);
    primary.expect(&[("EXISTS job", ":1")]);
    let output = run(&all, &["--list"]);
    assert!(text(&output.stdout).contains("\njob "), "{output:?}");
    waiting.tell();
    assert_eq!(waiting.end(), (Some(3), String::new()));
    primary.expect(&[("EXISTS job", ":0")]);
}

#[test]
fn sentinels_are_asked_for_the_primary() {
    let mut sentinels = Sentinels::new();
    sentinels.control.expect(&[("TEST.SENTINEL STOP c 3", "+OK")]);
    let output = run(&sentinels.named("mymaster"), &["job", "--", "echo", "done"]);
    assert!(output.status.success() && text(&output.stdout) == "done\n" && output.stderr.is_empty(), "{output:?}");
    let complaint = run_failing(&sentinels.named("other"), &["job", "--", "echo"], 69);
    let unknown = [4, 5].map(|node| format!("127.0.0.1:{} knows no primary other", sentinels.ports[node]));
    let refused = format!("could not connect to 127.0.0.1:{}: Connection refused", sentinels.ports[3]);
    assert_eq!(complaint, format!("keylatch lock: {refused}; {}\n", unknown.join("; ")));
    let port = sentinels.ports[4];
    let wrong = ["--sentinel", &format!("127.0.0.1:{port}"), "--master", "mymaster"].map(str::to_owned);
    assert_eq!(
        run_failing(&wrong, &["job", "--", "echo"], 77),
        "keylatch lock: the server wants a password: --pass, or REDISCLI_AUTH\n"
    );
}

#[test]
fn a_lock_is_renewed_and_released_at_the_primary_after_a_failover() {
    for is_asked in [true, false] {
        let mut sentinels = Sentinels::new();
        let at = if is_asked { sentinels.named("mymaster") } else { sentinels.urls(&[0, 1, 2]) };
        let mut running = Running::ready(&at, &["job"], UNTIL_TOLD);
        sentinels.fail_over("TO 1");
        let mut primary = sentinels.node(1);
        // The new connection, which is named, is that of the holder.
        wait_until(|| primary.call("CLIENT LIST").contains("name=tester@"));
        primary.expect(&[("EXISTS job", ":1")]);
        running.tell();
        assert_eq!(running.end(), (Some(3), String::new()));
        primary.expect(&[("EXISTS job", ":0")]);
    }
}

#[test]
fn a_lock_that_the_new_primary_does_not_have_is_lost() {
    let mut sentinels = Sentinels::new();
    let at = sentinels.named("mymaster");
    let running = Running::ready(&at, &["job"], "echo ready; exec sleep 1000");
    sentinels.fail_over("TO 1 LOSE 1");
    let expected = "keylatch lock: job was lost (it has expired, or was taken): ending the command\n";
    assert_eq!(running.end(), (Some(79), expected.to_owned()));
}

#[test]
fn a_wait_goes_on_at_the_primary_after_a_failover() {
    let mut sentinels = Sentinels::new();
    let at = sentinels.named("mymaster");
    sentinels.node(0).int("LOCK.ACQUIRE job token PX 600000");
    let mut waiting = Running::start(&at, &shell(&["job"], UNTIL_TOLD));
    let mut primary = sentinels.node(0);
    wait_until(|| primary.call("INFO locks").contains(" waiting:1 "));
    sentinels.fail_over("TO 1");
    assert!(waiting.complaint().ends_with("; trying again"));
    let mut primary = sentinels.node(1);
    wait_until(|| primary.call("INFO locks").contains(" waiting:1 "));
    primary.expect(&[("LOCK.RELEASE job token", ":1")]);
    assert_eq!(waiting.line(), "ready");
    waiting.tell();
    assert_eq!(waiting.end(), (Some(3), String::new()));
}

#[test]
fn a_lock_is_renewed_at_the_primary_that_sentinels_name_though_the_old_one_still_answers() {
    let mut sentinels = Sentinels::new();
    let mut running = Running::ready(&sentinels.named("mymaster"), &["--ttl", "3s", "job"], UNTIL_TOLD);
    sentinels.control.expect(&[("TEST.SENTINEL PARTITION c 0", "+OK")]);
    sentinels.server.advance_ms(200);
    let mut replicas = [sentinels.node(1), sentinels.node(2)];
    let is_primary = |node: &mut Client| node.call("ROLE").contains("$6 master");
    wait_until(|| replicas.iter_mut().any(is_primary));
    let primary = replicas.iter_mut().find_map(|node| is_primary(node).then_some(node)).expect("a primary");
    // It was less by the time that has passed.
    wait_until(|| primary.int("PTTL job") == 3000);
    running.tell();
    assert_eq!(running.end(), (Some(3), String::new()));
    primary.expect(&[("EXISTS job", ":0")]);
}

#[test]
fn a_lock_is_released_at_the_primary_that_sentinels_name_though_the_old_one_still_answers() {
    let mut sentinels = Sentinels::new();
    let mut running = Running::ready(&sentinels.named("mymaster"), &["--ttl", "1h", "job"], UNTIL_TOLD);
    sentinels.control.expect(&[("TEST.SENTINEL PARTITION c 0", "+OK")]);
    sentinels.server.advance_ms(200);
    let mut replicas = [sentinels.node(1), sentinels.node(2)];
    let is_primary = |node: &mut Client| node.call("ROLE").contains("$6 master");
    wait_until(|| replicas.iter_mut().any(is_primary));
    running.tell();
    assert_eq!(running.end(), (Some(3), String::new()));
    let primary = replicas.iter_mut().find_map(|node| is_primary(node).then_some(node)).expect("a primary");
    primary.expect(&[("EXISTS job", ":0")]);
}
