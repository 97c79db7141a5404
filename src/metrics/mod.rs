//! Answers of the metrics port: the metrics of Prometheus, and a page that follows the server.
//!
//! Every figure is one of INFO, or is computed by the code of LOCK.LIST and SLOWLOG; here the figures only get other
//! names. A page is sent them once a second, when the server has computed its rates. Ports and connections are
//! elsewhere; keys, names and addresses are shown, values and tokens never.
//!
//! Nothing can be changed through the port, unless the settings name a user who may release locks ([`release`]).
//!
//! Figures are collected on a thread that may block, one request after the other: a script can hold the store for
//! seconds, and neither accepted connections nor commands wait for figures that are only shown.

mod answer;
mod auth;
mod auth_rate_limit;
mod body;
mod escape;
mod exposition;
mod figures;
mod followers;
mod locks;
mod names;
mod page;
mod release;
mod sites;
mod state;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

pub(crate) use answer::HttpPeer;
pub(crate) use body::Body;

use crate::dispatch::Handlers;
use crate::metrics::auth::PageVisitor;
use crate::metrics::auth_rate_limit::AuthRateLimit;
use crate::metrics::figures::{InfoFigures, PlotPoint};
use crate::metrics::followers::Followers;
use crate::metrics::page::Page;
use crate::namespace::Namespace;

/// Number of seconds that a page shows.
const HISTORY_LEN: usize = 300;
/// Number of states in a row that a page may fail to take before its connection is closed.
const MISSED_MAX: usize = 10;

/// Answers of the metrics port.
pub(crate) struct Metrics {
    namespace: Arc<Namespace>,
    handlers: &'static Handlers,
    page: Page,
    history: Mutex<VecDeque<PlotPoint>>,
    /// Latest state, for the pages that follow.
    states: watch::Sender<Bytes>,
    followers: Arc<Followers>,
    /// Attempts left at the password of the user who may release locks.
    guesses: AuthRateLimit,
    /// Held while figures are collected.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Metrics {
    pub(crate) fn new(namespace: Arc<Namespace>, handlers: &'static Handlers) -> Self {
        Metrics {
            namespace,
            handlers,
            page: Page::new(),
            history: Mutex::default(),
            states: watch::Sender::new(Bytes::new()),
            followers: Arc::default(),
            guesses: AuthRateLimit::default(),
            turn: Arc::default(),
        }
    }

    /// Records the state whenever the server has computed its rates, and sends it to the pages.
    pub(crate) async fn follow(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.namespace.instance.stop.cancelled() => return,
                () = self.namespace.observed.sampled.notified() => {}
            }
            // While a script keeps the store busy there is nothing to show.
            let _ = self.collect(Metrics::record).await;
        }
    }

    /// Calls `read`, which collects figures, on a thread that may wait for the store.
    async fn collect<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Metrics) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        let (metrics, turn) = (self.clone(), self.turn.clone().lock_owned().await);
        let read = move || {
            let _turn = turn; // even if nobody waits for the result any longer
            metrics.namespace.instance.panics.catch("metrics", || read(&metrics)).flatten()
        };
        tokio::task::spawn_blocking(read).await.ok().flatten()
    }

    fn record(&self) -> Option<()> {
        let is_followed = self.states.receiver_count() > 0;
        let figures = InfoFigures::of_page(&self.namespace, self.handlers)?;
        let mut history = self.history.lock();
        if history.len() == HISTORY_LEN {
            history.pop_front();
        }
        history.push_back(figures.point(&self.namespace));
        drop(history);
        if is_followed {
            self.states.send_replace(event("state", &self.state(&figures)));
        }
        Some(())
    }

    /// Begins to send the state to a page: the history first. Returns `None` when too many pages follow already, in all
    /// or from the same peer, or a script keeps the store busy.
    async fn begin_to_follow(
        self: &Arc<Self>,
        visitor: PageVisitor,
        ip: IpAddr,
        cut: CancellationToken,
    ) -> Option<Body> {
        let place = self.followers.enter(ip)?;
        let (metrics, mut states) = (self.clone(), self.states.subscribe());
        let first = self.collect(Metrics::past_and_present).await?;
        let (sender, receiver) = mpsc::channel(1);
        // Cannot fail, because the channel is empty.
        let _ = sender.try_send(first);
        states.mark_unchanged();
        tokio::spawn(async move {
            let _place = place;
            metrics.send_states(&mut states, &sender, visitor, &cut).await;
        });
        Some(Body::Events(receiver))
    }

    fn past_and_present(&self) -> Option<Bytes> {
        let figures = InfoFigures::of_page(&self.namespace, self.handlers)?;
        let past = event("history", &state::history(&self.history.lock()));
        Some([past, event("state", &self.state(&figures))].concat().into())
    }

    /// Sends the states to a page until the page leaves, its user may not see them any longer, or it does not read
    /// them.
    async fn send_states(
        &self,
        states: &mut watch::Receiver<Bytes>,
        sender: &mpsc::Sender<Bytes>,
        mut visitor: PageVisitor,
        cut: &CancellationToken,
    ) {
        let mut missed = 0;
        while missed < MISSED_MAX {
            tokio::select! {
                () = sender.closed() => return,
                changed = states.changed() => if changed.is_err() { return },
            }
            if !visitor.may_still_follow(&self.namespace) {
                return;
            }
            let state = states.borrow_and_update().clone();
            missed = if sender.try_send(state).is_ok() { 0 } else { missed + 1 };
        }
        cut.cancel();
    }

    fn state(&self, figures: &InfoFigures) -> Value {
        state::state(&self.namespace, self.handlers, figures)
    }
}

/// Returns an event of a stream of server-sent events.
fn event(name: &str, data: &Value) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}
