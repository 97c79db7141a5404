//! A call that blocks while another process changes its keys, and the answer of the cluster comes late.

use std::time::Duration;

use crate::engine::cluster::{ClusterChange, ClusterTransaction, NamedValue};
use crate::engine::core::EngineAction;
use crate::engine::lanes::Lanes;
use crate::engine::model::cluster::SimulatedCluster;
use crate::engine::model::process::{ModelConnection, Process};
use crate::engine::names::{EtcdName, NamePrefix};

/// Returns all names that a mirror follows.
fn mirrored(cluster: &SimulatedCluster) -> Vec<NamedValue> {
    let prefix = NamePrefix::new(b"keylatch/");
    cluster.read_all().into_iter().filter(|pair| prefix.is_mirrored(&pair.name)).collect()
}

/// Starts two registered processes on an empty cluster.
fn two_processes() -> (SimulatedCluster, [Process; 2]) {
    let (mut cluster, prefix) = (SimulatedCluster::default(), NamePrefix::new(b"keylatch/"));
    for number in 1..=2 {
        cluster.leases.insert(number, u64::MAX);
        let marker = ClusterChange::PutLeased(prefix.name(&EtcdName::Process(number)), Vec::new());
        let changes = std::iter::once(marker).chain(Lanes::create(&prefix, number)).collect();
        let transaction = ClusterTransaction { changes, ..ClusterTransaction::default() };
        cluster.commit(&transaction, number).expect("it has a lease");
    }
    let processes = [1, 2].map(|number| {
        let mut process = Process::start(&prefix, 0);
        process.core.replace(mirrored(&cluster), cluster.revision());
        process.told = cluster.history.len();
        process.register(number);
        process
    });
    (cluster, processes)
}

/// Reports all changes of the cluster to a process.
fn tell(process: &mut Process, cluster: &SimulatedCluster) {
    for step in &cluster.history[process.told..] {
        process.core.step(step.clone());
    }
    process.told = cluster.history.len();
}

/// Sends a request; returns the connection, which waits for its reply.
fn send(process: &Process, request: &str) -> ModelConnection {
    let mut client = ModelConnection::open(&process.namespace);
    let words: Vec<String> = request.split(' ').map(str::to_owned).collect();
    assert_eq!(client.send(&process.namespace, &words), None);
    client
}

/// Carries out what a process asks of the cluster until it asks nothing more.
fn settle(process: &mut Process, cluster: &mut SimulatedCluster) {
    loop {
        let (actions, _) = process.turn();
        if actions.is_empty() {
            return;
        }
        for action in actions {
            match action {
                EngineAction::Commit(lane, transaction) => {
                    let done = cluster.commit(&transaction, process.registration.expect("it is registered"));
                    tell(process, cluster);
                    process.core.done(lane, done);
                }
                EngineAction::ReadRevision => process.core.barrier(Ok(cluster.revision())),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Blocks a call that creates a consumer on an empty stream; meanwhile another process makes a change, which comes
/// before the answer. Returns the reply.
fn reply_after(change: &str) -> Option<String> {
    let (mut cluster, [mut one, mut other]) = two_processes();
    let _created = send(&one, "XGROUP CREATE s g $ MKSTREAM");
    settle(&mut one, &mut cluster);
    let mut reader = send(&one, "XREADGROUP GROUP g new BLOCK 0 STREAMS s >");
    let (actions, _) = one.turn();
    let [EngineAction::Commit(lane, transaction)] = &actions[..] else { panic!("{actions:?}") };
    let done = cluster.commit(transaction, 1);
    tell(&mut other, &cluster);
    let _changing = send(&other, change);
    settle(&mut other, &mut cluster);
    tell(&mut one, &cluster);
    one.core.done(*lane, done);
    settle(&mut one, &mut cluster);
    reader.poll(&one.namespace)
}

#[test]
fn a_reader_is_answered_whose_wait_to_be_alone_has_ended_while_its_process_missed_changes() {
    let (mut cluster, [mut one, mut other]) = two_processes();
    for request in ["LOCK.ACQUIRE l 1 SHARED PX 300", "LOCK.ACQUIRE l 2 SHARED PX 100000"] {
        let mut reader = send(&one, request);
        settle(&mut one, &mut cluster);
        assert!(reader.poll(&one.namespace).is_some_and(|reply| reply.starts_with(':')));
    }
    let mut upgrade = send(&one, "LOCK.ACQUIRE l 1 CONVERT PX 300 BLOCK 0");
    let (actions, _) = one.turn();
    let [EngineAction::Commit(lane, transaction)] = &actions[..] else { panic!("{actions:?}") };
    let done = cluster.commit(transaction, 1);
    tell(&mut other, &cluster);
    [&one, &other].iter().for_each(|process| process.namespace.clock.advance(Duration::from_secs(1)));
    settle(&mut other, &mut cluster);
    one.core.replace(mirrored(&cluster), cluster.revision());
    one.told = cluster.history.len();
    one.core.done(*lane, done);
    settle(&mut one, &mut cluster);
    assert!(upgrade.poll(&one.namespace).is_some_and(|reply| reply.starts_with("-UNCERTAIN ")));
}

#[test]
fn a_call_that_blocks_is_executed_again_if_the_mirror_is_ahead_of_its_answer() {
    let entry = "*1 *2 $1 s *1 *2 $3 5-1 *2 $1 f $1 v";
    assert_eq!(reply_after("XADD s 5-1 f v").as_deref(), Some(entry));
    assert!(reply_after("DEL s").is_some_and(|reply| reply.starts_with("-NOGROUP ")));
    assert_eq!(reply_after("SET other v"), None);
}
