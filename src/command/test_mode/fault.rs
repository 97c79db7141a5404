//! TEST.FAULT: errors, slow replies and broken connections on demand.

use std::time::Duration;

use crate::command::test_mode::{CONTROLS, test_mode};
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command};
use crate::error::{Error, Result};
use crate::resp::Reply;
use crate::spec::{Arg, CommandSpec, Group, block, integer, one_of, string, token};
use crate::test_mode::{Fault, FaultKind, Faults};
use crate::text::double::parse_double;

/// The longest time for which a fault holds a reply back, in milliseconds: a day.
const DELAY_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// The most faults of a namespace.
const FAULTS_MAX: usize = 10_000;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[Command::container(
    "TEST.FAULT",
    Group::Test,
    &[
        Command::new("ADD", add, CONTROLS, Group::Test).args(ADD_ARGS).docs(
            "1.0.0",
            "O(1)",
            "Adds a fault, which strikes calls of a command or of all (*), and returns its id.",
        ),
        Command::new("CLEAR", clear, CONTROLS, Group::Test).docs("1.0.0", "O(1)", "Removes all faults."),
        Command::new("DEL", del, CONTROLS, Group::Test).args(&[integer("id")]).docs(
            "1.0.0",
            "O(N) where N is the number of faults",
            "Removes a fault; returns whether there was one with this id.",
        ),
        Command::new("LIST", list, CONTROLS, Group::Test).docs(
            "1.0.0",
            "O(N) where N is the number of faults",
            "Returns the faults, in the order in which they are tried.",
        ),
    ],
)
.docs("1.0.0", "Depends on subcommand.", "Contains the subcommands that inject faults.")];

const ADD_ARGS: &[Arg] = &[
    string("command"),
    string("key-pattern").token("KEY").optional(),
    string("client-name").token("CLIENT").optional(),
    one_of(
        "kind",
        &[
            block("error", &[string("text").token("ERROR")]),
            block("delay", &[integer("milliseconds").token("DELAY")]),
            token("drop", "DROP"),
            token("losereply", "LOSEREPLY"),
            block("partial", &[integer("bytes").token("PARTIAL")]),
        ],
    ),
    string("probability").token("PROB").optional(),
    integer("seed").token("SEED").optional(),
    integer("count").token("COUNT").optional(),
    integer("calls").token("AFTER").optional(),
];

fn add(call: &mut Call<'_>) -> Result<()> {
    let command = read_command(call)?;
    let seed = call.namespace.store.hash(&call.namespace.clock.wall_us().to_ne_bytes()) >> 1;
    let mut fault = Fault::new(command).seeded(seed);
    let mut kind = None;
    while let Some(word) = call.args.next_arg() {
        let is_repeated = if let Some(read) = read_kind(call, word)? {
            kind.replace(read).is_some()
        } else if is_word(word, "KEY") {
            fault.key.replace(call.args.bytes()?.to_vec()).is_some()
        } else if is_word(word, "CLIENT") {
            fault.client.replace(call.args.bytes()?.to_vec()).is_some()
        } else if is_word(word, "PROB") {
            let prob = parse_double(call.args.bytes()?).filter(|prob| (0.0..=1.0).contains(prob));
            fault.prob = prob.ok_or(Error::other("PROB must be from 0 to 1"))?;
            false
        } else if is_word(word, "SEED") {
            fault = fault.seeded(read_number(call)?);
            false
        } else if is_word(word, "COUNT") {
            fault.left.replace(read_number(call)?).is_some()
        } else if is_word(word, "AFTER") {
            fault.after = read_number(call)?;
            false
        } else {
            return Err(Error::Syntax);
        };
        if is_repeated {
            return Err(Error::Syntax);
        }
    }
    fault.kind = kind.ok_or(Error::other("TEST.FAULT ADD needs ERROR, DELAY, DROP, LOSEREPLY or PARTIAL"))?;
    let id = with_faults(call, |faults| match faults.all().len() < FAULTS_MAX {
        true => Ok(faults.add(fault)),
        false => Err(Error::other("there are too many faults")),
    })??;
    call.reply.int(id);
    Ok(())
}

/// Reads what a fault does, if a word says so.
fn read_kind(call: &mut Call<'_>, word: &[u8]) -> Result<Option<FaultKind>> {
    Ok(Some(if is_word(word, "ERROR") {
        FaultKind::Error(call.args.bytes()?.to_vec())
    } else if is_word(word, "DELAY") {
        match read_number(call)? {
            ms if ms <= DELAY_MS_MAX => FaultKind::Delay(Duration::from_millis(ms)),
            _ => return Err(Error::other("DELAY must be at most a day")),
        }
    } else if is_word(word, "DROP") {
        FaultKind::Drop
    } else if is_word(word, "LOSEREPLY") {
        FaultKind::LoseReply
    } else if is_word(word, "PARTIAL") {
        FaultKind::Partial(usize::try_from(read_number(call)?).unwrap_or(usize::MAX))
    } else {
        return Ok(None);
    }))
}

/// Parses a number that is not negative.
fn read_number(call: &mut Call<'_>) -> Result<u64> {
    u64::try_from(call.args.int()?).map_err(|_| Error::NotPositive)
}

/// Reads the name of a command; `None` for `*`.
pub(super) fn read_command(call: &mut Call<'_>) -> Result<Option<&'static CommandSpec>> {
    let name = call.args.bytes()?;
    if name == b"*" {
        return Ok(None);
    }
    let found = call.namespace.commands.find_full(name);
    found.map(Some).ok_or_else(|| Error::CommandNotFound(name.to_vec()))
}

fn with_faults<R>(call: &Call<'_>, act: impl FnOnce(&mut Faults) -> R) -> Result<R> {
    Ok(act(&mut test_mode(call)?.faults.lock()))
}

fn del(call: &mut Call<'_>) -> Result<()> {
    let id = call.args.int()?;
    let is_removed = with_faults(call, |faults| faults.remove(id))?;
    call.reply.int(i64::from(is_removed));
    Ok(())
}

fn clear(call: &mut Call<'_>) -> Result<()> {
    with_faults(call, Faults::clear)?;
    call.reply.ok();
    Ok(())
}

fn list(call: &mut Call<'_>) -> Result<()> {
    let all = with_faults(call, |faults| faults.all().to_vec())?;
    call.reply.array(all.len());
    for (id, fault) in &all {
        write(&mut call.reply, *id, fault);
    }
    Ok(())
}

fn write(reply: &mut Reply<'_>, id: i64, fault: &Fault) {
    let int = |reply: &mut Reply<'_>, value: u64| reply.int(i64::try_from(value).unwrap_or(i64::MAX));
    let text = |reply: &mut Reply<'_>, text: Option<&[u8]>| match text {
        Some(text) => reply.bulk(text),
        None => reply.null(),
    };
    reply.map(10);
    reply.bulk(b"id");
    reply.int(id);
    reply.bulk(b"command");
    reply.bulk(fault.command.map_or(b"*", |command| command.name.as_bytes()));
    reply.bulk(b"key");
    text(reply, fault.key.as_deref());
    reply.bulk(b"client");
    text(reply, fault.client.as_deref());
    reply.bulk(b"kind");
    reply.bulk(&fault.kind.text());
    reply.bulk(b"prob");
    reply.double(fault.prob);
    reply.bulk(b"seed");
    int(reply, fault.seed);
    reply.bulk(b"after");
    int(reply, fault.after);
    reply.bulk(b"left");
    match fault.left {
        Some(left) => int(reply, left),
        None => reply.null(),
    }
    reply.bulk(b"fired");
    int(reply, fault.fired);
}
