//! Random histories of replication, by seed: links are cut, servers end and restart, and roles change, while clients
//! write and read.
//!
//! `KEYLATCH_SEED` is the first seed, `KEYLATCH_HISTORIES` the number of histories.

use super::chains::{Chain, Ending, any_command, common_command, valkey_command};
use super::nodes::Kind::{self, Keylatch, Redis, Valkey};
use crate::differential::random::Random;
use crate::harness::wait_until;
use crate::log::first_seed;

/// Number of histories of a test, unless set by `KEYLATCH_HISTORIES`.
const HISTORIES: u64 = 2;

/// Number of writing clients, and number of portions of each.
const WRITERS: u64 = 3;
const PORTIONS: u64 = 60;

/// Number of cuts of each link in histories without other events.
const CUTS: u64 = 6;

/// Number of random actions on a chain.
const ACTS: u64 = 8;

/// Runs a history of a chain of servers.
fn run(seed: u64, kinds: &[Kind], command: fn(&mut Random) -> Vec<Vec<u8>>) -> Option<()> {
    let (mut chain, known) = Chain::start(seed, kinds, &[("repl-backlog-size", "16384")])?;
    let known = &known;
    std::thread::scope(|scope| {
        let ending = Ending(known);
        let write = move |number| known.write(seed * WRITERS + number, PORTIONS, command);
        let writers: Vec<_> = (0..WRITERS).map(|number| scope.spawn(move || write(number))).collect();
        scope.spawn(|| known.read());
        chain.allow_cuts(4);
        for act in 1..=ACTS {
            wait_until(|| known.portions() >= act * WRITERS * PORTIONS / (ACTS + 1));
            chain.act(known);
        }
        writers.into_iter().for_each(|writer| writer.join().expect("it writes"));
        chain.catch_up();
        drop(ending);
    });
    chain.check_files();
    Some(())
}

/// Runs histories of chains, one kind of chain after the other.
fn run_all(chains: &[&[Kind]], command: fn(&mut Random) -> Vec<Vec<u8>>) {
    let count = std::env::var("KEYLATCH_HISTORIES").map_or(HISTORIES, |text| text.parse().expect("a number"));
    for seed in first_seed()..first_seed() + count {
        if run(seed, chains[seed as usize % chains.len()], command).is_none() {
            return;
        }
    }
}

/// Runs writers until every link was cut often, and asserts that no server has sent a full synchronisation again.
fn cut_shortly(seed: u64, kinds: &[Kind], command: fn(&mut Random) -> Vec<Vec<u8>>) -> Option<()> {
    let (chain, known) = Chain::start(seed, kinds, &[("repl-backlog-size", "100000000")])?;
    chain.catch_up();
    let known = &known;
    std::thread::scope(|scope| {
        let _ending = Ending(known);
        for number in 0..WRITERS {
            scope.spawn(move || known.write(seed * WRITERS + number, u64::MAX, command));
        }
        scope.spawn(|| known.read());
        chain.allow_cuts(CUTS);
        let links = chain.len() - 1; // nothing follows the last server
        wait_until(|| chain.relays[..links].iter().all(|relay| relay.cuts() >= CUTS));
    });
    chain.catch_up();
    for number in 0..chain.len() - 1 {
        let [full, partial] = ["sync_full", "sync_partial_ok"].map(|field| chain.node(number).info(field));
        assert_eq!(full, "1", "server {number} of {kinds:?}, seed {seed}");
        // A link that was cut before it was established has cost nothing.
        assert!(partial.parse::<u64>().is_ok_and(|count| count > 0), "{partial}");
    }
    Some(())
}

#[test]
fn a_link_that_is_cut_never_costs_a_full_synchronisation_while_the_backlog_has_what_is_missing() {
    for (seed, kinds) in (first_seed()..).zip([
        &[Keylatch, Keylatch, Keylatch][..],
        &[Keylatch, Redis, Keylatch],
        &[Redis, Keylatch, Redis],
    ]) {
        if cut_shortly(seed, kinds, common_command).is_none() {
            return;
        }
    }
}

#[test]
fn whatever_happens_to_servers_and_links_all_servers_have_the_same_data_in_the_end() {
    run_all(&[&[Keylatch, Keylatch, Keylatch], &[Keylatch, Keylatch]], any_command);
}

#[test]
fn whatever_happens_a_redis_server_in_the_chain_has_the_same_data_in_the_end() {
    run_all(
        &[&[Redis, Keylatch, Redis], &[Keylatch, Redis, Keylatch], &[Keylatch, Redis], &[Redis, Keylatch]],
        common_command,
    );
}

#[test]
fn whatever_happens_a_valkey_server_in_the_chain_has_the_same_data_in_the_end_where_there_is_one() {
    // Redis 7.0 cannot read Valkey's files, so both are never in one chain.
    run_all(
        &[&[Valkey, Keylatch, Valkey], &[Keylatch, Valkey, Keylatch], &[Keylatch, Valkey], &[Valkey, Keylatch]],
        valkey_command,
    );
}
