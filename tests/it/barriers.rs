//! Commands that stop clients are barriers: once one is answered, no request of another client that it stops is
//! executed, not even from a pipeline that another worker is executing.

use keylatch::{Builder, Clock, Server};

use crate::harness::{Client, TestServer, wait_until};

/// Number of races that count: in them, the pipeline was still being executed when the barrier was answered.
const RACES: usize = 3;

/// A slow call.
const SLOW: &str = "BITCOUNT big\r\n";

/// Number of slow calls in a pipeline: few enough for one batch.
const SLOW_CALLS: usize = 40;

/// Server with several workers, and a client of the first one.
struct Race {
    server: TestServer,
    admin: Client,
    /// Number of bits that a slow call counts.
    bits: u32,
}

impl Race {
    fn new() -> Self {
        Race::on(Server::builder(), 2)
    }

    fn on(builder: Builder, workers: usize) -> Self {
        // On the system's clock, by which a running batch lets other threads pass.
        let server = TestServer::start_with_workers(builder.clock(Clock::system()), workers);
        let admin = server.client();
        let mut race = Race { server, admin, bits: 20_000_000 };
        race.make_slower();
        race
    }

    /// Makes the slow calls slower, after a pipeline was over too early.
    #[track_caller]
    fn make_slower(&mut self) {
        self.bits *= 2;
        assert!(self.bits < 2_000_000_000, "others are not served before the end of a pipeline");
        assert_eq!(self.admin.call(&format!("SETBIT big {} 1", self.bits)), ":0");
    }

    /// Connects a client of the second worker, with user `u` who has all permissions. Connections are assigned to the
    /// workers in turn.
    fn client(&mut self) -> Client {
        let mut client = self.server.client();
        drop(self.server.client());
        assert_eq!(self.admin.call("ACL SETUSER u reset on nopass ~* &* +@all"), "+OK");
        assert_eq!(client.call("AUTH u p"), "+OK");
        client
    }

    /// Sends a pipeline of slow calls that ends with `last`, and returns when its execution has begun.
    fn send_pipeline(&mut self, client: &mut Client, last: &str) {
        assert!(self.admin.call("DEL k started").starts_with(':'));
        let slow = SLOW.repeat(SLOW_CALLS);
        client.send(format!("SET started 1\r\n{slow}{last}\r\n").as_bytes());
        wait_until(|| self.value("started").is_some());
    }

    /// Reads a key without a connection: nothing stops that.
    fn value(&self, key: &str) -> Option<Vec<u8>> {
        self.server.server().get(key).expect("a string")
    }

    /// Returns the reply to the last request of a pipeline.
    fn last_reply(&self, client: &mut Client) -> String {
        (0..=SLOW_CALLS).for_each(|_| assert!(client.reply().starts_with(['+', ':', '-'])));
        client.reply()
    }

    /// Calls `stop` to stop a client while its pipeline with a write is being executed: the write must have been
    /// executed when `stop` is answered, or must not be executed later. `end` returns when the client has finished what
    /// it does nevertheless.
    fn run(&mut self, mut stop: impl FnMut(&mut Client, i64), mut end: impl FnMut(&mut Race, &mut Client, i64)) {
        let mut races = 0;
        while races < RACES {
            let mut client = self.client();
            let id = client.int("CLIENT ID");
            self.send_pipeline(&mut client, "SET k written");
            stop(&mut self.admin, id);
            let at_once = self.value("k");
            races += usize::from(at_once.is_none());
            if at_once.is_none() {
                end(self, &mut client, id);
                assert_eq!(self.value("k"), None, "written after the barrier was answered");
            }
            self.admin.expect(&[("CLIENT UNPAUSE", "+OK"), ("CONFIG SET maxmemory 0 min-replicas-to-write 0", "+OK")]);
            if at_once.is_some() {
                self.make_slower();
            }
        }
    }
}

/// Returns once a client is blocked by a pause.
fn is_paused(race: &mut Race, id: i64) -> bool {
    let clients = &race.server.server().namespace().clients;
    clients.find(id as u64).is_some_and(|client| client.flags.is_blocked())
}

#[test]
fn after_client_pause_no_pipeline_in_hand_goes_on() {
    Race::new().run(
        |admin, _| admin.expect(&[("CLIENT PAUSE 600000 WRITE", "+OK")]),
        |race, client, id| {
            wait_until(|| is_paused(race, id) || race.value("k").is_some());
            assert_eq!(race.value("k"), None, "written during the pause");
            assert_eq!(race.admin.call("CLIENT UNPAUSE"), "+OK");
            assert_eq!(race.last_reply(client), "+OK");
            assert_eq!(race.admin.call("DEL k"), ":1");
        },
    );
}

#[test]
fn after_client_kill_nothing_of_the_client_is_executed() {
    Race::new().run(
        |admin, id| admin.expect(&[(&format!("CLIENT KILL ID {id}"), ":1")]),
        |_, client, _| drop(client.read_to_end()),
    );
}

#[test]
fn after_a_user_was_deleted_nothing_of_its_clients_is_executed() {
    Race::new().run(|admin, _| admin.expect(&[("ACL DELUSER u", ":1")]), |_, client, _| drop(client.read_to_end()));
}

#[test]
fn after_a_user_has_lost_its_permissions_its_clients_have_none() {
    Race::new().run(
        |admin, _| admin.expect(&[("ACL SETUSER u reset off", "+OK")]),
        |race, client, _| assert!(race.last_reply(client).starts_with("-NOPERM ")),
    );
}

#[test]
fn after_a_setting_forbids_writes_there_are_none() {
    let mut race = Race::new();
    for (setting, error) in [("maxmemory 1", "-OOM "), ("min-replicas-to-write 1", "-NOREPLICAS ")] {
        race.run(
            |admin, _| admin.expect(&[(&format!("CONFIG SET {setting}"), "+OK")]),
            |race, client, _| {
                let reply = race.last_reply(client);
                assert!(reply.starts_with(error), "{reply}");
            },
        );
    }
}

#[test]
fn after_a_fault_was_added_every_call_has_it() {
    Race::on(Server::builder().test_mode(), 2).run(
        |admin, _| assert!(admin.int("TEST.FAULT ADD SET KEY k ERROR struck") > 0),
        |race, client, _| {
            assert_eq!(race.last_reply(client), "-struck");
            assert_eq!(race.admin.call("TEST.FAULT CLEAR"), "+OK");
        },
    );
}

#[test]
fn after_an_exec_that_kills_a_client_nothing_of_it_is_executed() {
    Race::new().run(
        |admin, id| {
            admin.expect(&[("MULTI", "+OK"), (&format!("CLIENT KILL ID {id}"), "+QUEUED"), ("EXEC", "*1 :1")]);
        },
        |_, client, _| drop(client.read_to_end()),
    );
}

#[test]
fn a_monitor_sees_every_call_after_its_first_reply() {
    let mut race = Race::new();
    assert_eq!(race.admin.call("CONFIG SET slowlog-log-slower-than -1"), "+OK"); // slow calls check again themselves
    let mut races = 0;
    while races < RACES {
        let (mut monitor, mut client) = (race.server.client(), race.server.client());
        race.send_pipeline(&mut client, "SET k written");
        assert_eq!(monitor.call("MONITOR"), "+OK");
        let is_in_time = race.value("k").is_none();
        assert_eq!(race.last_reply(&mut client), "+OK");
        assert_eq!(client.call("ECHO end"), "$3 end");
        let shown = std::iter::repeat_with(|| monitor.reply()).take_while(|line| !line.contains("\"ECHO\""));
        let is_shown = shown.filter(|line| line.contains("\"SET\" \"k\"")).count() == 1;
        assert!(is_shown || !is_in_time, "executed after MONITOR was answered, and not shown");
        races += usize::from(is_in_time);
        if !is_in_time {
            race.make_slower();
        }
    }
}

#[test]
fn a_call_that_needs_the_whole_store_waits_for_one_slow_call_and_not_for_the_pipeline() {
    let mut race = Race::new();
    loop {
        let mut client = race.client();
        race.send_pipeline(&mut client, "GET marker");
        race.admin.expect(&[("MULTI", "+OK"), ("SET marker x", "+QUEUED"), ("EXEC", "*1 +OK")]);
        if race.last_reply(&mut client) == "$1 x" {
            return;
        }
        race.make_slower();
        assert_eq!(race.admin.call("DEL marker"), ":1");
    }
}

/// Executes a pipeline that was checked before a script had ended, after CLIENT PAUSE was answered.
#[cfg(feature = "lua")]
#[test]
fn a_pipeline_that_waits_for_a_script_heeds_what_was_published_meanwhile() {
    let mut race = Race::on(Server::builder(), 3);
    let mut races = 0;
    while races < RACES {
        assert!(race.admin.call("DEL k running").starts_with(':'));
        let (mut script, mut client, _spare) = (race.server.client(), race.server.client(), race.server.client());
        let id = client.int("CLIENT ID");
        let slow = SLOW.repeat(SLOW_CALLS);
        script.send(b"SET running 1\r\nEVAL 'for i = 1, 1e7 do end' 0\r\n");
        wait_until(|| race.value("running").is_some());
        client.send(format!("SET started 1\r\n{slow}SET k written\r\n").as_bytes());
        race.admin.expect(&[("CLIENT PAUSE 600000 WRITE", "+OK")]);
        let is_in_time = race.value("k").is_none();
        if is_in_time {
            wait_until(|| is_paused(&mut race, id) || race.value("k").is_some());
            assert_eq!(race.value("k"), None, "written during the pause");
        }
        race.admin.expect(&[("CLIENT UNPAUSE", "+OK")]);
        assert_eq!(race.last_reply(&mut client), "+OK");
        if is_in_time { races += 1 } else { race.make_slower() }
    }
}
