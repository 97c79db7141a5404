//! Order of events in a failover; recorded at three redis-sentinel 7.0.15, with those of one instant by sentinel.

use super::*;

#[test]
fn sentinels_agree_vote_and_switch_at_the_instant_at_which_the_master_has_been_down_for_long_enough() {
    let mut story = Story::after("stop 0");
    assert_lines(&story.play("advance 29999"), "");
    let lines = story.play("advance 1");
    assert_lines(
        &lines,
        "3 +sdown 0
         4 +sdown 0
         5 +sdown 0
         3 +odown 0 #quorum 3/2
         3 +new-epoch 1
         3 +try-failover 0
         3 +vote-for-leader in 1
         4 +new-epoch 1
         4 +vote-for-leader in 1
         5 +new-epoch 1
         5 +vote-for-leader in 1
         4 +odown 0 #quorum 3/2
         5 +odown 0 #quorum 3/2
         3 +elected-leader 0
         3 +failover-state-select-slave 0
         3 +selected-slave 1
         3 +failover-state-send-slaveof-noone 1
         1 is promoted
         3 +failover-state-wait-promotion 1
         3 -role-change 1 new reported role is master
         3 +promoted-slave 1
         3 +failover-state-reconf-slaves 0
         4 -role-change 1 new reported role is master
         5 -role-change 1 new reported role is master
         2 follows 1
         3 +slave-reconf-sent 2
         4 +config-update-from 3
         4 +switch-master 0 to 1
         4 +slave 2
         4 +slave 0
         5 +config-update-from 3
         5 +switch-master 0 to 1
         5 +slave 2
         5 +slave 0
         3 +slave-reconf-inprog 2
         3 +slave-reconf-done 2
         3 -odown 0
         3 +failover-end 0
         3 +switch-master 0 to 1
         3 +slave 2
         3 +slave 0",
    );
    assert_eq!(story.masters(), [Some(1); 3]);
    assert_eq!(story.topology.next_due_ms(), Some(60_000), "the former master is down as a replica");
}

#[test]
fn a_former_master_that_returns_becomes_a_replica_in_that_instant() {
    let down = "3 +sdown 0
         4 +sdown 0
         5 +sdown 0";
    let back = "3 -role-change 0 new reported role is master
         4 -role-change 0 new reported role is master
         5 -role-change 0 new reported role is master
         3 -sdown 0
         4 -sdown 0
         5 -sdown 0
         0 follows 1
         3 +convert-to-slave 0
         4 +role-change 0 new reported role is slave
         5 +role-change 0 new reported role is slave
         3 +role-change 0 new reported role is slave";
    for (fault, remedy) in [("stop 0", "start 0"), ("pause 0", "resume 0"), ("partition 0", "heal")] {
        let mut story = Story::after(&format!("{fault}; advance 30000"));
        assert_lines(&story.play("advance 30000"), down);
        assert_lines(&story.play(remedy), back);
        assert_eq!((story.roles().as_str(), story.topology.next_due_ms()), ("1 M 1", None));
    }
}

#[test]
fn a_master_that_returns_in_time_stays_the_master() {
    let mut story = Story::after("stop 0");
    assert_lines(&story.play("advance 29999; start 0"), "3 +reboot 0\n4 +reboot 0\n5 +reboot 0");
    assert_lines(&story.play("pause 0; advance 29999; resume 0; advance 100000"), "");
    assert_lines(&story.play("partition 0; advance 29999; heal; advance 100000"), "");
}

#[test]
fn replicas_are_reconfigured_as_many_at_a_time_as_may_synchronise() {
    let mut story = Story::new(&plan(4, 3, 2));
    story.set(5, "parallel-syncs 2");
    story.play("stop 0; advance 30000; start 0");
    assert_eq!(story.roles(), "1 M 1 1 1");
    let lines = story.play("stop 1; advance 30000");
    let steps: Vec<String> = lines.into_iter().filter(|line| line.contains("+slave-reconf")).collect();
    assert_lines(
        &steps,
        "5 +slave-reconf-sent 2
         5 +slave-reconf-sent 3
         5 +slave-reconf-inprog 2
         5 +slave-reconf-done 2
         5 +slave-reconf-inprog 3
         5 +slave-reconf-done 3
         5 +slave-reconf-sent 4
         5 +slave-reconf-inprog 4
         5 +slave-reconf-done 4",
    );
}

#[test]
fn the_best_replica_has_the_lowest_priority_then_the_greatest_offset_then_the_lowest_number() {
    let table = [
        ("offsets 10 9 9", 1),
        ("offsets 10 8 9", 2),
        ("offsets 10 8 9; priority 1 99", 1),
        ("offsets 10 9 8; priority 1 0", 2),
        ("offsets 10 9 8; stop 1", 2),
        ("offsets 10 9 8; pause 1", 2),
        ("offsets 10 9 8; partition 1", 2),
    ];
    for (preparation, best) in table {
        let mut story = Story::after(preparation);
        story.play("stop 0; advance 30000");
        assert_eq!(story.masters(), [Some(best); 3], "{preparation}");
    }
}

#[test]
fn a_replica_whose_link_was_down_for_too_long_is_not_promoted() {
    for (down_ms, promoted) in [(300_000, 1), (301_000, 0)] {
        let mut story = Story::after("priority 2 0");
        for sentinel in 3..6 {
            story.set(sentinel, "failover-timeout 1000000");
        }
        story.play(&format!("follow 1 2; stop 2; advance {}; stop 0; advance 30000", down_ms - 30_000));
        assert_eq!(story.masters(), [Some(promoted); 3], "{down_ms}");
    }
}

#[test]
fn without_a_good_replica_the_attempt_ends_and_is_repeated() {
    let mut story = Story::after("priority 1 0; priority 2 0; stop 0");
    let lines = story.play("advance 30000");
    assert_lines(
        &lines[11..],
        "4 +odown 0 #quorum 3/2
         5 +odown 0 #quorum 3/2
         3 +elected-leader 0
         3 +failover-state-select-slave 0
         3 -failover-abort-no-good-slave 0",
    );
    assert_lines(&story.play("advance 359999"), "");
    let lines = story.play("advance 1");
    assert_lines(
        &lines,
        "3 +new-epoch 2
         3 +try-failover 0
         3 +vote-for-leader in 2
         4 +new-epoch 2
         4 +vote-for-leader in 2
         5 +new-epoch 2
         5 +vote-for-leader in 2
         3 +elected-leader 0
         3 +failover-state-select-slave 0
         3 -failover-abort-no-good-slave 0",
    );
    story.play("priority 2 10; advance 360000");
    assert_eq!(story.masters(), [Some(2); 3]);
}

#[test]
fn a_replica_that_is_silent_delays_the_end_and_not_the_switch_of_the_others() {
    let mut story = Story::after("stop 0; advance 10000; stop 2; advance 20000");
    assert_eq!(story.masters(), [Some(1); 3]);
    let fields = story.view(3).master("mymaster", &addresses).expect("it is monitored");
    assert!(fields.contains(&("failover-state", "reconf_slaves".to_owned())), "{fields:?}");
    let refused = story.topology.failover(None, story.now_ms);
    assert_eq!(refused, Err(FaultError::NoGoodReplica("mymaster".to_owned())), "3 is busy, 4 has no other replica");
    let lines = story.play("advance 10000");
    assert_lines(
        &lines,
        "3 +sdown 2
         3 +failover-end 0
         3 +switch-master 0 to 1
         3 +slave 2
         3 +slave 0",
    );
    story.play("advance 60000; start 2; start 0");
    assert_eq!(story.roles(), "1 M 1");
}

#[test]
fn a_replica_that_stays_silent_is_left_behind_at_the_timeout() {
    let mut story = Story::after("");
    story.set(3, "failover-timeout 5000");
    story.play("stop 0; advance 10000; stop 2; advance 20000");
    assert_lines(
        &story.play("advance 5000"),
        "3 +failover-end-for-timeout 0
         3 +failover-end 0
         3 +switch-master 0 to 1
         3 +slave 2
         3 +slave 0",
    );
}

#[test]
fn a_leader_that_crashes_is_followed_by_another_one() {
    let mut story = Story::after("");
    assert_eq!(story.topology.simulate_failure(3, &["crash-after-election"]), Ok(&[][..]));
    let lines = story.play("stop 0; advance 30000");
    assert_eq!(lines.last().map(String::as_str), Some("3 crashes"));
    assert_eq!((story.topology.state(3), story.roles().as_str()), (Some(NodeState::Stopped), "M 0 0"));
    let lines = story.play("advance 359999; advance 1");
    assert!(lines.contains(&"4 +elected-leader 0".to_owned()), "{lines:?}");
    story.play("start 3; start 0; advance 100000");
    assert_eq!((story.masters(), story.roles().as_str()), (vec![Some(1); 3], "1 M 1"));
}

#[test]
fn a_leader_that_crashes_after_the_promotion_tells_of_it_when_it_returns() {
    let mut story = Story::after("");
    assert_eq!(story.topology.simulate_failure(3, &["CRASH-AFTER-PROMOTION"]), Ok(&[][..]));
    story.play("stop 0; advance 30000");
    assert_eq!(story.masters(), [Some(1), Some(0), Some(0)]);
    let lines = story.play("start 3");
    assert_lines(
        &lines,
        "3 +monitor 1 quorum 2
         4 +config-update-from 3
         4 +switch-master 0 to 1
         4 +slave 2
         4 +slave 0
         5 +config-update-from 3
         5 +switch-master 0 to 1
         5 +slave 2
         5 +slave 0
         2 follows 1
         3 +fix-slave-config 2",
    );
}
