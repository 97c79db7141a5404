//! Operations on a topology: faults, failovers, moves of slots, and what nodes are told by clients.

use crate::dispatch::history::lose_writes;
use crate::error::{Error, Result};
use crate::namespace::member::{NodeCommand, Operation, Outcome};
use crate::net::topologies::model::{Model, NodeFault};
use crate::net::topologies::{Deployment, keys};
use crate::time::clock::Now;
use crate::topology::Slot;
use crate::topology::cluster::{FailoverMode, Moment, NodeNumber, TopologyCluster};

impl Deployment {
    /// Performs an operation.
    ///
    /// # Errors
    /// The reason why it is impossible.
    pub(in crate::net) fn operate(&self, operation: &Operation, now: Now) -> Result<Outcome> {
        match operation {
            Operation::Nodes => return Ok(Outcome::Nodes(self.reports(None))),
            Operation::Drop => {
                self.end();
                return Ok(Outcome::Done);
            }
            Operation::Failover { node, lose } => self.fail_over(*node, *lose, now)?,
            Operation::Stop(node) => self.stop(*node, now)?,
            Operation::Start(node) => self.start(*node, now)?,
            Operation::Pause(node) => {
                self.make_fault(NodeFault::Pause(*node), now)?;
                self.node(*node).freeze(true);
            }
            Operation::Resume(node) => {
                self.make_fault(NodeFault::Resume(*node), now)?;
                self.node(*node).freeze(false);
            }
            Operation::Partition(nodes) => self.make_fault(NodeFault::Partition(nodes), now)?,
            Operation::Heal => self.make_fault(NodeFault::Heal, now)?,
            Operation::Lag { node, ms } => {
                self.state.lock().expect_replica(*node)?;
                self.nodes.lock()[*node].lag_ms = *ms;
            }
            Operation::Migrate { slots, to, keys } => self.migrate(*slots, *to, *keys, now)?,
            Operation::Add { replica_of } => return self.add(*replica_of, now),
            Operation::Remove(node) => self.remove(*node, now)?,
            Operation::Replicate { at, port } => self.replicate(*at, *port, now)?,
            Operation::Sentinel { at, question, words, host } => {
                let answer = self.ask_sentinel(*at, *question, (words, host), now);
                self.settle(now);
                return answer.map(Outcome::Reply);
            }
            Operation::Command { at, command } => return self.execute(*at, command, now),
        }
        self.settle(now);
        Ok(Outcome::Done)
    }

    /// Calls `change` with the state machine and the present moment.
    pub(super) fn with_state<T>(&self, now: Now, change: impl FnOnce(&mut Model, Moment<'_>) -> T) -> T {
        let (offsets, settings) = (self.offsets(), self.node_settings());
        let mut state = self.state.lock();
        state.follow_settings(&settings, now.mono_ms());
        change(&mut state, Moment { now_ms: now.mono_ms(), offsets: &offsets })
    }

    /// Changes the state machine of a cluster.
    fn change<T, E: ToString>(
        &self,
        now: Now,
        change: impl FnOnce(&mut TopologyCluster, Moment<'_>) -> std::result::Result<T, E>,
    ) -> Result<T> {
        let changed = |state: &mut Model, moment: Moment<'_>| {
            change(state.cluster()?, moment).map_err(|error| Error::other(error.to_string()))
        };
        self.with_state(now, changed)
    }

    fn make_fault(&self, fault: NodeFault<'_>, now: Now) -> Result<()> {
        self.with_state(now, |state, moment| state.make_fault(fault, moment))
    }

    /// Cuts all connections of a node, and refuses further ones.
    fn stop(&self, node: NodeNumber, now: Now) -> Result<()> {
        self.make_fault(NodeFault::Stop(node), now)?;
        self.end_process(node);
        Ok(())
    }

    pub(super) fn end_process(&self, node: NodeNumber) {
        self.nodes.lock()[node].port.close();
        let namespace = self.node(node);
        namespace.freeze(false); // a suspended process ends, too
        namespace.clients.end_connected();
        namespace.store.renew_generation();
        namespace.store.pass_barrier();
    }

    fn start(&self, node: NodeNumber, now: Now) -> Result<()> {
        self.make_fault(NodeFault::Start(node), now)?;
        self.settle(now); // what has changed meanwhile is known before the first client asks
        let server = self.server.upgrade().ok_or(Error::other("the server has ended"))?;
        let namespace = self.node(node);
        self.nodes.lock()[node].port.open(server, &namespace)
    }

    /// Makes a replica the primary, once it has what its primary has, or that without the last writes. Without a number the
    /// sentinels choose one, all of which get what is on its way.
    fn fail_over(&self, node: Option<NodeNumber>, lose: Option<usize>, now: Now) -> Result<()> {
        let candidates = match node {
            Some(node) => vec![node],
            None => self.state.lock().numbers(),
        };
        let first = match node {
            Some(node) => Some((node, self.state.lock().expect_replica(node)?)),
            None => candidates.iter().find_map(|node| Some((*node, Some(self.state.lock().primary_of(*node)?)))),
        };
        // Tried on a copy: what is impossible loses nothing.
        self.with_state(now, |state, moment| state.clone().fail_over(node, moment))?;
        if let (Some(lose), Some((node, Some(primary)))) = (lose, first) {
            if !self.state.lock().reaches(node, primary) {
                return Err(Error::other(format!("node {node} does not reach its primary, node {primary}")));
            }
            lose_writes(&self.node(primary), self.tenancy.handlers, lose)?;
        }
        candidates.into_iter().for_each(|node| self.deliver_late(node, now));
        self.with_state(now, |state, moment| state.fail_over(node, moment))
    }

    /// Delivers what is on its way to a replica that reaches its primary.
    fn deliver_late(&self, node: NodeNumber, now: Now) {
        let reaches = {
            let state = self.state.lock();
            state.primary_of(node).is_some_and(|primary| state.reaches(node, primary))
        };
        let link = self.nodes.lock()[node].link.clone();
        if let Some((link, member)) = link.filter(|_| reaches).zip(self.node(node).member()) {
            member.set_link(false, 0);
            link.deliver(now);
        }
    }

    fn migrate(&self, (first, last): (Slot, Slot), to: NodeNumber, keys: Option<usize>, now: Now) -> Result<()> {
        self.change(now, |state, moment| state.begin_migration(first, last, to, moment))?;
        self.settle(now);
        let mut left = keys.unwrap_or(usize::MAX);
        let sources: Vec<NodeNumber> = {
            let state = self.state.lock();
            state.numbers().into_iter().filter(|number| *number != to && state.primary_of(*number).is_none()).collect()
        };
        for source in sources {
            let (from, to) = (self.node(source), self.node(to));
            left -= keys::move_keys((&from, &to), self.tenancy.handlers, (first, last), left)?;
        }
        if keys.is_none() {
            self.change(now, |state, moment| state.finish_migration(first, last, to, moment))?;
        }
        Ok(())
    }

    fn add(&self, replica_of: Option<NodeNumber>, now: Now) -> Result<Outcome> {
        let number = self.change(now, |state, moment| state.add(replica_of, moment))?;
        if let Err(error) = self.add_node(number) {
            self.end(); // the state machine has a node without a process
            return Err(error);
        }
        self.settle(now);
        Ok(Outcome::Nodes(self.reports(Some(number))))
    }

    fn remove(&self, number: NodeNumber, now: Now) -> Result<()> {
        self.change(now, |state, moment| state.remove(number, moment))?;
        let (namespace, link) = {
            let mut nodes = self.nodes.lock();
            let node = &mut nodes[number];
            node.port.close();
            node.is_removed = true;
            (node.namespace.clone(), node.link.take())
        };
        if let Some(link) = link {
            link.finish();
        }
        namespace.clients.end_all();
        Ok(())
    }

    /// Gives a data node the role that a client has told it.
    fn replicate(&self, at: NodeNumber, port: Option<u16>, now: Now) -> Result<()> {
        let primary = match port {
            None => None,
            Some(port) => Some(self.node_at(port)?),
        };
        self.with_state(now, |state, moment| state.replicate(at, primary, moment.now_ms))?;
        match primary {
            Some(primary) => self.follow(at, primary),
            None => self.promote(at),
        }
        Ok(())
    }

    /// Returns the node at a port.
    fn node_at(&self, port: u16) -> Result<NodeNumber> {
        let found = self.ports().iter().position(|known| *known == port);
        found.ok_or_else(|| Error::other(format!("no node of this topology is at port {port}")))
    }

    /// Executes what a node was told by a client.
    fn execute(&self, at: NodeNumber, command: &NodeCommand, now: Now) -> Result<Outcome> {
        let namespace = self.node(at);
        let has_keys = || namespace.held_locks().is_none_or(|totals| totals.keys > 0);
        let mut outcome = Outcome::Done;
        match command {
            NodeCommand::Meet { port } => {
                let other = self.node_at(*port)?;
                self.change(now, |state, moment| state.meet(at, other, moment))?;
            }
            NodeCommand::AddSlots(slots) => self.change(now, |state, moment| state.add_slots(at, slots, moment))?,
            NodeCommand::DelSlots(slots) => self.change(now, |state, moment| state.del_slots(at, slots, moment))?,
            NodeCommand::FlushSlots => {
                let has_keys = has_keys();
                self.change(now, |state, moment| state.flush_slots(at, has_keys, moment))?;
            }
            NodeCommand::SetSlot(slot, change) => {
                let has_keys = keys::has_keys_in(&namespace, *slot);
                self.change(now, |state, moment| state.set_slot(at, *slot, change, has_keys, moment))?;
            }
            NodeCommand::Forget(id) => self.change(now, |state, moment| state.forget(at, id, moment))?,
            NodeCommand::Replicate(id) => {
                let has_keys = has_keys();
                self.change(now, |state, moment| state.replicate(at, id, has_keys, moment))?;
            }
            NodeCommand::Failover(mode) => {
                if *mode == FailoverMode::Normal {
                    self.deliver_late(at, now);
                }
                self.change(now, |state, moment| state.cluster_failover(at, *mode, moment))?;
            }
            NodeCommand::Reset { is_hard } => {
                let has_keys = has_keys();
                self.change(now, |state, moment| state.reset(at, *is_hard, has_keys, moment))?;
            }
            NodeCommand::SetConfigEpoch(epoch) => {
                self.change(now, |state, moment| state.set_config_epoch(at, *epoch, moment))?
            }
            NodeCommand::BumpEpoch => {
                outcome = Outcome::Text(self.change(now, |state, moment| state.bump_epoch(at, moment))?);
            }
        }
        self.settle(now);
        Ok(outcome)
    }
}
