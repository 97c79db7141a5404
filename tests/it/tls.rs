//! TLS through the socket: accepted clients, their certificates, and complete arrival of large replies.

mod made;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use keylatch::{Clock, Server};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::harness::{Client, PATIENCE, ReservedPort, TestServer, wait_until};

type TlsClient = Client<StreamOwned<ClientConnection, TcpStream>>;

/// Names and contents of the files that `tls/make.sh` has made in a folder.
macro_rules! made {
    ($folder:literal) => {
        [
            ("ca.crt", include_str!(concat!("tls/", $folder, "/ca.crt"))),
            ("server.crt", include_str!(concat!("tls/", $folder, "/server.crt"))),
            ("server.key", include_str!(concat!("tls/", $folder, "/server.key"))),
            ("client.crt", include_str!(concat!("tls/", $folder, "/client.crt"))),
            ("client.key", include_str!(concat!("tls/", $folder, "/client.key"))),
        ]
    };
}

/// Authority, with the certificates of a server and a client that it has signed, as files.
pub(crate) struct Authority {
    folder: TempDir,
}

impl Authority {
    pub(crate) fn new() -> Self {
        Authority::of(made!("authority"))
    }

    /// Returns another authority, with certificates of its own.
    fn stranger() -> Self {
        Authority::of(made!("stranger"))
    }

    fn of(made: [(&str, &str); 5]) -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        made.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).expect("writable"));
        Authority { folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a server with the test's certificate and further settings.
    pub(crate) fn start(&self, settings: &str) -> TlsServer {
        let file = |name| self.path(name).display().to_string();
        let (certificate, key, authority) = (file("server.crt"), file("server.key"), file("ca.crt"));
        TlsServer::start(&[&certificate, &key, &authority], settings)
    }

    /// Connects; with `shows_certificate` the client presents a certificate.
    fn connect(&self, addr: SocketAddr, shows_certificate: bool) -> TlsClient {
        let read = |name| CertificateDer::from_pem_file(self.path(name)).expect("a certificate");
        let mut roots = RootCertStore::empty();
        roots.add(read("ca.crt")).expect("an authority");
        let builder = ClientConfig::builder().with_root_certificates(roots);
        let config = if shows_certificate {
            let key = PrivateKeyDer::from_pem_file(self.path("client.key")).expect("a key");
            builder.with_client_auth_cert(vec![read("client.crt")], key).expect("they fit")
        } else {
            builder.with_no_client_auth()
        };
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
        Client::over(StreamOwned::new(connection, keep_silent(addr)))
    }

    /// Returns whether a PING gets a reply.
    fn is_served(&self, addr: SocketAddr, shows_certificate: bool) -> bool {
        let mut client = self.connect(addr, shows_certificate);
        let stream = client.stream_mut();
        let mut reply = [0; 7];
        stream.write_all(b"PING\r\n").and_then(|()| stream.read_exact(&mut reply)).is_ok() && &reply == b"+PONG\r\n"
    }
}

pub(crate) struct TlsServer {
    pub(crate) server: Server,
    // Dropped after the server, whose tasks it runs.
    _runtime: Runtime,
}

impl TlsServer {
    /// Starts a server with the files of a certificate, its key and authorities, and further settings.
    pub(crate) fn start([certificate, key, authorities]: &[&str; 3], settings: &str) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let reserved = ReservedPort::new();
        let text = format!(
            "port 0\ntls-port {}\nbind 127.0.0.1\ntls-cert-file {certificate}\ntls-key-file {key}\n\
             tls-ca-cert-file {authorities}\n{settings}",
            reserved.port()
        );
        let config = keylatch::internals::config::load(None, None, text.as_bytes()).expect("valid settings");
        let server = runtime.block_on(Server::builder().clock(Clock::manual()).config(config).start());
        TlsServer { server: server.expect("a server that listens"), _runtime: runtime }
    }
}

#[test]
fn a_client_with_a_certificate_of_the_authority_is_served() {
    let authority = Authority::new();
    let server = authority.start("");
    let mut client = authority.connect(server.server.addr(), true);
    client.expect(&[("SET k v", "+OK"), ("GET k", "$1 v"), ("HELLO 4", "-NOPROTO unsupported protocol version")]);
}

#[test]
fn a_client_without_a_certificate_is_served_as_tls_auth_clients_says() {
    let authority = Authority::new();
    let strict = authority.start("tls-auth-clients yes");
    assert!(!authority.is_served(strict.server.addr(), false));
    assert!(authority.is_served(strict.server.addr(), true));
    for lenient in ["no", "optional"] {
        let server = authority.start(&format!("tls-auth-clients {lenient}"));
        assert!(authority.is_served(server.server.addr(), false), "{lenient}");
        assert!(authority.is_served(server.server.addr(), true), "{lenient}");
    }
}

#[test]
fn a_certificate_of_another_authority_is_not_trusted() {
    let (authority, stranger) = (Authority::new(), Authority::stranger());
    let server = authority.start("");
    fs::copy(authority.path("ca.crt"), stranger.path("ca.crt")).expect("writable");
    assert!(!stranger.is_served(server.server.addr(), true));
}

#[test]
fn large_values_and_deep_pipelines_arrive_whole() {
    let authority = Authority::new();
    let server = authority.start("tls-auth-clients no");
    let mut client = authority.connect(server.server.addr(), false);
    let value = "v".repeat(3_000_000);
    assert_eq!(client.call_args(&["SET", "big", &value]), "+OK");
    assert_eq!(client.call("GET big"), format!("${} {value}", value.len()));
    let replies = client.pipeline(&(1..=5000).map(|_| "INCR n".to_owned()).collect::<Vec<_>>());
    assert_eq!(replies.last().map(String::as_str), Some(":5000"));
}

#[test]
fn who_speaks_no_tls_is_turned_away_and_disturbs_nobody() {
    let authority = Authority::new();
    let server = authority.start("");
    let mut plain = keep_silent(server.server.addr());
    plain.write_all(b"*1\r\n$4\r\nPING\r\n").expect("the socket takes it");
    let mut answer = Vec::new();
    // An alert, or a connection that was reset.
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"+PONG"), "{answer:?}");
    assert!(authority.is_served(server.server.addr(), true));
}

/// Connects without sending anything.
fn keep_silent(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).expect("the server accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a read timeout");
    stream
}

/// Returns whether the server has closed a connection on which nothing was sent.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.read(&mut [0]).is_ok_and(|len| len == 0)
}

#[test]
fn unfinished_handshakes_do_not_count_as_clients() {
    let authority = Authority::new();
    let server = authority.start("tls-auth-clients no\nmaxclients 20");
    let addr = server.server.addr();
    let mut client = authority.connect(addr, false);
    client.expect(&[("PING", "+PONG")]);
    let mut silent: Vec<TcpStream> = (0..60).map(|_| keep_silent(addr)).collect();
    // A later client is served, and connections without a finished handshake do not count as clients.
    assert!(authority.is_served(addr, false));
    assert_eq!(client.info("rejected_connections"), "0");
    assert_eq!(client.info("maxclients"), "20");
    wait_until(|| client.info("connected_clients") == "1");
    // The oldest were dropped in favour of later ones, long before the handshake timeout.
    assert!(silent[..40].iter_mut().all(is_closed));
    silent.last().expect("a connection").set_nonblocking(true).expect("an open socket");
    let last = silent[59].read(&mut [0]).expect_err("nothing to read");
    assert_eq!(last.kind(), std::io::ErrorKind::WouldBlock, "the latest still has its time");
}

#[test]
fn clients_beyond_the_limit_get_an_error_after_the_handshake() {
    let authority = Authority::new();
    let server = authority.start("tls-auth-clients no\nmaxclients 2");
    let addr = server.server.addr();
    let mut clients = [authority.connect(addr, false), authority.connect(addr, false)];
    clients.iter_mut().for_each(|client| client.expect(&[("PING", "+PONG")]));
    let mut third = authority.connect(addr, false);
    assert_eq!(third.reply(), "-ERR max number of clients reached");
    assert_eq!(clients[0].info("rejected_connections"), "1");
    drop(third);
    let [mut first, second] = clients;
    drop(second);
    wait_until(|| first.info("connected_clients") == "1");
    assert!(authority.is_served(addr, false));
}

#[test]
fn a_handshake_in_progress_does_not_delay_the_shutdown() {
    let authority = Authority::new();
    let TlsServer { server, _runtime: runtime } = authority.start("tls-auth-clients no");
    let mut silent = keep_silent(server.addr());
    assert!(authority.is_served(server.addr(), false));
    // The handshake would last ten seconds; the test fails when closing takes as long.
    let stopped = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(9), server.shutdown()).await });
    assert!(stopped.is_ok() && is_closed(&mut silent));
}

#[test]
fn changed_settings_hold_for_the_next_connection() {
    let authority = Authority::new();
    let server = authority.start("tls-auth-clients no");
    let addr = server.server.addr();
    let mut client = authority.connect(addr, false);
    assert_eq!(client.call("CONFIG SET tls-auth-clients yes"), "+OK");
    assert!(!authority.is_served(addr, false));
    assert!(authority.is_served(addr, true));
}

#[test]
fn settings_that_make_no_tls_are_refused_and_those_before_stay() {
    let authority = Authority::new();
    let server = authority.start("tls-auth-clients no");
    let addr = server.server.addr();
    let mut client = authority.connect(addr, false);
    let bad = authority.path("nowhere.crt").display().to_string();
    let client_key = authority.path("client.key").display().to_string();
    let refusals = [
        (vec!["tls-cert-file", &bad], "tls-cert-file"),
        (vec!["tls-key-file", &client_key], "tls-key-file"),
        (vec!["maxclients", "100", "tls-protocols", "SSLv2"], "tls-protocols"),
        (vec!["tls-ca-cert-file", "", "tls-auth-clients", "yes"], "tls-ca-cert-file"),
    ];
    for (settings, name) in refusals {
        assert_eq!(
            client.call_args(&[&["CONFIG", "SET"][..], &settings].concat()),
            format!(
                "-ERR CONFIG SET failed (possibly related to argument '{name}') - Unable to update TLS configuration. \
                 Check server logs."
            )
        );
        assert!(authority.is_served(addr, false), "{settings:?}");
    }
    client.expect(&[
        ("CONFIG GET maxclients", "*2 $10 maxclients $5 10000"),
        ("CONFIG GET tls-protocols", "*2 $13 tls-protocols $0 "),
    ]);
    // Both together match.
    let client_cert = authority.path("client.crt").display().to_string();
    assert_eq!(client.call_args(&["CONFIG", "SET", "tls-key-file", &client_key, "tls-cert-file", &client_cert]), "+OK");
    assert!(authority.is_served(addr, false));
}

#[test]
fn a_pipe_in_place_of_a_certificate_is_refused_at_once() {
    let authority = Authority::new();
    let server = authority.start("tls-auth-clients optional");
    let addr = server.server.addr();
    let mut client = authority.connect(addr, false);
    let pipe = authority.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let path = pipe.display().to_string();
    for name in ["tls-cert-file", "tls-key-file", "tls-ca-cert-file"] {
        assert!(client.call_args(&["CONFIG", "SET", name, &path]).contains("Unable to update TLS configuration"));
        assert!(authority.is_served(addr, false), "{name}");
    }
    // A non-certificate among the certificates of a directory is an error.
    let folder = authority.folder.path().display().to_string();
    assert_eq!(client.call_args(&["CONFIG", "SET", "tls-ca-cert-dir", &folder]), "+OK");
    assert!(authority.is_served(addr, true));
}

#[test]
fn a_start_without_certificates_or_authority_is_refused_with_the_reason() {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let authority = Authority::new();
    let (cert, key) = (authority.path("server.crt"), authority.path("server.key"));
    let pair = format!("tls-cert-file {}\ntls-key-file {}\n", cert.display(), key.display());
    let cases = [
        (String::new(), "no tls-cert-file configured"),
        (pair.clone(), "either tls-ca-cert-file or tls-ca-cert-dir must be specified"),
        (pair.clone() + "tls-protocols SSLv3", "unknown protocol 'SSLv3'"),
        (pair + "tls-key-file-pass secret", "encrypted keys are not supported"),
    ];
    for (settings, reason) in cases {
        let text = format!("tls-port 1\nbind 127.0.0.1\nport 0\n{settings}");
        let config = keylatch::internals::config::load(None, None, text.as_bytes()).expect("valid settings");
        let error = runtime.block_on(Server::builder().config(config).start()).map(|_| ()).expect_err("refused");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[cfg(feature = "binary")]
#[test]
fn the_log_names_the_kinds_of_ports_that_are_open_and_renewed_certificates_are_shown_after_sighup() {
    use std::process::Command;

    use crate::process::{Process, binary};

    const ADDRESS: &str = "127.0.0.3";
    let authority = Authority::new();
    let file = |name| authority.path(name).display().to_string();
    let reserved = ReservedPort::on([127, 0, 0, 3]);
    let free = reserved.addr();
    let mut process = Process::run(Command::new(binary()).args(["--bind", ADDRESS, "--port", "0"]).args([
        "--tls-port",
        &free.port().to_string(),
        "--tls-cert-file",
        &file("server.crt"),
        "--tls-key-file",
        &file("server.key"),
        "--tls-ca-cert-file",
        &file("ca.crt"),
    ]));
    let log = process.read_until("Ready to accept connections");
    assert!(log.ends_with("Ready to accept connections tls\n"), "{log}");
    assert!(authority.is_served(free, true));
    let port = free.port().to_string();
    let asks = |args: &[&str]| Command::new(binary()).args(args).output().expect("the binary starts");
    let healthcheck = |args: &[&str]| asks(&[&["--healthcheck"], args].concat()).status.success();
    // A client without a certificate is rejected, by a server that is alive.
    assert!(healthcheck(&["--tls", "-h", ADDRESS, "-p", &port]));
    assert!(healthcheck(&["--bind", ADDRESS, "--port", "0", "--tls-port", &port]));
    assert!(healthcheck(&["-h", ADDRESS, "-p", &port]), "an alert is a sign of life");
    let (ca, cert, key) = (file("ca.crt"), file("client.crt"), file("client.key"));
    let base = ["redis-cli", "--tls", "-h", ADDRESS, "-p", &port, "--cert", &cert, "--key", &key];
    let cli = |options: &[&str]| asks(&[&base[..], options, &["ping"]].concat());
    for trust in [&["--cacert", &ca][..], &["--insecure"]] {
        assert_eq!(cli(trust).stdout, b"PONG\n", "{trust:?}");
    }
    assert_eq!(cli(&[]).status.code(), Some(1), "no other client trusts this authority");
    // Certificates that were renewed in place are reloaded on SIGHUP.
    let stranger = Authority::stranger();
    for name in ["ca.crt", "server.crt", "server.key", "client.crt", "client.key"] {
        fs::copy(stranger.path(name), authority.path(name)).expect("writable");
    }
    assert!(!authority.is_served(free, true), "the old certificate is still shown");
    process.signal("HUP");
    wait_until(|| authority.is_served(free, true));
}

#[test]
fn a_replica_follows_its_primary_over_tls_if_the_certificate_is_of_the_authority() {
    let (authority, other) = (Authority::new(), Authority::stranger());
    let primary = authority.start("repl-diskless-sync-delay 0");
    let mut client = authority.connect(primary.server.addr(), true);
    client.expect(&[("SET k v", "+OK")]);
    let file = |of: &Authority, name| of.path(name).display().to_string();
    let replicaof = format!("127.0.0.1 {}", primary.server.addr().port());
    let start = |trusted: &Authority| {
        let dir = tempfile::tempdir().expect("a directory");
        let settings = [
            ("dir", dir.path().display().to_string()),
            ("tls-replication", "yes".to_owned()),
            ("tls-ca-cert-file", file(trusted, "ca.crt")),
            ("tls-client-cert-file", file(&authority, "client.crt")),
            ("tls-client-key-file", file(&authority, "client.key")),
            ("replicaof", replicaof.clone()),
        ];
        let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        (TestServer::start_on(Clock::system(), &settings), dir)
    };
    let (replica, _dir) = start(&authority);
    wait_until(|| replica.client().call("GET k") == "$1 v");
    client.expect(&[("SET k w", "+OK")]);
    wait_until(|| replica.client().call("GET k") == "$1 w");
    let (mistrusting, _dir) = start(&other);
    let mut shown = mistrusting.client();
    wait_until(|| shown.call("ROLE").contains("connecting"));
    client.expect(&[("SET k x", "+OK")]);
    wait_until(|| replica.client().call("GET k") == "$1 x");
    assert_eq!((shown.call("GET k"), client.info("connected_slaves")), ("$-1".into(), "1".into()));
}

#[cfg(feature = "binary")]
#[test]
fn keys_are_copied_over_tls_if_the_certificate_is_of_the_authority() {
    let authority = Authority::new();
    let (source, target) = (authority.start("tls-auth-clients no"), authority.start("tls-auth-clients yes"));
    authority.connect(source.server.addr(), false).expect(&[("SET k v", "+OK")]);
    let url = |server: &TlsServer| format!("rediss://{}", server.server.addr());
    let file = |name| authority.path(name).display().to_string();
    let base = ["copy".to_owned(), url(&source), url(&target), "--cert".into(), file("client.crt")];
    let copy = |trust: &[String]| {
        let key = ["--key".to_owned(), file("client.key")];
        let mut command = std::process::Command::new(crate::process::binary());
        command.args(&base).args(key).args(trust).output().expect("the binary starts")
    };
    let output = copy(&[]);
    assert_eq!(output.status.code(), Some(2), "no other client trusts this authority");
    let output = copy(&["--cacert".into(), file("ca.crt")]);
    assert!(output.stdout.starts_with(b"Copied 1 key, "), "{output:?}");
    authority.connect(target.server.addr(), true).expect(&[("GET k", "$1 v")]);
}

/// Returns the ports in the reply to `TEST.CLUSTER CREATE` or `TEST.SENTINEL CREATE`.
fn ports_of(made: &str) -> Vec<SocketAddr> {
    let words: Vec<&str> = made.split(' ').collect();
    let ports = words.windows(2).filter(|pair| pair[0] == "port");
    ports.map(|pair| SocketAddr::from(([127, 0, 0, 1], pair[1][1..].parse().expect("a port")))).collect()
}

#[test]
fn the_nodes_of_a_cluster_speak_tls_if_it_is_asked_for() {
    let authority = Authority::new();
    let server = authority.start("test-mode yes\ntls-auth-clients no");
    let mut control = authority.connect(server.server.addr(), false);
    let nodes = ports_of(&control.call("TEST.CLUSTER CREATE c PRIMARIES 2 REPLICAS 0 TLS"));
    let mut first = authority.connect(nodes[0], false);
    // The slot of `a` is one of the second half.
    assert_eq!(first.call("SET a 1"), format!("-MOVED 15495 {}", nodes[1]));
    assert_eq!(authority.connect(nodes[1], false).call("SET a 1"), "+OK");
    let slots = first.call("CLUSTER SLOTS");
    assert!(nodes.iter().all(|node| slots.contains(&format!(":{} ", node.port()))), "{slots}");
    let mut plain = keep_silent(nodes[0]);
    plain.write_all(b"PING\r\n").expect("the socket takes it");
    let mut heard = Vec::new();
    let _ = plain.read_to_end(&mut heard);
    assert!(!heard.starts_with(b"+PONG"), "{heard:?}");
    // Others beside it do not.
    let plain = ports_of(&control.call("TEST.CLUSTER CREATE d PRIMARIES 1 REPLICAS 0"));
    assert_eq!(Client::connect(plain[0]).call("PING"), "+PONG");
}

#[test]
fn sentinels_and_their_master_speak_tls_if_it_is_asked_for() {
    let authority = Authority::new();
    let server = authority.start("test-mode yes\ntls-auth-clients no");
    let mut control = authority.connect(server.server.addr(), false);
    let nodes = ports_of(&control.call("TEST.SENTINEL CREATE s REPLICAS 1 TLS"));
    let sentinel = nodes[2];
    let address = |node: SocketAddr| format!("*2 $9 127.0.0.1 $5 {}", node.port());
    let mut client = authority.connect(sentinel, false);
    assert_eq!(client.call("SENTINEL GET-MASTER-ADDR-BY-NAME mymaster"), address(nodes[0]));
    assert_eq!(control.call("TEST.SENTINEL FAILOVER s"), "+OK");
    assert_eq!(client.call("SENTINEL GET-MASTER-ADDR-BY-NAME mymaster"), address(nodes[1]));
    assert_eq!(authority.connect(nodes[1], false).call("SET k v"), "+OK");
    assert!(authority.connect(nodes[0], false).call("SET k v").starts_with("-READONLY"));
}
