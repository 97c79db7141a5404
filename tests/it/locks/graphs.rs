//! Deadlock detection on random wait-for graphs, compared with the [reference](super::reference), which examines all
//! waiters; and its cost.

use super::reference::{Ask, Command, Mode, Model, Told};
use super::{block, locks_info};
use crate::harness::{Client, Dice, TestServer, wait_until};

const KEYS: u64 = 7;
const TOKENS: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
const CLIENTS: usize = 14;
const SEEDS: u64 = 8;
const STEPS: usize = 220;

/// Client with its id, and a flag for a waiting one.
struct Party {
    client: Client,
    id: u64,
    waits: bool,
}

/// Returns a random request for locks, with its text.
fn ask(dice: &mut Dice, client: u64) -> (Ask, String) {
    let token = TOKENS[dice.roll(TOKENS.len() as u64) as usize];
    let key = dice.roll(KEYS) as usize;
    let (mode, keys) = match dice.roll(14) {
        12..=13 => (Mode::Upgrade, vec![key]),
        0..=1 => (Mode::Shared, vec![key]),
        2 => (Mode::Permits(1 + dice.roll(3), Some(3)), vec![key]),
        3..=4 => (Mode::Several, vec![key, (key + 1 + dice.roll(KEYS - 1) as usize) % KEYS as usize]),
        _ => (Mode::Alone, vec![key]),
    };
    let names: Vec<String> = keys.iter().map(|key| format!("key:{key}")).collect();
    let mut text = match mode {
        Mode::Several => format!("LOCK.ACQUIREMULTI {} {} {token}", keys.len(), names.join(" ")),
        _ => format!("LOCK.ACQUIRE {} {token}", names[0]),
    };
    match mode {
        Mode::Shared => text.push_str(" SHARED"),
        Mode::Permits(count, size) => text.push_str(&format!(" PERMITS {count} OF {}", size.unwrap_or(count))),
        Mode::Upgrade => text.push_str(" CONVERT"),
        Mode::Alone | Mode::Several | Mode::Downgrade => {}
    }
    let is_session = dice.roll(4) > 0;
    text.push_str(if is_session { " SESSION BLOCK 0" } else { " PX 600000 BLOCK 0" });
    let px = (!is_session).then_some(600_000);
    (Ask { client, token, keys, mode, px, is_session, until_ms: Some(None), since_ms: 0, kept_until_ms: None }, text)
}

#[test]
fn of_random_clients_that_wait_for_each_other_those_are_refused_whom_a_search_of_all_refuses() {
    let (mut refused, mut waited) = (0, 0);
    for seed in 1..=SEEDS {
        let (mut dice, server, mut model) = (Dice::new(seed), TestServer::start(), Model::default());
        let mut admin = server.client();
        let mut parties: Vec<Party> = (0..CLIENTS)
            .map(|_| {
                let mut client = server.client();
                let id = client.int("CLIENT ID") as u64;
                Party { client, id, waits: false }
            })
            .collect();
        let mut story = vec![format!("seed {seed}")];
        for _ in 0..STEPS {
            let at = dice.roll(CLIENTS as u64) as usize;
            if parties[at].waits || dice.roll(9) == 0 {
                let key = dice.roll(KEYS) as usize;
                story.push(format!("DEL {key}"));
                model.execute(0, key, &Command::Delete);
                admin.call(&format!("DEL key:{key}"));
            } else {
                let (ask, text) = ask(&mut dice, parties[at].id);
                story.push(format!("{}: {text}", parties[at].id));
                let told = model.execute(parties[at].id, ask.keys[0], &Command::Acquire(ask));
                parties[at].client.send(format!("{text}\r\n").as_bytes());
                match told {
                    Some(told) => refused += u64::from(hear(&mut parties[at], &told, &story)),
                    None => {
                        (parties[at].waits, waited) = (true, waited + 1);
                        let shown = format!("CLIENT LIST ID {}", parties[at].id);
                        wait_until(|| {
                            let line = admin.call(&shown);
                            assert!(!line.is_empty());
                            line.contains(" lwait=1") && line.contains(" flags=b ")
                        });
                    }
                }
            }
            model.serve();
            for (id, told) in std::mem::take(&mut model.told) {
                let party = parties.iter_mut().find(|party| party.id == id).expect("it is connected");
                hear(party, &told, &story);
                party.waits = false;
            }
        }
    }
    assert!(refused > 100 && waited > 300, "{refused} were refused, and {waited} have waited");
}

/// Reads the reply to a client; returns whether it is DEADLOCK.
fn hear(party: &mut Party, told: &Told, story: &[String]) -> bool {
    let reply = party.client.reply();
    let is_right = match told {
        Told::Deadlock => reply.starts_with("-DEADLOCK "),
        Told::Fence(_) => reply.starts_with(':'),
        Told::Fences(_) => reply.starts_with("*2 :"),
        Told::Text(text) => reply == *text,
        Told::Keys(_) => false,
    };
    assert!(is_right, "{reply} and not {told:?}: {story:#?}");
    matches!(told, Told::Deadlock)
}

/// Returns the number of examination steps for queueing a client whose request has the number in place of `#`.
fn steps_of(server: &TestServer, admin: &mut Client, requests: &[&str], number: usize) -> (i64, Client) {
    let mut client = server.client();
    let requests: Vec<String> = requests.iter().map(|request| request.replace('#', &number.to_string())).collect();
    let (last, first) = requests.split_last().expect("a request");
    first.iter().for_each(|request| _ = client.int(request));
    let before = locks_info(admin, "deadlock_steps_total");
    let client = block(server, client, last);
    (locks_info(admin, "deadlock_steps_total") - before, client)
}

#[test]
fn a_client_that_joins_a_long_queue_for_a_lock_whose_holder_waits_costs_as_much_as_the_first() {
    const WAITS: &str = "LOCK.ACQUIRE k of-# SESSION BLOCK 0";
    const SEVERAL: &str = "LOCK.ACQUIREMULTI 2 k other:# of-# SESSION BLOCK 0";
    // Clients that hold nothing, or hold a lock that no other client wants.
    for (requests, at_most) in [
        (&[WAITS][..], 0),
        (&[SEVERAL], 0),
        (&["LOCK.ACQUIRE own:# own SESSION", WAITS], 5),
        (&["LOCK.ACQUIRE own:# of-# PX 600000", WAITS], 5),
    ] {
        let server = TestServer::start();
        let (mut admin, mut holder) = (server.client(), server.client());
        holder.int("LOCK.ACQUIRE k of-holder SESSION");
        admin.int("LOCK.ACQUIRE l of-admin PX 600000");
        let _holder = block(&server, holder, "LOCK.ACQUIRE l of-holder PX 600000 BLOCK 0");
        let queued: Vec<(i64, Client)> =
            (0..150).map(|number| steps_of(&server, &mut admin, requests, number)).collect();
        let steps: Vec<i64> = queued.iter().map(|(steps, _)| *steps).collect();
        assert!(steps.iter().all(|steps| *steps <= at_most), "{requests:?}: {steps:?}");
        // The number of waiters is known nevertheless.
        assert_eq!(locks_info(&mut admin, "waiting"), 151 + if requests == [SEVERAL] { 150 } else { 0 });
        assert_eq!(locks_info(&mut admin, "deadlocks_total"), 0);
    }
}
