//! TEST.FAULT: errors, slow replies and broken connections on demand.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;

use crate::client::registry::Unblocked;
use crate::command::test_mode::controls::{CONTROLS, test_mode, test_mode_of};
use crate::dispatch::args::is_word;
use crate::dispatch::{Call, Command, Continuation, Env, Wait};
use crate::error::{Error, Result};
use crate::glob::Pattern;
use crate::namespace::Namespace;
use crate::namespace::local_replicas::LocalLink;
use crate::resp::Reply;
use crate::spec::{Arg, CommandSpec, Group, block, integer, one_of, string, token};
use crate::store::View;
use crate::test_mode::{ActiveFault, Fault, FaultKind, Faults};
use crate::text::double::parse_double;
use crate::time::clock::Clock;

pub(super) const COMMANDS: &[Command] = &[Command::container(
    "TEST.FAULT",
    Group::Test,
    &[
        Command::new("ADD", add, CONTROLS, Group::Test).args(ADD_ARGS).docs(
            "0.1.0",
            "O(1)",
            "Injects a fault into calls of a command or of all (*), and returns its id.",
        ),
        Command::new("CLEAR", clear, CONTROLS, Group::Test).docs("0.1.0", "O(1)", "Removes all faults."),
        Command::new("DEL", del, CONTROLS, Group::Test).args(&[integer("id").about("The id that ADD returned.")]).docs(
            "0.1.0",
            "O(N) where N is the number of faults",
            "Removes a fault; returns whether there was one with this id.",
        ),
        Command::new("LIST", list, CONTROLS, Group::Test).docs(
            "0.1.0",
            "O(N) where N is the number of faults",
            "Returns the faults, in the order in which they are tried.",
        ),
    ],
)
.help_since("0.1.0")
.docs("0.1.0", "Depends on subcommand.", "Contains the subcommands that inject faults.")];

#[rustfmt::skip] // every argument is on a line of its own
const ADD_ARGS: &[Arg] = &[
    string("command").about("The command; * is all but TEST.*, HELLO, AUTH, RESET and QUIT. LINK is no command, but the link to the primary, see TEST.INSTANCE; nor are CONNECT, new connections, and PUSH, pushed messages: see below."),
    string("key-pattern").token("KEY").optional().about("Only calls one of whose keys matches; for PUSH messages of such a channel or key."),
    string("client-name").token("CLIENT").optional().about("Only calls of clients with this name, see CLIENT SETNAME."),
    token("queued", "QUEUED").optional().about("Calls that are queued in a transaction, too, when they are queued."),
    one_of("kind", &[
        block("error", &[string("text").token("ERROR").about("Replies with this error instead of executing the call.")])
            .about("An error instead of the call."),
        block("delay", &[integer("milliseconds").token("DELAY").about("Replies so much later, in real time.")])
            .about("A late reply."),
        token("drop", "DROP").about("Closes the connection before the call is executed."),
        token("losereply", "LOSEREPLY").about("Executes the call, and closes the connection instead of replying."),
        block("partial", &[integer("bytes").token("PARTIAL").about("Closes it after so many bytes of the reply.")])
            .about("A part of the reply."),
        token("dropall", "DROPALL").about("Closes every connection of the instance before the call is executed, except those named keylatch-control."),
        block("advance", &[integer("milliseconds").token("ADVANCE").about("Executes the call, moves the clock by so much, and then replies.")])
            .about("A late reply without real waiting."),
        block("expire", &[string("key").token("EXPIRE").about("This key, if it has a TTL, expires before the call is executed; the clock does not move.")])
            .about("A key that expires a moment before."),
        block("evict", &[string("key").token("EVICT").about("This key is evicted before the call is executed.")])
            .about("A key that is evicted a moment before."),
        token("noscript", "NOSCRIPT").about("Forgets all scripts, before FCALL all functions, before the call is executed."),
        token("failover", "FAILOVER").about("Forgets the last write and all scripts, and closes every connection as DROPALL does, before the call is executed."),
        token("lose", "LOSE").about("Does not send a pushed message; the connection stays."),
    ])
    .about("What happens to the call."),
    string("probability").token("PROB").optional().about("The probability with which a matching call gets the fault, from 0 to 1; 1 without it."),
    integer("seed").token("SEED").optional().about("Where the random numbers for PROB begin; anywhere without it."),
    integer("count").token("COUNT").optional().about("The maximum number of calls that get the fault; without it there is no limit."),
    integer("calls").token("AFTER").optional().about("Lets so many matching calls pass first; none without it."),
];

/// Injects a fault into the calls of a namespace; returns its id.
///
/// # Errors
/// The server is not in test mode, the command does not exist, or the fault has no effect or one that is out of range.
pub(crate) fn inject(namespace: &Namespace, fault: Fault) -> Result<i64> {
    let seed = namespace.store.hash(&namespace.clock.wall_us().to_ne_bytes()) >> 1;
    let id = test_mode_of(namespace)?.faults.lock().add(fault, namespace.commands, seed)?;
    namespace.store.renew_generation();
    Ok(id)
}

fn add(call: &mut Call<'_>) -> Result<()> {
    let (mut fault, mut prob, mut after) = (Fault::on(call.args.bytes()?), None, None);
    while let Some(word) = call.args.next_arg() {
        let is_repeated = if let Some(read) = read_kind(call, word)? {
            fault.kind.replace(read).is_some()
        } else if is_word(word, "KEY") {
            fault.key.replace(call.args.bytes()?.to_vec()).is_some()
        } else if is_word(word, "CLIENT") {
            fault.client.replace(call.args.bytes()?.to_vec()).is_some()
        } else if is_word(word, "QUEUED") {
            std::mem::replace(&mut fault.is_queued, true)
        } else if is_word(word, "PROB") {
            prob.replace(parse_double(call.args.bytes()?).unwrap_or(f64::NAN)).is_some()
        } else if is_word(word, "SEED") {
            fault.seed.replace(read_number(call)?).is_some()
        } else if is_word(word, "COUNT") {
            fault.times.replace(read_number(call)?).is_some()
        } else if is_word(word, "AFTER") {
            after.replace(read_number(call)?).is_some()
        } else {
            return Err(Error::Syntax);
        };
        if is_repeated {
            return Err(Error::Syntax);
        }
    }
    if fault.kind.is_none() {
        return Err(Error::other("TEST.FAULT ADD needs an effect, such as ERROR, DELAY, DROP, LOSEREPLY or PARTIAL"));
    }
    (fault.prob, fault.after) = (prob.unwrap_or(fault.prob), after.unwrap_or(fault.after));
    let id = inject(call.namespace, fault)?;
    reply_when_followed(call, Some(id))
}

/// Replies, once the link to a primary in the same process has applied the present faults.
fn reply_when_followed(call: &mut Call<'_>, number: Option<i64>) -> Result<()> {
    match call.namespace.links.to_primary() {
        None => {
            reply_number(&mut call.reply, number);
            Ok(())
        }
        Some(link) => call.continue_with(Following { link, clock: call.namespace.clock.clone(), number }),
    }
}

fn reply_number(reply: &mut Reply<'_>, number: Option<i64>) {
    match number {
        Some(number) => reply.int(number),
        None => reply.ok(),
    }
}

/// The continuation that makes the link apply the faults, and then replies.
struct Following {
    link: Arc<dyn LocalLink>,
    clock: Clock,
    number: Option<i64>,
}

impl Continuation for Following {
    fn wait(&mut self) -> Wait<'_> {
        let (link, clock) = (self.link.clone(), self.clock.clone());
        Wait::Work(Box::pin(async move {
            let _ = spawn_blocking(move || link.deliver(clock.now())).await; // cancelled only when the process ends
        }))
    }

    fn step(&mut self, _: Env<'_>, _: &mut View<'_>, reply: &mut Reply<'_>, _: Unblocked) -> Result<bool> {
        self.link.wake();
        reply_number(reply, self.number);
        Ok(true)
    }

    fn needs_no_keys(&self) -> bool {
        true
    }
}

/// Reads the effect of a fault, if a word names one.
fn read_kind(call: &mut Call<'_>, word: &[u8]) -> Result<Option<FaultKind>> {
    Ok(Some(if is_word(word, "ERROR") {
        FaultKind::Error(call.args.bytes()?.to_vec())
    } else if is_word(word, "DELAY") {
        FaultKind::Delay(Duration::from_millis(read_number(call)?))
    } else if is_word(word, "DROP") {
        FaultKind::Drop
    } else if is_word(word, "LOSEREPLY") {
        FaultKind::LoseReply
    } else if is_word(word, "PARTIAL") {
        FaultKind::Partial(usize::try_from(read_number(call)?).unwrap_or(usize::MAX))
    } else if is_word(word, "DROPALL") {
        FaultKind::DropAll
    } else if is_word(word, "ADVANCE") {
        FaultKind::Advance(Duration::from_millis(read_number(call)?))
    } else if is_word(word, "EXPIRE") {
        FaultKind::Expire(call.args.bytes()?.to_vec())
    } else if is_word(word, "EVICT") {
        FaultKind::Evict(call.args.bytes()?.to_vec())
    } else if is_word(word, "NOSCRIPT") {
        FaultKind::NoScript
    } else if is_word(word, "FAILOVER") {
        FaultKind::Failover
    } else if is_word(word, "LOSE") {
        FaultKind::Lose
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
    call.namespace.store.renew_generation();
    reply_when_followed(call, Some(i64::from(is_removed)))
}

fn clear(call: &mut Call<'_>) -> Result<()> {
    with_faults(call, Faults::clear)?;
    call.namespace.store.renew_generation();
    reply_when_followed(call, None)
}

fn list(call: &mut Call<'_>) -> Result<()> {
    let all = with_faults(call, |faults| faults.all().to_vec())?;
    call.reply.array(all.len());
    for (id, fault) in &all {
        write(&mut call.reply, *id, fault);
    }
    Ok(())
}

fn write(reply: &mut Reply<'_>, id: i64, fault: &ActiveFault) {
    let int = |reply: &mut Reply<'_>, value: u64| reply.int(i64::try_from(value).unwrap_or(i64::MAX));
    let text = |reply: &mut Reply<'_>, text: Option<&[u8]>| match text {
        Some(text) => reply.bulk(text),
        None => reply.null(),
    };
    reply.map(11);
    reply.bulk(b"id");
    reply.int(id);
    reply.bulk(b"command");
    reply.bulk(fault.target.name().as_bytes());
    reply.bulk(b"key");
    text(reply, fault.key.as_ref().map(Pattern::text));
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
    reply.bulk(b"queued");
    reply.int(i64::from(fault.is_queued));
}
