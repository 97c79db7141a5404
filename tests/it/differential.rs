//! Sends the same bytes to keylatch and to a real `redis-server`; the replies must be the same bytes.
//!
//! Redis is the only reference here: no expectation is written by hand, so none can be wrong. Intended differences are
//! in one table, [`deviations`], which fails as soon as an entry is no longer true.
//!
//! - [`oracle`] runs the real server and the connections to both.
//! - [`record`] keeps the real server's replies to stories, so that keylatch is compared with it on any machine.
//! - [`script`] is the small language of the test stories; [`strings`], [`bitmaps`], [`hyperloglogs`], [`lists`],
//!   [`blocked`], [`hashes`], [`sets`], [`set_dumps`], [`sorted_sets`], [`sorted_set_ranges`], [`geo`], [`sorts`],
//!   [`keys`], [`expiry`], [`transactions`], [`dumps`], [`migrations`], [`eviction`], [`sessions`], [`scripts`],
//!   [`script_functions`], [`script_libraries`], [`acls`], [`permissions`] and [`wire`] contain them.
//! - [`companions`] contains stories of several clients at once; [`tracking`] those of clients with client-side
//!   caching.
//! - [`suite`] contains cases from Redis' own test suite; [`suite_table`] lists its passing tests.
//! - [`notifications`] compares keyspace notifications of the stories.
//! - [`observe`] compares the statistics, logs and introspection of both servers after the same commands, [`monitors`]
//!   what a monitor is shown of them.
//! - [`grids`] tests all combinations of options where that is cheap.
//! - [`random`] generates random commands, and shrinks failing sequences.
//! - [`catalogue`] compares COMMAND, COMMAND DOCS and CONFIG GET field by field.
//! - [`patterns`] compares matches of long and unusual names and patterns.
//! - [`settings`] gives every setting valid and invalid values.
//! - [`rewrite`] compares files written by CONFIG REWRITE.
//! - [`clusters`] compares a cluster of one node, [`topologies`] clusters of several and sentinels: their stories are in
//!   [`cluster_redirects`], [`cluster_slots`], [`cluster_commands`], [`cluster_failovers`], [`cluster_partitions`], [`cluster_tools`] and
//!   [`sentinel_stories`].
//! - [`files`] makes each server load files that the other has saved.
//!
//! Without `redis-server` on PATH the stories of [`script`], [`companions`], [`notifications`], [`monitors`], [`topologies`] and [`wire`] are
//! compared with their records; the other tests pass. Two lines at the end of the run say how many there were of each kind. All
//! of them fail if `CI` or `KEYLATCH_REQUIRE_REDIS` is set.

mod acls;
mod bitmaps;
mod blocked;
mod catalogue;
mod cluster_commands;
mod cluster_failovers;
mod cluster_partitions;
mod cluster_redirects;
mod cluster_slots;
#[cfg(feature = "lua")]
mod cluster_tools;
mod clusters;
mod companions;
mod deviations;
pub(crate) mod dumps;
mod eviction;
mod expiry;
mod files;
mod geo;
mod grids;
mod hashes;
mod hyperloglogs;
mod keys;
mod list_dumps;
mod lists;
mod migrations;
mod monitors;
mod notifications;
mod observe;
pub(crate) mod oracle;
mod patterns;
mod permissions;
pub mod random;
mod record;
#[cfg(feature = "binary")]
mod rewrite;
mod script;
#[cfg(feature = "lua")]
mod script_calls;
#[cfg(feature = "lua")]
mod script_functions;
#[cfg(feature = "lua")]
mod script_libraries;
#[cfg(feature = "lua")]
mod scripts;
mod sentinel_stories;
mod sessions;
mod set_dumps;
mod sets;
mod settings;
mod sorted_set_ranges;
mod sorted_sets;
mod sorts;
mod streams;
mod strings;
mod suite;
#[cfg(feature = "lua")]
mod suite_table;
mod topologies;
mod tracking;
mod transactions;
mod wire;
