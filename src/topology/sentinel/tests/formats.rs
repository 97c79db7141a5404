//! Messages of events, to the byte, as redis-sentinel 7.0.15 publishes them.

use super::*;

#[test]
fn messages_are_those_of_redis() {
    let mut story = Story::after("");
    let (first, second) = (story.id(3), story.id(4));
    let lines =
        story.play_in_full("stop 0; advance 30000; stop 4; start 0; stop 2; start 2; pause 3; advance 30000; resume 3");
    let m0 = "mymaster 127.0.0.1 7000";
    let r1 = "slave 127.0.0.1:7001 127.0.0.1 7001";
    let r2 = "slave 127.0.0.1:7002 127.0.0.1 7002";
    let expected = [
        format!("3 +sdown master {m0}"),
        format!("3 +odown master {m0} #quorum 3/2"),
        "3 +new-epoch 1".to_owned(),
        format!("3 +try-failover master {m0}"),
        format!("3 +vote-for-leader {first} 1"),
        format!("4 +vote-for-leader {first} 1"),
        format!("3 +elected-leader master {m0}"),
        format!("3 +failover-state-select-slave master {m0}"),
        format!("3 +selected-slave {r1} @ {m0}"),
        format!("3 +failover-state-send-slaveof-noone {r1} @ {m0}"),
        format!("3 +failover-state-wait-promotion {r1} @ {m0}"),
        format!("3 -role-change {r1} @ {m0} new reported role is master"),
        format!("3 +promoted-slave {r1} @ {m0}"),
        format!("3 +failover-state-reconf-slaves master {m0}"),
        format!("3 +slave-reconf-sent {r2} @ {m0}"),
        format!("4 +config-update-from sentinel {first} 127.0.0.1 7003 @ {m0}"),
        format!("4 +switch-master {m0} 127.0.0.1 7001"),
        format!("4 +slave {r2} @ mymaster 127.0.0.1 7001"),
        format!("3 +slave-reconf-inprog {r2} @ {m0}"),
        format!("3 +slave-reconf-done {r2} @ {m0}"),
        format!("3 -odown master {m0}"),
        format!("3 +failover-end master {m0}"),
        format!("3 +switch-master {m0} 127.0.0.1 7001"),
        "3 +convert-to-slave slave 127.0.0.1:7000 127.0.0.1 7000 @ mymaster 127.0.0.1 7001".to_owned(),
        format!("3 +reboot {r2} @ mymaster 127.0.0.1 7001"),
        format!("5 +sdown sentinel {second} 127.0.0.1 7004 @ mymaster 127.0.0.1 7001"),
        "3 +tilt #tilt mode entered".to_owned(),
    ];
    let mut rest = lines.iter();
    for line in expected {
        assert!(rest.any(|other| *other == line), "{line} is not in order in\n{}", lines.join("\n"));
    }
}

#[test]
fn addresses_are_those_of_the_reader() {
    let mut story = Story::after("stop 1; advance 30000");
    story.play("start 1");
    story.step("stop 1").and_then(|()| story.step("advance 30000")).expect("it is possible");
    let changes = story.topology.take_changes();
    let Some(SentinelChange::SentinelEvent(event)) = changes.first() else { panic!("{changes:?}") };
    let message = |host: &'static str| event.message(&move |node| (host.to_owned(), 9000 + node as u16));
    assert_eq!(message("db"), "slave db:9001 db 9001 @ mymaster db 9000");
    assert_eq!(message("::1"), "slave [::1]:9001 ::1 9001 @ mymaster ::1 9000");
}

#[test]
fn ids_depend_on_the_names_of_the_topology_and_the_numbers_of_nodes() {
    let id = |name: &str, node| {
        let topology = Sentinels::new(name, &SentinelPlan::default(), 0);
        topology.sentinel(node).map(|view| view.id().to_owned())
    };
    assert_eq!(id("t", 3), Some("148aebecfaeccfe70b922dd7e8489af7e4bc0750".to_owned()));
    assert_eq!(id("t", 3), id("t", 3));
    assert_ne!(id("t", 3), id("t", 4));
    assert_ne!(id("t", 3), id("u", 3));
    assert_eq!(id("t", 0), None);
    let mut story = Story::after("");
    let before = story.topology.run_id(1).map(str::to_owned);
    story.play("stop 1; start 1");
    assert_ne!(story.topology.run_id(1), before.as_deref());
    assert_eq!(before.map(|id| id.len()), Some(40));
}
