//! Quorums, majorities, partitions, pauses, and the operator's failover.

use super::*;

#[test]
fn impossible_faults_are_refused_in_a_sentence() {
    let table = [
        ("", "start 3", "node 3 is up"),
        ("", "resume 0", "node 0 is up"),
        ("", "stop 7", "there is no node 7"),
        ("stop 3", "stop 3", "node 3 is stopped"),
        ("stop 3", "pause 3", "node 3 is stopped"),
        ("stop 3", "resume 3", "node 3 is stopped"),
        ("pause 3", "pause 3", "node 3 is paused"),
        ("pause 3", "start 3", "node 3 is paused"),
        ("", "partition", "a partition has a node on each side"),
        ("", "partition 0 1 2 3 4 5", "a partition has a node on each side"),
        ("", "partition 1 6", "there is no node 6"),
        ("", "priority 3 1", "node 3 is a sentinel"),
        ("", "priority 9 1", "there is no node 9"),
        ("", "follow 1 3", "node 3 is a sentinel"),
        ("", "follow 1 1", "node 1 cannot follow itself"),
        ("", "failover 0", "node 0 is a master"),
        ("", "failover 3", "node 3 is a sentinel"),
        ("", "failover 9", "there is no node 9"),
        ("stop 1", "failover 1", "node 1 is stopped"),
        ("stop 1; stop 2", "failover", "mymaster has no replica that can be promoted"),
        ("stop 3; pause 4; stop 5", "failover", "no sentinel that is up monitors mymaster"),
        ("partition 1", "failover 1", "no sentinel that is up reaches node 1"),
    ];
    for (before, step, error) in table {
        let mut story = Story::after(before);
        let refused = story.step(step).map_err(|error| error.to_string());
        assert_eq!(refused, Err(error.to_owned()), "{before}; {step}");
        assert!(story.play("").is_empty(), "{before}; {step}");
    }
}

#[test]
fn nobody_is_promoted_without_a_quorum_or_a_majority() {
    let table = [
        (2, "stop 4; stop 5; stop 0", "M 0 0", "+sdown"),
        (2, "pause 4; pause 5; stop 0", "M 0 0", "+sdown"),
        (2, "stop 0; partition 1 2 3", "M 0 0", "+sdown"),
        (2, "partition 0 3", "1 M 1", "+switch-master"),
        (2, "partition 0 1 3", "M M 2", ""),
        (1, "stop 4; stop 5; stop 0", "M 0 0", "-failover-abort-not-elected"),
        (3, "stop 5; stop 0", "M 0 0", "+sdown"),
        (3, "stop 0", "M M 1", ""),
    ];
    for (quorum, script, _, event) in table {
        let mut story = Story::new(&plan(2, 3, quorum));
        let lines = story.play(&format!("{script}; advance 100000"));
        let is_switched = lines.iter().any(|line| line.ends_with("is promoted"));
        let is_expected = matches!(event, "+switch-master" | "");
        assert_eq!(is_switched, is_expected, "{quorum} {script}\n{}", lines.join("\n"));
        assert!(lines.iter().any(|line| line.contains(event)), "{quorum} {script}\n{}", lines.join("\n"));
    }
}

#[test]
fn a_sentinel_that_returns_makes_the_quorum_and_the_failover_follows_at_once() {
    let mut story = Story::after("stop 4; stop 5; stop 0; advance 30000");
    assert_lines(&story.play("advance 1000000"), "");
    story.play("start 4; advance 29999");
    assert_eq!(story.masters(), [Some(0); 3], "4 has to notice by itself");
    story.play("advance 1");
    assert_eq!(story.masters(), [Some(1), Some(1), Some(0)]);
    story.play("start 5");
    assert_eq!(story.masters(), [Some(1); 3]);
}

#[test]
fn an_attempt_without_a_majority_ends_and_is_repeated_after_twice_the_timeout() {
    let mut story = Story::new(&plan(2, 3, 1));
    let lines = story.play("stop 4; stop 5; advance 30000; stop 0; advance 30000");
    assert_lines(
        &lines,
        "3 +sdown 4
         3 +sdown 5
         3 +sdown 0
         3 +odown 0 #quorum 1/1
         3 +new-epoch 1
         3 +try-failover 0
         3 +vote-for-leader in 1",
    );
    assert_lines(&story.play("advance 10000"), "3 -failover-abort-not-elected 0");
    assert_lines(&story.play("start 4"), "4 +monitor 0 quorum 1\n4 +new-epoch 1\n3 -sdown 4");
    assert_lines(&story.play("stop 4; advance 349999"), "3 +sdown 4");
    let lines = story.play("advance 1");
    assert_lines(&lines, "3 +new-epoch 2\n3 +try-failover 0\n3 +vote-for-leader in 2");
    let lines = story.play("advance 5000; start 4");
    assert_lines(
        &lines[..6],
        "4 +monitor 0 quorum 1
         4 +new-epoch 2
         3 -sdown 4
         4 +vote-for-leader in 2
         3 +elected-leader 0
         3 +failover-state-select-slave 0",
    );
}

#[test]
fn a_sentinel_that_was_cut_off_learns_the_newer_configuration_when_it_is_back() {
    let mut story = Story::after("partition 0 3; advance 30000");
    assert_eq!((story.masters(), story.roles().as_str()), (vec![Some(0), Some(1), Some(1)], "M M 1"));
    story.play("advance 100000");
    let lines = story.play("heal");
    assert_lines(
        &lines,
        "3 +new-epoch 1
         3 +config-update-from 4
         3 +switch-master 0 to 1
         3 +slave 2
         3 +slave 0
         3 -role-change 0 new reported role is master
         4 -role-change 0 new reported role is master
         5 -role-change 0 new reported role is master
         3 -sdown 4
         3 -sdown 5
         4 -sdown 0
         4 -sdown 3
         5 -sdown 0
         5 -sdown 3
         0 follows 1
         3 +convert-to-slave 0
         4 +role-change 0 new reported role is slave
         5 +role-change 0 new reported role is slave
         3 +role-change 0 new reported role is slave",
    );
}

#[test]
fn a_partition_takes_the_place_of_the_former_one() {
    let mut story = Story::after("partition 1; partition 2 5");
    let reaches = |story: &Story, a, b| story.topology.reaches(a, b);
    assert!(!reaches(&story, 1, 2) && reaches(&story, 0, 1) && !reaches(&story, 0, 2) && reaches(&story, 2, 5));
    story.play("heal; pause 3");
    assert!(reaches(&story, 1, 2) && !reaches(&story, 0, 3) && !reaches(&story, 3, 3));
}

#[test]
fn a_sentinel_that_was_paused_does_not_act_for_a_while() {
    let mut story = Story::after("pause 5; advance 2000");
    assert_lines(&story.play("resume 5"), "");
    let lines = story.play("pause 5; advance 30001; resume 5");
    assert_lines(&lines, "3 +sdown 5\n4 +sdown 5\n5 +tilt #tilt mode entered\n3 -sdown 5\n4 -sdown 5");
    assert!(story.view(5).info(&addresses).contains("sentinel_tilt:1\r\nsentinel_tilt_since_seconds:0\r\n"));
    assert_eq!(story.topology.next_due_ms(), Some(62_001));
    story.play("stop 3; advance 10000; stop 0; advance 19999");
    assert!(story.view(5).info(&addresses).contains("sentinel_tilt_since_seconds:29\r\n"));
    assert_lines(&story.play("advance 1"), "4 +sdown 3\n5 -tilt #tilt mode exited\n5 +sdown 3");
    assert_eq!(story.masters(), [Some(0); 3]);
    story.play("advance 10000");
    assert_eq!(story.masters(), [Some(0), Some(1), Some(1)]);
}

#[test]
fn the_operator_promotes_and_demotes_at_once() {
    let mut story = Story::after("");
    let lines = story.play("failover");
    assert_lines(
        &lines,
        "3 +new-epoch 1
         3 +try-failover 0
         4 +new-epoch 1
         5 +new-epoch 1
         3 +vote-for-leader in 1
         3 +elected-leader 0
         3 +failover-state-select-slave 0
         3 +selected-slave 1
         3 +failover-state-send-slaveof-noone 1
         1 is promoted
         3 +failover-state-wait-promotion 1
         3 -role-change 1 new reported role is master
         3 +promoted-slave 1
         3 +failover-state-reconf-slaves 0
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
         4 -role-change 0 new reported role is master
         5 -role-change 0 new reported role is master
         3 +failover-end 0
         3 +switch-master 0 to 1
         3 +slave 2
         3 +slave 0
         3 -role-change 0 new reported role is master
         0 follows 1
         3 +convert-to-slave 0
         4 +role-change 0 new reported role is slave
         5 +role-change 0 new reported role is slave
         3 +role-change 0 new reported role is slave",
    );
    assert_eq!(story.topology.next_due_ms(), None);
}

#[test]
fn the_operator_is_obeyed_in_all_circumstances() {
    let table = [
        ("failover 2", "2 2 M", [2, 2, 2]),
        ("priority 2 0; failover 2", "2 2 M", [2, 2, 2]),
        ("stop 0; failover", "M M 1", [1, 1, 1]),
        ("stop 3; failover", "1 M 1", [0, 1, 1]),
        ("partition 0 3; failover", "1 M 1", [1, 1, 1]),
        ("partition 1 3; failover 2", "2 0 M", [2, 2, 2]),
        ("partition 0 1; failover 2", "2 0 M", [2, 2, 2]),
        ("pause 3; advance 40000; resume 3; failover", "1 M 1", [1, 1, 1]),
        ("stop 4; stop 5; stop 0; advance 30000; failover", "M M 1", [1, 0, 0]),
        ("failover 1; failover 2; failover 0", "M 0 0", [0, 0, 0]),
    ];
    for (script, roles, masters) in table {
        let mut story = Story::after(script);
        assert_eq!(story.roles(), roles, "{script}");
        assert_eq!(story.masters(), masters.map(Some), "{script}");
        story.play("heal");
        for node in 0..6 {
            let _ = story.step(&format!("start {node}"));
        }
        story.play("advance 1000000");
        assert_eq!(story.masters(), [story.masters()[1]; 3], "{script}");
    }
}

#[test]
fn the_nodes_that_a_sentinel_believes_to_be_down_are_shown() {
    let mut story = Story::after("stop 2; stop 5; advance 29999");
    assert!(story.topology.believed_down(3).is_empty());
    story.play("advance 1");
    assert_eq!(story.topology.believed_down(3), [2, 5]);
    assert!(story.topology.believed_down(0).is_empty());
    assert_eq!(story.topology.state(2).map(NodeState::name), Some("stopped"));
    assert_eq!(
        [0, 1, 3].map(|node| story.topology.role(node).map(TopologyRole::name)),
        ["master", "replica", "sentinel"].map(Some)
    );
}

#[test]
fn the_operator_is_obeyed_by_another_sentinel_if_the_first_one_crashes() {
    let mut story = Story::after("");
    assert_eq!(story.topology.simulate_failure(3, &["crash-after-election"]), Ok(&[][..]));
    assert_eq!(story.topology.simulate_failure(4, &["crash-after-promotion"]), Ok(&[][..]));
    assert_eq!(story.topology.failover(Some(2), 0), Ok(2));
    assert_eq!(
        [3, 4, 5].map(|node| story.topology.state(node).map(NodeState::name)),
        ["stopped", "stopped", "up"].map(Some)
    );
    assert_eq!((story.masters()[1..].to_vec(), story.roles().as_str()), (vec![Some(2); 2], "2 2 M"));
}
