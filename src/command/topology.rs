//! Operations on topologies of test mode: how a call waits for one, and the replies.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::task::spawn_blocking;

use crate::client::registry::Unblocked;
use crate::dispatch::{Call, Continuation, Env, PostponedOperation, Wait, refuse};
use crate::error::{Error, Result};
use crate::namespace::member::{NodeReport, Operation, Outcome, SentinelReply, Topology};
use crate::resp::{Mark, Output, Reply};
use crate::store::View;
use crate::time::clock::{Clock, Now};
use crate::topology::cluster::NodeNumber;

/// Replies once an operation on a topology is done; in a transaction, once that is over.
pub(crate) fn perform(call: &mut Call<'_>, topology: Arc<dyn Topology>, operation: Operation) -> Result<()> {
    match call.postpone((topology, operation)) {
        Some(operation) => begin(call, vec![operation], Vec::new()),
        None => Ok(()),
    }
}

/// Completes the reply of EXEC, which has begun at `begin`, once the operations of its commands are done. They are done as one:
/// nodes tell each other nothing in between. Each has the place of its reply.
///
/// They need the stores of several nodes, and so cannot be done while the transaction holds that of its own.
pub(super) fn perform_postponed(
    call: &mut Call<'_>,
    begin_at: Mark,
    postponed: Vec<(Mark, PostponedOperation)>,
) -> Result<()> {
    let (mut around, mut operations) = (VecDeque::new(), Vec::new());
    for (mark, operation) in postponed.into_iter().rev() {
        around.push_front(call.reply.output().split_off(mark));
        operations.push(operation);
    }
    around.push_front(call.reply.output().split_off(begin_at));
    operations.reverse();
    begin(call, operations, around.into())
}

fn begin(call: &mut Call<'_>, operations: Vec<PostponedOperation>, around: Vec<Output>) -> Result<()> {
    let namespace = call.namespace;
    let (steering, clock) = (namespace.upkeep.steering.clone(), namespace.clock.clone());
    call.continue_freely(Performing { operations, around, steering, clock, is_begun: false, outcomes: None })
}

/// The continuation that performs operations, with the turn of those who steer the clock, and replies.
struct Performing {
    operations: Vec<PostponedOperation>,
    /// The replies of a transaction before, between and behind them; empty outside of one.
    around: Vec<Output>,
    steering: Arc<tokio::sync::Mutex<()>>,
    clock: Clock,
    is_begun: bool,
    outcomes: Option<Vec<Result<Outcome>>>,
}

impl Continuation for Performing {
    fn wait(&mut self) -> Wait<'_> {
        if std::mem::replace(&mut self.is_begun, true) {
            return Wait::Turn;
        }
        let Performing { operations, steering, clock, outcomes, .. } = self;
        let (operations, steering, clock) = (operations.clone(), steering.clone(), clock.clone());
        Wait::Work(Box::pin(async move {
            let turn = steering.lock_owned().await;
            let perform = move || {
                let _turn = turn;
                perform_all(&operations, clock.now())
            };
            *outcomes = spawn_blocking(perform).await.ok(); // unless an operation has panicked
        }))
    }

    fn step(&mut self, env: Env<'_>, _: &mut View<'_>, reply: &mut Reply<'_>, _: Unblocked) -> Result<bool> {
        let failed = if self.is_begun { "the operation has failed" } else { "this is not possible in a script" };
        let mut outcomes = self.outcomes.take().unwrap_or_default().into_iter();
        let mut around = std::mem::take(&mut self.around).into_iter();
        let is_transaction = around.len() > 0;
        for (_, operation) in &self.operations {
            around.next().into_iter().for_each(|replied| reply.output().append(replied));
            match outcomes.next().unwrap_or(Err(Error::other(failed))) {
                Ok(outcome) => write_outcome(reply, outcome, operation),
                Err(error) if is_transaction => refuse(env.namespace, reply, &error),
                Err(error) => return Err(error),
            }
        }
        around.for_each(|replied| reply.output().append(replied));
        Ok(true)
    }

    fn needs_no_keys(&self) -> bool {
        true
    }
}

/// Performs operations as one; the caller has the turn of those who steer the clock.
fn perform_all(operations: &[PostponedOperation], now: Now) -> Vec<Result<Outcome>> {
    if let [(topology, operation)] = operations {
        return vec![topology.perform(operation, now)];
    }
    operations.iter().for_each(|(topology, _)| topology.hold_news(now));
    let outcomes = operations.iter().map(|(topology, operation)| topology.perform(operation, now)).collect();
    operations.iter().for_each(|(topology, _)| topology.spread_news(now));
    outcomes
}

fn write_outcome(reply: &mut Reply<'_>, outcome: Outcome, operation: &Operation) {
    match (outcome, operation) {
        (Outcome::Done, _) => reply.ok(),
        (Outcome::Nodes(nodes), Operation::Add { .. }) => {
            nodes.first().into_iter().for_each(|node| write_node(reply, node, false));
        }
        (Outcome::Nodes(nodes), _) => write_nodes(reply, &nodes, true),
        (Outcome::Text(text), _) => reply.simple(&text),
        (Outcome::Reply(value), _) => write_value(reply, &value),
    }
}

/// Writes a map for each node; with `is_report` also what changes.
pub(super) fn write_nodes(reply: &mut Reply<'_>, nodes: &[NodeReport], is_report: bool) {
    reply.array(nodes.len());
    nodes.iter().for_each(|node| write_node(reply, node, is_report));
}

fn write_node(reply: &mut Reply<'_>, node: &NodeReport, is_report: bool) {
    let int = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let number_of = |number: NodeNumber| int(number as u64);
    reply.map(if is_report { 11 } else { 7 });
    reply.bulk(b"node");
    reply.int(number_of(node.number));
    reply.bulk(b"id");
    reply.bulk(node.id.as_bytes());
    reply.bulk(b"host");
    reply.bulk(node.host.as_bytes());
    reply.bulk(b"port");
    reply.int(node.port.into());
    reply.bulk(b"role");
    reply.bulk(node.role.as_bytes());
    reply.bulk(b"slots");
    reply.array(node.slots.len());
    for (first, last) in &node.slots {
        reply.array(2);
        reply.int((*first).into());
        reply.int((*last).into());
    }
    reply.bulk(b"primary");
    reply.int(node.primary.map_or(-1, number_of));
    if !is_report {
        return;
    }
    reply.bulk(b"state");
    reply.bulk(node.state.as_bytes());
    reply.bulk(b"offset");
    reply.int(int(node.offset));
    reply.bulk(b"lag");
    reply.array(2);
    reply.int(int(node.lag.0));
    reply.int(int(node.lag.1));
    reply.bulk(b"view");
    reply.array(node.believed_dead.len());
    node.believed_dead.iter().for_each(|number| reply.int(number_of(*number)));
}

/// Writes the answer of a sentinel.
fn write_value(reply: &mut Reply<'_>, value: &SentinelReply) {
    match value {
        SentinelReply::Simple(text) => reply.simple(text),
        SentinelReply::Bulk(text) => reply.bulk(text.as_bytes()),
        SentinelReply::Int(number) => reply.int(*number),
        SentinelReply::Null => reply.null(),
        SentinelReply::NullArray => reply.null_array(),
        SentinelReply::Array(values) => {
            reply.array(values.len());
            values.iter().for_each(|value| write_value(reply, value));
        }
        SentinelReply::Map(fields) => {
            reply.map(fields.len());
            for (name, value) in fields {
                reply.bulk(name.as_bytes());
                reply.bulk(value.as_bytes());
            }
        }
    }
}
