//! Certificates as people make them: keylatch accepts the same ones as OpenSSL, as a server and as a client.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use keylatch::Clock;
use tempfile::TempDir;

use crate::differential::oracle::Oracle;
use crate::harness::{ReservedPort, TestServer, wait_until};
use crate::process::{Process, binary, text};
use crate::skipped;
use crate::tls::TlsServer;

const MAKE: &str = include_str!("certificates/make.sh");

/// Certificates of the script, in a directory.
struct Certificates(TempDir);

impl Certificates {
    /// Makes the certificates; returns `None`, and reports it, if there is no `openssl`.
    fn make() -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory");
        if Command::new("openssl").arg("version").output().is_err() {
            skipped::without("openssl");
            return None;
        }
        let made = Command::new("sh").args(["-c", MAKE]).current_dir(&dir).output().expect("a shell");
        assert!(made.status.success(), "{}{}", text(&made.stdout), text(&made.stderr));
        let made = Certificates(dir);
        let version = made.openssl(&["x509", "-noout", "-text", "-in", "version_1.crt"]);
        assert!(text(&version.stdout).contains("Version: 1 "), "this openssl makes another version");
        Some(made)
    }

    fn openssl(&self, args: &[&str]) -> Output {
        Command::new("openssl").args(args).current_dir(&self.0).output().expect("openssl starts")
    }

    fn file(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Returns the names of the peers' certificates.
    fn names(&self) -> Vec<String> {
        let files = fs::read_dir(&self.0)
            .expect("a directory")
            .map(|entry| PathBuf::from(entry.expect("an entry").file_name()));
        let peers = files.filter(|file| file.extension().is_some_and(|extension| extension == "pem"));
        let mut names: Vec<String> = peers.map(|file| file.with_extension("").display().to_string()).collect();
        names.sort();
        assert!(names.len() > 30, "{names:?}");
        names
    }

    /// Returns whether OpenSSL accepts a certificate for a purpose.
    fn is_trusted(&self, name: &str, purpose: &str) -> bool {
        let (sent, certificate) = (format!("{name}.pem"), format!("{name}.crt"));
        let trust = ["verify", "-no-CApath", "-no-CAstore", "-CAfile", "trusted.crt", "-untrusted", &sent];
        self.openssl(&[&trust[..], &["-purpose", purpose, &certificate]].concat()).status.success()
    }

    /// Starts a server with a certificate.
    fn start(&self, name: &str, settings: &str) -> TlsServer {
        let (certificate, key) = (self.file(&format!("{name}.pem")), self.file(&format!("{name}.key")));
        TlsServer::start(&[&certificate, &key, &self.file("trusted.crt")], settings)
    }

    /// Runs a client, with its certificate, if any.
    fn run(&self, program: &[&str], shown: Option<&str>, port: u16, rest: &[&str]) -> Output {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).args(["--tls", "-h", "127.0.0.1", "-p", &port.to_string()]);
        command.args(["--cacert", &self.file("trusted.crt")]);
        if let Some(name) = shown {
            command.args(["--cert", &self.file(&format!("{name}.pem")), "--key", &self.file(&format!("{name}.key"))]);
        }
        command.args(rest).output().expect("the client starts")
    }

    /// Returns whether a client gets the reply to a PING.
    fn is_served(&self, program: &[&str], shown: Option<&str>, port: u16) -> bool {
        self.run(program, shown, port, &["ping"]).stdout == b"PONG\n"
    }
}

fn own_client() -> [&'static str; 2] {
    [binary().to_str().expect("text"), "redis-cli"]
}

fn port_of(server: &TlsServer) -> u16 {
    server.server.addr().port()
}

#[test]
fn a_client_is_served_with_each_certificate_that_openssl_takes_and_with_no_other() {
    let Some(made) = Certificates::make() else { return };
    let (both, old) = (made.start("plain", ""), made.start("plain", "tls-protocols TLSv1.2"));
    let mut taken = 0;
    for name in made.names() {
        let expected = made.is_trusted(&name, "sslclient");
        taken += usize::from(expected);
        for (server, version) in [(&both, "1.3"), (&old, "1.2")] {
            assert_eq!(
                made.is_served(&own_client(), Some(&name), port_of(server)),
                expected,
                "{name} by TLS {version}"
            );
        }
    }
    assert!((18..36).contains(&taken), "{taken} are taken");
    assert!(!made.is_served(&own_client(), None, port_of(&both)), "a certificate is needed");
}

#[test]
fn a_client_takes_each_server_that_openssl_takes_and_no_other() {
    let Some(made) = Certificates::make() else { return };
    for name in made.names() {
        let expected = made.is_trusted(&name, "sslserver");
        for protocol in ["TLSv1.3", "TLSv1.2"] {
            let server = made.start(&name, &format!("tls-auth-clients no\ntls-protocols {protocol}"));
            assert_eq!(made.is_served(&own_client(), None, port_of(&server)), expected, "{name} by {protocol}");
        }
    }
}

#[test]
fn redis_and_its_clients_take_the_same_certificates() {
    let Some(made) = Certificates::make() else { return };
    let (reserved, file) = (ReservedPort::new(), |name| made.file(name));
    let port = reserved.port();
    let (certificate, key, trusted) = (file("version_1.pem"), file("version_1.key"), file("trusted.crt"));
    let tls = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-ca-cert-file", &trusted];
    let shown = port.to_string();
    let Some(_redis) = Oracle::start_in(made.0.path(), &[&["--tls-port", &shown][..], &tls].concat()) else { return };
    let server = made.start("version_1", "");
    for name in made.names() {
        let expected = made.is_served(&["redis-cli"], Some(&name), port);
        assert_eq!(made.is_served(&own_client(), Some(&name), port), expected, "{name} shown to redis-server");
        assert_eq!(
            made.is_served(&["redis-cli"], Some(&name), port_of(&server)),
            expected,
            "{name} shown by redis-cli"
        );
    }
}

#[test]
fn locks_copies_and_replicas_take_certificates_that_are_their_own_authority_or_of_version_1() {
    let Some(made) = Certificates::make() else { return };
    let (one, two) = (made.start("version_1", "repl-diskless-sync-delay 0"), made.start("self", ""));
    let program = binary().to_str().expect("text");
    for (server, shown) in [(&one, "self"), (&two, "version_1_rsa")] {
        let output = made.run(&[program, "lock"], Some(shown), port_of(server), &["job", "--", "echo", "held"]);
        assert_eq!(text(&output.stdout), "held\n", "{output:?}");
    }
    assert_eq!(made.run(&own_client(), Some("self"), port_of(&one), &["set", "k", "v"]).stdout, b"OK\n");
    let url = |server: &TlsServer| format!("rediss://{}", server.server.addr());
    let (certificate, key, trusted) =
        (made.file("version_1.pem"), made.file("version_1.key"), made.file("trusted.crt"));
    let mut copy = Command::new(program);
    copy.args(["copy", &url(&one), &url(&two), "--cert", &certificate, "--key", &key, "--cacert", &trusted]);
    let copied = copy.output().expect("the binary starts");
    assert!(copied.stdout.starts_with(b"Copied 1 key, "), "{copied:?}");
    for name in ["version_1", "self"] {
        let dir = tempfile::tempdir().expect("a directory");
        let (certificate, key) = (made.file(&format!("{name}.pem")), made.file(&format!("{name}.key")));
        let replicaof = format!("127.0.0.1 {}", port_of(&one));
        let replica = TestServer::start_on(
            Clock::system(),
            &[
                ("dir", dir.path().to_str().expect("text")),
                ("tls-replication", "yes"),
                ("tls-ca-cert-file", &made.file("trusted.crt")),
                ("tls-client-cert-file", &certificate),
                ("tls-client-key-file", &key),
                ("replicaof", &replicaof),
            ],
        );
        wait_until(|| replica.client().call("GET k") == "$1 v");
    }
}

#[test]
fn each_handshake_that_is_refused_is_logged_with_the_reason() {
    let Some(made) = Certificates::make() else { return };
    let reserved = ReservedPort::on([127, 0, 0, 1]);
    let (port, file) = (reserved.port(), |name| made.file(name));
    let mut process = Process::run(Command::new(binary()).args(["--bind", "127.0.0.1", "--port", "0"]).args([
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &file("plain.crt"),
        "--tls-key-file",
        &file("plain.key"),
        "--tls-ca-cert-file",
        &file("trusted.crt"),
    ]));
    process.read_until("Ready to accept connections");
    for (shown, reason) in [
        (Some("stranger"), "invalid peer certificate: UnknownIssuer"),
        (Some("expired_1"), "invalid peer certificate: Expired"),
        (Some("for_servers"), "invalid peer certificate: InvalidPurpose"),
        (None, "peer sent no certificates"),
    ] {
        assert!(!made.is_served(&own_client(), shown, port));
        let line = process.read_until(" laddr=");
        let expected = format!(" # Error accepting a client connection: {reason} (addr=127.0.0.1:");
        assert!(line.contains(&expected), "{line}");
    }
}
