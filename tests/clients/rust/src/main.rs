//! Uses a server through the `redis` crate, and proves of rslock what `locks.py` proves of the libraries of Python.
//!
//! `KEYLATCH_SERVERS="host:port:pid ..." keylatch-client-checks`: with one server the client's walk and the claims;
//! with five the claims after two of them were killed while a lock was held.

mod locks;
mod walk;

use std::process::Command;
use std::time::Instant;

/// A server of this run.
pub struct Server {
    /// Address for clients.
    pub url: String,
    pid: String,
}

impl Server {
    /// Connects, if it is up.
    pub fn connect(&self) -> Option<redis::Connection> {
        redis::Client::open(self.url.as_str()).expect("an address").get_connection().ok()
    }

    /// Kills the process, and waits until the port is closed.
    pub async fn kill(&self) {
        let status = Command::new("kill").args(["-KILL", &self.pid]).status().expect("kill exists");
        assert!(status.success());
        let began = Instant::now();
        while self.connect().is_some() {
            locks::pause(began, "the end of a killed server").await;
        }
    }
}

fn servers() -> Vec<Server> {
    let given = std::env::var("KEYLATCH_SERVERS").expect("KEYLATCH_SERVERS says where the servers are");
    let server = |place: &str| {
        let (address, pid) = place.rsplit_once(':').expect("host:port:pid");
        Server { url: format!("redis://{address}/"), pid: pid.to_owned() }
    };
    given.split(' ').map(server).collect()
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    let servers = servers();
    if let [server] = &servers[..] {
        for protocol in [2, 3] {
            walk::blocking(server, protocol).unwrap_or_else(|error| panic!("RESP{protocol}: {error}"));
            walk::pipelining(server, protocol).await.unwrap_or_else(|error| panic!("RESP{protocol}: {error}"));
        }
        println!("redis crate: blocking and asynchronous, RESP2 and RESP3: well");
    }
    locks::claims(&servers).await;
}
