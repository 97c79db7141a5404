//! The scenarios of `packages/lock-conformance.json`.

use std::collections::{HashMap, HashSet};
use std::env;
use std::sync::Arc;
use std::time::Duration;

use keylatch_lock::{AcquireError, Held, Lock, Locks, NotAcquired};
use redis::{FromRedisValue, Value};
use serde_json::{Map, Value as Json};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::admin::{Admin, PATIENCE, client, failover, is_plain, server, until};
use crate::moving::Moving;

const LIST: &str = include_str!("../../../../lock-conformance.json");

type Step = Map<String, Json>;
type Outcome = Result<Arc<Held>, AcquireError>;

/// A run of one scenario: the locks by the names that the steps give them, and who still waits.
struct Run {
    admin: Admin,
    locks: Locks,
    moving: Option<Moving>,
    held: HashMap<String, Arc<Held>>,
    refused: HashMap<String, NotAcquired>,
    objects: HashMap<String, Lock>,
    waiting: HashMap<String, oneshot::Receiver<Outcome>>,
    killed: HashSet<i64>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_that_the_helpers_of_all_languages_run_holds() {
    let list: Json = serde_json::from_str(LIST).expect("a list");
    let is = |scenario: &Json, what: &str| scenario[what] == Json::Bool(true);
    let mut failed = Vec::new();
    for scenario in list["scenarios"].as_array().expect("scenarios") {
        let name = scenario["name"].as_str().expect("a name").to_owned();
        if is(scenario, "threads")
            || !is_for_this_server(scenario)
            || env::var("SCENARIO").is_ok_and(|part| !name.contains(&part))
        {
            continue; // a lock knows no task
        }
        let (steps, moves) = (scenario["steps"].clone(), is(scenario, "moves") || is(scenario, "stalls"));
        if tokio::spawn(run(steps, moves)).await.is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

fn is_for_this_server(scenario: &Json) -> bool {
    let is = |what: &str| scenario[what] == Json::Bool(true);
    let steps = scenario["steps"].to_string();
    match (failover(), env::var_os("SENTINELS")) {
        (None, _) => (is("plain") || !is_plain()) && !is("fails"),
        (Some(_), Some(_)) => is("fails"),
        (Some(_), None) => !steps.contains("TEST.") && !steps.contains("\"without\"") && !is("not_on_etcd"),
    }
}

async fn run(steps: Json, moves: bool) {
    let (admin, moving) = (Admin::new().await, if moves { Some(Moving::new().await) } else { None });
    let locks = match &moving {
        Some(moving) => Locks::new(moving.clone()),
        None => Locks::new(client(&server())),
    };
    let (held, refused, objects, waiting, killed) = Default::default();
    let mut run = Run { admin, locks, moving, held, refused, objects, waiting, killed };
    for step in steps.as_array().expect("steps") {
        run.step(step.as_object().expect("a step")).await;
    }
    assert!(run.waiting.is_empty(), "somebody still waits");
}

fn text(of: &Json) -> &str {
    of.as_str().expect("a text")
}

fn names(of: &Json) -> Vec<String> {
    match of {
        Json::Array(names) => names.iter().map(|name| text(name).to_owned()).collect(),
        name => vec![text(name).to_owned()],
    }
}

impl Run {
    async fn step(&mut self, step: &Step) {
        let name = |verb: &str| text(&step[verb]).to_owned();
        match step.keys().next().map(String::as_str).expect("a verb") {
            _ if step.contains_key("acquire") => self.acquire(step).await,
            _ if step.contains_key("upgrade") => self.convert(&name("upgrade"), step).await,
            _ if step.contains_key("downgrade") => self.convert(&name("downgrade"), step).await,
            _ if step.contains_key("ends") => self.ends(&name("ends"), step).await,
            _ if step.contains_key("release") => {
                let released = self.held[&name("release")].release().await.expect("a reply");
                assert_eq!(Json::Bool(released), step["expect"], "{step:?}");
            }
            _ if step.contains_key("holds") => self.held[&name("holds")].check().expect("a lock that is held"),
            _ if step.contains_key("lost") => self.lost(&name("lost"), step).await,
            _ if step.contains_key("fence") => self.fence(step),
            _ if step.contains_key("command") => self.command(step).await,
            _ if step.contains_key("without") && is_plain() => {}
            _ if step.contains_key("without") => {
                for command in names(&step["without"]) {
                    let error = format!("ERR unknown command '{command}', with args beginning with: 'report' ");
                    self.admin.call(&["TEST.FAULT", "ADD", &command, "ERROR", &error]).await.expect("a fault");
                }
            }
            _ if step.contains_key("info") => self.info(&name("info"), step).await,
            _ if step.contains_key("refused") => self.refused(step),
            _ if step.contains_key("key") => {
                until!(step, {
                    let left = self.admin.call(&["PTTL", text(&step["key"])]).await.expect("a reply");
                    is_same(&left, &step["pttl"])
                });
            }
            _ if step.contains_key("cut") => self.cut(&name("cut"), step).await,
            _ if step.contains_key("failover") => {
                self.lose_clients(&name("failover")).await;
                let is_stuck = step.get("stuck") == Some(&Json::Bool(true));
                match &self.moving {
                    Some(moving) => moving.relocate(is_stuck).await,
                    None => self.admin.fail_over(if is_stuck { "stop" } else { "kill" }).await,
                }
            }
            _ if step.contains_key("stall") => {
                self.lose_clients(&name("stall")).await;
                let moving = self.moving.as_ref().expect("a server that moves");
                moving.stall(step.get("replies") == Some(&Json::Bool(true)));
            }
            _ if step.contains_key("resumes") => self.resumes(&name("resumes")).await,
            verb => panic!("an unknown step: {verb}"),
        }
    }

    async fn acquire(&mut self, step: &Step) {
        let before = self.admin.queued().await;
        let (lock, done) = (self.lock(step), self.begin(text(&step["as"])));
        let then = step.get("on_lost").and_then(Json::as_object);
        let then = then.map(|then| (self.lock(then), self.begin(text(&then["as"]))));
        tokio::spawn(async move {
            let outcome = lock.acquire().await.map(Arc::new);
            let (Some((lock, next)), Ok(held)) = (then, &outcome) else {
                return drop(done.send(outcome));
            };
            let lost = held.lost();
            drop(done.send(outcome));
            lost.await;
            drop(next.send(lock.acquire().await.map(Arc::new)));
        });
        self.begun(text(&step["as"]), step, before).await;
    }

    async fn convert(&mut self, name: &str, step: &Step) {
        let (before, held, done) = (self.admin.queued().await, self.held[name].clone(), self.begin(name));
        let wait = step.get("wait_ms").and_then(Json::as_u64).map(Duration::from_millis);
        let upgrades = step.contains_key("upgrade");
        tokio::spawn(async move {
            let converted = if upgrades { held.upgrade(wait).await } else { held.downgrade().await };
            drop(done.send(converted.map(|()| held)));
        });
        self.begun(name, step, before).await;
    }

    /// Notes that somebody is to have a lock, or another mode for it.
    fn begin(&mut self, name: &str) -> oneshot::Sender<Outcome> {
        let (done, outcome) = oneshot::channel();
        self.waiting.insert(name.to_owned(), outcome);
        done
    }

    /// Looks at a call that has begun, before which so many clients were queued.
    async fn begun(&mut self, name: &str, step: &Step, before: u64) {
        match step.get("expect").and_then(Json::as_str) {
            Some("waits") => until!(step, self.admin.queued().await > before),
            Some("begins") => {}
            _ => self.ends(name, step).await,
        }
    }

    /// Returns the lock of a step, or that of the object which it names.
    fn lock(&mut self, step: &Step) -> Lock {
        let object = step.get("object").map(|object| text(object).to_owned());
        if let Some(made) = object.as_ref().and_then(|object| self.objects.get(object)) {
            return made.clone();
        }
        let number = |word: &str| step.get(word).and_then(Json::as_u64);
        let count = |word: &str| number(word).map(|count| u32::try_from(count).expect("a count"));
        let time = |word: &str| number(word).map(Duration::from_millis);
        let said = |word: &str| step.get(word).and_then(Json::as_str);
        let is = |word: &str| step.get(word) == Some(&Json::Bool(true));
        let mut lock = self.locks.several(names(&step["acquire"])).ttl(time("ttl_ms").unwrap_or(PATIENCE));
        if let Some(wait) = time("wait_ms") {
            lock = lock.wait(wait);
        }
        if is("shared") {
            lock = lock.shared();
        }
        if let Some(interval) = time("renew_ms") {
            lock = lock.renew_every(interval);
        }
        if let Some(limit) = time("renew_for_ms") {
            lock = lock.renew_for(limit);
        }
        if let Some(permits) = count("permits") {
            lock = lock.permits(permits);
        }
        if let Some(size) = count("of") {
            lock = lock.of(size);
        }
        if let Some(meta) = said("meta") {
            lock = lock.meta(meta);
        }
        if is("session") {
            lock = lock.session();
        }
        if let Some(owner) = said("owner") {
            lock = lock.owner(owner);
        }
        if let Some(object) = object {
            self.objects.insert(object, lock.clone());
        }
        lock
    }

    async fn ends(&mut self, name: &str, step: &Step) {
        let waiting = self.waiting.remove(name).expect("somebody who waits");
        let outcome = timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("waited in vain: {step:?}"));
        let (kind, told) = match outcome.expect("an outcome") {
            Ok(held) => {
                self.held.insert(name.to_owned(), held);
                ("held", String::new())
            }
            Err(AcquireError::NotAcquired(refused)) => {
                let told = refused.to_string();
                self.refused.insert(name.to_owned(), *refused);
                ("not acquired", told)
            }
            Err(AcquireError::Deadlock(cycle)) => ("deadlock", cycle),
            Err(error) => ("error", error.to_string()),
        };
        match step.get("expect") {
            Some(Json::Object(expected)) => {
                let part = expected.get(kind).map(text).unwrap_or_else(|| panic!("{step:?}: {kind} {told}"));
                assert!(told.contains(part), "{step:?}: {told}");
            }
            expected => assert_eq!(expected.map_or("held", text), kind, "{step:?}: {told}"),
        }
    }

    async fn lost(&mut self, name: &str, step: &Step) {
        let held = &self.held[name];
        let lost = timeout(PATIENCE, held.lost()).await.unwrap_or_else(|_| panic!("waited in vain: {step:?}"));
        assert!(names(&step["because"]).contains(&lost.reason), "{step:?}: {lost}");
        assert_eq!(held.check(), Err(lost));
    }

    fn fence(&self, step: &Step) {
        let fence = |of: &Json| match of {
            Json::Array(of) => self.held[text(&of[0])].fence_of(text(&of[1])),
            of => self.held[text(of)].fence(),
        };
        if let Some(expected) = step.get("is") {
            return assert_eq!(fence(&step["fence"]), expected.as_i64(), "{step:?}");
        }
        let fence = |of: &Json| fence(of).expect("a fence");
        match step.get("above") {
            Some(other) => assert!(fence(&step["fence"]) > fence(other), "{step:?}"),
            None => assert_eq!(fence(&step["fence"]), fence(&step["same_as"]), "{step:?}"),
        }
    }

    fn refused(&self, step: &Step) {
        let told = &self.refused[text(&step["refused"])];
        let holder = told.holder.as_ref().expect("a holder");
        let ms = |time: Option<Duration>| time.map(|time| time.as_millis() as u64);
        assert_eq!((&told.name[..], &holder.meta[..]), (text(&step["name"]), text(&step["meta"])));
        assert_eq!((ms(told.age), ms(told.ttl)), (step["age_ms"].as_u64(), step["ttl_ms"].as_u64()));
    }

    async fn command(&mut self, step: &Step) {
        let words = step["command"].as_array().expect("words");
        let words: Vec<String> =
            words.iter().map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_owned)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let reply = self.admin.call(&words).await.expect("a reply");
        if let Some(expected) = step.get("expect") {
            assert!(is_same(&reply, expected), "{step:?}: {reply:?}");
        }
    }

    async fn info(&mut self, name: &str, step: &Step) {
        let expected = step["has"].as_object();
        until!(step, {
            match (self.admin.info(name).await, expected) {
                (None, None) => true,
                (Some(info), Some(expected)) => expected.iter().all(|(field, value)| is_same(&info[field], value)),
                _ => false,
            }
        });
    }

    async fn cut(&mut self, name: &str, step: &Step) {
        let info = self.admin.info(name).await.expect("a lock");
        let client = match step.get("waiter").and_then(Json::as_u64) {
            Some(waiter) => Admin::clients(&info, "waiters")[waiter as usize],
            None => Admin::clients(&info, "holders")[0],
        };
        self.killed.insert(client);
        let killed = self.admin.call(&["CLIENT", "KILL", "ID", &client.to_string()]).await;
        assert_eq!(killed, Ok(Value::Int(1)), "{step:?}");
    }

    /// Notes that those who hold a lock or wait for it need other connections.
    async fn lose_clients(&mut self, name: &str) {
        if let Some(info) = self.admin.info(name).await {
            self.killed.extend(Admin::clients(&info, "holders"));
            self.killed.extend(Admin::clients(&info, "waiters"));
        }
    }

    async fn resumes(&mut self, name: &str) {
        until!(name, {
            let info = self.admin.info(name).await.unwrap_or_default();
            let all =
                ["holders", "waiters"].map(|who| if info.is_empty() { vec![] } else { Admin::clients(&info, who) });
            let all = all.concat();
            !all.is_empty() && all.iter().all(|client| *client != 0 && !self.killed.contains(client))
        });
    }
}

/// Compares a reply with a value of the list; of an array the length.
fn is_same(reply: &Value, expected: &Json) -> bool {
    match reply {
        Value::Nil => expected.is_null(),
        Value::Array(list) => expected.as_u64() == Some(list.len() as u64),
        Value::Int(number) => expected.as_i64() == Some(*number),
        text => String::from_redis_value(text.clone()).is_ok_and(|text| expected.as_str() == Some(&text)),
    }
}
