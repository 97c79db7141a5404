//! A connection that steers and asks the server.

use std::collections::HashMap;
use std::env;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisResult, Value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::sleep;

/// Time after which something that is waited for counts as missing.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Tests share one server, whose clock is moved: one at a time.
static TURN: Mutex<()> = Mutex::const_new(());

pub type Info = HashMap<String, Value>;

pub struct Admin {
    connection: MultiplexedConnection,
    _turn: MutexGuard<'static, ()>,
}

/// Returns the address of the server.
pub fn server() -> String {
    let named = env::var("KEYLATCH_SERVERS").unwrap_or_else(|_| "localhost:6379".into());
    let mut parts = named.split_whitespace().next().expect("a server").split(':');
    format!("{}:{}", parts.next().expect("a host"), parts.next().expect("a port"))
}

/// Returns true if the server has no LOCK and TEST commands.
pub fn is_plain() -> bool {
    env::var_os("KEYLATCH_PLAIN").is_some()
}

/// Returns the address that has another server take the place of the present one, which has no TEST commands then.
pub fn failover() -> Option<String> {
    env::var("KEYLATCH_FAILOVER").ok()
}

/// Returns a client of a server.
pub fn client(addr: &str) -> Client {
    Client::open(format!("redis://{addr}")).expect("an address")
}

async fn connect() -> MultiplexedConnection {
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
    let connection = client(&server()).get_multiplexed_async_connection_with_config(&config).await;
    connection.expect("a server")
}

impl Admin {
    /// Connects to the server, which is then empty, without faults and with a clock that runs.
    pub async fn new() -> Self {
        let turn = TURN.lock().await;
        let mut admin = Admin { connection: connect().await, _turn: turn };
        let all = ["FLUSHALL", "CONFIG SET session-grace-ms 0", "TEST.FAULT CLEAR", "TEST.TIME RUN"];
        let count = match (is_plain(), failover()) {
            (true, _) => 1,
            (false, Some(_)) => 2,
            (false, None) => all.len(),
        };
        for words in &all[..count] {
            admin.call(&words.split(' ').collect::<Vec<_>>()).await.expect("a server in test mode");
        }
        admin
    }

    /// Has the server killed or stopped, and connects to the one that serves then.
    pub async fn fail_over(&mut self, how: &str) {
        let mut control = TcpStream::connect(failover().expect("an address")).await.expect("a connection");
        control.write_all(format!("{how}\n").as_bytes()).await.expect("a request");
        assert_eq!(control.read_u8().await.expect("a reply"), b'd');
        self.connection = connect().await;
    }

    pub async fn call(&mut self, words: &[&str]) -> RedisResult<Value> {
        let mut cmd = Cmd::new();
        cmd.arg(words);
        self.connection.send_packed_command(&cmd).await.and_then(Value::extract_error)
    }

    /// Asks for a lock; none if nobody holds it or waits for it.
    pub async fn info(&mut self, name: &str) -> Option<Info> {
        let reply = self.call(&["LOCK.INFO", name]).await.expect("a reply");
        Option::from_redis_value(reply).expect("a map")
    }

    /// Counts the clients that are queued.
    pub async fn queued(&mut self) -> u64 {
        if is_plain() {
            return 0;
        }
        let info = String::from_redis_value(self.call(&["INFO", "locks"]).await.expect("a reply")).expect("a text");
        let line = info.lines().find_map(|line| line.strip_prefix("waiting:")).expect("a line");
        line.trim().parse().expect("a number")
    }

    /// Returns the ids of the holders, or of the waiters; 0 for one that is away.
    pub fn clients(info: &Info, who: &str) -> Vec<i64> {
        let listed = Vec::<Info>::from_redis_value(info[who].clone()).expect("maps");
        listed.iter().map(|each| i64::from_redis_value(each["client-id"].clone()).unwrap_or_default()).collect()
    }
}

/// Waits until a condition holds: evaluates it again and again.
macro_rules! until {
    ($what:expr, $condition:expr) => {{
        let mut patience = $crate::admin::Patience::new();
        while !$condition {
            patience.spend(&$what).await;
        }
    }};
}
pub(crate) use until;

pub struct Patience(Instant);

impl Patience {
    pub fn new() -> Self {
        Patience(Instant::now())
    }

    pub async fn spend(&mut self, what: &(dyn std::fmt::Debug + Sync)) {
        assert!(self.0.elapsed() < PATIENCE, "waited in vain: {what:?}");
        sleep(Duration::from_millis(2)).await;
    }
}
