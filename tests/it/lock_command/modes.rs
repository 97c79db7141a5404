//! Locks that are shared, semaphores, and several locks at once.

use crate::harness::{TestServer, wait_until};
use crate::lock_command::connections::plain_servers;
use crate::lock_command::{Running, UNTIL_TOLD, at, run_failing, shell, wait_for_queue};

#[test]
fn commands_that_share_a_lock_run_together_and_no_other_beside_them() {
    let server = TestServer::start();
    let (mut client, at) = (server.client(), at(&server));
    let mut readers = [0, 1].map(|_| Running::ready(&at, &["--shared", "page"], UNTIL_TOLD));
    client.expect(&[("GET page", "$7 shared:")]);
    let complaint = run_failing(&at, &["-n", "page", "--", "echo"], 75);
    assert!(complaint.starts_with("keylatch lock: page is held by tester@"), "{complaint}");
    let mut writer = Running::start(&at, &shell(&["page"], UNTIL_TOLD));
    wait_for_queue(&server, 1);
    for reader in &mut readers {
        reader.tell();
    }
    assert_eq!(writer.line(), "ready");
    run_failing(&at, &["-n", "--shared", "page", "--", "echo"], 75);
    writer.tell();
    assert_eq!(writer.end(), (Some(3), String::new()));
    readers.into_iter().for_each(|reader| assert_eq!(reader.end(), (Some(3), String::new())));
    client.expect(&[("EXISTS page", ":0")]);
}

#[test]
fn a_semaphore_is_held_by_as_many_commands_as_it_has_permits() {
    let server = TestServer::start();
    let (mut client, at) = (server.client(), at(&server));
    let refusal = "keylatch lock: the server refuses: ERR PERMITS needs OF where there is no semaphore\n";
    assert_eq!(run_failing(&at, &["--permits", "1", "pool", "--", "echo"], 77), refusal);
    let mut first = Running::ready(&at, &["--permits", "2", "--of", "3", "pool"], UNTIL_TOLD);
    client.expect(&[("GET pool", "$9 permits:3")]);
    run_failing(&at, &["-n", "--permits", "2", "pool", "--", "echo"], 75);
    let mut second = Running::ready(&at, &["--permits", "1", "pool"], UNTIL_TOLD);
    run_failing(&at, &["-n", "--permits", "1", "--of", "3", "pool", "--", "echo"], 75);
    for running in [&mut first, &mut second] {
        running.tell();
    }
    assert_eq!((first.end(), second.end()), ((Some(3), String::new()), (Some(3), String::new())));
    client.expect(&[("EXISTS pool", ":0")]);
}

#[test]
fn several_locks_are_taken_together_or_none_of_them() {
    let server = TestServer::start();
    let (mut client, at) = (server.client(), at(&server));
    client.expect(&[("CLIENT SETNAME ann", "+OK")]);
    client.int("LOCK.ACQUIRE b token PX 60000");
    let complaint = run_failing(&at, &["-n", "a", "b", "--", "echo"], 75);
    assert!(complaint.starts_with("keylatch lock: b is held by ann ("), "{complaint}");
    client.expect(&[("EXISTS a", ":0")]);
    let script = "echo $KEYLATCH_LOCK; echo $KEYLATCH_FENCE; echo $KEYLATCH_TOKEN; read _; exit 3";
    let mut running = Running::start(&at, &shell(&["--verbose", "b", "a"], script));
    assert!(running.complaint().contains("waiting for b: held by ann ("));
    client.expect(&[("LOCK.RELEASE b token", ":1")]);
    assert_eq!(running.line(), "b a");
    let (fences, token) = (running.line(), running.line());
    let fences: Vec<&str> = fences.split(' ').collect();
    for (name, fence) in ["b", "a"].iter().zip(&fences) {
        assert_eq!(client.call(&format!("LOCK.FENCE {name} {token}")), format!(":{fence}"));
    }
    assert_eq!(fences.len(), 2);
    running.tell();
    assert_eq!(running.end(), (Some(3), String::new()));
    client.expect(&[("EXISTS a b", ":0")]);
}

#[test]
fn several_locks_are_all_renewed_also_over_another_connection() {
    let server = TestServer::start();
    let mut client = server.client();
    let mut running = Running::ready(&at(&server), &["--ttl", "3s", "a", "b"], UNTIL_TOLD);
    for _ in 0..2 {
        server.advance_ms(2000);
        wait_until(|| client.int("PTTL a") == 3000 && client.int("PTTL b") == 3000);
        client.call("CLIENT KILL TYPE normal SKIPME yes");
    }
    running.tell();
    assert_eq!(running.end(), (Some(3), String::new()));
    client.expect(&[("EXISTS a b", ":0")]);
}

#[test]
fn the_loss_of_one_of_several_locks_names_it_and_gives_back_the_others() {
    let server = TestServer::start();
    let mut client = server.client();
    let requests = [("DEL b", "deleted"), ("SET b other", "overwritten")];
    for (request, reason) in requests {
        let running = Running::ready(&at(&server), &["a", "b", "c"], "echo ready; exec sleep 1000");
        client.call(request);
        let expected = format!("keylatch lock: b was lost ({reason}): ending the command\n");
        assert_eq!(running.end(), (Some(79), expected));
        client.expect(&[("EXISTS a c", ":0")]);
        client.call("DEL b");
    }
}

#[test]
fn locks_in_any_mode_outlive_their_connection() {
    let server = TestServer::start();
    let (mut client, at) = (server.client(), at(&server));
    for mode in [&["--shared", "job"][..], &["--permits", "2", "--of", "3", "job"]] {
        let mut running = Running::ready(&at, mode, UNTIL_TOLD);
        client.call("CLIENT KILL TYPE normal SKIPME yes");
        wait_until(|| client.call("CLIENT LIST").contains("name=tester@"));
        running.tell();
        assert_eq!(running.end(), (Some(3), String::new()), "{mode:?}");
        client.expect(&[("EXISTS job", ":0")]);
    }
}

#[test]
fn without_lock_commands_there_is_one_lock_for_one_holder() {
    for (_oracle, at, _dir) in plain_servers() {
        for args in [&["--shared", "a"][..], &["--permits", "1", "--of", "2", "a"], &["a", "b"]] {
            let expected = "keylatch lock: the server has no LOCK commands: one name only, no --shared, no --permits\n";
            assert_eq!(run_failing(&at, &[args, &["--", "echo"]].concat(), 77), expected);
        }
    }
}
