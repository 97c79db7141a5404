//! Votes: sentinels ask each other if a master is down, and for whom of them they vote.

use crate::topology::sentinel::Sentinels;
use crate::topology::sentinel::event::Detail;
use crate::topology::sentinel::instance::KnownSentinel;
use crate::topology::sentinel::master::MonitoredMaster;
use crate::topology::sentinel::place::{NodeNumber, Place};
use crate::topology::sentinel::process::SentinelProcess;
use crate::topology::sentinel::world::SentinelWorld;

/// Reply of SENTINEL IS-MASTER-DOWN-BY-ADDR.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DownReply {
    pub(crate) is_down: bool,
    /// The sentinel that is voted for, by id; `None`, shown as `*`, if no vote was asked for or given.
    pub(crate) vote: Option<String>,
    pub(crate) vote_epoch: u64,
}

/// Question of SENTINEL IS-MASTER-DOWN-BY-ADDR.
pub(super) struct DownQuestion {
    pub(super) place: Place,
    pub(super) epoch: u64,
    /// The sentinel that asks for a vote, by id.
    pub(super) candidate: Option<String>,
}

impl Sentinels {
    /// Asks the other sentinels that are reached about a master that one of them believes to be down.
    pub(super) fn ask_others(&mut self, asking: usize, master: usize) {
        let question = self.sentinels[asking].question(master);
        for known in 0..self.sentinels[asking].masters[master].sentinels.len() {
            let place = &self.sentinels[asking].masters[master].sentinels[known].base.place;
            let asked = place.node.filter(|node| self.world.reaches(self.sentinels[asking].node, *node));
            let reply = match (&question, asked) {
                (Some(question), Some(node)) => self.is_down_for(node, question),
                _ => None,
            };
            self.sentinels[asking].masters[master].sentinels[known].note_reply(reply);
        }
    }

    fn is_down_for(&mut self, node: NodeNumber, question: &DownQuestion) -> Option<DownReply> {
        let index = self.index(node)?;
        Some(self.sentinels[index].is_master_down(question, &mut self.world))
    }
}

impl KnownSentinel {
    /// Notes a reply, or that there is none.
    fn note_reply(&mut self, reply: Option<DownReply>) {
        self.says_down = reply.as_ref().is_some_and(|reply| reply.is_down);
        match reply {
            None => self.vote = None,
            Some(DownReply { vote: Some(vote), vote_epoch, .. }) => {
                self.vote = Some(vote);
                self.vote_epoch = vote_epoch;
            }
            Some(_) => {}
        }
    }
}

impl SentinelProcess {
    /// Returns the question about a master that this sentinel believes to be down.
    fn question(&self, master: usize) -> Option<DownQuestion> {
        let master = &self.masters[master];
        let candidate = master.failover.stage.map(|_| self.id.clone());
        let question = DownQuestion { place: master.place().clone(), epoch: self.current_epoch, candidate };
        master.data.base.is_s_down().then_some(question)
    }

    /// Replies to a question, and votes if that is asked for.
    pub(super) fn is_master_down(&mut self, question: &DownQuestion, world: &mut SentinelWorld) -> DownReply {
        let Some(index) = self.masters.iter().position(|master| *master.place() == question.place) else {
            return DownReply::default();
        };
        let is_down = self.tilt_since_ms.is_none() && self.masters[index].data.base.is_s_down();
        let Some(candidate) = &question.candidate else { return DownReply { is_down, ..DownReply::default() } };
        self.vote(index, question.epoch, candidate, world);
        let master = &self.masters[index];
        DownReply { is_down, vote: master.vote.clone(), vote_epoch: master.vote_epoch }
    }

    /// Votes for a candidate, unless this sentinel has voted in that epoch or a later one.
    pub(super) fn vote(&mut self, index: usize, epoch: u64, candidate: &str, world: &mut SentinelWorld) {
        self.adopt_epoch(epoch, world);
        let master = &mut self.masters[index];
        if master.vote_epoch >= epoch || self.current_epoch > epoch {
            return;
        }
        master.vote = Some(candidate.to_owned());
        master.vote_epoch = epoch;
        world.emit(self.node, "+vote-for-leader", None, Detail::Text(format!("{candidate} {epoch}")));
        if candidate != self.id {
            master.failover.started_ms = Some(world.now_ms);
        }
    }

    /// Returns true if this sentinel is elected to fail a master over, after its own vote.
    pub(super) fn is_elected(&mut self, index: usize, world: &mut SentinelWorld) -> bool {
        let epoch = self.masters[index].failover.epoch;
        let votes = self.masters[index].votes(self.current_epoch);
        let candidate = most_voted(&votes).unwrap_or(&self.id).to_owned();
        let others = votes.iter().filter(|vote| **vote == self.id).count() as u64;
        self.vote(index, epoch, &candidate, world);
        let master = &self.masters[index];
        let is_own = master.vote_epoch == epoch && master.vote.as_ref() == Some(&self.id);
        let (count, voter_count) = (others + u64::from(is_own), master.sentinels.len() as u64 + 1);
        count > voter_count / 2 && count >= master.settings.quorum
    }
}

impl MonitoredMaster {
    /// Returns the votes of other sentinels in an epoch.
    fn votes(&self, epoch: u64) -> Vec<&str> {
        let votes = self.sentinels.iter().filter(|sentinel| sentinel.vote_epoch == epoch);
        votes.filter_map(|sentinel| sentinel.vote.as_deref()).collect()
    }
}

/// Returns the candidate that has the most votes, the first of several.
fn most_voted<'v>(votes: &[&'v str]) -> Option<&'v str> {
    let count = |candidate: &str| votes.iter().filter(|vote| **vote == candidate).count();
    votes.iter().rev().copied().max_by_key(|candidate| count(candidate))
}
