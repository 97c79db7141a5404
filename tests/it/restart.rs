//! `restart-grace-ms`: a start after a crash, or after a shutdown while locks were held, serves no keys for a while; a
//! start after another shutdown does at once.

use std::path::Path;

use keylatch::{Clock, Server};

#[cfg(feature = "binary")]
use crate::harness::Client;
use crate::harness::{TestServer, wait_until};
#[cfg(feature = "binary")]
use crate::process::Process;

const LOADING: &str = "-LOADING Redis is loading the dataset in memory";

/// Mark of a server without a port.
const MARK: &str = "keylatch-0.running";

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

/// Starts a server on a manual clock with a grace of 1500 ms.
fn start_in(dir: &Path) -> TestServer {
    TestServer::start_with(&[("dir", dir.to_str().expect("text")), ("restart-grace-ms", "1500")])
}

#[test]
fn a_first_start_has_no_grace_and_a_clean_end_leaves_no_mark() {
    let dir = dir();
    for _ in 0..2 {
        let server = start_in(dir.path());
        assert!(dir.path().join(MARK).exists());
        server
            .client()
            .expect(&[("SET k v", "+OK"), ("CONFIG GET restart-grace-ms", "*2 $16 restart-grace-ms $4 1500")]);
        assert_eq!(server.client().info("loading"), "0");
        drop(server);
        assert!(!dir.path().join(MARK).exists());
    }
}

#[test]
fn without_a_grace_there_is_no_mark_and_one_that_is_there_means_nothing() {
    let dir = dir();
    drop(TestServer::start_with(&[("dir", dir.path().to_str().expect("text"))]));
    std::fs::write(dir.path().join(MARK), "").expect("a file");
    let server = TestServer::start_with(&[("dir", dir.path().to_str().expect("text"))]);
    assert_eq!(server.client().call("SET k v"), "+OK");
    assert!(dir.path().join(MARK).exists());
}

#[test]
fn a_start_that_finds_the_mark_serves_no_keys_until_the_grace_is_over() {
    let dir = dir();
    std::fs::write(dir.path().join(MARK), "").expect("a file");
    let server = start_in(dir.path());
    let mut client = server.client();
    client.expect(&[
        ("GET k", LOADING),
        ("PING", LOADING),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("LOCK.ACQUIRE k t PX 1000 BLOCK 0", LOADING),
        ("CLIENT SETNAME me", "+OK"),
        ("MULTI", "+OK"),
        ("SET k v", LOADING),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        #[cfg(feature = "lua")]
        ("EVAL return(1) 0", LOADING),
    ]);
    assert_eq!((client.info("loading"), client.info("loading_eta_seconds")), ("1".into(), "2".into()));
    server.advance_ms(1499);
    assert_eq!(client.call("SET k v"), LOADING);
    server.advance_ms(1);
    client.expect(&[("SET k v", "+OK"), ("PING", "+PONG")]);
    assert_eq!(client.info("loading"), "0");
    drop(server);
    assert!(!dir.path().join(MARK).exists());
}

#[test]
fn a_server_that_ends_in_its_grace_leaves_the_mark_for_the_next_one() {
    let dir = dir();
    std::fs::write(dir.path().join(MARK), "").expect("a file");
    drop(start_in(dir.path()));
    assert_eq!(start_in(dir.path()).client().call("GET k"), LOADING);
}

#[test]
fn a_start_after_a_stop_with_held_locks_serves_no_keys_until_the_grace_is_over() {
    for (taken, is_held) in [("LOCK.ACQUIRE l t PX 60000", true), ("SET l t NX PX 60000", true), ("SET l t", false)] {
        let dir = dir();
        let server = start_in(dir.path());
        server.client().call(taken);
        drop(server);
        assert_eq!(dir.path().join(MARK).exists(), is_held, "{taken}");
        let server = start_in(dir.path());
        assert_eq!(server.client().call("GET l"), if is_held { LOADING } else { "$-1" }, "{taken}");
        server.advance_ms(1500);
        assert_eq!(server.client().call("GET l"), "$-1");
        drop(server);
        assert!(!dir.path().join(MARK).exists(), "nothing is held any more");
    }
}

#[test]
fn a_stop_after_which_the_files_have_the_held_locks_leaves_no_mark() {
    for settings in
        [&[("appendonly", "yes"), ("appendfsync", "always")], &[("appendonly", "yes"), ("appendfsync", "no")]]
    {
        let dir = dir();
        let with =
            [&settings[..], &[("dir", dir.path().to_str().expect("text")), ("restart-grace-ms", "1500")]].concat();
        let server = TestServer::start_with(&with);
        assert!(server.client().call("LOCK.ACQUIRE l t PX 60000").starts_with(':'));
        server.end();
        assert!(!dir.path().join(MARK).exists(), "{settings:?}");
        let server = TestServer::start_with(&with);
        assert_eq!(server.client().call("GET l"), "$1 t", "it is held, and keys are served");
    }
}

#[test]
fn locks_that_are_acquired_after_the_append_only_file_was_ended_leave_the_mark() {
    let dir = dir();
    let with = [("appendonly", "yes"), ("dir", dir.path().to_str().expect("text")), ("restart-grace-ms", "1500")];
    let server = TestServer::start_with(&with);
    let mut client = server.client();
    client.expect(&[("CONFIG SET appendonly no", "+OK")]);
    wait_until(|| client.info("aof_enabled") == "0");
    assert!(client.call("LOCK.ACQUIRE l t PX 60000").starts_with(':'));
    server.end();
    assert!(dir.path().join(MARK).exists());
}

#[test]
fn locks_that_are_released_or_over_leave_no_mark() {
    let dir = dir();
    let server = start_in(dir.path());
    let mut client = server.client();
    client.call("LOCK.ACQUIRE a t PX 1000");
    client.expect(&[("LOCK.RELEASE a t", ":1"), ("SET b t NX PX 100", "+OK")]);
    server.advance_ms(100);
    drop(server);
    assert!(!dir.path().join(MARK).exists());
}

#[test]
fn two_servers_do_not_share_a_mark() {
    let dir = dir();
    let first = start_in(dir.path());
    let settings = format!("dir {}\nrestart-grace-ms 5", dir.path().display());
    let error = Server::builder().settings(&settings).start_blocking().err().expect("no start").to_string();
    assert!(error.contains(MARK) && error.contains("another running server"), "{error}");
    assert!(dir.path().join(MARK).exists());
    drop(first);
    assert!(!dir.path().join(MARK).exists());
}

#[cfg(feature = "binary")]
#[test]
fn a_stop_that_forgets_held_locks_is_logged() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().to_str().expect("UTF-8");
    let cases: [(&[&str], bool); 3] = [(&["--save", ""], true), (&["--appendonly", "yes"], false), (&[], false)];
    for (settings, is_logged) in cases {
        let mut process = Process::start(&[&["--dir", dir], settings].concat());
        assert!(process.client().call("LOCK.ACQUIRE l t PX 60000").starts_with(':'));
        process.signal("TERM");
        assert!(process.wait().success());
        assert_eq!(process.rest().contains("1 locks are held"), is_logged, "{settings:?}");
    }
}

#[test]
fn a_mark_that_cannot_be_written_is_a_reason_not_to_start() {
    let dir = dir();
    std::fs::create_dir(dir.path().join(MARK)).expect("a directory");
    let settings = format!("dir {}\nrestart-grace-ms 5", dir.path().display());
    let builder = Server::builder().clock(Clock::manual()).settings(&settings);
    let error = builder.start_blocking().err().expect("no start").to_string();
    assert!(error.contains(MARK) && error.contains("restart-grace-ms"), "{error}");
}

#[cfg(feature = "binary")]
#[test]
fn a_process_that_is_killed_is_followed_by_a_grace_and_one_that_is_shut_down_is_not() {
    let dir = dir();
    let args = ["--dir", dir.path().to_str().expect("text"), "--restart-grace-ms", "600000"];
    let serves = |client: &mut Client| client.call("SET k v") == "+OK";
    let mut process = Process::start(&args);
    assert!(serves(&mut process.client()));
    process.signal("TERM");
    assert!(process.wait().success());
    let mut process = Process::start(&args);
    assert!(serves(&mut process.client()));
    process.signal("KILL");
    assert!(!process.wait().success());
    let mut process = Process::start(&args);
    assert_eq!(process.client().call("SET k v"), LOADING);
    process.signal("TERM");
    assert!(process.wait().success());
    let mut process = Process::start(&args);
    assert_eq!(process.client().call("SET k v"), LOADING);
}
