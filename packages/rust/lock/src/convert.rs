//! Changing the mode of a lock that is held.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{OwnedMutexGuard, oneshot};
use tokio::time::{Instant, timeout};

use crate::acquire::{Grant, Seeker};
use crate::error::{AcquireError, NotAcquired};
use crate::held::{Answer, Hold};
use crate::keeper::Line;
use crate::locks::FOREVER;
use crate::terms::{CANNOT_CONVERT, Mode};
use crate::wire::{Event, Wire};

/// Order to the task that holds a lock.
pub(crate) enum Order {
    /// Releases the lock; the outcome goes by the channel.
    Release(Answer),
    /// Holds the lock in another mode, which was granted.
    Convert(Box<Conversion>),
    /// Holds the lock in the mode that it had: a conversion has failed, or its outcome is not known.
    Restore(Restoration),
}

/// Turn of a conversion.
pub(crate) type Turn = OwnedMutexGuard<()>;

/// Grant of another mode.
pub(crate) struct Conversion {
    /// Line over which it was granted, and which has the lock from then on.
    pub(crate) line: Line,
    /// What the line tells.
    pub(crate) events: UnboundedReceiver<Event>,
    pub(crate) grant: Grant,
    pub(crate) turn: Turn,
    /// Tells that the lock is held in this mode.
    pub(crate) done: oneshot::Sender<()>,
}

/// A conversion that was not granted, as far as is known.
pub(crate) struct Restoration {
    /// Lasts until the mode is known.
    pub(crate) _turn: Turn,
    /// ID of a connection that may wait for the other mode.
    pub(crate) waiter: Option<i64>,
    /// Connections that have asked: a session may be bound to one of them.
    pub(crate) wires: Vec<Wire>,
}

/// Client that asks for another mode. Dropped before that is granted, it has the former one restored.
struct Converter<'a> {
    hold: &'a Hold,
    seeker: Seeker,
    /// None once the mode is granted.
    turn: Option<Turn>,
}

impl Drop for Converter<'_> {
    fn drop(&mut self) {
        if let Some(turn) = self.turn.take() {
            let waiter = self.seeker.id.filter(|_| self.seeker.is_asking);
            let wires = self.seeker.line.take().map(Line::into_wires).unwrap_or_default();
            self.hold.order(Order::Restore(Restoration { _turn: turn, waiter, wires }));
        }
    }
}

/// Changes the mode of a lock that is held. If that fails, or the future is dropped, the lock has its former mode.
pub(crate) async fn convert(hold: &Arc<Hold>, mode: Mode, wait: Option<Duration>) -> Result<(), AcquireError> {
    if let Some(fault) = fault(hold) {
        return Err(fault);
    }
    let began = Instant::now();
    tokio::select! {
        biased;
        () = hold.leaves() => Err(AcquireError::Released),
        lost = hold.lost() => Err(AcquireError::Lost(Box::new(lost))),
        converted = try_convert(hold, mode, wait, began) => converted,
    }
}

/// Returns why the mode of a lock cannot be changed.
fn fault(hold: &Hold) -> Option<AcquireError> {
    let terms = &hold.terms;
    if hold.is_released() {
        return Some(AcquireError::Released);
    }
    if let Err(lost) = hold.check() {
        return Some(AcquireError::Lost(Box::new(lost)));
    }
    if terms.names.len() > 1 || matches!(terms.mode, Mode::Permits(_)) || terms.owner.is_some() {
        return Some(AcquireError::Terms("a lock of several names, with permits or of an owner keeps its mode"));
    }
    let is_plain = hold.fences() == [None];
    is_plain.then_some(AcquireError::Unsupported(CANNOT_CONVERT))
}

async fn try_convert(hold: &Arc<Hold>, mode: Mode, wait: Option<Duration>, began: Instant) -> Result<(), AcquireError> {
    let terms = Arc::new(hold.terms.converted(mode, wait));
    let limit = wait.unwrap_or(FOREVER).saturating_add(terms.patience());
    let late = |_| AcquireError::NotAcquired(Box::new(NotAcquired::unknown(&terms)));
    let turn = timeout(limit, hold.turn.clone().lock_owned()).await.map_err(late)?;
    let (seeker, events) = Seeker::new(hold.source.clone(), terms.clone(), began, None);
    let mut converter = Converter { hold, seeker, turn: Some(turn) };
    let grant = match converter.seeker.seek().await {
        Ok(grant) => grant,
        Err(error) => {
            drop(converter);
            if matches!(error, AcquireError::NotAcquired(_)) {
                // What is not held any more was not obtained, either: then its loss is told meanwhile.
                _ = timeout(terms.patience(), hold.turn.lock()).await;
            }
            return Err(error);
        }
    };
    let (done, is_done) = oneshot::channel();
    if let (Some(line), Some(turn)) = (converter.seeker.line.take(), converter.turn.take()) {
        hold.order(Order::Convert(Box::new(Conversion { line, events, grant, turn, done })));
    }
    is_done.await.map_err(|_| AcquireError::Released)
}
