//! The same bytes to keylatch and to a real `redis-server`; the replies must be the same bytes.
//!
//! Redis is the only judge here: no expectation is written down, so none can be wrong. What differs on
//! purpose stands in one table, [`deviations`], which fails as soon as an entry is no longer true.
//!
//! - [`oracle`] runs the real server and the connections to both.
//! - [`script`] is the little language of the stories; [`strings`], [`bitmaps`], [`hyperloglogs`], [`keys`],
//!   [`transactions`], [`dumps`], [`migrations`], [`eviction`], [`sessions`], [`scripts`], [`script_functions`],
//!   [`script_libraries`], [`acls`], [`permissions`] and [`wire`] tell them.
//! - [`companions`] tells stories of several clients at once; [`tracking`] those of clients that keep copies of keys.
//! - [`suite`] tells what Redis' own test-suite found; [`suite_table`] what passes of it.
//! - [`notifications`] listens to the events of keys beside stories.
//! - [`observe`] compares what both servers count, log and show of the same commands.
//! - [`grids`] tries every combination of options that is cheap to try.
//! - [`random`] tries what nobody thought of, and shrinks what it finds.
//! - [`catalogue`] compares COMMAND, COMMAND DOCS and CONFIG GET field by field.
//! - [`settings`] gives every setting values good and bad.
//! - [`rewrite`] compares what CONFIG REWRITE makes of a file.
//!
//! Without `redis-server` on PATH the tests say so and pass, unless `CI` or `KEYLATCH_REQUIRE_REDIS` is set.

mod acls;
mod bitmaps;
mod catalogue;
mod companions;
mod deviations;
pub(crate) mod dumps;
mod eviction;
mod grids;
mod hyperloglogs;
mod keys;
mod migrations;
mod notifications;
mod observe;
mod oracle;
mod permissions;
pub mod random;
#[cfg(feature = "binary")]
mod rewrite;
mod script;
#[cfg(feature = "lua")]
mod script_functions;
#[cfg(feature = "lua")]
mod script_libraries;
#[cfg(feature = "lua")]
mod scripts;
mod sessions;
mod settings;
mod strings;
mod suite;
#[cfg(feature = "lua")]
mod suite_table;
mod tracking;
mod transactions;
mod wire;
