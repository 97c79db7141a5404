//! A server of Redis 8, the first version with vector sets: the program that `KEYLATCH_REDIS8` names, or `redis-server-8`.
//! Without one, the other tests have its replies only.

use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::harness::{Client, Dice, TestServer, encode, show};

/// Process of the server, which ends with the test.
pub(super) struct Redis8 {
    process: Child,
    dir: TempDir,
}

impl Redis8 {
    /// Starts the server; `None` if there is none.
    pub(super) fn start() -> Option<Self> {
        let program = std::env::var("KEYLATCH_REDIS8").unwrap_or_else(|_| "redis-server-8".to_owned());
        let dir = tempfile::tempdir().expect("a temporary directory");
        let spawned = Command::new(&program)
            .args(["--port", "0", "--save", "", "--enable-debug-command", "yes", "--unixsocket", "redis.sock", "--dir"])
            .arg(dir.path())
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        let mut process = match spawned {
            Ok(process) => process,
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => panic!("{program} does not start: {error}"),
        };
        let mut log = BufReader::new(process.stdout.take().expect("the log is piped"));
        let server = Redis8 { process, dir };
        let mut seen = String::new();
        while !seen.contains("eady to accept connections") {
            assert!(log.read_line(&mut seen).expect("text") > 0, "{program} ended at once:\n{seen}");
        }
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Some(server)
    }

    /// Connects to the server.
    pub(super) fn client(&self) -> Client<UnixStream> {
        Client::connect_unix(self.dir.path().join("redis.sock"))
    }
}

impl Drop for Redis8 {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns requests that add `count` random elements to a set, some with attributes.
pub(super) fn additions(
    key: &str,
    form: &[&str],
    (count, dimensions): (u64, u64),
    dice: &mut Dice,
) -> Vec<Vec<Vec<u8>>> {
    let request = |at: u64| {
        let mut words: Vec<Vec<u8>> = ["VADD", key, "VALUES", &dimensions.to_string()].map(Into::into).to_vec();
        words.extend((0..dimensions).map(|_| format!("{:.4}", dice.roll(20_001) as f64 / 10_000.0 - 1.0).into_bytes()));
        words.push(format!("e{at}").into_bytes());
        words.extend(form.iter().map(|word| word.as_bytes().to_vec()));
        if !at.is_multiple_of(3) {
            words.extend([b"SETATTR".to_vec(), format!("{{\"n\":{at},\"odd\":{}}}", at % 2 == 1).into_bytes()]);
        }
        words
    };
    (0..count).map(request).collect()
}

/// The forms of sets that are compared.
pub(super) const FORMS: [&[&str]; 4] = [&[], &["NOQUANT"], &["BIN"], &["Q8", "M", "5"]];

/// Returns true if two replies are equal, except that Redis writes one of a thousand numbers with a digit too many.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let (one, other) = (show(one), show(other));
    let words =
        |reply: &str| reply.split(' ').filter(|word| !word.starts_with('$')).map(str::to_owned).collect::<Vec<_>>();
    let (one, other) = (words(&one), words(&other));
    let number = |word: &str| word.parse::<f64>().ok();
    let is_same_word = |(a, b): (&String, &String)| a == b || number(a).is_some() && number(a) == number(b);
    one.len() == other.len() && one.iter().zip(&other).all(is_same_word)
}

#[test]
fn vectors_scores_and_digests_of_random_sets_are_those_of_redis_8_to_the_last_digit() {
    let Some(redis) = Redis8::start() else { return };
    let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
    let (mut here, mut there, mut dice) = (server.client(), redis.client(), Dice::new(3));
    let mut both = |words: &[Vec<u8>]| {
        there.send(&encode(words));
        let expected = there.read_raw().expect("a reply");
        here.send(&encode(words));
        let reply = here.read_raw().expect("a reply");
        assert!(is_same(&reply, &expected), "{}: {} {}", show(&words.join(&b' ')), show(&reply), show(&expected));
    };
    let words = |request: &str| request.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    for form in FORMS {
        // The graph of Redis finds all elements of a set that is smaller than its exploration factor.
        for dimensions in [1, 7, 8, 63, 64, 100] {
            both(&words("DEL k"));
            for request in additions("k", form, (60, dimensions), &mut dice) {
                both(&request);
            }
            for at in 0..60 {
                both(&words(&format!("VEMB k e{at}")));
                both(&words(&format!("VEMB k e{at} RAW")));
            }
            both(&words("DEBUG DIGEST-VALUE k"));
            // In one dimension, and of signs alone, many scores are equal, whose order is open.
            if dimensions < 60 || form.contains(&"BIN") {
                continue;
            }
            for at in 0..20 {
                both(&words(&format!("VSIM k ELE e{at} WITHSCORES COUNT 60 EF 1000")));
                both(&words(&format!("VSIM k ELE e{at} COUNT 20 TRUTH")));
                both(&words(&format!("VSIM k ELE e{at} COUNT 60 TRUTH FILTER .n>{at}&&not(.odd)")));
            }
        }
    }
}

#[test]
fn a_dump_of_either_server_is_a_set_in_the_other() {
    let Some(redis) = Redis8::start() else { return };
    let server = TestServer::start_with(&[("enable-debug-command", "yes")]);
    let (mut here, mut there, mut dice) = (server.client(), redis.client(), Dice::new(4));
    let dump = |frame: keylatch::internals::resp::Frame| frame.as_bytes().expect("a payload").to_vec();
    for form in FORMS {
        for count in [1, 2, 3, 100, 1500] {
            for request in additions("k", form, (count, 24), &mut dice) {
                assert_eq!(here.call_args(&request), ":1");
                assert_eq!(there.call_args(&request), ":1");
            }
            let digest = here.call("DEBUG DIGEST-VALUE k");
            assert_eq!(there.call("DEBUG DIGEST-VALUE k"), digest);
            let (ours, theirs) = (dump(here.frame(&["DUMP", "k"])), dump(there.frame(&["DUMP", "k"])));
            assert_eq!(there.call_args(&[&b"RESTORE"[..], b"r", b"0", &ours]), "+OK", "{form:?} {count}");
            assert_eq!(here.call_args(&[&b"RESTORE"[..], b"r", b"0", &theirs]), "+OK", "{form:?} {count}");
            for (read, len) in [("VCARD r", count.to_string()), ("VDIM r", "24".to_owned())] {
                assert_eq!((here.call(read), there.call(read)), (format!(":{len}"), format!(":{len}")));
            }
            assert_eq!(here.call("DEBUG DIGEST-VALUE r"), digest, "{form:?} {count}");
            assert_eq!(there.call("DEBUG DIGEST-VALUE r"), digest, "{form:?} {count}");
            // A search over there can reach every element.
            let all = there.call(&format!("VSIM r ELE e0 COUNT {count} TRUTH"));
            assert!(all.starts_with(&format!("*{count} ")), "{form:?} {count}");
            // What was read can be changed.
            for client in ["VREM r e0", "VADD r VALUES 1 1 x"] {
                assert_eq!(here.call(client), there.call(client), "{client}");
            }
            here.call("DEL k r");
            there.call("DEL k r");
        }
    }
}
