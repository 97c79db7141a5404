//! Executes the log of a primary, and appends it unchanged to the own log.

use bytes::BytesMut;

use crate::client::info::Peer;
use crate::dispatch::replay::{Replay, ReplayedWrite};
use crate::dispatch::serve::serve_remaining_keys;
use crate::dispatch::{Env, Handlers};
use crate::namespace::Namespace;
use crate::store::{Cx, Origin};

/// The log of a primary that is being executed.
pub(super) struct PrimaryStream {
    replay: Replay,
    /// Received bytes that are not decoded.
    input: BytesMut,
    /// Received bytes that are not executed; `appended` bytes of the log come before them.
    raw: BytesMut,
    appended: u64,
}

impl PrimaryStream {
    /// Creates a stream that begins with `db` selected, for a primary at an address.
    pub(super) fn new(namespace: &Namespace, primary: Peer, db: usize) -> Self {
        let replay = Replay::of_primary(namespace, primary, db);
        PrimaryStream { replay, input: BytesMut::new(), raw: BytesMut::new(), appended: 0 }
    }

    /// Executes the whole commands and transactions in the received bytes; returns false if the term is over.
    ///
    /// # Errors
    /// The reason for which the log cannot be executed.
    pub(super) fn execute(
        &mut self,
        (namespace, handlers): (&Namespace, &'static Handlers),
        term: u64,
        bytes: &[u8],
    ) -> Result<bool, String> {
        self.input.extend_from_slice(bytes);
        self.raw.extend_from_slice(bytes);
        let _data = namespace.persistence.keep_data();
        let mut held = namespace.store.exclusive();
        if namespace.role.term() != term {
            return Ok(false);
        }
        let mut view = held.view(0, Cx::new(namespace.clock.now(), Origin::Replay));
        let PrimaryStream { replay, input, raw, appended } = self;
        // The end of the commands that were executed and are not appended, and the database that they have selected.
        let mut pending = (*appended, 0);
        let log = &namespace.log;
        let executed = Env::with_present(namespace, handlers, 0, |env| {
            // For MONITOR, the slow log and latency events, as with calls of a client.
            env.timer.set_recording(namespace.observed.record_from_ns(env.config), env.config.latency_tracking);
            replay.go_on(env, &mut view, input, |ReplayedWrite { caller, executed, is_aside }| {
                caller.forget_effects();
                if is_aside {
                    append_copy(namespace, raw, appended, pending);
                    log.append_aside(&raw.split_to((executed - *appended) as usize));
                    *appended = executed;
                }
                pending = (executed, caller.db);
            })
        });
        append_copy(namespace, raw, appended, pending);
        executed.map_err(|error| error.to_string())?;
        drop(view);
        drop(held);
        serve_remaining_keys(namespace, handlers);
        Ok(true)
    }

    /// Returns true if the primary has requested an acknowledgement, and resets that.
    pub(super) fn take_question(&mut self) -> bool {
        std::mem::take(&mut self.replay.is_asked)
    }
}

/// Appends the commands up to an end to the own log.
fn append_copy(namespace: &Namespace, raw: &mut BytesMut, appended: &mut u64, (end, db): (u64, usize)) {
    if end > *appended {
        namespace.log.append_copy(&raw.split_to((end - *appended) as usize), db);
        *appended = end;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::command::handlers;
    use crate::config::{Allowance, Config, HostPort};
    use crate::resp::write_command;
    use crate::time::clock::Clock;

    /// Returns the words of a request for each command: its name, and as many numbers as it needs arguments.
    fn requests() -> Vec<Vec<String>> {
        let commands = handlers().commands.every();
        let words = commands.map(|command| {
            let mut words: Vec<String> = command.name.split('|').map(str::to_owned).collect();
            words.resize(command.arity.unsigned_abs() as usize, "1".to_owned());
            words
        });
        words.collect()
    }

    fn canonical(words: &[String]) -> Vec<u8> {
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let mut bytes = Vec::new();
        write_command(&mut bytes, &words);
        bytes
    }

    fn replica_at(primary: &str) -> (Namespace, PrimaryStream) {
        let namespace = Namespace::for_test(&handlers().commands, Config::default(), Clock::manual());
        let peer = Peer { addr: primary.into(), laddr: "".into(), fd: -1, is_unix: false };
        let stream = PrimaryStream::new(&namespace, peer, 0);
        (namespace, stream)
    }

    fn replica() -> (Namespace, PrimaryStream) {
        replica_at("10.0.0.1:6379")
    }

    fn execute((namespace, stream): &mut (Namespace, PrimaryStream), bytes: &[u8]) -> Result<bool, String> {
        stream.execute((namespace, handlers()), namespace.role.term(), bytes)
    }

    #[test]
    fn a_request_that_no_server_writes_so_is_refused_before_it_is_executed() {
        for words in requests() {
            let text = String::from_utf8(canonical(&words)).expect("text");
            let padded = text.replacen('*', "*0", 1);
            let long = text.replacen("\r\n$", "\r\n$0", 1);
            for form in [format!("{}\r\n", words.join(" ")), format!("{}\n", words.join(" ")), padded, long] {
                // The command before is executed or not, and counted accordingly.
                for before in ["", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"] {
                    let mut replica = replica();
                    let refused = execute(&mut replica, format!("{before}{form}").as_bytes());
                    let (namespace, _) = &replica;
                    assert!(refused.is_err(), "{form:?} behind {before:?}");
                    assert!([0, before.len() as u64].contains(&namespace.log.end()), "{form:?} behind {before:?}");
                    assert_eq!(namespace.instance.panics.caught(), 0, "{form:?}");
                }
            }
        }
    }

    #[test]
    fn every_command_in_the_stream_is_executed_or_fails_and_counts_with_its_length() {
        for words in requests() {
            let mut replica = replica();
            let bytes = canonical(&words);
            let executed = execute(&mut replica, &bytes);
            let (namespace, _) = &replica;
            assert_eq!(namespace.instance.panics.caught(), 0, "{words:?}");
            match words[0].as_str() {
                "multi" => assert_eq!((executed, namespace.log.end()), (Ok(true), 0)),
                "exec" => assert!(executed.is_err()),
                _ if executed.is_err() => assert_eq!(words[0], "select"),
                _ => assert_eq!(namespace.log.end(), bytes.len() as u64, "{words:?}"),
            }
        }
    }

    #[test]
    fn what_a_former_primary_has_sent_is_not_executed() {
        let (namespace, mut stream) = replica();
        let term = namespace.role.term();
        let alone = namespace.store.exclusive();
        namespace.follow_primary(HostPort { host: "10.0.0.2".into(), port: 6379 });
        drop(alone);
        let set = ["SET", "k", "v"].map(str::to_owned);
        let executed = stream.execute((&namespace, handlers()), term, &canonical(&set));
        assert_eq!((executed, namespace.log.end()), (Ok(false), 0));
    }

    #[test]
    fn what_only_local_clients_may_do_is_up_to_the_address_of_the_primary() {
        for (primary, is_local) in [
            ("127.0.0.1:1", true),
            ("127.0.0.2:1", true),
            ("[::1]:1", true),
            ("10.0.0.1:1", false),
            ("[::ffff:10.0.0.1]:1", false),
        ] {
            let mut replica = replica_at(primary);
            let changed = replica.0.settings.update(|config| {
                let mut config = config.clone();
                config.enable_protected_configs = Allowance::Local;
                config.enable_debug_command = Allowance::Local;
                Ok(config)
            });
            changed.expect("accepted");
            let set = ["CONFIG", "SET", "dbfilename", "other.rdb"].map(str::to_owned);
            assert_eq!(execute(&mut replica, &canonical(&set)), Ok(true));
            let name = replica.0.settings.current().dbfilename.clone();
            assert_eq!(name.is_some_and(|name| *name == *"other.rdb"), is_local, "{primary}");
            let debug = ["DEBUG", "SET-SKIP-CHECKSUM-VALIDATION", "1"].map(str::to_owned);
            assert_eq!(execute(&mut replica, &canonical(&debug)), Ok(true));
            assert_eq!(replica.0.debug.skips_checksums.load(Relaxed), is_local, "{primary}");
        }
    }
}
