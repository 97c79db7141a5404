//! Commands about files, with the tests in the role of the thread that executes their orders: the replies and their
//! time.

use std::pin::pin;
use std::task::{Context, Waker};

use crate::client::registry::Unblocked;
use crate::command::handlers;
use crate::command::played_client::{PlayedClient, SendResult};
use crate::config::{Config, Requester};
use crate::dispatch::{Continuation, Wait};
use crate::namespace::Namespace;
use crate::persist::rdb_file::FileOptions;
use crate::persist::snapshot::{Snapshot, SnapshotForm, SnapshotOptions};
use crate::persist::{FileJob, FileTask, Job, LogFigures, Order};
use crate::store::{Cx, Event, Origin, Ttl};
use crate::time::clock::Clock;

/// A server whose files are written by the test, with one client.
struct Probe {
    namespace: Namespace,
    client: PlayedClient,
}

impl Probe {
    fn new() -> Self {
        let namespace = Namespace::for_test(&handlers().commands, Config::default(), Clock::manual());
        namespace.persistence.set_enabled(true);
        Probe::with_client(namespace)
    }

    fn with_client(namespace: Namespace) -> Self {
        let client = PlayedClient::new(&namespace);
        Probe { namespace, client }
    }

    /// Sends a request that must be answered at once.
    #[track_caller]
    fn call(&mut self, line: &str) -> String {
        match self.client.send(&self.namespace, line) {
            SendResult::Replied(reply) => reply,
            SendResult::Waits(_) => panic!("{line} waits"),
        }
    }

    /// Sends a request that must wait.
    #[track_caller]
    fn wait(&mut self, line: &str) -> Box<dyn Continuation> {
        match self.client.send(&self.namespace, line) {
            SendResult::Replied(reply) => panic!("{line} is answered: {reply}"),
            SendResult::Waits(rest) => rest,
        }
    }

    /// Returns the reply of a waiting request if its condition is met.
    fn resume(&mut self, rest: &mut dyn Continuation) -> Option<String> {
        if let Wait::Work(work) = rest.wait()
            && pin!(work).as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
        {
            return None;
        }
        self.client.resume(&self.namespace, rest, Unblocked::InTime)
    }

    /// Takes an order, and reports its job as running.
    #[track_caller]
    fn begin(&self, expected: Job) -> Order {
        let order = loop {
            match self.namespace.persistence.next_task(Some(std::time::Duration::ZERO)) {
                FileTask::Write(job, order) if job == expected => break order,
                FileTask::Look if self.namespace.persistence.read(|figures| figures.work.is_none()) => {}
                other => panic!("{other:?}"),
            }
        };
        self.namespace.persistence.update(|figures| {
            figures.work = Some(FileJob { job: expected, begun_ms: 0, keys: 4, written: 1 });
        });
        self.namespace.persistence.begin(order);
        order
    }

    fn end(&self, order: Order, error: Option<&str>) {
        self.namespace.persistence.update(|figures| figures.work = None);
        self.namespace.persistence.end(order, error.map(Into::into));
    }

    fn configure(&self, name: &str, value: &str) {
        let pairs = [(name.as_bytes(), value.as_bytes())];
        let changed = self.namespace.settings.update(|config| config.set(&pairs, Requester::default()));
        changed.expect("accepted");
        self.namespace.follow_settings();
    }

    #[track_caller]
    fn info(&mut self, field: &str) -> Option<String> {
        let text = self.call("INFO persistence locks");
        let line = text.split(' ').find_map(|line| line.strip_prefix(&format!("{field}:")));
        line.map(str::to_owned)
    }
}

#[test]
fn save_replies_when_the_snapshot_is_saved_or_says_why_it_is_not() {
    let mut probe = Probe::new();
    for (error, reply) in [(None, "+OK"), (Some("No space left on device"), "-ERR No space left on device")] {
        let mut save = probe.wait("SAVE");
        assert_eq!(probe.resume(&mut *save), None);
        let order = probe.begin(Job::Save);
        assert_eq!(probe.resume(&mut *save), None, "it has begun and not ended");
        probe.end(order, error);
        assert_eq!(probe.resume(&mut *save).as_deref(), Some(reply));
    }
}

#[test]
fn bgsave_replies_when_the_snapshot_has_begun() {
    let mut probe = Probe::new();
    let mut bgsave = probe.wait("BGSAVE");
    assert_eq!(probe.resume(&mut *bgsave), None);
    let order = probe.begin(Job::Save);
    assert_eq!(probe.resume(&mut *bgsave).as_deref(), Some("+Background saving started"));
    for call in ["BGSAVE", "BGSAVE SCHEDULE", "SAVE"] {
        assert_eq!(probe.call(call), "-ERR Background save already in progress", "{call}");
    }
    assert_eq!(probe.call("BGREWRITEAOF"), "+Background append only file rewriting scheduled");
    probe.end(order, None);
    probe.begin(Job::Rewrite);
    assert_eq!(probe.call("BGREWRITEAOF"), "-ERR Background append only file rewriting already in progress");
    assert!(probe.call("BGSAVE").starts_with("-ERR Another child process is active (AOF?): can't BGSAVE right now."));
    assert_eq!(probe.call("BGSAVE SCHEDULE"), "+Background saving scheduled");
    assert_eq!(probe.call("BGSAVE NOW"), "-ERR syntax error");
}

#[test]
fn bgrewriteaof_replies_when_the_rewrite_has_begun() {
    let mut probe = Probe::new();
    let mut rewrite = probe.wait("BGREWRITEAOF");
    assert_eq!(probe.resume(&mut *rewrite), None);
    probe.begin(Job::Rewrite);
    assert_eq!(probe.resume(&mut *rewrite).as_deref(), Some("+Background append only file rewriting started"));
}

#[test]
fn in_a_transaction_orders_are_only_placed() {
    let mut probe = Probe::new();
    for line in ["MULTI", "BGSAVE", "BGREWRITEAOF"] {
        probe.call(line);
    }
    let replies = "*2 +Background saving scheduled +Background append only file rewriting scheduled";
    assert_eq!(probe.call("EXEC"), replies);
    probe.begin(Job::Save);
}

#[test]
fn without_a_snapshot_file_or_in_a_private_instance_nothing_is_saved() {
    let mut config = Config::default();
    config.use_memory_defaults();
    let main = Namespace::for_test(&handlers().commands, config, Clock::manual());
    main.persistence.set_enabled(true);
    let private = Namespace::new_private(&main, b"private", Clock::manual());
    let refused = "-ERR there is no snapshot file: the setting 'dbfilename' is empty";
    for (namespace, reply) in [(main, refused), (private, "-ERR a private instance writes no files")] {
        let mut probe = Probe::with_client(namespace);
        for call in ["SAVE", "BGSAVE"] {
            assert_eq!(probe.call(call), reply, "{call}");
        }
        assert_eq!(probe.info("durability").as_deref(), Some("memory"));
        assert_eq!(probe.info("rdb_last_bgsave_status").as_deref(), Some("ok"));
    }
}

#[test]
fn flushall_waits_for_a_snapshot_where_there_are_save_points() {
    let mut probe = Probe::new();
    assert_eq!(probe.call("FLUSHDB"), "+OK");
    for error in [None, Some("No space left on device")] {
        let mut flush = probe.wait("FLUSHALL");
        let order = probe.begin(Job::Save);
        assert_eq!(probe.resume(&mut *flush), None);
        probe.end(order, error);
        assert_eq!(probe.resume(&mut *flush).as_deref(), Some("+OK"));
    }
    probe.configure("save", "");
    assert_eq!(probe.call("FLUSHALL"), "+OK");
    let is_idle = |task| task == FileTask::Look;
    assert!((0..2).all(|_| is_idle(probe.namespace.persistence.next_task(Some(std::time::Duration::ZERO)))));
}

#[test]
fn shutdown_with_save_points_waits_for_a_snapshot_and_fails_with_it() {
    let mut probe = Probe::new();
    assert_eq!(probe.call("SHUTDOWN ABORT"), "-ERR No shutdown in progress.");
    let mut shutdown = probe.wait("SHUTDOWN");
    assert_eq!(probe.resume(&mut *shutdown), None);
    assert!(probe.namespace.pending_shutdown.is_running() && !probe.namespace.instance.stop.is_cancelled());
    assert_eq!(probe.call("SHUTDOWN ABORT"), "+OK");
    let failed = "-ERR Errors trying to SHUTDOWN. Check logs.";
    assert_eq!(probe.resume(&mut *shutdown).as_deref(), Some(failed));
    assert_eq!(probe.call("SET k v"), "+OK", "no write waits any more");
    probe.wait("SHUTDOWN NOSAVE");
    assert!(probe.namespace.instance.stop.is_cancelled());
}

#[test]
fn shutdown_without_a_thread_that_saves_fails_only_if_it_is_to_save() {
    let mut probe = Probe::new();
    probe.namespace.persistence.set_enabled(false);
    assert_eq!(probe.call("SHUTDOWN SAVE"), "-ERR Errors trying to SHUTDOWN. Check logs.");
    assert!(!probe.namespace.instance.stop.is_cancelled());
    probe.wait("SHUTDOWN");
    assert!(probe.namespace.instance.stop.is_cancelled());
}

#[test]
fn shutdown_while_data_is_loaded_saves_nothing() {
    let mut probe = Probe::new();
    probe.namespace.set_loading(true);
    probe.wait("SHUTDOWN SAVE");
    assert!(probe.namespace.instance.stop.is_cancelled() && !probe.namespace.pending_shutdown.is_running());
}

#[test]
fn waitaof_for_a_file_that_there_is_not_is_an_error() {
    let refused = "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";
    assert_eq!(Probe::new().call("WAITAOF 1 0 0"), refused);
}

#[test]
fn writes_and_ping_are_rejected_while_data_cannot_be_saved() {
    let mut probe = Probe::new();
    probe.call("SET k v");
    probe.namespace.persistence.update(|figures| figures.saves.error = Some("No space left on device".into()));
    probe.namespace.follow_files();
    let snapshots = "-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. \
        Commands that may modify the data set are disabled, because this instance is configured to report errors \
        during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for \
        details about the RDB error.";
    for call in ["SET k w", "PING", "DEL k"] {
        assert_eq!(probe.call(call), snapshots, "{call}");
    }
    assert_eq!((probe.call("GET k"), probe.call("ECHO a")), ("$1 v".into(), "$1 a".into()));
    probe.configure("extended-redis-compatibility", "no");
    let valkey = probe.call("SET k w");
    assert!(
        valkey.starts_with("-MISCONF Valkey is configured") && valkey.contains("check the Valkey logs"),
        "{valkey}"
    );
    probe.configure("save", "");
    let log = LogFigures { error: Some("Input/output error".into()), ..LogFigures::default() };
    probe.namespace.persistence.update(|figures| figures.log = Some(log));
    probe.namespace.follow_files();
    assert_eq!(probe.call("SET k w"), "-MISCONF Errors writing to the AOF file: Input/output error");
    probe.namespace.persistence.update(|figures| figures.log = Some(LogFigures::default()));
    probe.namespace.follow_files();
    assert_eq!(probe.call("SET k w"), "+OK");
}

#[test]
fn a_transaction_that_was_queued_before_is_rejected_at_exec_if_it_writes() {
    let mut probe = Probe::new();
    for (queued, expected) in [("SET k v", "-EXECABORT Transaction discarded because of: MISCONF "), ("GET k", "*1 ")] {
        probe.namespace.persistence.update(|figures| figures.saves.error = None);
        probe.namespace.follow_files();
        assert_eq!((probe.call("MULTI").as_str(), probe.call(queued).as_str()), ("+OK", "+QUEUED"));
        probe.namespace.persistence.update(|figures| figures.saves.error = Some("full".into()));
        probe.namespace.follow_files();
        let reply = probe.call("EXEC");
        assert!(reply.starts_with(expected), "{queued}: {reply}");
    }
}

#[cfg(feature = "lua")]
#[test]
fn scripts_may_read_while_data_cannot_be_saved() {
    let mut probe = Probe::new();
    probe.namespace.persistence.update(|figures| figures.saves.error = Some("full".into()));
    probe.namespace.follow_files();
    assert_eq!(probe.call("EVAL return{redis.call('get','k')} 1 k"), "*1 $-1");
    let refused = probe.call("EVAL return{redis.call('set','k','v')} 1 k");
    assert!(refused.starts_with("-MISCONF Redis is configured to save RDB snapshots, but"), "{refused}");
    let writable = probe.call("EVAL #!lua\nreturn{1} 0");
    assert!(writable.contains("Writable scripts are blocked. Use 'no-writes' flag"), "{writable}");
}

#[test]
fn no_keys_are_served_while_data_is_loaded() {
    let mut probe = Probe::new();
    probe.namespace.set_loading(true);
    for call in ["GET k", "SET k v", "PING", "SAVE", "DBSIZE"] {
        assert!(probe.call(call).starts_with("-LOADING "), "{call}");
    }
    assert!(probe.call("CONFIG GET save").starts_with("*2 $4 save"));
    probe.namespace.set_loading(false);
    assert_eq!(probe.call("PING"), "+PONG");
}

#[test]
fn info_shows_the_figures() {
    let mut probe = Probe::new();
    let started_s = probe.namespace.tenant.started.wall_ms().div_euclid(1000);
    assert_eq!(probe.call("LASTSAVE"), format!(":{started_s}"));
    assert_eq!(probe.info("durability").as_deref(), Some("snapshot"));
    for field in ["last_save_error", "aof_last_error", "aof_current_size", "loading_total_bytes"] {
        assert_eq!(probe.info(field), None, "{field}");
    }
    assert_eq!((probe.call("SET a 1"), probe.call("SET b 1")), ("+OK".into(), "+OK".into()));
    let now_ms = probe.namespace.clock.now().wall_ms();
    probe.namespace.persistence.update(|figures| {
        figures.work = Some(FileJob { job: Job::Save, begun_ms: now_ms - 7000, keys: 8, written: 2 });
        figures.saved_ms = now_ms - 5000;
        figures.saved_changes = 1;
        figures.saves.error = Some("No space\nleft".into());
        figures.saves.succeeded = 3;
        figures.saves.took_s = Some(2);
        figures.rewrites.failed = 4;
        figures.loading =
            Some(crate::persist::Loading { begun_ms: now_ms - 10_000, total: 100, read: 25, is_beside: false });
        figures.log = Some(LogFigures { len: 11, base_len: 5, cut: 6, delayed: 1, ..LogFigures::default() });
    });
    for (field, value) in [
        ("loading", "1"),
        ("current_fork_perc", "25.00"),
        ("current_save_keys_processed", "2"),
        ("current_save_keys_total", "8"),
        ("rdb_changes_since_last_save", "1"),
        ("rdb_bgsave_in_progress", "1"),
        ("rdb_last_bgsave_status", "err"),
        ("rdb_last_bgsave_time_sec", "2"),
        ("rdb_current_bgsave_time_sec", "7"),
        ("rdb_saves", "3"),
        ("aof_enabled", "1"),
        ("aof_rewrite_in_progress", "0"),
        ("aof_current_rewrite_time_sec", "-1"),
        ("aof_last_bgrewrite_status", "ok"),
        ("aof_rewrites_consecutive_failures", "4"),
        ("aof_current_size", "11"),
        ("aof_base_size", "5"),
        ("aof_delayed_fsync", "1"),
        ("loading_total_bytes", "100"),
        ("loading_loaded_bytes", "25"),
        ("loading_loaded_perc", "25.00"),
        ("loading_eta_seconds", "30"),
        ("rdb_last_save_age_seconds", "5"),
        ("last_save_error", "No"),
        ("aof_tail_dropped_bytes", "6"),
        ("durability", "file"),
    ] {
        assert_eq!(probe.info(field).as_deref(), Some(value), "{field}");
    }
    assert_eq!(probe.call("LASTSAVE"), format!(":{}", (now_ms - 5000).div_euclid(1000)));
}

/// Sets a key with a number.
fn set(namespace: &Namespace, number: usize, value: &[u8]) {
    let (name, cx) = (format!("key:{number}"), Cx::new(namespace.clock.now(), Origin::HOST));
    let key = namespace.store.key(name.as_bytes());
    namespace.store.hold(1).view(0, &[key.hash], cx).set(key, value, Ttl::Clear, Event::NONE);
}

/// Returns a server with 70 keys of a megabyte.
fn with_long_values() -> Namespace {
    let namespace = Namespace::for_test(&handlers().commands, Config::default(), Clock::manual());
    (0..70).for_each(|number| set(&namespace, number, &vec![b'x'; 1 << 20]));
    namespace
}

fn cut(namespace: &Namespace) -> Snapshot<'_> {
    let form = SnapshotForm::File(FileOptions { version: crate::rdb::VERSION, compresses: false }, false);
    let options = SnapshotOptions { form, has_usage: false, delay: std::time::Duration::ZERO };
    Snapshot::cut(&namespace.store, &mut namespace.store.exclusive(), options, namespace.clock.now())
}

#[test]
fn clients_that_change_more_than_a_snapshot_writes_are_to_wait_until_it_is_written() {
    let namespace = with_long_values();
    let (snapshot, reclaimer) = (cut(&namespace), namespace.store.reclaimer());
    let before = reclaimer.queued();
    (0..60).for_each(|number| set(&namespace, number, b"short"));
    assert!(!reclaimer.is_behind());
    (60..70).for_each(|number| set(&namespace, number, b"short"));
    assert!(reclaimer.is_behind() && reclaimer.queued() > before);
    let never = std::sync::atomic::AtomicBool::new(false);
    let written = snapshot
        .write(b"REDIS0010".to_vec().into(), &namespace.clock, &never, &mut |_| Ok(()), &|_| {})
        .expect("written");
    assert!(written.len > 70 << 20 && !reclaimer.is_behind());
}

#[test]
fn a_snapshot_that_is_given_up_takes_no_more_and_fails() {
    let namespace = with_long_values();
    set(&namespace, 100, b"present");
    let (snapshot, reclaimer) = (cut(&namespace), namespace.store.reclaimer());
    (0..70).for_each(|number| set(&namespace, number, b"short"));
    assert!(reclaimer.is_behind() && reclaimer.written().is_some());
    reclaimer.give_up_snapshot();
    set(&namespace, 100, b"changed");
    let (never, mut discard) = (std::sync::atomic::AtomicBool::new(false), |_: &[u8]| Ok(()));
    let mut write = |snapshot: Snapshot<'_>| {
        snapshot.write(b"REDIS0010".to_vec().into(), &namespace.clock, &never, &mut discard, &|_| {})
    };
    let failure = write(snapshot).map_err(|cause| cause.kind());
    assert_eq!(failure.expect_err("it lacks keys"), std::io::ErrorKind::TimedOut);
    assert!(reclaimer.written().is_none());
    assert!(write(cut(&namespace)).is_ok());
}

#[test]
fn nobody_waits_for_a_snapshot_that_is_not_written() {
    let namespace = with_long_values();
    let (snapshot, reclaimer) = (cut(&namespace), namespace.store.reclaimer());
    (0..70).for_each(|number| set(&namespace, number, b"short"));
    assert!(reclaimer.is_behind());
    drop(snapshot);
    while reclaimer.pending() > 0 {
        std::thread::yield_now(); // values that are freed in the background count, too
    }
    assert!(!reclaimer.is_behind());
}
