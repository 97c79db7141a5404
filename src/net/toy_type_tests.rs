//! A server with a data type that only the project's own tests have: its values behave like those of any type, though
//! no file but the type's own and the lists of types know it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use bytes::BytesMut;

use crate::net::server::Server;
use crate::resp::{Frame, FrameDecoder};
use crate::store::value::{DataType, Toy};
use crate::store::{Cx, Event, Origin};
use tokio_util::codec::Decoder;

/// A text that is not stored in its entry.
static LONG: [u8; 100_000] = [b'l'; 100_000];

struct Probe {
    server: Server,
    stream: TcpStream,
}

impl Probe {
    /// Starts a server with its files in a directory.
    fn start(dir: &Path, appendonly: &str) -> Self {
        let settings = "enable-debug-command yes\nsave ''\naof-use-rdb-preamble no";
        let builder = Server::builder().set("dir", dir.display()).settings(settings).set("appendonly", appendonly);
        let server = builder.start_blocking().expect("a server");
        let stream = TcpStream::connect(server.addr()).expect("a connection");
        Probe { server, stream }
    }

    /// Sets a key to a value of the type, as a command of the type would.
    fn put(&self, key: &[u8], text: &[u8]) {
        let (namespace, mut entry) = (self.server.namespace(), Toy::create(key));
        Toy::write(&mut entry).set(text.to_vec());
        let cx = Cx::new(namespace.clock.now(), Origin::HOST);
        namespace.store.exclusive().view(0, cx).put(namespace.store.key(key), entry, Event::NONE);
    }

    fn send(&mut self, words: &[&[u8]]) -> Frame {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend([format!("${}\r\n", word.len()).as_bytes(), word, b"\r\n"].concat());
        }
        self.stream.write_all(&request).expect("sent");
        let (mut decoder, mut input, mut piece) = (FrameDecoder::new(), BytesMut::new(), [0; 4096]);
        loop {
            if let Some(frame) = decoder.decode(&mut input).expect("a reply") {
                return frame;
            }
            let len = self.stream.read(&mut piece).expect("a connection");
            assert!(len > 0, "the server closed the connection");
            input.extend_from_slice(&piece[..len]);
        }
    }

    /// Returns the reply to a request in one line, as debug text.
    fn call(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        match self.send(&words) {
            frame @ Frame::Array(_) => format!("{frame:?}"),
            frame => String::from_utf8_lossy(frame.as_bytes().unwrap_or(format!("{frame:?}").as_bytes())).into_owned(),
        }
    }

    #[track_caller]
    fn expect(&mut self, script: &[(&str, &str)]) {
        for (line, reply) in script {
            let got = self.call(line);
            assert!(got.contains(reply), "{line}: {got}");
        }
    }
}

#[test]
fn values_of_a_new_type_have_its_name_and_encoding_and_are_copied_dumped_digested_and_freed() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut probe = Probe::start(dir.path(), "no");
    probe.put(b"short", b"a text");
    probe.put(b"long", &LONG);
    probe.expect(&[
        ("TYPE short", "toy---txt"),
        ("TYPE long", "toy---txt"),
        ("OBJECT ENCODING short", "text"),
        ("SCAN 0 TYPE toy---txt COUNT 1000", "long"),
        ("GET short", "WRONGTYPE"),
        ("SORT short", "WRONGTYPE"),
        ("COPY short copy", "1"),
        ("RENAME copy renamed", "OK"),
        ("PEXPIRE renamed 1000000", "1"),
        ("PERSIST renamed", "1"),
    ]);
    let usage: usize =
        probe.call("MEMORY USAGE long").trim_start_matches("Integer(").trim_end_matches(')').parse().expect("a number");
    assert!(usage > LONG.len(), "{usage}");
    for key in ["short", "long"] {
        let Frame::Bulk(payload) = probe.send(&[b"DUMP", key.as_bytes()]) else { panic!("no payload of {key}") };
        probe.send(&[b"RESTORE", b"restored", b"0", &payload, b"REPLACE"]);
        let digests = probe.call(&format!("DEBUG DIGEST-VALUE {key} restored"));
        let digest = probe.call(&format!("DEBUG DIGEST-VALUE {key}"));
        let digest = digest.split('"').nth(1).expect("a digest");
        assert_eq!(digests.matches(digest).count(), 2, "{digests}");
    }
    probe.expect(&[("UNLINK short long restored renamed", "4"), ("DBSIZE", "0")]);
}

#[test]
fn values_of_a_new_type_come_back_from_a_snapshot_and_from_a_base_of_commands() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut probe = Probe::start(dir.path(), "no");
    probe.put(b"short", b"a text");
    probe.put(b"long", &LONG);
    let digest = probe.call("DEBUG DIGEST");
    probe.expect(&[("SAVE", "OK"), ("DEBUG RELOAD", "OK"), ("DEBUG DIGEST", &digest), ("TYPE long", "toy---txt")]);
    probe.expect(&[("CONFIG SET appendonly yes", "OK")]);
    while !probe.call("INFO persistence").contains("aof_rewrite_in_progress:0") {
        std::thread::yield_now();
    }
    probe.server.shutdown_blocking();
    std::fs::remove_file(dir.path().join("dump.rdb")).expect("the snapshot");
    let mut probe = Probe::start(dir.path(), "yes");
    probe.expect(&[("DEBUG DIGEST", &digest), ("TYPE short", "toy---txt"), ("DBSIZE", "2")]);
}
