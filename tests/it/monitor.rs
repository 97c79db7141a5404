//! MONITOR: every call is shown as it was executed, and secrets are not.

use crate::harness::{TestServer, wait_until};

#[test]
fn a_monitor_sees_its_own_calls_but_may_not_touch_keys_until_reset() {
    let server = TestServer::start();
    let mut monitor = server.client();
    let addr = monitor.local_addr().to_string();
    assert_eq!(monitor.call("MONITOR"), "+OK");
    assert!(monitor.call("CLIENT INFO").contains(" flags=O "));
    monitor.send(b"MONITOR\r\nPING\r\n"); // the first has no reply
    assert_eq!(
        monitor.reply().replace(&addr, "ADDR").split_once(' ').expect("a time").1,
        "[0 ADDR] \"CLIENT\" \"INFO\""
    );
    assert_eq!(monitor.reply(), "+PONG");
    assert!(monitor.reply().ends_with("] \"PING\""));
    assert_eq!(monitor.call("GET k"), "-ERR Replica can't interact with the keyspace");
    assert_eq!(monitor.call("SET k v"), "-ERR Replica can't interact with the keyspace");
    #[cfg(feature = "lua")]
    assert_eq!(monitor.call("EVAL return{1} 0"), "-ERR Replica can't interact with the keyspace");
    assert_eq!(monitor.call("RESET"), "+RESET");
    monitor.expect(&[("GET k", "$-1"), ("SET k v", "+OK")]);
    assert!(monitor.call("CLIENT INFO").contains(" flags=N "));
}

#[test]
fn all_monitors_see_the_calls_of_many_clients_in_one_order() {
    let server = TestServer::start_on_workers(2);
    let mut monitors = [server.client(), server.client()];
    monitors.iter_mut().for_each(|monitor| assert_eq!(monitor.call("MONITOR"), "+OK"));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = server.client();
            scope.spawn(move || {
                let incrs: Vec<String> = (0..50).map(|_| "INCR k".to_owned()).collect();
                client.pipeline(&incrs);
            });
        }
    });
    let seen = monitors.map(|mut monitor| (0..200).map(|_| monitor.reply()).collect::<Vec<_>>());
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn a_monitor_that_is_gone_costs_nothing() {
    let server = TestServer::start();
    let mut client = server.client();
    let mut monitor = server.client();
    monitor.call("MONITOR");
    monitor.call("QUIT");
    monitor.read_to_end();
    wait_until(|| {
        client.call("PING");
        server.server().namespace().observed.monitors.is_empty()
    });
    assert_eq!(server.server().namespace().observed.monitors.len(), 0);
}
