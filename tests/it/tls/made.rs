//! `test-tls`: a server in test mode makes its own authority, which clients trust alone.

use std::net::SocketAddr;
use std::sync::Arc;

use keylatch::{Clock, Server};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::harness::{Client, ReservedPort, wait_until};
use crate::tls::{TlsClient, keep_silent, ports_of};

/// Connects to a server, whose certificate has to be for a name and of this authority.
fn connect(authority: &str, name: &str, addr: SocketAddr) -> TlsClient {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).expect("PEM")).expect("an authority");
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
    Client::over(StreamOwned::new(connection, keep_silent(addr)))
}

/// Returns whether a client that trusts an authority shakes hands with a server of this name.
fn is_trusted(authority: &str, name: &str, addr: SocketAddr) -> bool {
    let mut client = connect(authority, name, addr);
    let StreamOwned { conn, sock } = client.stream_mut();
    conn.complete_io(sock).is_ok() && !conn.is_handshaking()
}

/// Starts a server with further settings; returns its port for TLS, and its authority.
fn start(settings: &str) -> (Server, SocketAddr, String) {
    let builder = Server::builder().test_mode().test_tls().clock(Clock::manual()).settings(settings);
    let server = builder.start_blocking().expect("a server that listens");
    let url = server.tls_url().expect("a port");
    let (_, addr) = url.rsplit_once(['/', '@']).expect("a URL");
    let addr = addr.parse().unwrap_or_else(|_| panic!("{url}"));
    let authority = server.tls_ca().expect("an authority");
    (server, addr, authority)
}

#[test]
fn a_client_that_trusts_the_authority_alone_is_served_beside_those_without_tls() {
    let (server, addr, authority) = start("");
    for name in ["127.0.0.1", "localhost", "::1"] {
        connect(&authority, name, addr).expect(&[("SET k v", "+OK"), ("GET k", "$1 v")]);
    }
    assert!(!is_trusted(&authority, "127.0.0.9", addr) && !is_trusted(&authority, "localhost.example", addr));
    let mut plain = Client::connect(server.addr());
    plain.expect(&[("GET k", "$1 v"), ("CONFIG GET tls-auth-clients", "*2 $16 tls-auth-clients $2 no")]);
    let port = addr.port().to_string();
    assert_eq!(plain.call("CONFIG GET tls-port"), format!("*2 $8 tls-port ${} {port}", port.len()));
    assert!(plain.info("listener2").starts_with(&format!("name=tls,bind=127.0.0.1,port={port}")));
    assert_eq!(server.url(), format!("redis://{}", server.addr()));
    assert_ne!(server.addr(), addr);
}

#[test]
fn each_server_has_an_authority_of_its_own() {
    let ((_one, addr, authority), (_other, _, others)) = (start(""), start(""));
    assert!(is_trusted(&authority, "localhost", addr) && !is_trusted(&others, "localhost", addr));
}

#[test]
fn the_certificate_names_what_clients_are_told_and_is_shown_at_the_given_port() {
    let reserved = ReservedPort::on([127, 0, 0, 3]);
    let (announced, bound) = ("cluster-announce-hostname node.example\ncluster-announce-ip 10.1.2.3", "bind 127.0.0.3");
    let (server, addr, authority) = start(&format!("{announced}\n{bound}\ntls-port {}", reserved.port()));
    assert_eq!(addr, reserved.addr());
    assert_ne!(server.addr(), addr);
    for name in ["127.0.0.3", "localhost", "node.example", "10.1.2.3"] {
        assert!(is_trusted(&authority, name, addr), "{name}");
    }
}

#[test]
fn the_port_is_closed_and_opened_elsewhere_with_the_same_certificate() {
    let (server, _, authority) = start("");
    let mut plain = Client::connect(server.addr());
    assert_eq!(plain.call("CONFIG SET tls-port 0"), "+OK");
    assert_eq!(server.tls_url(), None);
    let reserved = ReservedPort::new();
    assert_eq!(plain.call(&format!("CONFIG SET tls-port {} tls-protocols TLSv1.2", reserved.port())), "+OK");
    connect(&authority, "localhost", reserved.addr()).expect(&[("PING", "+PONG")]);
    assert_eq!(
        plain.call("CONFIG SET tls-cert-file c"),
        "-ERR CONFIG SET failed (possibly related to argument 'tls-cert-file') - the setting 'tls-cert-file' is not possible \
         with test-tls: the server makes its certificate itself"
    );
}

#[test]
fn private_instances_and_the_nodes_of_topologies_are_reached_by_the_same_authority() {
    let (server, addr, authority) = start("");
    let mut mine = connect(&authority, "localhost", addr);
    mine.expect(&[("AUTH ns-mine any", "+OK"), ("SET k v PX 10", "+OK")]);
    assert!(mine.call("TEST.TIME ADVANCE 10").starts_with(':'));
    mine.expect(&[("GET k", "$-1"), ("SET k w", "+OK")]);
    connect(&authority, "localhost", addr).expect(&[("GET k", "$-1")]);
    let nodes = ports_of(&mine.call("TEST.CLUSTER CREATE c PRIMARIES 1 REPLICAS 0 TLS"));
    connect(&authority, "127.0.0.1", nodes[0]).expect(&[("SET k v", "+OK")]);
    let sentinels = ports_of(&mine.call("TEST.SENTINEL CREATE s REPLICAS 0 SENTINELS 1 QUORUM 1 TLS"));
    connect(&authority, "127.0.0.1", sentinels[1]).expect(&[("PING", "+PONG")]);
    assert_eq!(Client::connect(server.addr()).call("GET k"), "$-1");
}

#[test]
fn a_connection_that_is_not_answered_ends_when_its_client_leaves() {
    let (server, addr, authority) = start("");
    let mut control = Client::connect(server.addr());
    control.expect(&[("TEST.FAULT ADD CONNECT DELAY 86400000 COUNT 3", ":1")]);
    let mut silent = [(); 3].map(|()| connect(&authority, "localhost", addr));
    for client in &mut silent {
        let StreamOwned { conn, sock } = client.stream_mut();
        conn.complete_io(sock).expect("a handshake");
    }
    wait_until(|| control.info("connected_clients") == "4");
    let [cut, mut closing, mut sending] = silent;
    drop(cut);
    let StreamOwned { conn, sock } = closing.stream_mut();
    conn.send_close_notify();
    conn.write_tls(sock).expect("the server reads");
    wait_until(|| control.info("connected_clients") == "2");
    sending.send(b"INCR k\r\n");
    drop(sending);
    wait_until(|| control.info("connected_clients") == "1");
    control.expect(&[("GET k", "$-1"), ("TEST.FAULT ADD CONNECT DELAY 100", ":2")]);
    let mut late = connect(&authority, "localhost", addr);
    late.send(b"INCR k\r\nINCR k\r\n");
    assert_eq!([late.reply(), late.reply()], [":1", ":2"]);
}

#[test]
fn a_certificate_of_the_servers_own_is_for_test_mode_and_stands_beside_no_other() {
    let outside = Server::builder().test_tls().start_blocking().err().expect("refused");
    assert_eq!(outside.to_string(), "the setting 'test-tls' is for tests alone: it needs the setting 'test-mode'");
    for name in ["tls-cert-file", "tls-key-file", "tls-key-file-pass"] {
        let builder = Server::builder().test_mode().test_tls().set(name, "x");
        let error = builder.start_blocking().err().expect("refused").to_string();
        assert!(error.starts_with(&format!("the setting '{name}' is not possible with test-tls")), "{error}");
    }
    let server = Server::builder().test_mode().start_blocking().expect("a server that listens");
    assert_eq!((server.tls_url(), server.tls_ca()), (None, None));
}

#[cfg(feature = "binary")]
mod process {
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::harness::wait_for_exit;
    use crate::process::binary;
    use crate::signals::send_to;
    use crate::skipped;

    /// The program with `test-tls`, and what the line of JSON has, which is the first of standard output.
    struct Program {
        child: Child,
        line: String,
        // For files of the program.
        temporary: tempfile::TempDir,
    }

    impl Program {
        /// Starts the program, which ends with its standard input.
        fn start(args: &[&str]) -> Self {
            let temporary = tempfile::tempdir().expect("a directory");
            let mut command = Command::new(binary());
            command.arg("--exit-on-stdin-close").args(args).env("TMPDIR", temporary.path());
            Program::run(command, temporary)
        }

        fn run(mut command: Command, temporary: tempfile::TempDir) -> Self {
            command.args(["--test-mode", "--test-tls", "--bind", "127.0.0.1"]).env_remove("KEYLATCH_REQUIRE_REDIS");
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut child = command.spawn().expect("the binary starts");
            let mut line = String::new();
            BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("text");
            Program { child, line, temporary }
        }

        /// Returns a value of the line, as it is written there.
        fn value(&self, name: &str) -> String {
            let (_, rest) = self.line.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("{}", self.line));
            rest.split([',', '}']).next().expect("a value").trim_matches('"').replace("\\u000a", "\n")
        }

        fn addr(&self, port: &str) -> SocketAddr {
            let host = self.value("host").parse().expect("an address");
            SocketAddr::new(host, self.value(port).parse().expect("a port"))
        }

        fn file(&self) -> PathBuf {
            self.value("tls_ca_file").into()
        }

        fn files(&self) -> usize {
            std::fs::read_dir(&self.temporary).expect("a directory").count()
        }
    }

    impl Drop for Program {
        fn drop(&mut self) {
            // The process may have exited already.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    #[test]
    fn the_line_of_json_has_port_and_authority_whose_file_is_there_while_the_program_runs() {
        type End = fn(&mut Child);
        let ends: [End; 3] =
            [|child| drop(child.stdin.take()), |child| send_to("TERM", child.id()), |child| send_to("INT", child.id())];
        for end in ends {
            let mut program = Program::start(&["--port", "0"]);
            let (file, authority) = (program.file(), program.value("tls_ca"));
            assert_eq!(std::fs::read_to_string(&file).expect("it is there"), authority);
            let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
            assert_eq!((mode(file.parent().expect("a directory")), program.files()), (0o700, 1));
            connect(&authority, "127.0.0.1", program.addr("tls_port")).expect(&[("SET k v", "+OK")]);
            Client::connect(program.addr("port")).expect(&[("GET k", "$1 v")]);
            end(&mut program.child);
            assert!(wait_for_exit(&mut program.child).success());
            assert_eq!(program.files(), 0);
        }
    }

    #[test]
    fn given_ports_are_taken_and_told() {
        let (plain, tls) = (ReservedPort::on([127, 0, 0, 1]), ReservedPort::on([127, 0, 0, 1]));
        let ports = [plain.port().to_string(), tls.port().to_string()];
        let program = Program::start(&["--port", &ports[0], "--tls-port", &ports[1]]);
        assert_eq!([program.value("port"), program.value("tls_port")], ports);
        connect(&program.value("tls_ca"), "localhost", tls.addr()).expect(&[("PING", "+PONG")]);
        let beside = Program::start(&[
            "--port",
            "0",
            "--unixsocket",
            program.file().with_extension("s").to_str().expect("text"),
        ]);
        assert_eq!(beside.value("port"), beside.value("tls_port"), "there is no other TCP port");
    }

    #[test]
    fn the_line_of_json_comes_with_any_port_and_with_a_unix_socket() {
        let port = ReservedPort::on([127, 0, 0, 1]);
        let (fixed, temporary) = (port.port().to_string(), tempfile::tempdir().expect("a directory"));
        let mut command = Command::new(binary());
        command.args(["--port", &fixed]).env("TMPDIR", temporary.path());
        let program = Program::run(command, temporary);
        assert_eq!((program.value("ready"), program.value("port")), ("true".to_owned(), fixed));
        connect(&program.value("tls_ca"), "localhost", program.addr("tls_port")).expect(&[("PING", "+PONG")]);
        let temporary = tempfile::tempdir().expect("a directory");
        let mut command = Command::new(binary());
        command.args(["--port", "0", "--unixsocket"]).arg(temporary.path().join("s")).env("TMPDIR", temporary.path());
        let program = Program::run(command, temporary);
        assert!(program.file().is_file(), "{}", program.line);
        connect(&program.value("tls_ca"), "localhost", program.addr("tls_port")).expect(&[("PING", "+PONG")]);
    }

    #[test]
    fn a_directory_for_temporary_files_may_be_relative_or_empty() {
        let (temporary, data) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let inside = temporary.path().join("inside");
        std::fs::create_dir(&inside).expect("writable");
        let mut command = Command::new(binary());
        command.args(["--port", "0", "--dir"]).arg(data.path()).current_dir(temporary.path()).env("TMPDIR", "inside");
        let program = Program::run(command, temporary);
        let inside = inside.canonicalize().expect("it is there");
        assert!(program.file().starts_with(&inside) && program.file().is_file(), "{}", program.line);
        let mut command = Command::new(binary());
        command.args(["--port", "0", "--exit-on-stdin-close"]).env("TMPDIR", "");
        let mut program = Program::run(command, tempfile::tempdir().expect("a directory"));
        let file = program.file();
        assert!(file.starts_with("/tmp") && file.is_file(), "{}", program.line);
        drop(program.child.stdin.take());
        assert!(wait_for_exit(&mut program.child).success() && !file.exists());
    }

    #[test]
    fn a_rewritten_file_has_only_what_the_file_or_a_change_says() {
        let start = |text: &str| {
            let temporary = tempfile::tempdir().expect("a directory");
            let file = temporary.path().join("keylatch.conf");
            std::fs::write(&file, text).expect("writable");
            let mut command = Command::new(binary());
            command.arg(&file).args(["--port", "0", "--enable-debug-command", "yes"]).env("TMPDIR", temporary.path());
            let program = Program::run(command, temporary);
            let mut client = Client::connect(program.addr("port"));
            let rewrite = move |client: &mut Client| {
                assert_eq!(client.call("CONFIG REWRITE"), "+OK");
                let text = std::fs::read_to_string(&file).expect("text");
                let lines = text.lines().filter(|line| line.starts_with("tls-"));
                lines.map(str::to_owned).collect::<Vec<_>>()
            };
            let lines = rewrite(&mut client);
            (program, client, rewrite, lines)
        };
        let (_program, mut client, rewrite, lines) = start("timeout 7\n");
        assert!(lines.is_empty(), "{lines:?}");
        client.expect(&[("DEBUG CONFIG-REWRITE-FORCE-ALL", "+OK")]);
        assert!(
            rewrite(&mut client).iter().all(|line| !line.starts_with("tls-port") && !line.starts_with("tls-auth-"))
        );
        let reserved = ReservedPort::on([127, 0, 0, 1]);
        let port = format!("tls-port {}", reserved.port());
        client.expect(&[(&format!("CONFIG SET {port} tls-auth-clients no"), "+OK")]);
        let lines = rewrite(&mut client);
        assert!(lines.contains(&port) && lines.contains(&"tls-auth-clients no".to_owned()), "{lines:?}");
        let reserved = ReservedPort::on([127, 0, 0, 1]);
        let given = [format!("tls-port {}", reserved.port()), "tls-auth-clients no".to_owned()];
        assert_eq!(start(&given.join("\n")).3, given);
        assert!(start("tls-port 0").3.is_empty());
    }

    #[test]
    fn openssl_takes_the_chain_as_strictly_as_it_can() {
        if Command::new("openssl").arg("version").output().is_err() {
            return skipped::without("openssl");
        }
        let program = Program::start(&["--port", "0"]);
        let (addr, file) = (program.addr("tls_port").to_string(), program.file().display().to_string());
        let check = |more: &[&str]| {
            let mut command = Command::new("openssl");
            command.args(["s_client", "-connect", &addr, "-verify_return_error", "-x509_strict"]).args(more);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .expect("it runs")
                .success()
        };
        let trusting = ["-CAfile", &file, "-no-CApath", "-no-CAstore"];
        assert!(check(&[&trusting[..], &["-verify_ip", "127.0.0.1"]].concat()));
        assert!(check(&[&trusting[..], &["-verify_hostname", "localhost", "-tls1_2"]].concat()));
        assert!(!check(&[&trusting[..], &["-verify_hostname", "other.example"]].concat()));
        assert!(!check(&["-no-CAfile", "-verify_ip", "127.0.0.1"]));
    }

    #[test]
    fn out_of_test_mode_the_program_does_not_start() {
        let output = Command::new(binary()).args(["--port", "0", "--test-tls"]).output().expect("the binary starts");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
        assert!(told.contains("it needs the setting 'test-mode'"), "{told}");
    }
}
