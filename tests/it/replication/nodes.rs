//! Servers of either kind that may be a primary, a replica, or both in turn.

use std::net::SocketAddr;
use std::path::Path;

use keylatch::Clock;
use tempfile::TempDir;

use crate::differential::oracle::Oracle;
use crate::harness::{Client, ReservedPort, TestServer, wait_until};

/// Kind of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Keylatch,
    Redis,
    Valkey,
}

/// Server with its directory.
pub(super) struct Node {
    server: Server,
    pub(super) dir: Dir,
}

/// Directory of a server, which is kept when the test fails: its files help to find the cause.
pub(super) struct Dir(TempDir);

impl Dir {
    pub(super) fn new() -> Self {
        Dir(tempfile::tempdir().expect("a temporary directory"))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Dir {
    #[expect(clippy::print_stderr, reason = "the place is asked for where a test fails")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.disable_cleanup(true);
            eprintln!("the files of a server stay in {}", self.path().display());
        }
    }
}

enum Server {
    Keylatch(TestServer),
    Other { _process: Oracle, port: ReservedPort },
}

/// Settings of all nodes.
const SETTINGS: [(&str, &str); 3] =
    [("enable-debug-command", "yes"), ("repl-diskless-sync-delay", "0"), ("save", "\"\"")];

impl Node {
    /// Starts a server; `None` if its program is not installed.
    pub(super) fn start(kind: Kind, settings: &[(&str, &str)]) -> Option<Self> {
        Self::start_in(Dir::new(), kind, settings)
    }

    /// Starts keylatch.
    pub(super) fn keylatch(settings: &[(&str, &str)]) -> Self {
        Self::start(Kind::Keylatch, settings).expect("keylatch")
    }

    /// Starts keylatch as a replica.
    pub(super) fn replica_of(primary: &Node, settings: &[(&str, &str)]) -> Self {
        let replicaof = format!("127.0.0.1 {}", primary.port());
        Self::keylatch(&[&[("replicaof", &*replicaof)], settings].concat())
    }

    /// Starts a server with the files in a directory.
    pub(super) fn start_in(dir: Dir, kind: Kind, settings: &[(&str, &str)]) -> Option<Self> {
        let place = [("dir", dir.path().to_str().expect("text"))];
        let settings = [&SETTINGS[..], &place, settings].concat();
        let server = match kind {
            Kind::Keylatch => Server::Keylatch(TestServer::start_on(Clock::system(), &settings)),
            Kind::Redis | Kind::Valkey => {
                let port = ReservedPort::new();
                let mut args = vec!["--port".to_owned(), port.port().to_string()];
                for (name, value) in settings {
                    let value = value.trim_matches('"');
                    args.extend([format!("--{name}"), value.to_owned()]);
                }
                let args: Vec<&str> = args.iter().map(String::as_str).collect();
                let start = if kind == Kind::Redis { Oracle::start_in } else { Oracle::start_valkey_in };
                Server::Other { _process: start(dir.path(), &args)?, port }
            }
        };
        Some(Node { server, dir })
    }

    /// Stops the server, and returns its directory.
    pub(super) fn stop(self) -> Dir {
        if let Server::Keylatch(server) = self.server {
            server.end();
        }
        self.dir
    }

    pub(super) fn addr(&self) -> SocketAddr {
        match &self.server {
            Server::Keylatch(server) => server.addr(),
            Server::Other { port, .. } => port.addr(),
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.addr().port()
    }

    pub(super) fn client(&self) -> Client {
        Client::connect(self.addr())
    }

    /// Returns a field of INFO.
    #[track_caller]
    pub(super) fn info(&self, field: &str) -> String {
        self.client().info(field)
    }

    /// Makes it a replica of another server.
    #[track_caller]
    pub(super) fn follow(&self, primary: &Node) {
        let reply = self.client().call(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
        assert_eq!(reply, "+OK");
    }

    /// Makes it a replica of a server that has another port since a restart.
    #[track_caller]
    pub(super) fn follow_again(&self, primary: &Node) {
        let reply = self.client().call(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
        assert!(reply.starts_with("+OK"), "{reply}");
    }

    /// Waits until it has executed everything of a primary.
    #[track_caller]
    pub(super) fn wait_for(&self, primary: &Node) {
        let (mut here, mut there) = (self.client(), primary.client());
        wait_until(|| {
            // A PING may come between the two replies. After a reload the primary has another history, which a replica
            // has not noticed if its link still seems to be up.
            let (id, position) = (there.info("master_replid"), there.info("master_repl_offset"));
            let shown = here.call("INFO replication");
            let fields = [
                "role:slave".to_owned(),
                "master_link_status:up".to_owned(),
                format!("master_replid:{id}"),
                format!("slave_repl_offset:{position}"),
            ];
            fields.iter().all(|field| shown.split(' ').any(|line| line == field))
        });
        // The primary knows that once it has the first acknowledgement.
        let shown = format!("port={},state=online,", self.port());
        wait_until(|| there.call("INFO replication").contains(&shown));
    }

    /// Asserts that it has the data of a primary, once it has executed everything.
    #[track_caller]
    pub(super) fn assert_same(&self, primary: &Node) {
        self.wait_for(primary);
        let (here, there) = (self.client().call("DEBUG DIGEST"), primary.client().call("DEBUG DIGEST"));
        assert_eq!(here, there);
        assert_eq!(here.len(), 41, "{here}");
    }
}
