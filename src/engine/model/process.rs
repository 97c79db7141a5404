//! A process of the model: a namespace whose engine is a real core, driven by hand, and the connections of its clients.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use tokio::sync::{mpsc, oneshot};
use tokio_util::codec::Decoder;

use crate::client::info::{ClientInfo, Peer};
use crate::client::registry::Unblocked;
use crate::client::session::Client;
use crate::client::staged::Freshness;
use crate::command::handlers;
use crate::config::Config;
use crate::dispatch::batch::BatchRun;
use crate::dispatch::plan::Plan;
use crate::dispatch::{Continuation, Env, Next, Wait};
use crate::engine::cluster::{NamedValue, Revision};
use crate::engine::core::{Core, EngineAction};
use crate::engine::driver::{DriverInput, Handle};
use crate::engine::mirror::Mirror;
use crate::engine::names::NamePrefix;
use crate::error::{Error, Result};
use crate::namespace::Namespace;
use crate::resp::{Batch, Codec, Output, RequestLimits};
use crate::store::{Cx, Origin};
use crate::time::clock::Clock;

/// Start of all correct wall clocks, in milliseconds since 1970.
const WALL_MS: i64 = 1_700_000_000_000;

/// Duration of a lease after its renewal, and the time for which its process relies on it, in milliseconds.
pub(super) const LEASE_MS: u64 = 10_000;
const LEASE_HELD_MS: u64 = 8_000;

pub(super) struct Process {
    pub(super) namespace: Arc<Namespace>,
    pub(super) core: Core,
    inputs: mpsc::UnboundedReceiver<DriverInput>,
    /// The number of the process, while it is registered.
    pub(super) registration: Option<u64>,
    /// Number of the cluster's changes that the watch has reported.
    pub(super) told: usize,
    /// Result of a running read of all names, with the revision and the number of reported changes at its start.
    pub(super) loading: Option<(Vec<NamedValue>, Revision, usize)>,
    /// True if the lease cannot be renewed.
    pub(super) is_cut_off: bool,
    /// True while a script holds the core up: no input is handled, but the lease is renewed and watched.
    pub(super) is_stuck: bool,
}

impl Process {
    /// Starts a process whose wall clock is wrong by `skew_ms`.
    pub(super) fn start(prefix: &NamePrefix, skew_ms: i64) -> Self {
        let mut config = Config::default();
        config.databases = 1;
        let clock = Clock::manual();
        clock.set_wall_ms(WALL_MS + skew_ms);
        let namespace = Arc::new(Namespace::for_test(&handlers().commands, config, clock));
        let mirror = Mirror::new(namespace.clone(), prefix.clone());
        let core = Core::new((namespace.clone(), handlers()), prefix.clone(), mirror);
        let (tell, inputs) = mpsc::unbounded_channel();
        namespace.set_engine(Arc::new(Handle::new(&core, tell)));
        Process {
            namespace,
            core,
            inputs,
            registration: None,
            told: 0,
            loading: None,
            is_cut_off: false,
            is_stuck: false,
        }
    }

    /// Registers the process with a number, and a lease that begins now.
    pub(super) fn register(&mut self, number: u64) {
        self.registration = Some(number);
        self.hold_lease();
        self.core.stats.process.store(number, Relaxed);
        self.core.registered(number);
    }

    pub(super) fn hold_lease(&mut self) {
        if let Some(number) = self.registration {
            self.core.mirror.locks.lease.hold(number, self.namespace.clock.now().ms_later(LEASE_HELD_MS));
        }
    }

    /// Passes the requests of clients to the core, as [`Driver`](crate::engine::driver::Driver) does; returns the
    /// core's actions, and true if there were requests.
    pub(super) fn turn(&mut self) -> (Vec<EngineAction>, bool) {
        let mut is_idle = true;
        while let Ok(input) = self.inputs.try_recv() {
            is_idle = false;
            if let DriverInput::Client(input) = input {
                self.core.hear_client(input);
            }
        }
        self.core.tick();
        (self.core.take_actions(), !is_idle)
    }
}

enum State {
    Idle,
    /// The request waits until the mirror is up to date.
    Refreshing(oneshot::Receiver<Result<()>>),
    /// The rest of the request.
    Unfinished(Box<dyn Continuation>),
    Closed,
}

pub(super) struct ModelConnection {
    client: Client,
    state: State,
    batch: Batch,
}

impl ModelConnection {
    /// Connects a client to a process.
    pub(super) fn open(namespace: &Namespace) -> Self {
        let peer = Peer { addr: "model:0".into(), laddr: "model:0".into(), fd: -1, is_unix: true };
        let info = namespace.clients.admit(peer, namespace.clock.now(), usize::MAX).expect("there is room");
        ModelConnection { client: Client::new(info, &namespace.acl), state: State::Idle, batch: Batch::default() }
    }

    /// Returns what the process knows of its client.
    pub(super) fn info(&self) -> Arc<ClientInfo> {
        self.client.caller.info.clone()
    }

    /// Returns true if the connection waits for a reply.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Refreshing(_) | State::Unfinished(_))
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Returns true if the process has told the connection to close.
    pub(super) fn is_to_close(&self) -> bool {
        !self.is_closed() && self.client.caller.info.outbox.is_ending()
    }

    /// Sends a request; returns the reply if it is there at once.
    pub(super) fn send(&mut self, namespace: &Namespace, words: &[String]) -> Option<String> {
        let mut text = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| text += &format!("${}\r\n{word}\r\n", word.len()));
        let mut codec = Codec::new(RequestLimits { bulk_len_max: usize::MAX >> 1, authenticated: true });
        self.batch = codec.decode(&mut BytesMut::from(text.as_bytes())).expect("a request").expect("all of it");
        self.client.caller.info.traffic.count_bytes_in(text.len());
        self.execute(namespace)
    }

    /// Executes the request, as a connection of the server does.
    fn execute(&mut self, namespace: &Namespace) -> Option<String> {
        let (client, batch) = (&mut self.client, &self.batch);
        let mut out = Output::new();
        let next = loop {
            let generation = namespace.store.generation();
            client.caller.follow_users(&namespace.acl);
            let next = Env::with_present(namespace, handlers(), client.caller.info.id, |env| {
                let mut run = BatchRun::new(env, generation, client);
                run.set_up_extra_work(client);
                let mut plan = Plan::default();
                run.plan(batch, 0, client.caller.db, &mut plan);
                run.execute(client, plan.of(batch, 0), &mut 0, &mut out)
            });
            if !matches!(next, Next::Again) {
                break next;
            }
        };
        match next {
            Next::Refresh(refreshed) => self.state = State::Refreshing(refreshed),
            Next::Continue(rest) => self.state = State::Unfinished(rest),
            _ => {
                self.state = State::Idle;
                return Some(String::from_utf8_lossy(&out.into_bytes()).trim_end().replace("\r\n", " "));
            }
        }
        None
    }

    /// Continues the request as far as possible; returns the reply once it is there.
    pub(super) fn poll(&mut self, namespace: &Namespace) -> Option<String> {
        loop {
            let woken = match &mut self.state {
                State::Idle | State::Closed => return None,
                State::Refreshing(refreshed) => {
                    let outcome = match refreshed.try_recv() {
                        Ok(outcome) => outcome,
                        Err(oneshot::error::TryRecvError::Empty) => return None,
                        Err(oneshot::error::TryRecvError::Closed) => Err(Error::NoQuorum),
                    };
                    let freshness = self.client.session.freshness.get_or_insert_default();
                    match outcome {
                        Ok(()) => freshness.is_fresh = true,
                        Err(error) => **freshness = Freshness { failure: Some(error), ..Freshness::default() },
                    }
                    match self.execute(namespace) {
                        None => continue,
                        reply => return reply,
                    }
                }
                State::Unfinished(rest) => match rest.wait() {
                    Wait::Commit(mut work) => match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                        Poll::Ready(()) => Unblocked::InTime,
                        Poll::Pending => return None,
                    },
                    Wait::Blocked(blocked) => blocked.ended(namespace.clock.now(), true)?,
                    _ => unreachable!("no call of the model waits for anything else"),
                },
            };
            if let Some(reply) = self.step(namespace, woken) {
                return Some(reply);
            }
        }
    }

    /// Runs a step of the rest of the request; returns the reply after the last one.
    fn step(&mut self, namespace: &Namespace, woken: Unblocked) -> Option<String> {
        let State::Unfinished(rest) = &mut self.state else { return None };
        let (client, mut out) = (&mut self.client, Output::new());
        let is_over = Env::with_present(namespace, handlers(), client.caller.info.id, |env| {
            let mut run = BatchRun::new(env, namespace.store.generation(), client);
            run.resume(&mut **rest, &mut client.caller, woken, &mut out)
        });
        if !is_over {
            return None;
        }
        self.state = State::Idle;
        Some(String::from_utf8_lossy(&out.into_bytes()).trim_end().replace("\r\n", " "))
    }

    /// Closes the connection, as the server does at the end of one.
    pub(super) fn close(&mut self, namespace: &Namespace) {
        let client = &mut self.client;
        if let State::Unfinished(mut rest) = std::mem::replace(&mut self.state, State::Closed) {
            if let Wait::Blocked(blocked) = rest.wait() {
                blocked.end();
            }
            Env::with_present(namespace, handlers(), client.caller.info.id, |env| {
                BatchRun::new(env, namespace.store.generation(), client).abandon(&mut *rest, &client.caller);
            });
        }
        let info = client.caller.info.clone();
        let cx = Cx::new(namespace.clock.now(), Origin::Client(info.id));
        let end = || namespace.end_session(&info, &mut namespace.store.hold(1).view(0, &[], cx), false);
        end();
        info.outbox.close();
        namespace.clients.remove(info.id);
        end();
    }

    /// Drops the connection, because its process has died.
    pub(super) fn lose(&mut self) {
        self.state = State::Closed;
    }
}
