//! The `redis` crate: keys, times to live, pipelines, transactions, scripts, messages and errors.

use redis::{AsyncTypedCommands, Client, ErrorKind, RedisResult, Script, TypedCommands, Value, pipe};

use crate::Server;

fn client(server: &Server, protocol: u8) -> Client {
    let protocol = if protocol == 3 { "resp3" } else { "resp2" };
    Client::open(format!("{}?protocol={protocol}", server.url)).expect("an address")
}

/// Walks through the blocking client.
pub fn blocking(server: &Server, protocol: u8) -> RedisResult<()> {
    let mut con = client(server, protocol).get_connection()?;
    con.flushall()?;
    con.set("greeting", "grüß dich")?;
    assert_eq!(con.get("greeting")?.as_deref(), Some("grüß dich"));
    assert_eq!(con.get("missing")?, None);
    assert!(con.set_nx("lock", 1)? && !con.set_nx("lock", 2)?);
    con.pset_ex("short", "x", 5000)?;
    assert!(con.expire("greeting", 100)?);
    let left = redis::cmd("PTTL").arg("short").query::<i64>(&mut con)?;
    assert!((1..=5000).contains(&left), "{left}");
    assert_eq!(con.mget(&["greeting", "missing"])?, [Some("grüß dich".to_owned()), None]);

    let (one, two): (i64, i64) = pipe().incr("n", 1).incr("n", 1).query(&mut con)?;
    assert_eq!((one, two), (1, 2));
    let (three, text): (i64, String) = pipe().atomic().incr("n", 1).get("n").query(&mut con)?;
    assert_eq!((three, text.as_str()), (3, "3"));
    let touched: (i64,) = redis::transaction(&mut con, &["n"], |con, pipe| {
        assert_eq!(con.get("n")?.as_deref(), Some("3"));
        pipe.incr("n", 1).query(con)
    })?;
    assert_eq!(touched, (4,));

    let script = Script::new("return {KEYS[1], redis.call('INCRBY', KEYS[1], ARGV[1])}");
    assert_eq!(script.key("n").arg(6).invoke::<(String, i64)>(&mut con)?, ("n".to_owned(), 10));
    let error = redis::cmd("EVALSHA").arg("f".repeat(40)).arg(0).query::<Value>(&mut con).expect_err("no such script");
    assert_eq!(error.code(), Some("NOSCRIPT"));
    let error = con.incr("greeting", 1).expect_err("not a number");
    assert!(error.to_string().contains("not an integer"), "{error}");
    let error = redis::cmd("NOSUCH").query::<Value>(&mut con).expect_err("no such command");
    assert_eq!((error.kind(), error.code()), (ErrorKind::Server(redis::ServerErrorKind::ResponseError), Some("ERR")));

    let mut names: Vec<String> = con.scan_match("?o*")?.collect::<RedisResult<_>>()?;
    names.sort();
    assert_eq!(names, ["lock"]);
    let mut listener = client(server, protocol).get_connection()?;
    let mut listener = listener.as_pubsub();
    listener.subscribe("news")?;
    listener.psubscribe("n?ws")?;
    assert_eq!(con.publish("news", "hello")?, 2);
    for _ in 0..2 {
        assert_eq!(listener.get_message()?.get_payload::<String>()?, "hello");
    }
    con.flushall()?;
    Ok(())
}

/// Sends many requests at once over one connection.
pub async fn pipelining(server: &Server, protocol: u8) -> RedisResult<()> {
    let con = client(server, protocol).get_multiplexed_async_connection().await?;
    let calls = (0..500).map(|_| {
        let mut con = con.clone();
        tokio::spawn(async move { con.incr("n", 1).await })
    });
    let mut seen = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        seen.push(call.await.expect("no panic")?);
    }
    seen.sort_unstable();
    assert!(seen.iter().copied().eq(1..=500));
    con.clone().flushall().await?;
    Ok(())
}
