//! Inputs of the process' clients.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::client::engine::{StagedCall, StagedOutcome};
use crate::client::registry::ClientWait;
use crate::engine::core::Core;
use crate::error::Result;
use crate::store::KeyName;

pub(in crate::engine) enum ClientInput {
    /// A call is to be executed.
    Call(Box<StagedCall>, oneshot::Sender<StagedOutcome>),
    /// The call of a blocked client is to be executed again.
    Repeat(Arc<ClientWait>),
    /// A client has left the queues of keys.
    PassOn(Vec<KeyName>),
    /// A client stops waiting for locks.
    LeaveQueue(Vec<KeyName>, u64, Option<oneshot::Sender<()>>),
    /// The connection of a client has closed; its session ends after some milliseconds.
    EndSession(u64, u64),
    /// The admission state has changed.
    Settle(oneshot::Sender<()>),
    /// A client waits for the outcomes of all transactions.
    Confirm(Arc<ClientWait>),
    /// The mirror is to be brought up to date.
    Refresh(oneshot::Sender<Result<()>>),
}

impl Core {
    pub(in crate::engine) fn hear_client(&mut self, input: ClientInput) {
        match input {
            ClientInput::Call(call, done) => self.call(call, done),
            ClientInput::Repeat(wait) => self.repeat(wait),
            ClientInput::PassOn(keys) => self.pass_on(keys),
            ClientInput::LeaveQueue(locks, wait, done) => self.leave_queue(locks, wait, done),
            ClientInput::EndSession(client, grace_ms) => self.end_session_after(client, grace_ms),
            ClientInput::Settle(done) => self.settle(done),
            ClientInput::Confirm(wait) => self.confirm(wait),
            ClientInput::Refresh(done) => self.refresh(done),
        }
    }
}
