//! Tests of the service: hours pass without sleeping, and connections break where a test wants them to.

use std::time::Duration;

use keylatch::{Clock, Fault, Server};
use service::{Cache, Job, Lock, Queue, RateLimiter, Redis};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Starts a server for one test, on a stopped clock.
fn server() -> Server {
    Server::builder().test_mode().clock(Clock::manual()).start_blocking().expect("a free port")
}

fn redis(server: &Server) -> Redis {
    Redis::open(&server.url()).expect("a valid address")
}

fn job(id: &str, payload: &str) -> Option<Job> {
    Some(Job { id: id.into(), payload: payload.into() })
}

#[test]
fn a_value_is_computed_again_when_its_ttl_is_over() {
    let server = server();
    let mut cache = Cache::new(redis(&server), 10 * MINUTE);
    assert_eq!(cache.get_or("page", || "first".into()), "first");
    assert_eq!(server.ttl("cache:page"), Ok(Some(10 * MINUTE)));
    server.advance(10 * MINUTE - Duration::from_millis(1));
    assert_eq!(cache.get_or("page", || unreachable!("it is cached")), "first");
    server.advance(Duration::from_millis(1));
    assert_eq!(cache.get_or("page", || "second".into()), "second");
    assert_eq!(server.get("cache:page"), Ok(Some(b"second".to_vec())));
}

#[test]
fn a_cache_that_cannot_be_used_only_costs_time() {
    let server = server();
    let mut cache = Cache::new(redis(&server), MINUTE);
    server.inject(Fault::on("*").error("LOADING Redis is loading the dataset in memory")).expect("test mode");
    assert_eq!(cache.get_or("page", || "computed".into()), "computed");
    server.clear_faults();
    assert_eq!(server.keys("*"), Ok(Vec::new()));
}

#[test]
fn the_eleventh_request_of_a_minute_is_refused_until_the_minute_is_over() {
    let server = server();
    let mut limiter = RateLimiter::new(redis(&server), 10, MINUTE);
    for _ in 0..10 {
        assert!(limiter.allows("alice").expect("a reply"));
        server.advance(SECOND);
    }
    assert!(!limiter.allows("alice").expect("a reply") && limiter.allows("bob").expect("a reply"));
    server.advance(MINUTE - 10 * SECOND - Duration::from_millis(1));
    assert!(!limiter.allows("alice").expect("a reply"));
    server.advance(Duration::from_millis(1));
    assert!(limiter.allows("alice").expect("a reply"));
}

#[test]
fn a_job_that_is_not_finished_in_time_is_handed_out_again() {
    let server = server();
    let mut queue = Queue::new(redis(&server), 5 * MINUTE);
    queue.push("1", "send the mail").expect("a reply");
    assert_eq!(queue.take().expect("a reply"), job("1", "send the mail"));
    server.advance(5 * MINUTE - Duration::from_millis(1));
    assert_eq!(queue.take().expect("a reply"), None);
    server.advance(Duration::from_millis(1));
    let again = queue.take().expect("a reply").expect("the worker has crashed");
    queue.finish(&again).expect("a reply");
    server.advance(5 * MINUTE);
    assert_eq!(queue.take().expect("a reply"), None);
}

/// Breaks the connection at each of the three scripts in turn, before and after its execution.
#[test]
fn a_job_runs_exactly_once_although_connections_break() {
    for fault in [Fault::on("EVAL").drop(), Fault::on("EVAL").partial(1), Fault::on("EVAL").lose_reply()] {
        for broken in 0..3 {
            let server = server();
            let mut queue = Queue::new(redis(&server), 5 * MINUTE);
            server.inject(fault.clone().after(broken).times(1)).expect("test mode");
            let mut runs = 0;
            queue.push("1", "send the mail").expect("a second attempt");
            for _ in 0..3 {
                while let Some(job) = queue.take().expect("a second attempt") {
                    runs += 1;
                    queue.finish(&job).expect("a second attempt");
                }
                server.advance(5 * MINUTE); // a job whose reply was lost is due again
            }
            assert_eq!(runs, 1, "{fault:?} at script {broken}");
            let struck = server.command_log().expect("test mode").iter().filter(|call| call.fault.is_some()).count();
            assert_eq!(struck, 1);
        }
    }
}

#[test]
fn a_lock_is_free_when_its_lease_is_over_and_only_its_holder_releases_it() {
    let server = server();
    let mut alice = Lock::new(redis(&server), "report", "alice", 30 * SECOND);
    let mut bob = Lock::new(redis(&server), "report", "bob", 30 * SECOND);
    assert!(alice.acquire().expect("a reply") && !bob.acquire().expect("a reply"));
    server.advance(30 * SECOND);
    assert!(bob.acquire().expect("a reply"));
    alice.release().expect("a reply");
    assert_eq!(server.get("lock:report"), Ok(Some(b"bob".to_vec())));
    bob.release().expect("a reply");
    assert_eq!(server.get("lock:report"), Ok(None));
}

#[test]
fn a_lock_whose_acquisition_got_no_reply_is_held() {
    let server = server();
    let mut alice = Lock::new(redis(&server), "report", "alice", 30 * SECOND);
    let mut bob = Lock::new(redis(&server), "report", "bob", 30 * SECOND);
    server.inject(Fault::on("SET").key("lock:*").lose_reply().times(1)).expect("test mode");
    assert!(alice.acquire().expect("a second attempt"));
    assert!(!bob.acquire().expect("a reply"));
    let sets = server.command_log().expect("test mode");
    let sets: Vec<_> = sets.iter().filter(|call| call.name() == "SET").map(|call| call.fault).collect();
    assert_eq!(sets, [Some("LOSEREPLY"), None, None]);
}
