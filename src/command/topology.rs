//! Operations on topologies of test mode: how a call waits for one, and the replies.

use std::sync::Arc;

use tokio::task::spawn_blocking;

use crate::client::registry::Unblocked;
use crate::dispatch::{Call, Continuation, Env, Wait};
use crate::error::{Error, Result};
use crate::namespace::member::{NodeReport, Operation, Outcome, SentinelReply, Topology};
use crate::resp::Reply;
use crate::store::View;
use crate::time::clock::Clock;
use crate::topology::cluster::NodeNumber;

/// Replies once an operation on a topology is done.
pub(crate) fn perform(call: &mut Call<'_>, topology: Arc<dyn Topology>, operation: Operation) -> Result<()> {
    let namespace = call.namespace;
    let (steering, clock) = (namespace.upkeep.steering.clone(), namespace.clock.clone());
    call.continue_freely(Performing { topology, operation, steering, clock, is_begun: false, outcome: None })
}

/// The continuation that performs an operation, with the turn of those who steer the clock, and replies.
struct Performing {
    topology: Arc<dyn Topology>,
    operation: Operation,
    steering: Arc<tokio::sync::Mutex<()>>,
    clock: Clock,
    is_begun: bool,
    outcome: Option<Result<Outcome>>,
}

impl Continuation for Performing {
    fn wait(&mut self) -> Wait<'_> {
        if std::mem::replace(&mut self.is_begun, true) {
            return Wait::Turn;
        }
        let Performing { topology, operation, steering, clock, outcome, .. } = self;
        let (topology, operation) = (topology.clone(), operation.clone());
        let (steering, clock) = (steering.clone(), clock.clone());
        Wait::Work(Box::pin(async move {
            let turn = steering.lock_owned().await;
            let perform = move || {
                let _turn = turn;
                topology.perform(&operation, clock.now())
            };
            // It fails only when the operation has panicked.
            let performed = spawn_blocking(perform).await;
            *outcome = Some(performed.unwrap_or_else(|_| Err(Error::other("the operation has failed"))));
        }))
    }

    fn step(&mut self, _: Env<'_>, _: &mut View<'_>, reply: &mut Reply<'_>, _: Unblocked) -> Result<bool> {
        let outcome = self.outcome.take().unwrap_or(Err(Error::other("this is not possible in a transaction")))?;
        match (outcome, &self.operation) {
            (Outcome::Done, _) => reply.ok(),
            (Outcome::Nodes(nodes), Operation::Add { .. }) => {
                nodes.first().into_iter().for_each(|node| write_node(reply, node, false));
            }
            (Outcome::Nodes(nodes), _) => write_nodes(reply, &nodes, true),
            (Outcome::Text(text), _) => reply.simple(&text),
            (Outcome::Reply(value), _) => write_value(reply, &value),
        }
        Ok(true)
    }

    fn needs_no_keys(&self) -> bool {
        true
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
