//! Faults, and their random begins and ends.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use super::site::{Session, Treatment};
use super::{Figures, NODES, Run, SERVERS};
use crate::engine::etcd::field;
use crate::engine::proxy::{Passage, Way};
use crate::harness::{Dice, wait_until};

/// Maximum number of simultaneous faults.
const FAULTS_MAX: usize = 2;

/// Fault that lasts until it is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A node's process is killed.
    NodeKilled(usize),
    /// A node's process is stopped.
    NodeStopped(usize),
    /// A server's process is killed.
    ServerKilled(usize),
    /// A server's process is stopped.
    ServerStopped(usize),
    /// A server's links are cut or slow.
    LinksChanged(usize),
    /// The nodes refuse changes as if their disks were full.
    SpaceExceeded,
}

impl Fault {
    /// Returns whether both concern the same node or server.
    fn meets(self, other: Fault) -> bool {
        let place = |fault| match fault {
            Fault::NodeKilled(node) | Fault::NodeStopped(node) => (0, node),
            Fault::ServerKilled(server) | Fault::ServerStopped(server) => (1, server),
            Fault::LinksChanged(server) => (2, server),
            Fault::SpaceExceeded => (3, 0),
        };
        place(self) == place(other)
    }
}

/// Faults of a history.
#[derive(Default)]
pub(super) struct Trouble {
    log: Mutex<Vec<(u64, String)>>,
    counts: Mutex<BTreeMap<&'static str, u64>>,
    /// Connections on which scripts run.
    scripts: Mutex<Vec<Session>>,
}

impl Trouble {
    /// Returns the log of events.
    pub(super) fn shown(&self) -> String {
        let mut text = String::new();
        for (tick, what) in self.log.lock().expect("it was unlocked").iter() {
            writeln!(text, "{tick:8} {what}").expect("memory");
        }
        text
    }

    /// Adds the numbers of faults to the counts.
    pub(super) fn count(&self, figures: &mut Figures) {
        for (name, count) in self.counts.lock().expect("it was unlocked").iter() {
            figures.add(name, *count);
        }
    }

    /// Logs an event, unless it repeats the last one.
    pub(super) fn note(&self, run: &Run, what: String) {
        let mut log = self.log.lock().expect("it was unlocked");
        if log.last().is_none_or(|(_, last)| *last != what) {
            log.push((run.tick(), what));
        }
    }

    /// Counts a fault.
    fn count_one(&self, name: &'static str) {
        *self.counts.lock().expect("it was unlocked").entry(name).or_default() += 1;
    }

    /// Begins and ends faults at random, and finally ends those that are left.
    pub(super) fn make(&self, run: &Run, steps: usize) {
        let (mut dice, mut present) = (Dice::new(run.seed ^ 0x7472_6f75), Vec::new());
        for _ in 0..steps {
            // Some faults last long enough for all timeouts.
            let (turns, ms) = if dice.roll(3) == 0 { (2000, 4000) } else { (120, 900) };
            let enough = run.turns.load(SeqCst) + 5 + dice.roll(turns);
            run.wait_at_most(100 + dice.roll(ms), || run.turns.load(SeqCst) >= enough);
            run.site.tend();
            match present.len() as u64 {
                0 => self.begin(run, &mut dice, &mut present),
                count if count as usize >= FAULTS_MAX || dice.roll(3) == 0 => {
                    let ended = present.swap_remove(dice.roll(count) as usize);
                    self.end(run, &mut dice, ended);
                }
                _ => self.begin(run, &mut dice, &mut present),
            }
        }
        present.into_iter().for_each(|fault| self.end(run, &mut dice, fault));
        wait_until(|| Self::end_alarms(run)); // one that was raised while no majority answered may come late
        if run.site.has_processes() {
            (0..SERVERS).for_each(|server| run.site.treat(server, Treatment::MoveDate(0)));
        }
    }

    /// Begins a fault, unless its place already has one.
    fn begin(&self, run: &Run, dice: &mut Dice, present: &mut Vec<Fault>) {
        let (node, server) = (dice.roll(NODES as u64) as usize, dice.roll(SERVERS as u64) as usize);
        let node = match dice.roll(2) {
            0 => run.site.etcd.leader().unwrap_or(node),
            _ => node,
        };
        let fault = match dice.roll(if run.site.has_processes() { 24 } else { 18 }) {
            0 | 1 => Fault::NodeKilled(node),
            2 | 3 => Fault::NodeStopped(node),
            4..=9 => Fault::LinksChanged(server),
            10 => return self.reset(run, server),
            11 => return self.compact(run),
            12 => return self.change_leader(run),
            13 => return self.revoke_lease(run, dice),
            14 | 15 => return self.run_script(run, server, dice),
            16 | 17 => Fault::SpaceExceeded,
            18..=20 => Fault::ServerKilled(server),
            21 | 22 => Fault::ServerStopped(server),
            _ => return self.move_date(run, server, dice),
        };
        if present.iter().any(|other| other.meets(fault)) {
            return;
        }
        present.push(fault);
        match fault {
            Fault::NodeKilled(node) => {
                self.count_one("nodes killed");
                run.site.etcd.kill(node);
            }
            Fault::NodeStopped(node) => {
                self.count_one("nodes stopped");
                run.site.etcd.stop(node);
            }
            Fault::ServerKilled(server) => {
                self.count_one("servers killed");
                run.site.treat(server, Treatment::Kill);
            }
            Fault::ServerStopped(server) => {
                self.count_one("servers stopped");
                run.site.treat(server, Treatment::Stop);
            }
            Fault::LinksChanged(server) => return self.change_links(run, server, dice),
            Fault::SpaceExceeded if Self::raise_alarm(run, node) => self.count_one("times without space"),
            Fault::SpaceExceeded => _ = present.pop(),
        }
        self.note(run, format!("{fault:?}"));
    }

    /// Ends a fault.
    fn end(&self, run: &Run, dice: &mut Dice, fault: Fault) {
        if let Fault::LinksChanged(_) | Fault::ServerStopped(_) = fault
            && dice.roll(2) == 0
        {
            self.compact(run); // changes that the server has missed
        }
        match fault {
            Fault::NodeKilled(node) => run.site.etcd.resume(node),
            Fault::NodeStopped(node) => run.site.etcd.go_on(node),
            Fault::ServerKilled(server) => run.site.treat(server, Treatment::Start),
            Fault::ServerStopped(server) => run.site.treat(server, Treatment::Continue),
            Fault::LinksChanged(server) => run.site.heal(server),
            Fault::SpaceExceeded => _ = Self::end_alarms(run),
        }
        self.note(run, format!("the end of {fault:?}"));
    }

    /// Makes the links of a server to one node, to two, or to all of them slow or cuts them.
    fn change_links(&self, run: &Run, server: usize, dice: &mut Dice) {
        let (first, count) = (dice.roll(NODES as u64) as usize, [1, 2, NODES, NODES][dice.roll(4) as usize]);
        let nodes: Vec<usize> = (0..count).map(|number| (first + number) % NODES).collect();
        let passage = if dice.roll(2) == 0 { Passage::Held } else { Passage::Lost };
        let (name, ways): (_, &[Way]) = match dice.roll(4) {
            0 => ("links cut one way: there", &[Way::There]),
            1 => ("links cut one way: back", &[Way::Back]),
            2 => ("links cut both ways", &[Way::There, Way::Back]),
            _ => ("links slow", &[]),
        };
        let latency = Duration::from_millis(if ways.is_empty() { 5 + dice.roll(100) } else { 0 });
        self.count_one(name);
        self.note(run, format!("{name}, from server {server} to nodes {nodes:?}: {passage:?}, {latency:?}"));
        for link in nodes.into_iter().map(|node| run.site.link(server, node)) {
            link.delay(latency);
            ways.iter().for_each(|way| link.cut(*way, passage));
        }
    }

    /// Runs a script that takes long, and writes in the end, on a server.
    fn run_script(&self, run: &Run, server: usize, dice: &mut Dice) {
        let seconds = [0.3, 1.0, 3.0][dice.roll(3) as usize];
        let Some(mut session) = run.site.session(server) else { return };
        self.count_one("busy scripts");
        self.note(run, format!("a script of {seconds} s on server {server}"));
        let script =
            format!("local from=os.clock() while os.clock()-from<{seconds} do end return redis.call('incr',KEYS[1])");
        session.send(&["EVAL", &script, "1", &format!("busy:{server}")]);
        self.scripts.lock().expect("it was unlocked").push(session);
    }

    /// Makes the nodes believe that a node's disk is full; returns false if that node does not answer.
    fn raise_alarm(run: &Run, node: usize) -> bool {
        let answer = run.site.etcd.ask_node(node, "/v3/maintenance/status", "{}");
        let member = answer.as_deref().and_then(|answer| field(answer, "member_id"));
        member.is_some_and(|member| Self::alarm(run, "ACTIVATE", member).is_some())
    }

    /// Ends all alarms; returns true if a majority says that there are none.
    fn end_alarms(run: &Run) -> bool {
        let Some(answer) = Self::ask(run, "/v3/maintenance/alarm", "{\"action\":\"GET\"}") else { return false };
        let members: Vec<&str> =
            answer.split("\"memberID\":\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        members.iter().for_each(|member| _ = Self::alarm(run, "DEACTIVATE", member));
        members.is_empty()
    }

    /// Changes the alarm about the space of a node.
    fn alarm(run: &Run, action: &str, member: &str) -> Option<String> {
        let body = format!("{{\"action\":\"{action}\",\"memberID\":\"{member}\",\"alarm\":\"NOSPACE\"}}");
        Self::ask(run, "/v3/maintenance/alarm", &body)
    }

    /// Ends all connections of a server.
    fn reset(&self, run: &Run, server: usize) {
        self.count_one("links reset");
        self.note(run, format!("the links of server {server} are reset"));
        (0..NODES).for_each(|node| run.site.link(server, node).reset());
    }

    /// Asks the nodes in turn until one answers.
    fn ask(run: &Run, path: &str, body: &str) -> Option<String> {
        (0..NODES).find_map(|node| run.site.etcd.ask_node(node, path, body))
    }

    /// Compacts the cluster's history before the present revision.
    fn compact(&self, run: &Run) {
        let answer = Self::ask(run, "/v3/maintenance/status", "{}");
        let Some(revision) = answer.as_deref().and_then(|answer| field(answer, "revision")) else { return };
        self.count_one("compactions");
        self.note(run, format!("compaction at revision {revision}"));
        Self::ask(run, "/v3/kv/compaction", &format!("{{\"revision\":\"{revision}\"}}"));
    }

    /// Makes another node the leader.
    fn change_leader(&self, run: &Run) {
        let Some(leader) = run.site.etcd.leader() else { return };
        let next = (leader + 1) % NODES;
        let answer = run.site.etcd.ask_node(next, "/v3/maintenance/status", "{}");
        let Some(member) = answer.as_deref().and_then(|answer| field(answer, "member_id")) else { return };
        self.count_one("leaders changed");
        self.note(run, format!("node {next} is to lead instead of node {leader}"));
        let body = format!("{{\"targetID\":\"{member}\"}}");
        run.site.etcd.ask_node(leader, "/v3/maintenance/transfer-leadership", &body);
    }

    /// Ends the lease of one of the servers.
    fn revoke_lease(&self, run: &Run, dice: &mut Dice) {
        let Some(answer) = Self::ask(run, "/v3/lease/leases", "{}") else { return };
        let leases: Vec<&str> = answer.split("\"ID\":\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let Some(lease) = leases.get(dice.roll(leases.len().max(1) as u64) as usize) else { return };
        self.count_one("leases revoked");
        self.note(run, format!("the lease {lease} is revoked"));
        Self::ask(run, "/v3/lease/revoke", &format!("{{\"ID\":\"{lease}\"}}"));
    }

    /// Moves the date that a server sees.
    fn move_date(&self, run: &Run, server: usize, dice: &mut Dice) {
        let seconds = [-86_400, -3, 3, 86_400][dice.roll(4) as usize];
        self.count_one("dates moved");
        self.note(run, format!("the date that server {server} sees moves by {seconds} s"));
        run.site.treat(server, Treatment::MoveDate(seconds));
    }
}
