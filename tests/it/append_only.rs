//! The append-only file: written data survives a restart or a crash, and a damaged end is cut off and kept.

mod faults;

use std::fs;
use std::path::{Path, PathBuf};

use keylatch::Clock;
use keylatch::internals::disk::SimulatedDisk;

use crate::files::{assert_same, dir, fill, start_in};
use crate::harness::{Client, TestServer, encode, wait_until};
use crate::log::rows::{STORIES, call_all};

const ON: [(&str, &str); 1] = [("appendonly", "yes")];

/// Returns the sorted names in the directory of the append-only file.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir.join("appendonlydir")).expect("a directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text"));
    let mut names: Vec<String> = names.filter(|name| name != ".appendonly.aof.lock").collect();
    names.sort();
    names
}

/// Returns the path of the last incremental file.
fn increment(dir: &Path) -> PathBuf {
    let last = names(dir).into_iter().rfind(|name| name.ends_with(".incr.aof"));
    dir.join("appendonlydir").join(last.expect("an increment"))
}

/// Copies a directory with its one subdirectory.
pub(crate) fn copy(from: &Path) -> tempfile::TempDir {
    let to = dir();
    fs::create_dir(to.path().join("appendonlydir")).expect("writable");
    for name in names(from) {
        let part = Path::new("appendonlydir").join(name);
        fs::copy(from.join(&part), to.path().join(&part)).expect("a copy");
    }
    to
}

/// Restarts a server with its files, and asserts that the new one has the same keys.
#[track_caller]
fn assert_restarted(dir: &Path, server: TestServer) -> TestServer {
    let twin = start_in(copy_of_end(dir, &server).path(), &ON);
    assert_same(&server, &twin);
    server.end();
    let again = start_in(dir, &ON);
    assert_same(&twin, &again);
    again
}

/// Returns a copy of the files once all of the log is written.
pub(crate) fn copy_of_end(dir: &Path, server: &TestServer) -> tempfile::TempDir {
    let mut client = server.client();
    let reply = client.call("WAITAOF 1 0 0");
    assert_eq!(reply, "*2 :1 :0");
    copy(dir)
}

#[test]
fn what_every_command_writes_is_in_the_append_only_file() {
    for (name, before, request) in STORIES {
        let dir = dir();
        let server = start_in(dir.path(), &ON);
        let mut client = server.client();
        call_all(&mut client, name, before);
        call_all(&mut client, name, request);
        let twin = start_in(copy_of_end(dir.path(), &server).path(), &ON);
        assert_same(&server, &twin);
    }
}

#[cfg(feature = "lua")]
#[test]
fn nothing_of_a_script_that_a_stop_of_the_server_ends_is_in_the_append_only_file() {
    let dir = dir();
    let server = start_in(dir.path(), &ON);
    server.client().expect(&[("SET k 1", "+OK")]);
    let _busy = crate::script::occupy(&server, &["EVAL", "redis.call('SET', 'k', '2') while true do end", "0"]);
    server.end();
    start_in(dir.path(), &ON).client().expect(&[("GET k", "$1 1"), ("SET k 2", "+OK")]);
}

#[test]
fn what_was_written_before_and_since_a_rewrite_is_there_after_a_restart() {
    let dir = dir();
    let server = start_in(dir.path(), &ON);
    let mut client = server.client();
    fill(&mut client);
    assert_eq!(
        names(dir.path()),
        ["appendonly.aof.1.base.rdb", "appendonly.aof.1.incr.aof", "appendonly.aof.manifest"]
    );
    client.expect(&[("MULTI", "+OK"), ("SET a 1", "+QUEUED"), ("RPUSH b x y", "+QUEUED"), ("EXEC", "*2 +OK :2")]);
    let server = assert_restarted(dir.path(), server);
    let mut client = server.client();
    client.expect(&[("BGREWRITEAOF", "+Background append only file rewriting started"), ("APPEND a 2", ":2")]);
    wait_until(|| client.info("aof_rewrite_in_progress") == "0");
    assert_eq!(client.info("aof_last_bgrewrite_status"), "ok");
    client.expect(&[("LPUSH b w", ":3"), ("SELECT 9", "+OK"), ("SET c 1", "+OK")]);
    assert_eq!(names(dir.path()).len(), 3, "the former files are removed");
    let server = assert_restarted(dir.path(), server);
    server.client().expect(&[("GET a", "$2 12"), ("LRANGE b 0 -1", "*3 $1 w $1 x $1 y")]);
}

#[test]
fn an_append_only_file_can_be_begun_and_ended_while_the_server_runs() {
    let dir = dir();
    let server = start_in(dir.path(), &[]);
    let mut client = server.client();
    fill(&mut client);
    assert_eq!(client.info("aof_enabled"), "0");
    client.expect(&[("CONFIG SET appendonly yes", "+OK"), ("SET begun 1", "+OK")]);
    wait_until(|| client.info("aof_rewrite_in_progress") == "0");
    client.expect(&[("INCR begun", ":2"), ("WAITAOF 1 0 0", "*2 :1 :0")]);
    assert_same(&server, &start_in(copy(dir.path()).path(), &ON));
    client.expect(&[("CONFIG SET appendonly no", "+OK")]);
    wait_until(|| client.info("aof_enabled") == "0");
    client.expect(&[("CONFIG SET appendfsync always", "+OK"), ("CONFIG SET appendonly yes", "+OK")]);
    wait_until(|| client.info("aof_rewrite_in_progress") == "0");
    client.expect(&[("INCR begun", ":3")]);
    // It was durable before the reply.
    assert_same(&server, &start_in(copy(dir.path()).path(), &ON));
}

#[test]
fn with_always_every_reply_comes_after_its_write_is_in_the_file_and_pipelines_go_on() {
    let dir = dir();
    let server = start_in(dir.path(), &[ON[0], ("appendfsync", "always")]);
    let mut clients: Vec<_> = (0..8).map(|_| server.client()).collect();
    for round in 0..20 {
        for (number, client) in clients.iter_mut().enumerate() {
            client.send(format!("SET k:{number} {round}\r\nGET k:{number}\r\nPING\r\n").as_bytes());
        }
        for client in &mut clients {
            let text = round.to_string();
            assert_eq!(client.reply(), "+OK");
            assert_eq!(client.reply(), format!("${} {text}", text.len()));
            assert_eq!(client.reply(), "+PONG");
        }
    }
    assert_same(&server, &start_in(copy(dir.path()).path(), &ON));
}

#[test]
fn an_end_cut_anywhere_is_cut_to_whole_writes_and_kept_and_later_writes_are_not_lost() {
    let dir = dir();
    let server = start_in(dir.path(), &ON);
    let mut client = server.client();
    for number in 0..6 {
        client.send(format!("MULTI\r\nSET a {number}\r\nSET b {number}\r\nEXEC\r\n").as_bytes());
        (0..4).for_each(|_| _ = client.reply());
    }
    let whole = copy_of_end(dir.path(), &server);
    let bytes = fs::read(increment(whole.path())).expect("a file");
    for cut in 1..300 {
        let dir = copy(whole.path());
        let path = increment(dir.path());
        fs::write(&path, &bytes[..bytes.len() - cut]).expect("writable");
        let server = start_in(dir.path(), &ON);
        let mut client = server.client();
        assert_eq!(client.call("GET a"), client.call("GET b"), "a transaction is there or not, cut at {cut}");
        let dropped: u64 = client.info("aof_tail_dropped_bytes").parse().expect("a number");
        let kept = names(dir.path()).iter().any(|name| name.contains(".tail-"));
        assert_eq!(dropped > 0, kept, "cut at {cut}");
        assert_eq!(client.call("INCR later"), ":1");
        server.end();
        let again = start_in(dir.path(), &ON);
        again.client().expect(&[("GET later", "$1 1")]);
    }
}

#[test]
fn a_file_that_is_damaged_before_its_end_is_refused_and_stays_as_it_is() {
    let dir = dir();
    let server = start_in(dir.path(), &ON);
    let mut client = server.client();
    for number in 0..50 {
        client.call(&format!("SET key:{number} value"));
        client.call("WAITAOF 1 0 0");
    }
    server.end();
    let path = increment(dir.path());
    let mut bytes = fs::read(&path).expect("a file");
    let middle = bytes.len() / 3;
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).expect("writable");
    let builder = keylatch::Server::builder().clock(Clock::manual()).set("dir", dir.path().display());
    let error = builder.set("appendonly", "yes").start_blocking().err().expect("refused").to_string();
    assert!(error.contains("incr.aof, offset"), "{error}");
    assert_eq!(fs::read(&path).expect("a file"), bytes);
}

#[test]
fn a_start_without_the_manifest_or_without_a_part_is_refused() {
    let dir = dir();
    let server = start_in(dir.path(), &ON);
    server.client().call("SET k v");
    server.end();
    let whole = copy(dir.path());
    for missing in ["appendonly.aof.manifest", "appendonly.aof.1.incr.aof", "appendonly.aof.1.base.rdb"] {
        let dir = copy(whole.path());
        fs::remove_file(dir.path().join("appendonlydir").join(missing)).expect("it is there");
        let before = names(dir.path());
        let builder = keylatch::Server::builder().set("dir", dir.path().display()).set("appendonly", "yes");
        let error = builder.start_blocking().err().expect("refused").to_string();
        assert!(error.contains("manifest"), "{missing}: {error}");
        assert_eq!(names(dir.path()), before);
    }
}

#[test]
fn a_damaged_manifest_is_refused_until_the_line_with_its_checksum_is_removed() {
    let dir = dir();
    let server = start_in(dir.path(), &ON);
    server.client().call("SET k v");
    let twin = copy_of_end(dir.path(), &server);
    server.end();
    let path = twin.path().join("appendonlydir/appendonly.aof.manifest");
    let text = fs::read_to_string(&path).expect("a manifest");
    let damaged = text.replace("type i", "type h");
    fs::write(&path, &damaged).expect("writable");
    let builder = keylatch::Server::builder().set("dir", twin.path().display()).set("appendonly", "yes");
    let error = builder.start_blocking().err().expect("refused").to_string();
    assert!(error.contains("appendonly.aof.manifest, line 3: the manifest is damaged"), "{error}");
    assert!(error.contains("remove the line that begins with #checksum"), "{error}");
    let lines = |text: &str| {
        text.lines().filter(|line| !line.starts_with('#')).fold(String::new(), |all, line| all + line + "\n")
    };
    fs::write(&path, lines(&damaged)).expect("writable");
    assert_eq!(start_in(twin.path(), &ON).client().call("EXISTS k"), ":0", "the increment was history");
    // The whole manifest is read with or without its checksum, whatever the setting.
    for text in [text.clone(), lines(&text)] {
        fs::write(dir.path().join("appendonlydir/appendonly.aof.manifest"), text).expect("writable");
        start_in(dir.path(), &[ON[0], ("aof-checksum", "no")]).client().expect(&[("GET k", "$1 v")]);
    }
}

#[test]
fn without_checksums_the_manifest_has_none() {
    let dir = dir();
    let server = start_in(dir.path(), &[ON[0], ("aof-checksum", "no")]);
    let mut client = server.client();
    let has_checksum = || {
        let text = fs::read_to_string(dir.path().join("appendonlydir/appendonly.aof.manifest"));
        text.expect("a manifest").contains("#checksum:")
    };
    let rewrite = |client: &mut Client| {
        client.expect(&[("BGREWRITEAOF", "+Background append only file rewriting started")]);
        wait_until(|| client.info("aof_rewrite_in_progress") == "0");
    };
    assert!(!has_checksum());
    client.expect(&[("CONFIG SET aof-checksum yes", "+OK")]);
    wait_until(|| {
        rewrite(&mut client);
        has_checksum()
    });
    client.expect(&[("CONFIG SET aof-checksum no", "+OK")]);
    wait_until(|| {
        rewrite(&mut client);
        !has_checksum()
    });
    assert_restarted(dir.path(), server);
}

#[test]
fn a_single_file_of_former_versions_is_taken_over() {
    let dir = dir();
    let old = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n";
    fs::write(dir.path().join("appendonly.aof"), old).expect("writable");
    let server = start_in(dir.path(), &ON);
    server.client().expect(&[("GET k", "$1 v"), ("SET l w", "+OK")]);
    let again = assert_restarted(dir.path(), server);
    again.client().expect(&[("MGET k l", "*2 $1 v $1 w")]);
    assert!(!dir.path().join("appendonly.aof").exists());
}

#[test]
fn a_file_that_grows_is_rewritten_by_itself() {
    let dir = dir();
    let server = start_in(dir.path(), &[ON[0], ("auto-aof-rewrite-min-size", "20kb")]);
    let mut client = server.client();
    let many: Vec<String> = (0..2000).map(|number| format!("SET k {number}")).collect();
    client.pipeline(&many);
    wait_until(|| client.info("aof_rewrites") == "2"); // including the rewrite of the start
    assert_eq!(client.info("aof_last_bgrewrite_status"), "ok");
    assert_restarted(dir.path(), server);
}

#[test]
fn fences_of_locks_grow_over_a_restart_though_the_clock_was_set_back() {
    for always in ["everysec", "always"] {
        let dir = dir();
        let settings = [ON[0], ("appendfsync", always)];
        let server = start_in(dir.path(), &settings);
        server.server().set_wall_ms(crate::log::BEGIN_MS + 1_000_000_000);
        let before = server.client().int("LOCK.ACQUIRE lock token PX 9000000000");
        server.end();
        let again = start_in(dir.path(), &settings);
        let mut client = again.client();
        assert_eq!(client.call("GET lock"), "$5 token");
        let after = client.int("LOCK.ACQUIRE other token PX 1000");
        assert!(after > before, "{after} after {before}");
    }
}

/// Writes commands as an append-only file with one incremental file.
fn write_increment(dir: &Path, content: &[u8]) {
    let parts = dir.join("appendonlydir");
    fs::create_dir(&parts).expect("writable");
    fs::write(parts.join("appendonly.aof.manifest"), "file appendonly.aof.1.incr.aof seq 1 type i\n")
        .expect("writable");
    fs::write(parts.join("appendonly.aof.1.incr.aof"), content).expect("writable");
}

#[test]
fn a_file_that_is_refused_is_refused_with_the_words_that_tools_look_for() {
    let set = encode(&["SET", "k", "v"]);
    let half = &set[..set.len() - 1];
    for (content, words) in [
        ([&set[..], b"!!!", &set].concat(), "Bad file format reading the append only file "),
        (
            [&set[..], &encode(&["NOSUCH", "k"]), &set].concat(),
            "Unknown command 'NOSUCH' reading the append only file ",
        ),
        ([&set[..], half].concat(), "Unexpected end of file reading the append only file "),
        ([&encode(&["MULTI"]), &set[..]].concat(), "Unexpected end of file reading the append only file "),
    ] {
        let dir = dir();
        write_increment(dir.path(), &content);
        let builder = keylatch::Server::builder().set("dir", dir.path().display()).set("aof-load-truncated", "no");
        let error = builder.set("appendonly", "yes").start_blocking().err().expect("refused").to_string();
        let place = format!("{words}{}, offset ", increment(dir.path()).display());
        assert!(error.contains(&place), "{error}");
        assert_eq!(fs::read(increment(dir.path())).expect("a file"), content);
    }
    let dir = dir();
    write_increment(dir.path(), &set);
    fs::remove_file(increment(dir.path())).expect("it is there");
    let builder = keylatch::Server::builder().set("dir", dir.path().display()).set("appendonly", "yes");
    let error = builder.start_blocking().err().expect("refused").to_string();
    assert!(error.contains("appendonly.aof.1.incr.aof ") && error.contains("No such file or directory"), "{error}");
}

#[test]
fn timestamps_begin_when_they_are_asked_for_and_checksums_end_with_the_next_increment() {
    let dir = dir();
    let server = start_in(dir.path(), &ON);
    let mut client = server.client();
    let mut written = |request: &str| {
        client.expect(&[(request, "+OK"), ("WAITAOF 1 0 0", "*2 :1 :0")]);
        let increment = increment(dir.path());
        String::from_utf8(fs::read(increment).expect("a file")).expect("text")
    };
    let before = written("SET a 1");
    assert!(before.starts_with("#HDR:") && !before.contains("#TS:"), "{before}");
    written("CONFIG SET aof-timestamp-enabled yes aof-checksum no");
    // Another thread reports it: the next write but one has it at the latest.
    wait_until(|| written("SET a 2").contains("#TS:1700000000\r\n"));
    assert!(written("SET a 3")[before.len()..].contains("#HDR:"), "a file has them all, or none");
    client.expect(&[("BGREWRITEAOF", "+Background append only file rewriting started")]);
    wait_until(|| client.info("aof_rewrite_in_progress") == "0");
    client.expect(&[("SET a 4", "+OK"), ("WAITAOF 1 0 0", "*2 :1 :0")]);
    let after = fs::read_to_string(increment(dir.path())).expect("text");
    assert!(after.starts_with("#TS:1700000000\r\n*2\r\n") && !after.contains("#HDR:"), "{after}");
    assert_restarted(dir.path(), server);
}

#[test]
fn debug_loadaof_loads_the_files_that_are_there_though_none_is_written() {
    let dir = dir();
    let server = start_in(dir.path(), &[]);
    let mut client = server.client();
    let failed = "-ERR Error trying to load the AOF files, check server logs";
    client.expect(&[("SET a v", "+OK"), ("DEBUG LOADAOF", failed), ("GET a", "$1 v")]);
    #[cfg(feature = "lua")]
    client.call_args(&["FUNCTION", "LOAD", "#!lua name=one\nredis.register_function('f', function() return 1 end)"]);
    client.expect(&[("BGREWRITEAOF", "+Background append only file rewriting started")]);
    wait_until(|| client.info("aof_rewrite_in_progress") == "0");
    client.expect(&[("SET a w", "+OK"), ("SET b w", "+OK")]);
    #[cfg(feature = "lua")]
    client.call_args(&["FUNCTION", "LOAD", "#!lua name=two\nredis.register_function('g', function() return 1 end)"]);
    client.expect(&[("DEBUG LOADAOF", "+OK"), ("GET a", "$1 v"), ("EXISTS b", ":0")]);
    #[cfg(feature = "lua")]
    client.expect(&[("FCALL f 0", ":1"), ("FCALL g 0", "-ERR Function not found")]);
}

#[test]
fn a_rewrite_is_given_up_when_the_file_is_turned_off() {
    let dir = dir();
    let server = start_in(dir.path(), &[ON[0], ("rdb-key-save-delay", "1000000000")]);
    let mut client = server.client();
    let started = |client: &mut Client| client.info("total_forks").parse::<u64>().expect("a number");
    let before = started(&mut client);
    client.expect(&[("SET a v", "+OK"), ("BGREWRITEAOF", "+Background append only file rewriting started")]);
    assert_eq!((client.info("aof_rewrite_in_progress"), started(&mut client)), ("1".into(), before + 1));
    client.expect(&[("CONFIG SET appendonly no", "+OK")]);
    assert_eq!(client.info("aof_rewrite_in_progress"), "0");
    wait_until(|| client.info("aof_enabled") == "0");
    // The cancelled rewrite counts as ended.
    client.expect(&[("CONFIG SET rdb-key-save-delay 0", "+OK"), ("SAVE", "+OK")]);
    client.expect(&[("BGREWRITEAOF", "+Background append only file rewriting started")]);
    wait_until(|| client.info("aof_rewrite_in_progress") == "0");
    let twin = start_in(copy(dir.path()).path(), &ON);
    assert_same(&server, &twin);
}

#[test]
fn a_rewrite_that_is_scheduled_is_dropped_when_the_file_is_turned_off() {
    let dir = dir();
    let server = start_in(dir.path(), &[ON[0], ("rdb-key-save-delay", "1000000000")]);
    let mut client = server.client();
    let rewrites = client.info("aof_rewrites");
    client.expect(&[("SET a v", "+OK"), ("BGSAVE", "+Background saving started")]);
    let scheduled = ("BGREWRITEAOF", "+Background append only file rewriting scheduled");
    client.expect(&[scheduled]);
    assert_eq!(client.info("aof_rewrite_scheduled"), "1");
    client.expect(&[("CONFIG SET appendonly no", "+OK")]);
    assert_eq!(client.info("aof_rewrite_scheduled"), "0");
    // A rewrite scheduled by then is not dropped by other settings.
    client.expect(&[scheduled, ("CONFIG SET appendonly no maxmemory 0", "+OK")]);
    assert_eq!(client.info("aof_rewrite_scheduled"), "1");
    client.expect(&[("CONFIG SET appendonly yes", "+OK"), ("CONFIG SET appendonly no", "+OK")]);
    assert_eq!(client.info("aof_rewrite_scheduled"), "0");
    client.expect(&[("FLUSHALL", "+OK")]); // drops the save
    wait_until(|| client.info("aof_enabled") == "0");
    assert_eq!(client.info("aof_rewrites"), rewrites);
}

#[test]
fn a_file_that_is_turned_on_during_a_save_is_scheduled() {
    let dir = dir();
    let server = start_in(dir.path(), &[("rdb-key-save-delay", "1000000000")]);
    let mut client = server.client();
    let rewrite = |client: &mut Client| (client.info("aof_rewrite_in_progress"), client.info("aof_rewrite_scheduled"));
    client.expect(&[("SET a v", "+OK"), ("BGSAVE", "+Background saving started")]);
    client.expect(&[("CONFIG SET appendonly yes rdb-key-save-delay 0", "+OK")]);
    assert_eq!(rewrite(&mut client), ("0".into(), "1".into()));
    for (field, value) in [("aof_enabled", "1"), ("aof_current_size", "0"), ("aof_pending_rewrite", "1")] {
        assert_eq!(client.info(field), value, "{field}");
    }
    let mut waiting = server.client();
    waiting.send(b"PING\r\nWAITAOF 1 0 0\r\n");
    assert_eq!(waiting.reply(), "+PONG");
    client.expect(&[("FLUSHALL", "+OK"), ("SET b v", "+OK"), ("WAITAOF 1 0 0", "*2 :1 :0")]);
    assert_eq!(waiting.reply(), "*2 :1 :0");
    wait_until(|| rewrite(&mut client) == ("0".into(), "0".into()) && client.info("aof_enabled") == "1");
    assert_restarted(dir.path(), server);
}

#[test]
fn waitaof_does_not_count_a_file_that_was_turned_off_but_is_not_ended_yet() {
    let dir = dir();
    let server = start_in(dir.path(), &[ON[0], ("rdb-key-save-delay", "1000000000")]);
    let mut client = server.client();
    client.expect(&[("SET a v", "+OK"), ("BGSAVE", "+Background saving started"), ("WAITAOF 1 0 0", "*2 :1 :0")]);
    // The next start would load the snapshot, which is not written.
    let refused = "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";
    client.expect(&[("CONFIG SET appendonly no", "+OK"), ("WAITAOF 1 0 0", refused)]);
    client.expect(&[("CONFIG SET appendonly yes", "+OK"), ("WAITAOF 1 0 0", "*2 :1 :0")]);
    client.expect(&[("FLUSHALL", "+OK")]); // drops the save
}

#[test]
fn former_files_are_kept_until_the_settings_allow_their_removal() {
    let dir = dir();
    let server = start_in(dir.path(), &[ON[0], ("aof-disable-auto-gc", "yes")]);
    let mut client = server.client();
    client.expect(&[("BGREWRITEAOF", "+Background append only file rewriting started")]);
    wait_until(|| client.info("aof_rewrite_in_progress") == "0");
    assert_eq!(names(dir.path()).len(), 5);
    client.expect(&[("CONFIG SET aof-disable-auto-gc no", "+OK")]);
    wait_until(|| names(dir.path()).len() == 3);
    assert_restarted(dir.path(), server);
}

#[test]
fn two_servers_do_not_write_the_same_append_only_file() {
    let dir = dir();
    let server = start_in(dir.path(), &ON);
    server.client().expect(&[("SET k v", "+OK")]);
    let refused = || {
        let builder = keylatch::Server::builder().set("dir", dir.path().display()).set("appendonly", "yes");
        builder.start_blocking().err().expect("refused").to_string()
    };
    assert!(refused().contains("another running server has"), "{}", refused());
    // As with Redis, files with another name may lie in the same directory.
    let beside = start_in(dir.path(), &[("appendonly", "yes"), ("appendfilename", "other.aof")]);
    beside.client().expect(&[("SET k beside", "+OK")]);
    // A server that enables the file later does not get it either.
    let other = start_in(dir.path(), &[]);
    let mut client = other.client();
    client.expect(&[("CONFIG SET appendonly yes", "+OK"), ("SET k other", "+OK")]);
    wait_until(|| client.info("aof_rewrite_in_progress") == "0");
    assert_eq!(client.info("aof_enabled"), "0");
    client.expect(&[("CONFIG SET appendonly no", "+OK")]);
    server.end();
    start_in(dir.path(), &ON).client().expect(&[("GET k", "$1 v")]);
}

#[test]
fn a_key_that_has_got_another_deadline_is_there_though_the_former_one_passed_before_the_start() {
    let dir = dir();
    let server = start_in(dir.path(), &ON);
    let mut client = server.client();
    client.expect(&[("SET kept v PX 100", "+OK"), ("SET moved v PX 100", "+OK"), ("SET gone v PX 100", "+OK")]);
    client.expect(&[("HSET h f 1 g 2", ":2"), ("HPEXPIRE h 100 FIELDS 2 f g", "*2 :1 :1")]);
    client.expect(&[("BGREWRITEAOF", "+Background append only file rewriting started")]);
    wait_until(|| client.info("aof_rewrite_in_progress") == "0");
    client.expect(&[("PERSIST kept", ":1"), ("APPEND kept w", ":2"), ("PEXPIRE moved 5000", ":1")]);
    client.expect(&[("HPERSIST h FIELDS 1 f", "*1 :1")]);
    server.advance_ms(1000);
    client.expect(&[("EXISTS kept moved gone h", ":3"), ("HGETALL h", "*2 $1 f $1 1")]);
    server.end();
    let clock = Clock::manual();
    clock.set_wall_ms(crate::log::BEGIN_MS + 1000);
    let settings = [("dir", dir.path().to_str().expect("text")), ON[0], ("dbfilename", "dump.rdb")];
    let again = TestServer::start_on(clock, &settings);
    let mut client = again.client();
    client.expect(&[("MGET kept moved gone", "*3 $2 vw $1 v $-1"), ("PTTL moved", ":4000")]);
    client.expect(&[("HGETALL h", "*2 $1 f $1 1")]);
}

#[cfg(feature = "binary")]
#[test]
fn a_second_process_in_the_same_directory_ends_with_an_error_and_the_death_of_the_first_frees_it() {
    use std::process::{Command, Stdio};

    use crate::process::{Process, binary, text};

    let dir = dir();
    let args = ["--dir", dir.path().to_str().expect("text"), "--appendonly", "yes", "--appendfsync", "always"];
    let mut first = Process::start(&args);
    first.client().expect(&[("SET k v", "+OK")]);
    let before = names(dir.path());
    let mut second = Command::new(binary());
    let second = second.args(args).args(["--port", "0", "--bind", "127.0.0.1"]).stdin(Stdio::null());
    let ended = second.env_remove("KEYLATCH_REQUIRE_REDIS").output().expect("the binary starts");
    let said = text(&[ended.stdout, ended.stderr].concat());
    assert!(!ended.status.success() && said.contains("another running server has"), "{said}");
    assert_eq!(names(dir.path()), before);
    first.signal("KILL");
    assert!(!first.wait().success());
    let mut third = Process::start(&args);
    third.client().expect(&[("GET k", "$1 v")]);
}

/// Starts a server with the files of a disk, at a wall-clock time.
fn start_at(disk: &SimulatedDisk, wall_ms: i64) -> (keylatch::Server, Client) {
    let clock = Clock::manual();
    clock.set_wall_ms(wall_ms);
    let builder = keylatch::Server::builder().clock(clock).disk(disk.clone()).set("dir", "/");
    let server = builder.set("appendonly", "yes").set("appendfsync", "always").start_blocking().expect("started");
    let client = Client::connect(server.addr());
    (server, client)
}

#[test]
fn a_clock_that_is_set_while_the_server_is_down_lets_no_late_write_in() {
    let disk = SimulatedDisk::new(1);
    let (server, mut client) = start_at(&disk, crate::log::BEGIN_MS);
    client.expect(&[("SETIFGREATER gone v 7", "*2 :7 $-1"), ("DEL gone", ":1")]);
    client.call("BGREWRITEAOF");
    wait_until(|| client.info("aof_rewrite_in_progress") == "0");
    server.shutdown_blocking();
    disk.advance_ms(500);
    let (_server, mut client) = start_at(&disk, crate::log::BEGIN_MS + 500 + 3_600_000);
    client.expect(&[("SETIFGREATER gone late 6", "*2 :7 $-1"), ("EXISTS gone", ":0")]);
}

#[test]
fn a_clock_that_is_set_while_the_server_is_down_ends_no_lock_early_and_lets_none_live_on() {
    let disk = SimulatedDisk::new(1);
    let (server, mut client) = start_at(&disk, crate::log::BEGIN_MS);
    client.expect(&[("SET lock v PX 10000", "+OK"), ("SET kept v", "+OK"), ("HSET h f 1 g 2", ":2")]);
    client.expect(&[("HPEXPIRE h 20000 FIELDS 1 f", "*1 :1"), ("SELECT 3", "+OK"), ("SET other v PX 10000", "+OK")]);
    server.shutdown_blocking();
    let ttls = |client: &mut Client, other: &str, lock: &str, field: &str| {
        client.expect(&[("SELECT 3", "+OK"), ("PTTL other", other), ("SELECT 0", "+OK"), ("PTTL lock", lock)]);
        client.expect(&[("PTTL kept", ":-1"), ("HPTTL h FIELDS 2 f g", field)]);
    };
    disk.advance_ms(500);
    let hour_ms = 3_600_000;
    // Once more with later changes, and with a new base file only.
    for base in ["", "", "yes", "no", ""] {
        let (server, mut client) = start_at(&disk, crate::log::BEGIN_MS + 500 + hour_ms);
        ttls(&mut client, ":9500", ":9500", "*2 :19500 :-1");
        client.expect(&[("SELECT 3", "+OK"), ("SET other v PX 9500", "+OK")]);
        if !base.is_empty() {
            client.call(&format!("CONFIG SET aof-use-rdb-preamble {base}"));
            client.call("BGREWRITEAOF");
            wait_until(|| client.info("aof_rewrite_in_progress") == "0");
        }
        server.shutdown_blocking();
    }
    disk.advance_ms(500);
    let (server, mut client) = start_at(&disk, crate::log::BEGIN_MS + 1000);
    ttls(&mut client, ":9000", ":9000", "*2 :19000 :-1");
    server.shutdown_blocking();
    // After another boot only the wall clock is known.
    let (_server, mut client) = start_at(&disk.power_cut(), crate::log::BEGIN_MS + 5000);
    ttls(&mut client, ":5000", ":5000", "*2 :15000 :-1");
}

fn rewrites(client: &mut Client) -> u64 {
    client.info("aof_rewrites").parse().expect("a number")
}

#[test]
fn with_another_directory_a_rewrite_goes_on_there_and_a_start_with_it_has_everything() {
    let (first, second) = (dir(), dir());
    let server = start_in(first.path(), &[ON[0], ("enable-protected-configs", "yes")]);
    let mut client = server.client();
    client.call("SET before 1");
    let target = second.path().to_str().expect("text");
    assert_eq!(client.call(&format!("CONFIG SET dir {target}")), "+OK");
    client.call("SET between 2");
    assert!(!second.path().join("appendonlydir").exists(), "the file stays where it is until it is rewritten");
    let before = rewrites(&mut client);
    assert!(client.call("BGREWRITEAOF").starts_with("+Background"));
    wait_until(|| rewrites(&mut client) > before);
    client.expect(&[("SET after 3", "+OK"), ("WAITAOF 1 0 0", "*2 :1 :0"), ("INCR after", ":4")]);
    server.end();
    let again = start_in(second.path(), &ON);
    again.client().expect(&[("MGET before between after", "*3 $1 1 $1 2 $1 4")]);
}

#[test]
fn a_rewrite_into_a_directory_that_fails_leaves_the_file_where_it_is() {
    let (first, second) = (dir(), dir());
    let server = start_in(first.path(), &[ON[0], ("enable-protected-configs", "yes")]);
    let mut client = server.client();
    fs::write(second.path().join("appendonlydir"), "no directory").expect("writable");
    client.call(&format!("CONFIG SET dir {}", second.path().to_str().expect("text")));
    client.expect(&[("SET k 1", "+OK")]);
    assert!(client.call("BGREWRITEAOF").starts_with("+Background"));
    wait_until(|| client.info("aof_last_bgrewrite_status") == "err");
    client.expect(&[("INCR k", ":2"), ("WAITAOF 1 0 0", "*2 :1 :0")]);
    server.end();
    assert_eq!(start_in(first.path(), &ON).client().call("GET k"), "$1 2");
}

#[test]
fn deadlines_that_were_moved_and_data_that_was_reloaded_lead_to_one_rewrite() {
    let dir = dir();
    let server = start_in(dir.path(), &[ON[0], ("enable-debug-command", "yes"), ("dbfilename", "dump.rdb")]);
    let mut client = server.client();
    let before = rewrites(&mut client);
    client.expect(&[("SET k v", "+OK"), ("SAVE", "+OK"), ("DEBUG RELOAD NOSAVE", "+OK")]);
    wait_until(|| rewrites(&mut client) > before);
    for has_timestamps in ["no", "yes", "no", "yes"] {
        client.call(&format!("CONFIG SET aof-timestamp-enabled {has_timestamps}")); // due rewrites are checked
        assert_eq!(client.call("SAVE"), "+OK"); // after it
    }
    assert_eq!(rewrites(&mut client), before + 1);
}
