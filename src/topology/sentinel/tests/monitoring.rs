//! Commands that change what a sentinel monitors, and roles that clients change.

use super::*;

fn monitor(story: &mut Story, sentinel: NodeNumber, name: &str, port: &str) -> Result<(), SentinelError> {
    let request = MonitorRequest { name, host: "127.0.0.1", port, quorum: "2" };
    story.topology.monitor(sentinel, &request, &addresses, story.now_ms)
}

#[test]
fn a_reset_master_is_discovered_anew_as_far_as_it_is_reached() {
    let mut story = Story::after("stop 2; stop 5; advance 40000");
    assert_eq!(story.topology.reset(3, &|name| name == "mymaster", story.now_ms), 1);
    assert_lines(&story.play(""), "3 +reset-master 0\n3 +slave 1\n3 +sentinel 4");
    assert_eq!(story.topology.reset(3, &|_| false, story.now_ms), 0);
    let counts = |story: &Story, name| {
        story.view(3).master("mymaster", &addresses).ok()?.into_iter().find(|(field, _)| *field == name)
    };
    assert_eq!(counts(&story, "num-other-sentinels"), Some(("num-other-sentinels", "1".to_owned())));
    assert_lines(&story.play("start 2"), "4 +reboot 2\n4 -sdown 2\n3 +slave 2");
}

#[test]
fn a_monitored_master_is_discovered_and_a_removed_one_is_forgotten() {
    let mut story = Story::after("");
    assert_eq!(story.topology.remove(3, "mymaster", 0), Ok(()));
    assert_lines(&story.play(""), "3 -monitor 0");
    assert_eq!(story.view(3).master_names(), [""; 0]);
    assert_eq!(monitor(&mut story, 3, "mymaster", "7000"), Ok(()));
    assert_lines(&story.play(""), "3 +monitor 0 quorum 2\n3 +slave 1\n3 +slave 2\n3 +sentinel 4\n3 +sentinel 5");
    assert_eq!(monitor(&mut story, 3, "other", "7000"), Ok(()));
    assert_lines(&story.play(""), "3 +monitor 0 quorum 2\n3 +slave 1\n3 +slave 2");
    assert_eq!(monitor(&mut story, 4, "other", "7000"), Ok(()));
    assert_lines(
        &story.play(""),
        "4 +monitor 0 quorum 2
         4 +slave 1
         4 +slave 2
         4 +sentinel 3
         3 +sentinel 4",
    );
    assert_eq!(story.view(4).master_names(), ["mymaster", "other"]);
}

#[test]
fn a_master_elsewhere_is_never_reached() {
    let mut story = Story::after("");
    let request = MonitorRequest { name: "x", host: "10.0.0.1", port: "1", quorum: "1" };
    assert_eq!(story.topology.monitor(3, &request, &addresses, 0), Ok(()));
    let lines = story.play_in_full("advance 30000");
    assert_eq!(lines[0], "3 +monitor master x 10.0.0.1 1 quorum 1");
    assert_eq!(lines[1], "3 +sdown master x 10.0.0.1 1");
    assert_eq!(lines.last().map(String::as_str), Some("3 -failover-abort-no-good-slave master x 10.0.0.1 1"));
    assert!(
        story
            .view(3)
            .info(&addresses)
            .contains("\r\nmaster1:name=x,status=odown,address=10.0.0.1:1,slaves=0,sentinels=1\r\n")
    );
}

#[test]
fn a_replica_that_a_client_promotes_is_converted_after_four_hellos() {
    let mut story = Story::after("promote 1");
    assert_lines(&story.play("advance 7999"), "");
    assert_lines(
        &story.play("advance 1"),
        "1 follows 0
         3 +convert-to-slave 1
         4 +role-change 1 new reported role is slave
         5 +role-change 1 new reported role is slave
         3 +role-change 1 new reported role is slave",
    );
}

#[test]
fn a_replica_of_another_primary_is_corrected_after_the_failover_timeout() {
    let mut story = Story::after("follow 2 1");
    assert_lines(&story.play("advance 179999"), "");
    assert_lines(&story.play("advance 1"), "2 follows 0\n3 +fix-slave-config 2");
}

#[test]
fn a_master_that_a_client_makes_a_replica_is_failed_over() {
    let mut story = Story::after("");
    assert_lines(
        &story.play("follow 0 1; promote 1"),
        "3 -role-change 0 new reported role is slave
         4 -role-change 0 new reported role is slave
         5 -role-change 0 new reported role is slave
         3 -role-change 1 new reported role is master
         4 -role-change 1 new reported role is master
         5 -role-change 1 new reported role is master",
    );
    assert_lines(&story.play("advance 49999"), "");
    let lines = story.play("advance 1");
    assert!(lines[0] == "3 +sdown 0" && lines.contains(&"3 +odown 0 #quorum 3/2".to_owned()), "{lines:?}");
    assert_eq!((story.masters(), story.roles().as_str()), (vec![Some(1); 3], "1 M 1"));
}

#[test]
fn settings_of_one_sentinel_are_its_own() {
    let mut story = Story::after("");
    story.set(4, "down-after-milliseconds 1000");
    story.set(5, "down-after-milliseconds 2000");
    assert_eq!(story.play("stop 0; advance 1999").last().map(String::as_str), Some("4 +sdown 0"));
    let lines = story.play("advance 1");
    assert!(lines.contains(&"4 +elected-leader 0".to_owned()), "3 is not needed: {lines:?}");
    assert_eq!(story.masters(), [Some(1); 3]);
}

#[test]
fn an_announced_address_is_shown_by_the_others() {
    let mut story = Story::after("");
    let id = story.id(3);
    assert_eq!(story.topology.set_config(3, "announce-ip", "10.1.1.1", 0), Ok(()));
    assert_eq!(story.topology.set_config(3, "announce-port", "77", 0), Ok(()));
    let lines = story.play_in_full("stop 3; advance 30000");
    let switch = format!("4 +sentinel-address-switch master mymaster 127.0.0.1 7000 ip 10.1.1.1 port 7003 for {id}");
    assert!(lines.contains(&switch), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("+sentinel-address-update")), "it has one master");
    assert!(lines.contains(&format!("5 +sdown sentinel {id} 10.1.1.1 77 @ mymaster 127.0.0.1 7000")), "{lines:?}");
}

#[test]
fn hellos_that_a_client_publishes_are_heeded() {
    let mut story = Story::after("");
    let mut publish = |message: &str| story.topology.publish(3, "__sentinel__:hello", message, &addresses, 0);
    assert_eq!(publish("y"), Ok(1));
    assert_eq!(publish("10.0.0.9,1,abc,7,mymaster,127.0.0.1,7000,0"), Ok(1));
    assert_eq!(publish("10.0.0.9,1,abc,7,mymaster,127.0.0.1,7002,7"), Ok(1));
    assert_eq!(publish("10.0.0.9,1,abc,7,unknown,127.0.0.1,7002,8"), Ok(1));
    let lines = story.play_in_full("");
    assert!(lines.contains(&"3 +sentinel sentinel abc 10.0.0.9 1 @ mymaster 127.0.0.1 7000".to_owned()), "{lines:?}");
    assert!(lines.contains(&"5 +new-epoch 7".to_owned()), "{lines:?}");
    assert_eq!(story.masters(), [Some(2); 3]);
    assert_eq!(story.topology.publish(3, "x", "y", &addresses, 0), Err(SentinelError::OnlyHellos));
}

#[test]
fn an_announced_address_is_changed_for_all_masters() {
    let mut story = Story::after("");
    for sentinel in [3, 4] {
        assert_eq!(monitor(&mut story, sentinel, "other", "7000"), Ok(()));
    }
    let sentinels = story.view(3).sentinels("other", &addresses).expect("it is monitored");
    assert!(sentinels[0].contains(&("link-refcount", "2".to_owned())), "{sentinels:?}");
    story.play("");
    assert_eq!(story.topology.set_config(3, "announce-ip", "10.1.1.1", 0), Ok(()));
    let id = story.id(3);
    let update = "127.0.0.1 7000 1 additional matching instances";
    let expected = [
        format!("4 +sentinel-address-switch master mymaster 127.0.0.1 7000 ip 10.1.1.1 port 7003 for {id}"),
        format!("4 +sentinel-address-update sentinel {id} 10.1.1.1 7003 @ mymaster {update}"),
        format!("5 +sentinel-address-switch master mymaster 127.0.0.1 7000 ip 10.1.1.1 port 7003 for {id}"),
    ];
    assert_eq!(story.play_in_full(""), expected);
}
