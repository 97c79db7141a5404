//! Random commands on fields with deadlines, compared with a simple model: redis-server 7.0 has no such fields.

use std::collections::BTreeMap;

use keylatch::internals::resp::Frame;

use crate::harness::{Client, Dice, TestServer};

/// Number of tested commands with each limit of packed hashes, unless set by `KEYLATCH_COMMANDS`.
const COMMANDS: u64 = 8_000;

const KEYS: [&str; 3] = ["h", "i", "j"];
const FIELDS: u64 = 9;
const NOW_MS: i64 = 1_700_000_000_000;

/// Fields of a hash, each with its value and its deadline in wall-clock milliseconds.
type Hash = BTreeMap<String, (i64, Option<i64>)>;

#[derive(Default)]
struct Model {
    hashes: BTreeMap<&'static str, Hash>,
    now: i64,
}

impl Model {
    /// Removes expired fields, and hashes without fields.
    fn settle(&mut self) {
        let now = self.now;
        for hash in self.hashes.values_mut() {
            hash.retain(|_, (_, deadline)| deadline.is_none_or(|deadline| deadline > now));
        }
        self.hashes.retain(|_, hash| !hash.is_empty());
    }

    fn get(&self, key: &str, field: &str) -> Option<(i64, Option<i64>)> {
        self.hashes.get(key)?.get(field).copied()
    }

    fn set(&mut self, key: &'static str, field: &str, value: i64, deadline: Option<i64>) {
        self.hashes.entry(key).or_default().insert(field.to_owned(), (value, deadline));
    }

    fn remove(&mut self, key: &str, field: &str) {
        self.hashes.get_mut(key).map(|hash| hash.remove(field));
    }

    /// Sets a field's deadline under a condition; returns the reply for the field.
    fn expire(&mut self, key: &'static str, field: &str, deadline: i64, condition: &str) -> i64 {
        let Some((value, old)) = self.get(key, field) else { return -2 };
        let is_met = match condition {
            "NX" => old.is_none(),
            "XX" => old.is_some(),
            "GT" => old.is_some_and(|old| deadline > old),
            "LT" => old.is_none_or(|old| deadline < old),
            _ => true,
        };
        match is_met {
            false => 0,
            true if deadline <= self.now => {
                self.remove(key, field);
                2
            }
            true => {
                self.set(key, field, value, Some(deadline));
                1
            }
        }
    }
}

/// Formats the reply of a command in the model.
fn array(replies: impl IntoIterator<Item = String>) -> String {
    let replies: Vec<String> = replies.into_iter().collect();
    format!("*{} {}", replies.len(), replies.join(" ")).trim_end().to_owned()
}

fn bulk(value: Option<i64>) -> String {
    value.map_or("$-1".into(), |value| format!("${} {value}", value.to_string().len()))
}

/// Generates a command, and executes it in the model; returns it with the model's reply.
fn step(dice: &mut Dice, model: &mut Model) -> (String, String) {
    let key = KEYS[dice.roll(3) as usize];
    let names: Vec<String> = (0..=dice.roll(3)).map(|_| format!("f{}", dice.roll(FIELDS))).collect();
    let (count, listed) = (names.len(), names.join(" "));
    let values: Vec<i64> = names.iter().map(|_| dice.roll(1000) as i64).collect();
    let pairs: Vec<String> = names.iter().zip(&values).map(|(name, value)| format!("{name} {value}")).collect();
    let pairs = pairs.join(" ");
    let ms = [1, 5, 20, 100, 5000][dice.roll(5) as usize];
    let deadline = model.now + ms;
    let before: Vec<Option<i64>> = names.iter().map(|name| model.get(key, name).map(|(value, _)| value)).collect();
    match dice.roll(16) {
        0..=2 => {
            let mut new = 0;
            for (name, value) in names.iter().zip(&values) {
                new += i64::from(model.get(key, name).is_none());
                model.set(key, name, *value, None);
            }
            (format!("HSET {key} {pairs}"), format!(":{new}"))
        }
        3..=4 => {
            let condition = ["", "NX ", "XX ", "GT ", "LT "][dice.roll(5) as usize];
            let ms = if dice.roll(8) == 0 { 0 } else { ms };
            let deadline = model.now + ms;
            let replies: Vec<String> =
                names.iter().map(|name| format!(":{}", model.expire(key, name, deadline, condition.trim()))).collect();
            (format!("HPEXPIRE {key} {ms} {condition}FIELDS {count} {listed}"), array(replies))
        }
        5 => {
            let replies: Vec<String> =
                names.iter().map(|name| format!(":{}", model.expire(key, name, deadline, ""))).collect();
            (format!("HPEXPIREAT {key} {deadline} FIELDS {count} {listed}"), array(replies))
        }
        6 => {
            let mut reply = |name: &String| match model.get(key, name) {
                None => ":-2".to_owned(),
                Some((_, None)) => ":-1".to_owned(),
                Some((value, Some(_))) => {
                    model.set(key, name, value, None);
                    ":1".to_owned()
                }
            };
            let replies: Vec<String> = names.iter().map(&mut reply).collect();
            (format!("HPERSIST {key} FIELDS {count} {listed}"), array(replies))
        }
        7..=8 => {
            let condition = ["", "FNX ", "FXX "][dice.roll(3) as usize];
            let life = ["", "PX", "KEEPTTL"][dice.roll(3) as usize];
            let is_met = match condition {
                "FNX " => before.iter().all(Option::is_none),
                "FXX " => before.iter().all(Option::is_some),
                _ => true,
            };
            for (name, value) in names.iter().zip(&values).filter(|_| is_met) {
                let kept = model.get(key, name).and_then(|(_, deadline)| deadline);
                let life = match life {
                    "PX" => Some(deadline),
                    "KEEPTTL" => kept,
                    _ => None,
                };
                model.set(key, name, *value, life);
            }
            let words = if life == "PX" { format!("PX {ms} ") } else { format!("{life} ").trim_start().to_owned() };
            (format!("HSETEX {key} {condition}{words}FIELDS {count} {pairs}"), format!(":{}", i64::from(is_met)))
        }
        9 => {
            let persists = dice.roll(2) == 0;
            for name in &names {
                if let Some((value, _)) = model.get(key, name) {
                    model.set(key, name, value, if persists { None } else { Some(deadline) });
                }
            }
            let life = if persists { "PERSIST".to_owned() } else { format!("PX {ms}") };
            (format!("HGETEX {key} {life} FIELDS {count} {listed}"), array(before.into_iter().map(bulk)))
        }
        10 => {
            let mut taken = Vec::new();
            for name in &names {
                taken.push(bulk(model.get(key, name).map(|(value, _)| value)));
                model.remove(key, name);
            }
            (format!("HGETDEL {key} FIELDS {count} {listed}"), array(taken))
        }
        11 => {
            let (name, amount) = (&names[0], values[0]);
            let (value, deadline) = model.get(key, name).unwrap_or((0, None));
            model.set(key, name, value + amount, deadline);
            (format!("HINCRBY {key} {name} {amount}"), format!(":{}", value + amount))
        }
        12 => {
            let mut removed = 0;
            for name in &names {
                removed += i64::from(model.get(key, name).is_some());
                model.remove(key, name);
            }
            (format!("HDEL {key} {listed}"), format!(":{removed}"))
        }
        13 => (format!("HMGET {key} {listed}"), array(before.into_iter().map(bulk))),
        14 => {
            let len = model.hashes.get(key).map_or(0, BTreeMap::len);
            (format!("HLEN {key}"), format!(":{len}"))
        }
        _ => {
            let other = KEYS[dice.roll(3) as usize];
            match model.hashes.get(key).cloned().filter(|_| key != other) {
                None => (format!("HSTRLEN {key} missing"), ":0".into()),
                Some(hash) if dice.roll(2) == 0 => {
                    model.hashes.insert(other, hash);
                    (format!("COPY {key} {other} REPLACE"), ":1".into())
                }
                Some(hash) => {
                    model.hashes.remove(key);
                    model.hashes.insert(other, hash);
                    (format!("RENAME {key} {other}"), "+OK".into())
                }
            }
        }
    }
}

/// Compares all hashes, their values and deadlines.
fn compare(client: &mut Client, model: &Model, history: &[String]) {
    for key in KEYS {
        let Frame::Array(found) = client.frame(&["HGETALL", key]) else { panic!("no fields of {key}") };
        let words: Vec<String> =
            found.iter().filter_map(Frame::as_bytes).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let fields = words.chunks(2).map(|pair| {
            let deadline = client.call(&format!("HPEXPIRETIME {key} FIELDS 1 {}", pair[0]));
            let deadline = deadline["*1 :".len()..].parse().ok().filter(|deadline| *deadline >= 0);
            (pair[0].clone(), (pair[1].parse().expect("a number"), deadline))
        });
        let fields: Hash = fields.collect();
        let expected = model.hashes.get(key).cloned().unwrap_or_default();
        assert_eq!(fields, expected, "{key} after\n{}", history.join("\n"));
    }
    let count = format!(":{}", model.hashes.len());
    assert_eq!(client.call("DBSIZE"), count, "after\n{}", history.join("\n"));
}

#[test]
fn fields_expire_as_in_a_plain_model() {
    let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    for limit in ["512", "3"] {
        let server = TestServer::start_with(&[("hash-max-listpack-entries", limit)]);
        server.server().set_wall_ms(NOW_MS);
        let (mut client, mut dice) = (server.client(), Dice::new(number("KEYLATCH_SEED", 74)));
        let (mut model, mut history) = (Model { now: NOW_MS, ..Model::default() }, Vec::new());
        for at in 0..number("KEYLATCH_COMMANDS", COMMANDS) {
            if dice.roll(6) == 0 {
                let ms = dice.roll(12);
                server.advance_ms(ms);
                model.now += ms as i64;
                history.push(format!("(advance {ms} ms)"));
            }
            model.settle();
            let (command, expected) = step(&mut dice, &mut model);
            history.push(command.clone());
            history.drain(..history.len().saturating_sub(40));
            assert_eq!(client.call(&command), expected, "after\n{}", history.join("\n"));
            model.settle();
            if at % 50 == 0 {
                compare(&mut client, &model, &history);
            }
        }
    }
}
