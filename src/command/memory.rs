//! MEMORY: how many bytes keys take.
//!
//! The figures are those of the binary's allocator, jemalloc, whose size classes are known; a test holds them against
//! what it says of itself.

use super::args::is_word;
use super::{Arg, Call, Command, Group, READ, RO, integer, key};
use crate::error::{Error, Result};

/// Redis samples the elements of large collections; a string has none, so the number changes nothing.
const USAGE: &[Arg] = &[key("key", RO), integer("count").token("SAMPLES").optional()];

/// The commands of this file.
pub const COMMANDS: &[Command] = &[Command::container(
    "MEMORY",
    Group::Server,
    &[Command::new("USAGE", usage, READ, Group::Server).args(USAGE).docs(
        "4.0.0",
        "O(N) where N is the number of samples.",
        "Estimates the bytes that a key takes.",
    )],
)
.help_since("4.0.0")
.docs("4.0.0", "Depends on subcommand.", "Holds the commands about memory.")];

fn usage(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    while let Some(word) = call.args.next_word() {
        if !is_word(word, "SAMPLES") || call.args.left() == 0 || call.args.int()? < 0 {
            return Err(Error::Syntax);
        }
    }
    match call.view.memory(key) {
        Some(bytes) => call.reply.int(bytes as i64),
        None => call.reply.null(),
    }
    Ok(())
}
