//! The thread of the engine: passes calls and notifications of the cluster to the [`Core`], and executes the core's
//! actions.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};
use tracing::{info, warn};

use crate::client::engine::{Engine, StagedCall, StagedOutcome};
use crate::client::registry::ClientWait;
use crate::engine::cluster::{ClusterFailure, NamedValue, Revision, TransactionResult};
use crate::engine::core::{ClientInput, Core, EngineAction};
use crate::engine::etcd::Cluster;
use crate::engine::lease::Lease;
use crate::engine::load::read_all;
use crate::engine::names::{EtcdName, NamePrefix};
use crate::engine::nodes::KnownNodes;
use crate::engine::watch::{EtcdWatch, WatchMessage};
use crate::error::Result;
use crate::observe::EngineStats;
use crate::store::{KeyName, NEVER};
use crate::time::clock::Clock;
use crate::topology::ClusterView;

/// Time for which the mirror may lag behind a barrier before the changes are followed at another endpoint.
const LAG_MAX_MS: u64 = 1000;
/// Interval of progress requests while a barrier waits for the mirror.
const ASK_EVERY_MS: u64 = 100;
/// Time without a message of the cluster after which its present revision is requested.
const SILENCE_MS: u64 = 1000;
/// Pause after a failure.
pub(super) const RETRY: Duration = Duration::from_millis(200);
/// Time for which inputs are handled before the resulting actions are executed.
const TURN: Duration = Duration::from_millis(10);
/// Duration from which on a turn has held up other inputs, in milliseconds.
const HELD_UP_MS_MIN: u64 = 50;

pub(super) enum DriverInput {
    /// An input of this process' clients.
    Client(ClientInput),
    /// The answer to the transaction on a lane of a process.
    Done(u64, u32, std::result::Result<TransactionResult, ClusterFailure>),
    /// The answer to a barrier.
    Revision(std::result::Result<Revision, ClusterFailure>),
    /// A message of the watch with this number.
    Watch(u64, WatchMessage),
    /// The watch is to be opened again, after the watch with this number has ended.
    WatchAgain(u64),
    /// All keys at a revision, after the watch with this number has missed changes.
    Loaded(u64, Vec<NamedValue>, Revision),
    /// The process is registered with a number, and a lease.
    Registered(u64, i64),
    /// The lease was kept alive.
    LeaseHeld,
    /// Another endpoint may be in use.
    EndpointChanged,
    /// The lease of the process has expired.
    LeaseExpired(u64),
    /// The clock was moved: work may be due.
    ClockMoved,
    Stop,
}

/// The handle by which calls of clients reach the engine.
pub(super) struct Handle {
    inputs: mpsc::UnboundedSender<DriverInput>,
    stats: Arc<EngineStats>,
    lease: Arc<Lease>,
    nodes: Arc<KnownNodes>,
}

impl Handle {
    /// Creates the handle of a core, whose inputs are sent to `inputs`.
    pub(super) fn new(core: &Core, inputs: mpsc::UnboundedSender<DriverInput>) -> Self {
        let (lease, nodes) = (core.mirror.locks.lease.clone(), core.mirror.nodes.clone());
        Handle { inputs, stats: core.stats.clone(), lease, nodes }
    }

    fn tell_client(&self, input: ClientInput) {
        self.tell(DriverInput::Client(input));
    }

    fn tell(&self, input: DriverInput) {
        let _ = self.inputs.send(input); // the engine has stopped, which the waiters see by the end of their channels
    }
}

impl Engine for Handle {
    fn refresh(&self, done: oneshot::Sender<Result<()>>) {
        self.tell_client(ClientInput::Refresh(done));
    }

    fn execute(&self, call: StagedCall, done: oneshot::Sender<StagedOutcome>) {
        self.tell_client(ClientInput::Call(Box::new(call), done));
    }

    fn settle(&self, done: oneshot::Sender<()>) {
        self.tell_client(ClientInput::Settle(done));
    }

    fn confirm(&self, wait: Arc<ClientWait>) {
        self.tell_client(ClientInput::Confirm(wait));
    }

    fn follow_clock(&self) {
        self.tell(DriverInput::ClockMoved);
    }

    fn repeat(&self, wait: Arc<ClientWait>) {
        self.tell_client(ClientInput::Repeat(wait));
    }

    fn pass_on(&self, keys: Vec<KeyName>) {
        self.tell_client(ClientInput::PassOn(keys));
    }

    fn leave_queue(&self, locks: Vec<KeyName>, wait: u64, done: Option<oneshot::Sender<()>>) {
        self.tell_client(ClientInput::LeaveQueue(locks, wait, done));
    }

    fn end_session(&self, client: u64, grace_ms: u64) {
        self.tell_client(ClientInput::EndSession(client, grace_ms));
    }

    fn process(&self) -> u64 {
        self.stats.process.load(Relaxed)
    }

    fn cluster_view(&self) -> Option<ClusterView> {
        self.nodes.view(self.lease.until_ms().is_some())
    }
}

/// State of the thread.
pub(super) struct Driver {
    pub(super) core: Core,
    pub(super) cluster: Arc<Cluster>,
    pub(super) prefix: NamePrefix,
    pub(super) inputs: mpsc::UnboundedReceiver<DriverInput>,
    pub(super) tell: mpsc::UnboundedSender<DriverInput>,
    watch: Option<EtcdWatch>,
    /// Number of watches opened so far.
    watches: u64,
    /// True if the end of a watch was reported, and no change has arrived since.
    is_cut_off: bool,
    /// Requests the registration of the process.
    keeper: mpsc::UnboundedSender<()>,
    /// The process and its lease, once it is registered.
    registration: Option<(u64, i64)>,
    /// Time since which a barrier waits for the mirror, and time of the last progress request, in monotonic
    /// milliseconds.
    lags_since_ms: Option<u64>,
    asked_ms: u64,
    /// Time of the last message of the cluster, in monotonic milliseconds.
    heard_ms: u64,
    /// The refresh that was requested because there was none.
    refresh: Option<oneshot::Receiver<Result<()>>>,
}

impl Driver {
    /// Creates the state for a mirror that is loaded.
    pub(super) fn new(
        core: Core,
        cluster: Arc<Cluster>,
        prefix: NamePrefix,
        (tell, inputs): (mpsc::UnboundedSender<DriverInput>, mpsc::UnboundedReceiver<DriverInput>),
        keeper: mpsc::UnboundedSender<()>,
    ) -> Self {
        Driver {
            core,
            cluster,
            prefix,
            inputs,
            tell,
            watch: None,
            watches: 0,
            is_cut_off: false,
            keeper,
            registration: None,
            lags_since_ms: None,
            asked_ms: 0,
            heard_ms: 0,
            refresh: None,
        }
    }

    /// Serves until the server stops.
    pub(super) async fn run(mut self) {
        self.begin_watch();
        let _ = self.keeper.send(()); // the keeper ends with the process
        self.look();
        let real = Clock::system();
        loop {
            let due_ms = self.core.next_tick_ms().min(self.next_lag_ms()).min(self.next_refresh_ms());
            let clock = self.core.clock().clone();
            let (begun, is_timed) = (real.now(), due_ms != NEVER && !clock.is_steered());
            let end_ms = begun.mono_ms().saturating_add(due_ms.saturating_sub(clock.now().mono_ms()));
            let input = tokio::select! {
                biased;
                input = self.inputs.recv() => input,
                () = clock.reach(due_ms) => None,
            };
            let woken_ms = real.now().mono_ms();
            if is_timed {
                self.forgive(woken_ms.saturating_sub(end_ms)); // the process was stopped
            }
            if let Some(input) = input {
                // Inputs that have arrived meanwhile may be handled together.
                let (mut next, end_us) = (Some(input), clock.now().mono_us() + TURN.as_micros() as u64);
                while let Some(input) = next {
                    if let DriverInput::Stop = input {
                        return self.leave().await;
                    }
                    self.handle(input);
                    let has_time = self.core.clock().now().mono_us() < end_us;
                    next = if has_time { self.inputs.try_recv().ok() } else { None };
                }
            }
            self.forgive(real.now().mono_ms().saturating_sub(woken_ms));
            self.refresh_when_silent();
            self.core.tick();
            self.carry_out();
            self.check_lag();
            self.follow_endpoint();
            tokio::task::yield_now().await; // to the cluster's connections, even under load
        }
    }

    /// Extends all waits by time in which this thread handled no input.
    fn forgive(&mut self, ms: u64) {
        if ms >= HELD_UP_MS_MIN {
            self.core.patience.forgive(ms);
        }
    }

    fn handle(&mut self, input: DriverInput) {
        if let DriverInput::Done(_, _, Ok(_)) | DriverInput::Revision(Ok(_)) | DriverInput::Watch(..) = &input {
            self.heard_ms = self.core.clock().now().mono_ms();
        }
        match input {
            DriverInput::Client(input) => self.core.hear_client(input),
            DriverInput::Done(process, lane, result) => {
                // The answer to a transaction of a former registration concerns no present lane.
                if self.registration.is_some_and(|(present, _)| present == process) {
                    self.core.done(lane, result);
                }
            }
            DriverInput::Revision(revision) => self.core.barrier(revision),
            DriverInput::Watch(number, seen) => {
                if self.watches == number {
                    self.hear(seen);
                }
            }
            DriverInput::WatchAgain(number) => {
                if self.watches == number {
                    self.begin_watch();
                }
            }
            DriverInput::Loaded(number, pairs, revision) => {
                if self.watches == number {
                    self.core.replace(pairs, revision);
                    self.begin_watch();
                }
            }
            DriverInput::Registered(process, lease) => {
                self.registration = Some((process, lease));
                self.core.stats.process.store(process, Relaxed);
                self.core.registered(process);
            }
            DriverInput::LeaseHeld => self.look(),
            DriverInput::LeaseExpired(process) => {
                if self.registration.is_some_and(|(present, _)| present == process) {
                    self.core.lose_registration();
                }
            }
            DriverInput::EndpointChanged | DriverInput::ClockMoved | DriverInput::Stop => {}
        }
    }

    fn hear(&mut self, seen: WatchMessage) {
        let is_change = matches!(seen, WatchMessage::Steps(_) | WatchMessage::Progress(_));
        if is_change && std::mem::take(&mut self.is_cut_off) {
            info!("etcd: the changes are followed again");
        }
        match seen {
            WatchMessage::Steps(steps) => steps.into_iter().for_each(|step| self.core.step(step)),
            WatchMessage::Progress(revision) => self.core.progress(revision),
            WatchMessage::Ended(reason) => {
                if !std::mem::replace(&mut self.is_cut_off, true) {
                    warn!("etcd: the watch has ended and is begun again until it succeeds: {reason}");
                }
                self.watch = None;
                let (number, tell) = (self.watches, self.tell.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(RETRY).await;
                    let _ = tell.send(DriverInput::WatchAgain(number)); // the engine may have ended
                });
            }
            WatchMessage::Compacted => {
                warn!("etcd: what has changed since was compacted, the keys are loaded again");
                self.core.stats.reloads.fetch_add(1, Relaxed);
                self.watch = None;
                self.reload();
            }
        }
    }

    /// Loads all keys again, while calls continue with the present mirror.
    fn reload(&self) {
        let (cluster, prefix, tell, number) =
            (self.cluster.clone(), self.prefix.clone(), self.tell.clone(), self.watches);
        tokio::spawn(async move {
            loop {
                match read_all(&cluster, &prefix).await {
                    Ok((pairs, revision)) => {
                        let _ = tell.send(DriverInput::Loaded(number, pairs, revision)); // the engine may have ended
                        return;
                    }
                    Err(failure) => warn!("etcd: the keys cannot be loaded: {}", failure.reason()),
                }
                tokio::time::sleep(RETRY).await;
            }
        });
    }

    fn begin_watch(&mut self) {
        self.watches += 1;
        self.core.stats.watches.fetch_add(1, Relaxed);
        let (after, number) = (self.core.mirror.revision(), self.watches);
        let tell = self.tell.clone();
        let tell = move |seen| _ = tell.send(DriverInput::Watch(number, seen)); // the receiver is gone when the engine ends
        self.watch = Some(EtcdWatch::begin(self.cluster.clone(), &self.prefix, after, tell));
        self.lags_since_ms = None;
    }

    /// Looks at the state of the cluster, for INFO, and changes to the leader's endpoint.
    fn look(&self) {
        let (cluster, tell) = (self.cluster.clone(), self.tell.clone());
        tokio::spawn(async move {
            let _ = cluster.look().await; // without an answer, the last known state stands
            cluster.follow_leader().await;
            let _ = tell.send(DriverInput::EndpointChanged); // the engine may have ended
        });
    }

    /// Follows the changes from the endpoint in use, if another one has answered a request too late.
    fn follow_endpoint(&mut self) {
        if self.watch.as_ref().is_some_and(|watch| watch.endpoint != self.cluster.present()) {
            self.begin_watch();
        }
    }

    fn next_refresh_ms(&self) -> u64 {
        if self.refresh.is_some() { NEVER } else { self.heard_ms.saturating_add(SILENCE_MS) }
    }

    /// Requests the present revision after a silence, as a call would: without calls, too, the changes are followed from
    /// another endpoint when a node hangs or is cut off.
    fn refresh_when_silent(&mut self) {
        self.refresh.take_if(|refresh| !matches!(refresh.try_recv(), Err(TryRecvError::Empty)));
        let now_ms = self.core.clock().now().mono_ms();
        if now_ms >= self.next_refresh_ms() {
            self.heard_ms = now_ms;
            let (done, refresh) = oneshot::channel();
            self.refresh = Some(refresh);
            self.core.hear_client(ClientInput::Refresh(done));
        }
    }

    fn next_lag_ms(&self) -> u64 {
        if self.core.awaits_mirror() && self.watch.is_some() {
            self.asked_ms.saturating_add(ASK_EVERY_MS)
        } else {
            NEVER
        }
    }

    /// Requests progress while a barrier waits for the mirror, and follows the changes at another endpoint if there is
    /// none.
    fn check_lag(&mut self) {
        let now_ms = self.core.clock().now().mono_ms();
        let (true, Some(watch)) = (self.core.awaits_mirror(), &self.watch) else {
            self.lags_since_ms = None;
            return;
        };
        let since_ms = *self.lags_since_ms.get_or_insert(now_ms);
        if now_ms >= since_ms.saturating_add(LAG_MAX_MS) {
            warn!("etcd: the changes come too late, they are followed from another endpoint");
            self.cluster.leave(watch.endpoint);
            self.begin_watch();
        } else if since_ms == now_ms || now_ms >= self.asked_ms.saturating_add(ASK_EVERY_MS) {
            self.asked_ms = now_ms;
            watch.ask_progress();
        }
    }

    /// Executes the actions of the core.
    fn carry_out(&mut self) {
        for action in self.core.take_actions() {
            let (cluster, tell) = (self.cluster.clone(), self.tell.clone());
            match action {
                EngineAction::Commit(lane, transaction) => {
                    let Some((process, lease)) = self.registration else { continue };
                    tokio::spawn(async move {
                        let result = cluster.commit(transaction, lease).await;
                        let _ = tell.send(DriverInput::Done(process, lane, result)); // the engine may have ended
                    });
                }
                EngineAction::Aside(transaction) => {
                    let Some((_, lease)) = self.registration else { continue };
                    tokio::spawn(async move { cluster.commit(transaction, lease).await }); // the watch tells the outcome
                }
                EngineAction::ReadRevision => {
                    let name = self.prefix.name(&EtcdName::Format);
                    tokio::spawn(async move {
                        let revision = cluster.revision(&name).await;
                        let _ = tell.send(DriverInput::Revision(revision)); // as above
                    });
                }
                EngineAction::Register => {
                    warn!("etcd: the lease of this process has expired, it is registered again");
                    self.registration = None;
                    let _ = self.keeper.send(()); // the keeper ends with the process
                }
            }
        }
    }

    /// Revokes the registration when the server stops.
    async fn leave(self) {
        let Some((_, lease)) = self.registration else { return };
        let _ = self.cluster.revoke(lease).await; // the lease ends anyway
        info!("etcd: this process has left");
    }
}
