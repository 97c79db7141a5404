//! A server in a process of its own, keylatch or another one, for benchmarks that compare them.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// A running server; it is killed when this is dropped.
pub struct Server {
    process: Child,
    pub addr: SocketAddr,
}

impl Server {
    /// Starts a program on a free port, without snapshots and with these additional options.
    pub fn start(program: &str, options: &[&str]) -> Self {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let mut command = Command::new(program);
        // Nor is one loaded that lies in the current directory.
        command.args(["--port", &port.to_string(), "--save", "", "--dbfilename", "no-snapshot.rdb"]).args(options);
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let server = Server { process, addr: (Ipv4Addr::LOCALHOST, port).into() };
        while TcpStream::connect(server.addr).is_err() {
            thread::park_timeout(Duration::from_millis(1));
        }
        server
    }

    /// Returns the id of the server's process.
    #[allow(dead_code, reason = "some benchmarks read its figures")]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
